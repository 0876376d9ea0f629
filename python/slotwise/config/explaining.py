"""Explains a value: the expanded text, and every macro in it with its origin."""

from __future__ import annotations

import re

from msgspec import Struct, field

from slotwise.config.table import Knob, find_knob, similar_knobs
from slotwise.config.view import Config, Origin

_REFERENCE = re.compile(r"\$\(([A-Za-z0-9_./]+)(?::|\))")
#: Expressions that make up the policy of an execution point, an access point and the negotiator.
POLICY = (
    "START",
    "RANK",
    "WANT_SUSPEND",
    "SUSPEND",
    "CONTINUE",
    "WANT_VACATE",
    "PREEMPT",
    "MaxJobRetirementTime",
    "MachineMaxVacateTime",
    "KILL",
    "WANT_HOLD",
    "WANT_HOLD_REASON",
    "WANT_HOLD_SUBCODE",
    "CLAIM_WORKLIFE",
    "SYSTEM_PERIODIC_HOLD",
    "SYSTEM_PERIODIC_RELEASE",
    "SYSTEM_PERIODIC_REMOVE",
    "SYSTEM_PERIODIC_VACATE",
    "PREEMPTION_REQUIREMENTS",
    "PREEMPTION_RANK",
    "NEGOTIATOR_PRE_JOB_RANK",
    "NEGOTIATOR_POST_JOB_RANK",
)


class Explanation(Struct, frozen=True):
    """A knob, what it expands to, and the macros that its raw text mentions, each explained in turn."""

    name: str
    value: str | None
    raw: str | None
    origin: Origin | None
    parts: tuple[Explanation, ...] = field(default=())

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "Name": self.name,
            "Value": self.value,
            "Raw": self.raw,
            "Origin": str(self.origin) if self.origin else None,
            "Macros": [part.as_dict() for part in self.parts],
        }


class Meaning(Struct, frozen=True):
    """What the table of knobs says of a name: what it is for, or what the name may have been meant to be."""

    knob: Knob | None
    similar: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str) -> Meaning:
        """The meaning of a knob's name, with or without a subsystem in front of it."""
        knob = find_knob(name)
        return cls(knob, () if knob is not None else tuple(similar_knobs(name)))

    def lines(self, *, is_set: bool) -> list[str]:
        """Sentences for people. ``is_set``: the configuration has a value for it."""
        if self.knob is None:
            if self.similar:
                return [f"no knob of this name is known (did you mean {' or '.join(self.similar)}?)"]
            return ["a macro of the configuration's own"] if is_set else ["no knob of this name is known"]
        knob = self.knob
        if not knob.used:
            return ["known to HTCondor; no daemon of Slotwise looks at it"]
        default = knob.default if knob.default is not None else knob.implied
        kind = [knob.type + (f" in {knob.unit}" if knob.unit else "")]
        if knob.lowest is not None or knob.highest is not None:
            low, high = (("" if bound is None else f"{bound:g}") for bound in (knob.lowest, knob.highest))
            kind.append(f"{low}..{high}")
        kind.append("no default" if default is None else f"default {default or '(empty)'}")
        if knob.daemons:
            kind.append(f"read by {knob.daemons}")
        if knob.applies:
            kind.append(f"applies with {knob.applies}")
        return [knob.description, "; ".join(kind)]

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        knob = self.knob
        if knob is None:
            return {"Known": False, "Similar": list(self.similar)}
        default = knob.default if knob.default is not None else knob.implied
        return {
            "Known": True,
            "Used": knob.used,
            "Description": knob.description,
            "Type": knob.type,
            "Unit": knob.unit,
            "Default": default,
            "Daemons": knob.daemons,
            "Applies": knob.applies,
        }


def explain(config: Config, name: str, _seen: frozenset[str] = frozenset()) -> Explanation:
    """Explain the value of ``name``.

    :raises ConfigError: its macros form a loop.
    """
    raw = config.raw(name)
    seen = _seen | {name.lower()}
    names = dict.fromkeys(_REFERENCE.findall(raw or ""))
    parts = tuple(
        explain(config, part, seen) for part in names if part.lower() not in seen and part.upper() != "DOLLAR"
    )
    return Explanation(config.entry_name(name) or name, config.get(name), raw, config.origin(name), parts)


def lines(explanation: Explanation, depth: int = 0) -> list[str]:
    """The explanation as indented lines for people."""
    pad = "  " * depth
    origin = explanation.origin or "undefined"
    shown = (explanation.raw if explanation.raw is not None else "(undefined)").replace("\n", f"\n{pad}    ")
    found = [f"{pad}{explanation.name} = {shown}    [{origin}]"]
    for part in explanation.parts:
        found += lines(part, depth + 1)
    return found
