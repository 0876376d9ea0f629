"""The knobs of the defragmenter. Source: manual, "condor_defrag" configuration; spec section 6."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from slotwise.classad import ExprTree, new_syntax
from slotwise.errors import AdSyntaxError, ConfigError

_SCHEDULES = {"graceful": 0, "quick": 10, "fast": 20}
Get = Callable[[str], str | None]


@dataclass(frozen=True)
class DefragRules:
    """What is to be drained, how much of it, and how. Limits below 0 are none."""

    name: str = ""
    interval_s: float = 600
    per_hour: float = 0
    max_draining: int = -1
    max_whole: int = -1
    requirements: str = "true"
    whole: str = "Cpus == TotalSlotCpus"
    cancel: str = ""
    rank: str = "-ExpectedMachineGracefulDrainingBadput"
    schedule: int = 0
    start: str = "FALSE"
    update_s: float = 300

    @property
    def reason(self) -> str:
        """The DrainReason of this daemon's drains."""
        return f"Defrag {self.name}"


@dataclass(frozen=True)
class Pace:
    """DEFRAG_DRAINING_MACHINES_PER_HOUR as whole machines: so many each poll, and the rest each hour and each day."""

    per_poll: int
    per_hour: int
    per_day: int


def pace(rules: DefragRules) -> Pace:
    """Divide the rate."""
    rate = rules.per_hour / 3600 * rules.interval_s
    per_poll = math.floor(rate + 1e-5)
    rest_per_hour = (rate - per_poll) / rules.interval_s * 3600
    per_hour = math.floor(rest_per_hour + 1e-5)
    per_day = math.floor((rest_per_hour - per_hour) * 24 + 0.5)
    return Pace(max(0, per_poll), max(0, per_hour), max(0, per_day) if rules.interval_s <= 86400 else 0)


def read(get: Get, name: str) -> DefragRules:
    """The rules of the configuration; ``name`` is the daemon's own.

    :raises ConfigError: for what is no number, no expression, or no schedule.
    """
    usual = DefragRules()
    schedule = (get("DEFRAG_DRAINING_SCHEDULE") or "graceful").strip().lower()
    if schedule not in _SCHEDULES:
        raise ConfigError(
            f"DEFRAG_DRAINING_SCHEDULE is {schedule}", hint="graceful, quick or fast", key="DEFRAG_DRAINING_SCHEDULE"
        )
    whole = _expression(get, "DEFRAG_WHOLE_MACHINE_EXPR", usual.whole)
    return DefragRules(
        (get("DEFRAG_NAME") or "").strip() or name,
        _number(get, "DEFRAG_INTERVAL", usual.interval_s),
        max(0.0, _number(get, "DEFRAG_DRAINING_MACHINES_PER_HOUR", 0)),
        int(_number(get, "DEFRAG_MAX_CONCURRENT_DRAINING", -1)),
        int(_number(get, "DEFRAG_MAX_WHOLE_MACHINES", -1)),
        _expression(get, "DEFRAG_REQUIREMENTS", "true"),
        whole,
        _expression(get, "DEFRAG_CANCEL_REQUIREMENTS", whole if get("DEFRAG_CANCEL_REQUIREMENTS") is None else ""),
        _expression(get, "DEFRAG_RANK", usual.rank),
        _SCHEDULES[schedule],
        _expression(get, "DEFRAG_DRAINING_START_EXPR", usual.start),
        max(1.0, _number(get, "DEFRAG_UPDATE_INTERVAL", usual.update_s)),
    )


def _number(get: Get, knob: str, otherwise: float) -> float:
    text = (get(knob) or "").strip()
    if not text:
        return otherwise
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{knob} is {text!r}, not a number", key=knob) from None


def _expression(get: Get, knob: str, otherwise: str) -> str:
    text = (get(knob) or "").strip() or otherwise
    if text:
        try:
            ExprTree(text, old=True)
        except (AdSyntaxError, ValueError) as error:
            raise ConfigError(f"{knob} is not an expression: {error}", key=knob) from None
    return new_syntax(text)
