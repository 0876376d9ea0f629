"""A keeper's instructions: the file ``spec`` of a run's control directory, and the files that answer it.

The fields are those of the Rust crate ``keeper`` (module ``spec``); text never needs quoting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field


class CgroupSetting(Struct, frozen=True):
    """A value for a file of the job's cgroup; ``required`` means: no run without it."""

    path: str
    value: str
    required: bool = False


class CgroupPlan(Struct, frozen=True):
    """The cgroups of one job. ``version`` 0 means none."""

    version: int = 0
    make: tuple[str, ...] = ()
    settings: tuple[CgroupSetting, ...] = ()
    join: tuple[str, ...] = ()
    freezer: str = ""
    memory: str = ""
    cpu: str = ""
    own: tuple[str, ...] = ()
    #: Devices (major, minor) that the job must not open, where no file of the group says so (version 2).
    deny: tuple[tuple[int, int], ...] = ()
    use_peak: bool = False
    ignore_cache: bool = True

    def fields(self) -> Iterable[tuple[str, str]]:
        """As fields of the spec."""
        if not self.version:
            return
        yield "cg.version", str(self.version)
        for path in self.make:
            yield "cg.make", path
        for setting in self.settings:
            yield "cg.require" if setting.required else "cg.set", f"{setting.path}\t{setting.value}"
        for path in self.join:
            yield "cg.join", path
        for key, path in (("cg.freezer", self.freezer), ("cg.memory", self.memory), ("cg.cpu", self.cpu)):
            if path:
                yield key, path
        for path in self.own:
            yield "cg.own", path
        for major, minor in self.deny:
            yield "cg.deny", f"{major}:{minor}"
        yield "cg.use_peak", str(int(self.use_peak))
        yield "cg.ignore_cache", str(int(self.ignore_cache))


class Isolation(Struct, frozen=True):
    """Namespaces of a job: bind mounts (source, target), paths that stay reachable below them, own process ids.

    ``shm_mib``: its own /dev/shm of that size (0: as large as the kernel likes; None: the host's). ``private_ipc``: own
    segments, semaphores and queues. ``hide``: what is mounted below the first is taken away, except below the second.
    """

    mounts: tuple[tuple[str, str], ...] = ()
    pins: tuple[str, ...] = ()
    pid_namespace: bool = False
    shm_mib: int | None = None
    private_ipc: bool = False
    hide: tuple[str, str] | None = None


class Identity(Struct, frozen=True):
    """The account that a job runs as. ``uid`` None: the starter's own, which is then not root."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    name: str = ""
    home: str = ""
    tracking_gid: int | None = None
    dedicated: bool = False

    @property
    def owner(self) -> tuple[int, int] | None:
        """To whom files for the job's account alone are given; None where that is the starter's own."""
        return None if self.uid is None or self.gid is None else (self.uid, self.gid)


class Limits(Struct, frozen=True):
    """Resource limits: (resource number, soft, hard), nice value added, file mask, OOM badness.

    ``processes``: how many more processes and threads than at the start the job's account may have; 0 for any number.
    ``cores``: numbers of the cores that the job may use; none for all.
    """

    rlimits: tuple[tuple[int, int, int], ...] = ()
    processes: int = 0
    nice: int = 0
    umask: int = 0o022
    cores: tuple[int, ...] = ()
    oom_score_adj: int | None = None


class KeeperSpec(Struct, frozen=True):
    """All a keeper needs to run one job."""

    name: str
    exe: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdin: str = "/dev/null"
    stdout: str = "/dev/null"
    stderr: str = "/dev/null"
    #: Output and error are added to, not begun anew.
    appends: bool = False
    #: The program is the client of a runtime that runs the job elsewhere. It keeps the keeper's rights, and has
    #: those of the job's ``identity`` for standard input, output and error only.
    client: bool = False
    #: The program is one that a warm zygote has loaded: it goes on there, in a fork, without the start of a program.
    warm: bool = False
    identity: Identity = field(default_factory=Identity)
    limits: Limits = field(default_factory=Limits)
    isolation: Isolation = field(default_factory=Isolation)
    cgroup: CgroupPlan = field(default_factory=CgroupPlan)
    notify: str = ""
    lease: str = ""
    lease_s: float = 0.0
    marker: str = ""
    poll_s: float = 5.0
    #: Proportional set sizes are measured.
    proportional: bool = False
    kill_signal: int = 15
    #: The job's process suspends itself at SIGTSTP and goes on at SIGCONT: it is not stopped.
    suspends_itself: bool = False

    def fields(self) -> Iterable[tuple[str, str]]:
        """Key and value of each field, in order."""
        yield "name", self.name
        yield from (("notify", self.notify), ("lease", self.lease), ("lease_s", f"{self.lease_s:g}"))
        yield "exe", self.exe
        for arg in self.args:
            yield "arg", arg
        for key, value in self.env.items():
            yield "env", f"{key}={value}"
        yield from (("cwd", self.cwd), ("stdin", self.stdin), ("stdout", self.stdout), ("stderr", self.stderr))
        yield "append", str(int(self.appends))
        if self.client:
            yield "client", "1"
        if self.warm:
            yield "warm", "1"
        if self.identity.uid is not None:
            yield "user", f"{self.identity.uid}:{self.identity.gid}"
        for group in self.identity.groups:
            yield "group", str(group)
        if self.identity.tracking_gid is not None:
            yield "tracking_gid", str(self.identity.tracking_gid)
        yield from (("dedicated", str(int(self.identity.dedicated))), ("marker", self.marker))
        for resource, soft, hard in self.limits.rlimits:
            yield "rlimit", f"{resource}:{soft}:{hard}"
        yield "processes", str(self.limits.processes)
        yield from (("nice", str(self.limits.nice)), ("umask", str(self.limits.umask)))
        for core in self.limits.cores:
            yield "core", str(core)
        if self.limits.oom_score_adj is not None:
            yield "oom_score_adj", str(self.limits.oom_score_adj)
        yield "pid_namespace", str(int(self.isolation.pid_namespace))
        for source, target in self.isolation.mounts:
            yield "mount", f"{source}\t{target}"
        for pin in self.isolation.pins:
            yield "pin", pin
        if self.isolation.shm_mib is not None:
            yield "shm_mib", str(self.isolation.shm_mib)
        yield "private_ipc", str(int(self.isolation.private_ipc))
        if self.isolation.hide is not None:
            yield "hide", "\t".join(self.isolation.hide)
        yield "proportional", str(int(self.proportional))
        yield from (("poll_s", f"{self.poll_s:g}"), ("kill_signal", str(self.kill_signal)))
        yield "suspends_itself", str(int(self.suspends_itself))
        yield from self.cgroup.fields()

    def encode(self) -> bytes:
        """The file's content. Zero bytes cannot be in any text of a process, so they are dropped."""
        text = "".join(f"{key}={value.replace(chr(0), '')}\0" for key, value in self.fields())
        return text.encode("utf-8", "surrogateescape")


class Usage(Struct, frozen=True):
    """What a job has used: CPU seconds, memory in KiB, processes at the last look."""

    user_s: float = 0.0
    system_s: float = 0.0
    resident_kib: int = 0
    peak_kib: int = 0
    image_kib: int = 0
    #: 0 when it is not measured.
    proportional_kib: int = 0
    processes: int = 0


class KeeperResult(Struct, frozen=True):
    """How a run ended, as its keeper saw it.

    ``how``: exited, signaled, failed (``stage`` and ``errno``), lost (the keeper died). ``ended_by``: itself, soft,
    hard, lease, memory.
    """

    how: str
    code: int = 0
    core: bool = False
    stage: str = ""
    errno: int = 0
    detail: str = ""
    ended_by: str = "itself"
    oom_kills: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    leftovers: bool = False
    unenforced: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


def read_lines(text: str) -> dict[str, str]:
    """The last value of each ``key=value`` line."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _usage(values: Mapping[str, str]) -> Usage:
    return Usage(
        user_s=float(values.get("user_s", 0)),
        system_s=float(values.get("system_s", 0)),
        resident_kib=int(values.get("resident_kib", 0)),
        peak_kib=int(values.get("peak_kib", 0)),
        image_kib=int(values.get("image_kib", 0)),
        proportional_kib=int(values.get("proportional_kib", 0)),
        processes=int(values.get("processes", 0)),
    )


def parse_result(text: str) -> KeeperResult:
    """Reads the file ``result``."""
    values = read_lines(text)
    return KeeperResult(
        how=values.get("how", "lost"),
        code=int(values.get("code", 0)),
        core=values.get("core") == "1",
        stage=values.get("stage", ""),
        errno=int(values.get("errno", 0)),
        detail=values.get("detail", ""),
        ended_by=values.get("ended_by", "itself"),
        oom_kills=int(values.get("oom_kills", 0)),
        started_at=float(values.get("started_at", 0)),
        ended_at=float(values.get("ended_at", 0)),
        leftovers=values.get("leftovers") == "1",
        unenforced=tuple(line.split("=", 1)[1] for line in text.splitlines() if line.startswith("unenforced=")),
        usage=_usage(values),
    )


def read_result(control: Path) -> KeeperResult | None:
    """The result left in a control directory; None while the run goes on."""
    try:
        return parse_result((control / "result").read_text(errors="replace"))
    except FileNotFoundError:
        return None


def read_usage(control: Path) -> Usage:
    """The newest measurement of a running job; all zero before the first."""
    try:
        return _usage(read_lines((control / "usage").read_text(errors="replace")))
    except (FileNotFoundError, ValueError):
        return Usage()


def read_state(control: Path) -> dict[str, str]:
    """``pid``, ``started_at``, ``suspended`` of a job that runs; empty before."""
    try:
        return read_lines((control / "state").read_text())
    except FileNotFoundError:
        return {}
