"""The knobs of the defragmenter. Source: manual, "condor_defrag" configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.classad import ExprTree, new_syntax
from slotwise.classad.evaluate import Expr
from slotwise.config import Config
from slotwise.daemon.further_attributes import further_attributes
from slotwise.errors import AdSyntaxError, ConfigError

_SCHEDULES = {"graceful": 0, "quick": 10, "fast": 20}


class DefragRules(Struct, frozen=True):
    """What to drain, how much of it, and how. A limit below 0 is none."""

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
    #: DEFRAG_ATTRS: further attributes in its ad.
    advertised: Mapping[str, bool | int | Expr] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """The DrainReason of this daemon's drains."""
        return f"Defrag {self.name}"


class Pace(Struct, frozen=True):
    """DEFRAG_DRAINING_MACHINES_PER_HOUR in whole machines: so many each poll, and the rest each hour and each day."""

    per_poll: int
    per_hour: int
    per_day: int


def pace(rules: DefragRules) -> Pace:
    """Divide the rate into numbers for polls, hours and days."""
    rate = rules.per_hour / 3600 * rules.interval_s
    per_poll = math.floor(rate + 1e-5)
    rest_per_hour = (rate - per_poll) / rules.interval_s * 3600
    per_hour = math.floor(rest_per_hour + 1e-5)
    per_day = math.floor((rest_per_hour - per_hour) * 24 + 0.5)
    return Pace(max(0, per_poll), max(0, per_hour), max(0, per_day) if rules.interval_s <= 86400 else 0)


def read(config: Config, name: str) -> DefragRules:
    """The rules of the configuration; ``name`` is the daemon's own.

    :raises ConfigError: a knob is not a number, an expression or a schedule.
    """
    schedule = config.get_text("DEFRAG_DRAINING_SCHEDULE").lower()
    if schedule not in _SCHEDULES:
        raise ConfigError(
            f"DEFRAG_DRAINING_SCHEDULE is {schedule}", hint="graceful, quick or fast", key="DEFRAG_DRAINING_SCHEDULE"
        )
    return DefragRules(
        config.get_text("DEFRAG_NAME") or name,
        config.get_float("DEFRAG_INTERVAL"),
        config.get_float("DEFRAG_DRAINING_MACHINES_PER_HOUR"),
        config.get_int("DEFRAG_MAX_CONCURRENT_DRAINING"),
        config.get_int("DEFRAG_MAX_WHOLE_MACHINES"),
        _checked("DEFRAG_REQUIREMENTS", config.get_text("DEFRAG_REQUIREMENTS")),
        _checked("DEFRAG_WHOLE_MACHINE_EXPR", config.get_text("DEFRAG_WHOLE_MACHINE_EXPR")),
        # Empty, it cancels no drain.
        _checked("DEFRAG_CANCEL_REQUIREMENTS", config.get_str("DEFRAG_CANCEL_REQUIREMENTS").strip()),
        _checked("DEFRAG_RANK", config.get_text("DEFRAG_RANK")),
        _SCHEDULES[schedule],
        _checked("DEFRAG_DRAINING_START_EXPR", config.get_text("DEFRAG_DRAINING_START_EXPR")),
        max(1.0, config.get_float("DEFRAG_UPDATE_INTERVAL")),
        further_attributes(config, "DEFRAG"),
    )


def _checked(knob: str, text: str) -> str:
    """An expression in the syntax of ads, or nothing."""
    if text:
        try:
            ExprTree(text, old=True)
        except (AdSyntaxError, ValueError) as error:
            raise ConfigError(f"{knob} is not an expression: {error}", key=knob) from None
    return new_syntax(text)
