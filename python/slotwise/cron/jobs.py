"""Programs that daemons run: STARTD_CRON_JOBLIST, BENCHMARKS_JOBLIST, SCHEDD_CRON_JOBLIST, and the knobs of each job.

Source: manual, "Startd Cron and Schedd Cron", daemon hook options and "Benchmarks".
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from slotwise.classad.evaluate import Expression, compiled
from slotwise.config import Config
from slotwise.cron.metrics import Metric, parse_metrics
from slotwise.errors import ConfigError, UsageError
from slotwise.execution.arguments import in_double_quotes, split_new, split_old

_log = logging.getLogger(__name__)

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
#: The prefixes of knobs.
CRON = "STARTD_CRON_"
BENCHMARKS = "BENCHMARKS_"
SCHEDD_CRON = "SCHEDD_CRON_"


class Mode(StrEnum):
    """When a job runs: periodically, some time after its end, once, or (benchmarks only) on demand."""

    PERIODIC = "periodic"
    WAIT_FOR_EXIT = "waitforexit"
    ONE_SHOT = "oneshot"
    ON_DEMAND = "ondemand"


class AutoPublish(StrEnum):
    """STARTD_CRON_AUTOPUBLISH: whether new output is sent to the collector at once."""

    NEVER = "never"
    ALWAYS = "always"
    IF_CHANGED = "if_changed"


class CronJob(Struct, frozen=True):
    """One job. ``slots``: the numbers of the slots that get its ads; empty: all slots."""

    name: str
    executable: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Its working directory; the daemon's log directory unless its knob says otherwise.
    directory: str = "/"
    mode: Mode = Mode.PERIODIC
    period_s: float = 60
    prefix: str = ""
    slots: frozenset[int] = frozenset()
    #: Send SIGHUP on a reconfig; rerun on a reconfig; kill a run that is still going when the next is due.
    hup: bool = False
    rerun: bool = False
    kill: bool = False
    load: float = 0.01
    #: The text of the condition that is evaluated before each run.
    condition: str = ""
    #: The resources of its samples that are summed, or whose peak is kept.
    metrics: tuple[Metric, ...] = ()
    #: The prefix of its knobs.
    family: str = CRON

    @property
    def key(self) -> tuple[str, str]:
        """A key that tells it from all other jobs."""
        return (self.family, self.name.lower())

    def may_run(self) -> Expression | None:
        """The condition, if there is one."""
        return compiled(f"{self.family}{self.name}_CONDITION", self.condition) if self.condition else None


class CronRules(Struct, frozen=True):
    """All jobs, and the settings for all of them."""

    jobs: tuple[CronJob, ...] = ()
    max_load: float = 0.1
    publish: AutoPublish = AutoPublish.NEVER
    log_failures: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The jobs that do not run, each with the reason.
    faults: tuple[str, ...] = ()


class _Knobs:
    """The knobs of a family. Under another name they have the family's defaults, because the knob table lacks them."""

    def __init__(self, config: Config, family: str, named: str) -> None:
        self._config, self._family = config, family
        self.prefix = named

    def text(self, name: str) -> str:
        if self.prefix == self._family:
            return self._config.get_text(self.prefix + name)
        return self._config.get_str(self.prefix + name).strip() or self._config.get_text(self._family + name)

    def words(self, name: str) -> list[str]:
        return self._config.get_list(self.prefix + name)

    def truth(self, name: str) -> bool:
        own = self._config.find_bool(self.prefix + name)
        return own if own is not None else self._config.get_bool(self._family + name)

    def number(self, name: str) -> float:
        own = self._config.find_float(self.prefix + name)
        return own if own is not None else self._config.get_float(self._family + name)


def read(config: Config, family: str = CRON, named: str = "") -> CronRules:
    """The jobs of the configuration; one with an error is skipped and logged.

    :param family: :data:`CRON`, :data:`BENCHMARKS` or :data:`SCHEDD_CRON`.
    :param named: SCHEDD_CRON_NAME, the prefix of the knobs then; by default it is the family's name.
    """
    knobs = _Knobs(config, family, f"{named}_" if named else family)
    own = knobs.prefix
    jobs: dict[str, CronJob] = {}
    faults = []
    for name in knobs.words("JOBLIST"):
        if name.lower() in jobs:
            faults.append(f"{own}JOBLIST names {name} twice")
            continue
        try:
            jobs[name.lower()] = _job(name, knobs, family, config.get_text("LOG"))
        except (ConfigError, UsageError, ValueError) as error:
            faults.append(f"the cron job {name} does not run: {error}")
    for fault in faults:
        _log.error("%s", fault)
    return CronRules(
        tuple(jobs.values()),
        knobs.number("MAX_JOB_LOAD"),
        _publish(own, knobs.text("AUTOPUBLISH").lower()) if family != SCHEDD_CRON else AutoPublish.IF_CHANGED,
        knobs.truth("LOG_NON_ZERO_EXIT"),
        _environment_of(family, named, knobs.text("CONFIG_VAL")),
        tuple(faults),
    )


def _environment_of(family: str, named: str, config_val: str) -> dict[str, str]:
    """The environment of a family's programs: the family's name, and the program that reads the configuration."""
    if family == SCHEDD_CRON:
        name = (named or "SCHEDD").upper()
        found = {f"{name}_INTERFACE_VERSION": "1", "SCHEDD_CRON_NAME": name}
        prefix = f"{name}_" if named else family
    else:
        found = {f"{family}INTERFACE_VERSION": "1", f"{family}NAME": family.rstrip("_")}
        prefix = family
    return {**found, f"{prefix}CONFIG_VAL": config_val} if config_val else found


def _publish(family: str, text: str) -> AutoPublish:
    if text in list(AutoPublish):
        return AutoPublish(text)
    _log.error("%sAUTOPUBLISH is %s, not Never, Always or If_Changed", family, text)
    return AutoPublish.NEVER


def _job(name: str, knobs: _Knobs, family: str, directory: str) -> CronJob:
    own = f"{knobs.prefix}{name}_"

    def text(knob: str) -> str:
        return knobs.text(f"{name}_{knob}")

    if not text("EXECUTABLE"):
        raise ConfigError(f"{own}EXECUTABLE is not set")
    mode = text("MODE").lower()
    if mode not in list(Mode):
        raise ConfigError(f"{own}MODE is {mode}, not Periodic, WaitForExit, OneShot or OnDemand")
    if (mode == Mode.ON_DEMAND) != (family == BENCHMARKS):
        wanted = "OnDemand, as all benchmarks do" if family == BENCHMARKS else "Periodic, WaitForExit or OneShot"
        raise ConfigError(f"{own}MODE is {mode}: it runs {wanted}")
    if not re.fullmatch(r"\w*", text("PREFIX")):
        raise ConfigError(f"{own}PREFIX may have letters, digits and underscores only")
    of_startd = family != SCHEDD_CRON
    metrics, unknown = parse_metrics(text("METRICS") if of_startd else "")
    for word in unknown:
        _log.error("ignoring %s in %sMETRICS: it is not SUM:<resource> or PEAK:<resource>", word, own)
    job = CronJob(
        name,
        text("EXECUTABLE"),
        _arguments(text("ARGS")),
        environment(text("ENV")),
        text("CWD") or directory,
        Mode(mode),
        _period_of(Mode(mode), text("PERIOD")),
        text("PREFIX"),
        _slots(own, knobs.words(f"{name}_SLOTS") if of_startd else []),
        knobs.truth(f"{name}_RECONFIG"),
        family != BENCHMARKS and knobs.truth(f"{name}_RECONFIG_RERUN"),
        family != BENCHMARKS and knobs.truth(f"{name}_KILL"),
        knobs.number(f"{name}_JOB_LOAD"),
        text("CONDITION"),
        tuple(metrics),
        family,
    )
    job.may_run()  # reports a condition that is not an expression
    return job


def _slots(own: str, numbers: list[str]) -> frozenset[int]:
    wrong = [word for word in numbers if not word.isdecimal()]
    if wrong:
        raise ConfigError(f"{own}SLOTS has {wrong[0]}, which is not a number of a slot")
    return frozenset(map(int, numbers))


def _period_of(mode: Mode, text: str) -> float:
    """How often a job of a mode runs. With WaitForExit, 0 means at once; here it is a second, so that a program that
    exits as soon as it starts does not keep the host busy."""
    if mode in (Mode.ONE_SHOT, Mode.ON_DEMAND):
        return 0.0
    if mode is Mode.WAIT_FOR_EXIT and re.fullmatch(r"0+\s*[smh]?", text.strip().lower()):
        return 1.0
    return period(text)


def period(text: str) -> float:
    """``90``, ``90s``, ``5m`` or ``2h`` in seconds.

    :raises ConfigError: it is anything else, or less than a second.
    """
    found = re.fullmatch(r"(\d+)\s*([smh]?)", text.strip().lower())
    if found is None or not int(found[1]):
        raise ConfigError(f"a period is a number with s, m or h behind it, of at least 1 s, not {text!r}")
    return float(int(found[1]) * _SECONDS[found[2]])


def _arguments(text: str) -> tuple[str, ...]:
    """The words of a command line in either syntax.

    :raises UsageError: when a quote is left open.
    """
    quoted = in_double_quotes(text)
    return tuple(split_old(text) if quoted is None else split_new(quoted))


def environment(text: str) -> dict[str, str]:
    """``A=1;B=2``, or in double quotes ``A=1 B='2 3'``; what is not NAME=VALUE is skipped.

    :raises UsageError: when a quote is left open.
    """
    quoted = in_double_quotes(text)
    items = text.split(";") if quoted is None else split_new(quoted)
    pairs = (item.strip().partition("=") for item in items)
    return {name: value for name, equals, value in pairs if equals}
