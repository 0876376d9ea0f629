"""When a glide-in stops taking jobs, when it asks them to leave, when it ends; and its configuration. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

#: Kept for a job that does not say how long it runs, and for jobs to leave; both at most a tenth of the lifetime.
RESERVE_S, VACATE_S = 600, 120
#: Between the end of the jobs' time to leave and that of the glide-in: the daemons clean up.
CLEAN_UP_S = 10
#: Of the notice that a batch system gives with SIGTERM jobs get this part to finish, the rest to leave.
_RETIREMENT_PART = 0.5
#: What a glide-in is told of how long a job runs: attributes in seconds, and in minutes.
_SECONDS = ("AllowedExecuteDuration", "AllowedJobDuration")
_MINUTES = ("MaxWallTimeMins",)


class Schedule(Struct, frozen=True):
    """The moments of a glide-in's life, in epoch seconds, in their order; without an end it has none of them.

    ``drains_at``: no further job starts, and the glide-in ends with the last one that runs. ``vacates_at``: jobs that
    run still are asked to leave. ``ends_at``: everything is killed.
    """

    drains_at: float | None = None
    vacates_at: float | None = None
    ends_at: float | None = None

    @classmethod
    def until(cls, ends_at: float | None, now: float, reserve_s: float | None = None) -> Schedule:
        """The schedule of a glide-in that begins now; ``reserve_s``: in place of :data:`RESERVE_S`."""
        if ends_at is None:
            return cls()
        lifetime = max(0.0, ends_at - now)
        vacates_at = ends_at - min(float(VACATE_S), lifetime / 10) - min(float(CLEAN_UP_S), lifetime / 10)
        reserve = min(float(RESERVE_S), lifetime / 10) if reserve_s is None else reserve_s
        return cls(max(now, vacates_at - reserve), vacates_at, ends_at)

    def after_notice(self, now: float, notice_s: float) -> Schedule:
        """The schedule once the batch system has said that it ends the job ``notice_s`` from now."""
        ends_at = now + notice_s if self.ends_at is None else min(self.ends_at, now + notice_s)
        left = max(0.0, ends_at - now)
        vacates_at = now + left * _RETIREMENT_PART
        return Schedule(now, vacates_at if self.vacates_at is None else min(vacates_at, self.vacates_at), ends_at)

    @property
    def vacate_s(self) -> int:
        """How long a job may take to leave."""
        if self.ends_at is None or self.vacates_at is None:
            return VACATE_S
        return max(1, int(self.ends_at - self.vacates_at - min(CLEAN_UP_S, (self.ends_at - self.vacates_at) / 4)))


class Settings(Struct, frozen=True):
    """What a glide-in is: everything that its configuration says.

    :param name: of its daemons, and its file system's domain: nothing is shared with other hosts.
    :param listen: the address of this host by which the pool reaches it.
    :param broker: ``host:port`` of the broker through which the pool reaches it; empty: it is reached at ``listen``.
    :param authorities: the file of the authorities that sign certificates of the pool's hosts; empty: none.
    :param knobs: further settings ``NAME = VALUE``, which win.
    """

    pool: str
    name: str
    listen: str
    start: str = "True"
    site: str = ""
    idle_s: int = 1200
    cpus: int | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None
    gpus: int = 0
    visible_gpus: bool = False
    authorities: str = ""
    broker: str = ""
    knobs: tuple[str, ...] = field(default=())


def job_time() -> str:
    """The expression for how many seconds a job says that it runs; 0 when it does not say."""
    text = "0"
    for name in reversed(_MINUTES):
        text = f"ifThenElse(isInteger(TARGET.{name}) || isReal(TARGET.{name}), 60 * TARGET.{name}, {text})"
    for name in reversed(_SECONDS):
        text = f"ifThenElse(isInteger(TARGET.{name}) || isReal(TARGET.{name}), TARGET.{name}, {text})"
    return text


def configuration(settings: Settings, schedule: Schedule) -> str:
    """The configuration file of a glide-in."""
    start = f"({settings.start})"
    retirement = "0"
    ends: list[str] = []
    if schedule.vacates_at is not None and schedule.ends_at is not None:
        ends = [f"GlideinEnd = {int(schedule.ends_at)}", f"GlideinVacate = {int(schedule.vacates_at)}"]
        start += f" && time() + ({job_time()}) <= MY.GlideinVacate"
        retirement = "ifThenElse(MY.GlideinVacate > time(), MY.GlideinVacate - time(), 0)"
    shown = ["Is_Glidein", "GlideinSite", *(line.partition(" ")[0] for line in ends)]
    lines = [
        "# Written by `slotwise glidein`, and again when its end changes.",
        f"COLLECTOR_HOST = {settings.pool}",
        "DAEMON_LIST = MASTER, STARTD",
        *([f"SLOTWISE_LISTEN = {settings.listen}"] if not settings.broker else []),
        *([f"CCB_ADDRESS = {settings.broker}", "SHARED_PORT_PORT = 0"] if settings.broker else []),
        "SLOTWISE_ADDRESS_KEY = True",
        *([f"AUTH_SSL_CLIENT_CAFILE = {settings.authorities}"] if settings.authorities else []),
        f"STARTD_NAME = {settings.name}",
        f"MASTER_NAME = {settings.name}",
        f"FILESYSTEM_DOMAIN = {settings.name}",
        *_amount("NUM_CPUS", settings.cpus),
        *_amount("MEMORY", settings.memory_mib),
        *_amount("DISK", None if settings.disk_mib is None else settings.disk_mib * 1024),
        *(["use feature : GPUs"] if settings.gpus else []),
        *(["GPU_DISCOVERY_EXTRA = $(GPU_DISCOVERY_EXTRA) -dirty-environment"] if settings.visible_gpus else []),
        f"STARTD_NOCLAIM_SHUTDOWN = {settings.idle_s}",
        "Is_Glidein = True",
        f"GlideinSite = {quoted(settings.site)}",
        *ends,
        f"STARTD_ATTRS = $(STARTD_ATTRS) {' '.join(shown)}",
        f"START = {start}",
        f"MAXJOBRETIREMENTTIME = {retirement}",
        f"MachineMaxVacateTime = {schedule.vacate_s}",
        # The glide-in's own clock ends an orderly end that takes too long.
        "SHUTDOWN_GRACEFUL_TIMEOUT = 31536000",
        *settings.knobs,
    ]
    return "\n".join(lines) + "\n"


def _amount(knob: str, value: int | None) -> Iterable[str]:
    return () if value is None else (f"{knob} = {value}",)


def quoted(text: str) -> str:
    """A string of the ClassAd language; what a configuration file would replace stays as it is."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$(", "$(DOLLAR)(") + '"'
