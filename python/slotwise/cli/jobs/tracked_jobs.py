"""The states of jobs as their event logs tell, cluster by cluster, for who watches them. Pure but for the reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from slotwise.client.event_log import EventLog
from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.model import job_event_reader
from slotwise.model.job_event_reader import Entry

REMOVED, HELD, SUSPENDED, IDLE = "REMOVED", "HELD", "SUSPENDED", "IDLE"
INPUT, RUNNING, OUTPUT, COMPLETED = "INPUT", "RUN", "OUTPUT", "DONE"
#: In the order of a table's columns.
STATES = (REMOVED, HELD, SUSPENDED, IDLE, INPUT, RUNNING, OUTPUT, COMPLETED)
EXITED = (REMOVED, COMPLETED)
ACTIVE = tuple(state for state in STATES if state not in EXITED)

_TRANSFER = 40
#: Number of an event -> the state that a job is in then, as HTCondor's condor_watch_q has it.
_STATE_OF = {
    0: IDLE, 1: RUNNING, 4: IDLE, 5: COMPLETED, 7: IDLE, 9: REMOVED, 10: SUSPENDED, 11: IDLE, 12: HELD, 13: IDLE,
    24: IDLE,
}  # fmt: skip


def state_after(entry: Entry) -> str | None:
    """The state of the job that an entry is about; None where it says nothing of it."""
    if entry.number != _TRANSFER:
        return _STATE_OF.get(entry.number)
    title = entry.title.lower()
    if not title.startswith("started"):
        return None
    return INPUT if "input" in title else OUTPUT if "output" in title else None


class Cluster(Struct):
    """The jobs of one cluster that a log has told of."""

    cluster: int
    log: str
    batch: str = ""
    #: How many jobs it has, where its ad says that.
    total: int | None = None
    states: dict[int, str] = field(default_factory=dict)
    #: When the last of its jobs left the queue, in seconds since the epoch; None while there are others.
    done_at: float | None = None

    @property
    def size(self) -> int:
        """How many jobs it has."""
        return len(self.states) if self.total is None else self.total

    @property
    def is_done(self) -> bool:
        """Whether all jobs that are known have left the queue."""
        return all(state in EXITED for state in self.states.values())

    @property
    def name(self) -> str:
        """Its batch's name."""
        return self.batch or f"ID: {self.cluster}"


class Tracked(Struct):
    """Which clusters are watched, and their jobs."""

    #: Only these; None: all that the logs tell of.
    only: frozenset[int] | None = None
    #: None below this one.
    since: int | None = None
    batches: Mapping[int, str] = field(default_factory=dict)
    totals: Mapping[int, int] = field(default_factory=dict)
    clusters: dict[int, Cluster] = field(default_factory=dict)

    def take(self, entry: Entry, log: str, now: float | None = None) -> None:
        """Take an entry of a log in.

        :param now: when it was read, where that is what counts for the time of the last job's end.
        """
        if (self.only is not None and entry.cluster not in self.only) or entry.cluster < (self.since or 0):
            return
        state = state_after(entry)
        if state is None:
            return
        cluster = self.clusters.get(entry.cluster)
        if cluster is None:
            batch, total = self.batches.get(entry.cluster, ""), self.totals.get(entry.cluster)
            cluster = self.clusters[entry.cluster] = Cluster(entry.cluster, log, batch, total)
        cluster.states[entry.proc] = state
        done = state in EXITED and cluster.is_done
        cluster.done_at = (job_event_reader.seconds(entry.time) if now is None else now) if done else None

    def states(self) -> Iterator[str]:
        """The state of each job."""
        for cluster in self.clusters.values():
            yield from cluster.states.values()


class Logs:
    """Event logs that are read as they grow. One that is expected is opened as soon as it is there."""

    def __init__(self, tracked: Tracked, *, by_reading_time: bool = False) -> None:
        self._tracked = tracked
        self._by_reading_time = by_reading_time
        self._open: dict[str, EventLog] = {}
        self._expected: list[str] = []

    def add(self, path: str, *, expected: bool = False) -> str:
        """Watch a log; returns why that is not possible, or nothing."""
        try:
            self._open[path] = EventLog(Path(path))
        except NotFoundError as error:
            if expected:
                self._expected.append(path)
                return ""
            reason = "File path does not exist" if not Path(path).exists() else str(error)
            return f"Could not open event log at {path} for reading, so it will be ignored. Reason: {reason}"
        return ""

    def read(self, now: float) -> list[str]:
        """Take in what the logs have got since; returns what could not be read."""
        for path in list(self._expected):
            self._expected.remove(path)
            self.add(path, expected=True)
        complaints = []
        for path, log in self._open.items():
            while True:
                try:
                    found = log.next()
                except SlotwiseError as error:
                    complaints.append(f"Failed to parse event from {path}. Reason: {error}")
                    continue
                if found is None:
                    break
                self._tracked.take(found[0], path, now if self._by_reading_time else None)
        return complaints

    def close(self) -> None:
        """Close them; they are not read any more."""
        for log in self._open.values():
            log.close()
