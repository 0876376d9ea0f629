"""The knob table and the templates, as the native module carries them."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

import slotwise._native as _native


class Knob(Struct, frozen=True):
    """One row of the knob table.

    ``default`` is the raw macro text; ``implied`` is the value that typed reading falls back to for
    knobs without one. ``in_table``: HTCondor's own table of knobs has it; what else is HTCondor's (``in_reference``)
    its code alone knows. ``used`` says whether Slotwise reads it; ``unit``, ``daemons``, ``applies``
    (``reconfig``, ``restart``, ``next job``, ``command``) and ``description`` are filled in for those. ``<...>`` in a
    name stands for a part that the administrator chooses; ``family`` is the row of that kind that a knob with a row of
    its own is a member of (``<DAEMON>_LOG`` for ``SCHEDD_LOG``). ``per_slot`` knobs may have a value for a slot or a
    slot type (``SLOT1_X``, ``SLOT_TYPE_1_X``), ``per_universe`` ones for a universe (``X_VANILLA``).
    """

    name: str
    type: str
    lowest: float | None
    highest: float | None
    default: str | None
    implied: str | None
    in_reference: bool
    in_table: bool
    family: str | None
    per_slot: bool
    per_universe: bool
    used: bool
    unit: str
    daemons: str
    applies: str
    description: str


@lru_cache(maxsize=1)
def knobs() -> tuple[Knob, ...]:
    """All knobs: those of HTCondor by name, then Slotwise's own."""
    return tuple(Knob(**row) for row in _native.knob_table())


@lru_cache(maxsize=256)
def family_pattern(family: str) -> re.Pattern[str]:
    """The pattern of a family's names, such as ``SLOT<N>_USER``; its groups match the ``<...>``."""
    pieces = re.split(r"<(\w+)>", family)
    chosen = [r"(\d+)" if piece == "N" else "(.+)" for piece in pieces[1::2]]
    parts = [text for pair in zip(map(re.escape, pieces[::2]), [*chosen, ""], strict=True) for text in pair]
    return re.compile("".join(parts), re.IGNORECASE)


def find_knob(name: str) -> Knob | None:
    """The knob of a name, with or without a subsystem prefix; members of families (``SLOT_TYPE_1``) too."""
    row = _native.find_knob(name)
    return None if row is None else Knob(**row)


def similar_knobs(name: str) -> list[str]:
    """Known names that a misspelt one may stand for, best first."""
    return list(_native.similar_knobs(name))


def templates() -> list[tuple[str, str, str]]:
    """All templates of ``use CATEGORY : NAME`` as (category, name, text)."""
    return list(_native.config_templates())
