"""A run of a job on the access point, and the table of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from msgspec import Struct, field

from slotwise.execution.job_view import JobView
from slotwise.execution.keeper_link import KeeperLink
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Kill
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.local.keeper_spec import RunPlace
from slotwise.schedd.storage.store import StoredLocalRun


class LocalRun(Struct, eq=False):
    """One run of a job on the access point."""

    id: str
    job: Job
    born_at: float
    place: RunPlace
    #: When the keeper reported that the job is executing, or 0.
    executing_at: float = 0.0
    kill: Kill | None = None
    view: JobView | None = None
    #: Its keeper; None until its control directory is complete: there is a keeper, or there will be one in a moment.
    keeper: KeeperLink | None = None
    #: The kill was sent to the keeper; one that has just been forked does not receive it.
    kill_sent: bool = False
    over: bool = False
    #: Set once its job executes, or never will.
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def row(self) -> StoredLocalRun:
        """Its row in the store; it has no claim."""
        number, proc, root = self.job.cluster.number, self.job.proc, self.place.root
        return StoredLocalRun(number, proc, self.id, self.born_at, self.executing_at, str(root or ""))

    @property
    def goes_on(self) -> bool:
        """Whether the job is meant to run."""
        return self.job.run == self.id and self.job.status in (Status.RUNNING, Status.SUSPENDED)

    @property
    def is_scheduler(self) -> bool:
        """Whether its job is of the scheduler universe."""
        return self.job.cluster.universe == Universe.SCHEDULER

    def end(self) -> None:
        """Nothing more follows from what its keeper does."""
        self.over = True
        self.begun.set()
        if self.keeper is not None:
            self.keeper.close()


class RunTable:
    """All runs on this access point, by their id and by the name of their directories."""

    def __init__(self) -> None:
        self.by_id: dict[str, LocalRun] = {}
        self._by_name: dict[str, LocalRun] = {}

    def __iter__(self) -> Iterator[LocalRun]:
        return iter(self.by_id.values())

    def add(self, run: LocalRun) -> None:
        """Take in a run."""
        self.by_id[run.id] = run
        self._by_name[run.place.name] = run

    def named(self, name: str) -> LocalRun | None:
        """The run whose directories have this name."""
        return self._by_name.get(name)

    def names(self) -> set[str]:
        """The names of all directories."""
        return set(self._by_name)

    def forget(self, run: LocalRun) -> None:
        """The run is over."""
        self.by_id.pop(run.id, None)
        if self._by_name.get(run.place.name) is run:
            del self._by_name[run.place.name]
