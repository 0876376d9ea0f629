"""What a runtime does for a run: the interface between the starter and containers or virtual machines.

The run's keeper stays the parent of the process that stands for the job (the runtime's own, or a client attached to the
container). Signals, suspension, limits, usage, the lease and the result therefore need no second mechanism. A runtime
that cannot put the job's processes below the job's cgroup says so in its gaps, and enforces the limits itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.execution.job_view import JobView
from slotwise.execution.keeper_spec import Identity, KeeperResult, KeeperSpec
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import NO_JOB
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.runtimes.context import JobContext

#: The attribute of the machine ad that names the registries from which no images are pulled now.
REGISTRIES_OFFLINE = "ContainerRegistriesOffline"
#: Hears what a preparation does now ("pulling busybox:latest"), for the job's ad and its event log.
Progress = Callable[[str], None]


class Probe(Struct, frozen=True):
    """What a runtime can do on this host, found out by a trial."""

    works: bool
    version: str = ""
    #: Why it does not work; empty when it is simply not installed.
    reason: str = ""
    #: For the machine ad, as HTCondor names them.
    attributes: Mapping[str, Value] = field(default_factory=dict)
    #: What it does not enforce, in words, for EnforcementGaps.
    gaps: tuple[str, ...] = ()


class ContainerJob(Struct, frozen=True):
    """A job on its way into a runtime."""

    run_id: str
    choice: Choice
    context: JobContext
    #: The cgroups' memory limit of the job in MiB; None: it has none.
    memory_mib: int | None = None
    #: How it would be started on the bare host; its environment is what the job sees.
    spec: KeeperSpec | None = None
    #: Directories of which the job has empty copies of its own (MOUNT_UNDER_SCRATCH).
    scratch_mounts: tuple[str, ...] = ()
    #: What the runtime starts, once it has been prepared: a path, an id.
    image: str = ""

    @property
    def name(self) -> str:
        """A name for what the runtime makes: that of the run's directory, by which leftovers are recognized."""
        return self.context.directory.name


class ContainerRun(Struct, frozen=True):
    """A job that a runtime runs, or has run, as far as it is known after a restart of the starter."""

    run_id: str
    choice: Choice
    #: As :attr:`ContainerJob.image`.
    image: str
    directory: RunDirectory
    identity: Identity
    job: JobView
    #: The process that stands for the job, child of its keeper; 0: none executes.
    pid: int = 0

    @property
    def name(self) -> str:
        """As :attr:`ContainerJob.name`."""
        return self.directory.name


class Entrance(Struct, frozen=True):
    """How a program that is not the job's enters the job's view.

    Either it joins the namespaces of ``pid`` with the job's identity and, when ``own_environment``, with the
    environment of that process; or ``words`` (a terminal: ``terminal_words``) run it, followed by the command, with the
    starter's own rights.
    """

    pid: int = 0
    own_environment: bool = False
    #: Its working directory as seen from inside; empty: the job's.
    cwd: str = ""
    words: tuple[str, ...] = ()
    terminal_words: tuple[str, ...] = ()


def container_run(assignment: Assignment, job: RunJob, pid: int = 0) -> ContainerRun:
    """The run of a job that is known, as its runtime sees it."""
    return ContainerRun(
        run_id=assignment.run_id,
        choice=job.choice,
        image=job.image,
        directory=assignment.directory,
        identity=job.identity,
        job=job.view or NO_JOB,
        pid=pid,
    )


class Runtime(Protocol):
    """One kind of containers or virtual machines on this host."""

    @property
    def name(self) -> str:
        """Short, for logs and records: ``apptainer``."""
        ...

    @property
    def offer(self) -> Probe:
        """What it can do now: as the last probe found, less what has failed since."""
        ...

    async def probe(self) -> None:
        """Find out by a trial what works here. At the start and at a reconfiguration, never while a job waits."""
        ...

    async def prepare(self, job: ContainerJob, progress: Progress) -> ContainerJob:
        """Make the image available, once for all jobs that wait for the same one, and return the job with it.

        Files that come with the job are in its scratch directory. When the run is killed meanwhile, the task is
        cancelled.

        :raises LaunchRefusedError: with HTCondor's hold code, or with an end that sends the job elsewhere.
        :raises OSError: when a file system refuses.
        """
        ...

    def compose(self, spec: KeeperSpec, job: ContainerJob) -> KeeperSpec:
        """The spec with which the keeper runs the job in the runtime, from the one for the bare host. Pure.

        A job wrapper is not in it yet: it wraps what this makes.
        """
        ...

    def inside(self, run: ContainerRun) -> Entrance | None:
        """How a visitor enters; None: nobody can. May block for a moment (``/proc``, a client)."""
        ...

    async def describe(self, run: ContainerRun, job_ad: ClassAd) -> Mapping[str, Value]:
        """Attributes of the job that are known once it runs; they hold until its end."""
        ...

    async def usage(self, run: ContainerRun) -> Mapping[str, Value]:
        """Attributes of a running job that only its runtime can measure; what they say last holds at the job's end.
        Asked for now and then."""
        ...

    async def conclude(self, run: ContainerRun, result: KeeperResult) -> KeeperResult:
        """After the keeper's end: remove the container, and correct the result by what the runtime knows of it."""
        ...

    async def sweep(self, live: Collection[str]) -> list[str]:
        """Remove what is left of runs that are not ``live`` (names of directories): containers, mounts, locks.

        At the start of the starter and now and then. Touches nothing that is not of this EXECUTE.

        :returns: what could not be removed, in words.
        """
        ...
