"""What names of slots begin with, and so the names of knobs that are one slot's (``SLOT1_START``, ``VM1_START``)."""

from __future__ import annotations

import re

from slotwise.config.view import Config

USUAL = "slot"


def prefix_of(config: Config, type_number: int) -> str:
    """What names of a type's slots begin with: SLOT_TYPE_<N>_NAME_PREFIX or STARTD_RESOURCE_PREFIX. Type 0 is none."""
    own = (config.get(f"SLOT_TYPE_{type_number}_NAME_PREFIX") or "").strip() if type_number else ""
    return own or config.get_text("STARTD_RESOURCE_PREFIX") or USUAL


def prefixes(config: Config) -> frozenset[str]:
    """All that the configuration gives, in lower case."""
    numbers = [int(number) for _, number in config.members("SLOT_TYPE_<N>_NAME_PREFIX") if int(number)]
    return frozenset(prefix_of(config, number).lower() for number in (0, *numbers))


def usual_form(name: str, known: frozenset[str]) -> str:
    """``VM1_START`` as ``SLOT1_START``, where slots may be called so; other names as they are."""
    words = "|".join(map(re.escape, sorted(known - {USUAL})))
    found = re.fullmatch(rf"(?:{words})(\d+(?:_\d+)?_\w+)", name, re.IGNORECASE) if words else None
    return name if found is None else f"{USUAL.upper()}{found[1]}"
