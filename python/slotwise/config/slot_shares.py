"""The text of SLOT_TYPE_<N>: which share of each resource a slot of the type gets.

Source: manual, "Dividing System Resources in Multi-core Machines". Items are separated by line ends if there are any,
else by commas, else by blanks. An item is ``name=value``, or a value alone for all resources not named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from slotwise.errors import ConfigError


class Auto(Struct, frozen=True):
    """An equal part of what is not given out otherwise."""


class Minimal(Struct, frozen=True):
    """As little as a slot can have."""


class Fraction(Struct, frozen=True):
    """A part of all there is: ``1/4`` and ``25%`` are 0.25."""

    part: float


class Amount(Struct, frozen=True):
    """So much, in the resource's own unit (cores, MiB of memory, KiB of disk and swap, pieces)."""

    value: float


Share = Auto | Minimal | Fraction | Amount


class Shares(Struct, frozen=True):
    """A slot type's shares. Keys are ``cpus``, ``memory``, ``disk``, ``swap`` and tags of custom resources.

    ``constraints`` has the text after the colon, an expression about single devices, by tag.
    """

    default: Share = field(default_factory=Auto)
    named: Mapping[str, Share] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)

    def of(self, resource: str) -> Share:
        """The share of ``resource``."""
        return self.named.get(resource, self.default)


_STANDARD = (
    ("cpus", "cpus"), ("ram", "memory"), ("memory", "memory"), ("swap", "swap"), ("virtualmemory", "swap"),
    ("disk", "disk"),
)  # fmt: skip
_UNITS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
#: Power of 1024 that a bare number stands for: memory is MiB, disk and swap KiB.
_NATIVE = {"memory": 2, "disk": 1, "swap": 1}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)I?B?", re.IGNORECASE)
#: Between items; commas and blanks inside of quotes belong to a device's name.
_UNQUOTED = r'(?=(?:[^"]*"[^"]*")*[^"]*$)'
_COMMA = re.compile("," + _UNQUOTED)
_BLANK = re.compile(r"\s+(?![=/%:])(?<![=/:]\s)" + _UNQUOTED)
_RATIO = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)")


def parse_shares(text: str, tags: Collection[str], *, key: str = "SLOT_TYPE") -> Shares:
    """Shares from a SLOT_TYPE_<N> value; ``tags`` are the custom resources that the machine has.

    :raises ConfigError: for what is not a share, and for an amount of a resource that the machine does not have; it
        tells of all items that are wrong.
    """
    default: Share = Auto()
    named: dict[str, Share] = {}
    constraints: dict[str, str] = {}
    faults: list[ConfigError] = []
    for item in _items(text):
        name, equals, value = item.partition("=")
        try:
            if not equals or _looks_like_value(name):
                default = _blanket(item, key)
                continue
            value, _, constraint = value.partition(":")
            resource = resource_named(name.strip(), tags)
            share = _share(value.strip(), resource, key)
            if resource is None:
                _need_nothing_of(name.strip(), share, key)
                continue
        except ConfigError as fault:
            faults.append(fault)
            continue
        named[resource] = share
        if constraint.strip():
            constraints[resource] = constraint.strip()
    if faults:
        raise _all_of(faults, key)
    return Shares(default, named, constraints)


def _need_nothing_of(name: str, share: Share, key: str) -> None:
    """The machine has no resource of that name."""
    if isinstance(share, Amount) and share.value > 0:
        raise ConfigError(
            f"{key} asks for {name!r}, which the machine does not have",
            hint=f"declare MACHINE_RESOURCE_{name}, or remove it",
            key=key,
        )


def _all_of(faults: Sequence[ConfigError], key: str) -> ConfigError:
    """One error that tells of all of them."""
    if len(faults) == 1:
        return faults[0]
    hints = dict.fromkeys(fault.hint for fault in faults if fault.hint)
    return ConfigError("; ".join(fault.message for fault in faults), hint="; ".join(hints), key=key)


def resource_named(name: str, tags: Collection[str]) -> str | None:
    """The resource that ``name`` means: the beginning of a standard one's name, or a custom one's tag in full."""
    wanted = name.lower()
    for tag in tags:
        if tag.lower() == wanted:
            return tag
    for full, resource in _STANDARD:
        if wanted and full.startswith(wanted):
            return resource
    return None


def _items(text: str) -> list[str]:
    text = text.strip()
    if "\n" in text:
        parts = text.split("\n")
    elif _COMMA.search(text):
        parts = _COMMA.split(text)
    else:
        parts = _BLANK.split(text)
    return [part.strip().strip(",").strip() for part in parts if part.strip().strip(",").strip()]


def _looks_like_value(name: str) -> bool:
    return bool(_NUMBER.fullmatch(name.strip()))


def _blanket(text: str, key: str) -> Share:
    """A value for everything that is not named; a bare number would be cores, MiB and KiB at once."""
    share = _share(text, None, key)
    if isinstance(share, Amount):
        raise ConfigError(
            f"{key}: {text!r} alone names no resource", hint="write cpus=..., or 25%, 1/4, auto or minimal", key=key
        )
    return share


def _share(text: str, resource: str | None, key: str) -> Share:
    """One value."""
    lowered = text.lower()
    if lowered == "auto" or lowered == "automatic":
        return Auto()
    if lowered in ("minimal", "min"):
        return Minimal()
    if text.endswith("%"):
        return _fraction(_number(text[:-1], text, key) / 100, text, key)
    ratio = _RATIO.fullmatch(text)
    if ratio:
        if float(ratio[2]) == 0:
            raise ConfigError(f"{key}: {text!r} divides by zero", key=key)
        return _fraction(float(ratio[1]) / float(ratio[2]), text, key)
    found = _NUMBER.fullmatch(text)
    if not found:
        raise ConfigError(f"{key}: {text!r} is not a share", hint="a number, 25%, 1/4, auto or minimal", key=key)
    value = float(found[1])
    unit = found[2].upper()
    if unit and resource in _NATIVE:
        value = math.floor(value * 1024 ** (_UNITS[unit] - _NATIVE[resource]))
    elif unit:
        raise ConfigError(f"{key}: {text!r} has a unit, but {resource or 'the default'} has none", key=key)
    return Amount(value)


def _fraction(part: float, text: str, key: str) -> Fraction:
    if part > 1:
        raise ConfigError(f"{key}: {text!r} is more than the machine has", hint="at most 100%", key=key)
    return Fraction(part)


def _number(text: str, whole: str, key: str) -> float:
    if not _NUMBER.fullmatch(text.strip()) or not text.strip()[-1].isdigit():
        raise ConfigError(f"{key}: {whole!r} is not a percentage", hint="write it like 25%", key=key)
    return float(text)
