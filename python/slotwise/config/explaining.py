"""Explains a value: the expanded text, and every macro in it with its origin."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Explanation:
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
