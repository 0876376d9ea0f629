"""What the records of users and of projects have in common: whether jobs may be submitted, limits, and usage. Pure.

Manual, condor_qusers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.errors import NotFoundError, UsageError
from slotwise.schedd.jobs.ads import native, plain
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.protected_attrs import literal_of
from slotwise.schedd.jobs.values import Changes, Expr, decode, encode
from slotwise.schedd.storage.batch import Batch, RecordKind, StoredRecord, UserTotals

_LIMIT, _ENABLED, _REASON = "MaxJobsRunning", "Enabled", "DisableReason"
#: A limit of at least this is no limit.
_NO_LIMIT = 2**31 - 1
#: Attributes that are never edited, in lower case: the record's identity, and counts.
_RESERVED = frozenset(
    (
        *("user", "owner", "osuser", "ntdomain", "mytype", "targettype", "requirements", "enabled", "name"),
        *(f"num{what}" for what in ("jobs", "idle", "running", "held", "removed", "completed", "suspended")),
        *("totalcompletedjobs", "completedjobscputime", "completedjobsslottime"),
        *("totalremovedjobs", "removedjobscputime", "removedjobsslottime"),
    )
)
_RUNNING = (Status.RUNNING, Status.TRANSFERRING_OUTPUT)


class Record(Struct):
    """A record. ``attributes``: DisableReason, MaxJobsRunning and those that administrators add."""

    name: str
    enabled: bool = True
    attributes: Changes = field(default_factory=dict)
    totals: UserTotals = field(default_factory=UserTotals)

    @property
    def running_most(self) -> int | None:
        """The most jobs that may run at a time; None: no limit."""
        limit = self.attributes.get(_LIMIT)
        return limit if isinstance(limit, int) and not isinstance(limit, bool) and 0 <= limit < _NO_LIMIT else None

    @property
    def why_disabled(self) -> str:
        """The administrator's reason, or ""."""
        reason = self.attributes.get(_REASON)
        return reason if isinstance(reason, str) else ""

    def stored(self) -> StoredRecord:
        """Its row in the store."""
        return StoredRecord(self.name, self.enabled, encode(self.attributes), self.totals)

    def ad_of(self, identity: Mapping[str, str], counts: Sequence[int]) -> ClassAd:
        """The ad for queries. ``identity``: whose record it is; ``counts``: jobs in the queue by JobStatus."""
        ad = ClassAd(native(self.attributes))
        ad.update(
            {
                **identity,
                _ENABLED: self.enabled,
                "NumJobs": sum(counts),
                "NumIdle": counts[Status.IDLE],
                "NumRunning": sum(counts[status] for status in _RUNNING),
                "NumHeld": counts[Status.HELD],
                "NumRemoved": counts[Status.REMOVED],
                "NumCompleted": counts[Status.COMPLETED],
                "NumSuspended": counts[Status.SUSPENDED],
            }
        )
        for kind, (jobs, cpu_s, slot_s) in (("Completed", self.totals.completed), ("Removed", self.totals.removed)):
            if jobs:
                ad.update({f"Total{kind}Jobs": jobs, f"{kind}JobsCpuTime": cpu_s, f"{kind}JobsSlotTime": slot_s})
        return ad


#: The kind of records of :class:`Records`.
RecordT = TypeVar("RecordT", bound=Record)


class Records(Generic[RecordT]):
    """All records of one kind, and what administrators do to them."""

    #: The table that has them, and what one is called.
    kind: ClassVar[RecordKind]
    noun: ClassVar[str]

    def __init__(self, make: Callable[..., RecordT], key: Callable[[str], object]) -> None:
        """
        :param make: a record of a name, and what the store has of it.
        :param key: equal for all spellings of one name.
        """
        self._make = make
        self._key = key
        self._records: dict[object, RecordT] = {}
        #: Whether any has a limit; if not, look-ups are skipped.
        self.limited = False

    def __iter__(self) -> Iterator[RecordT]:
        return iter(sorted(self._records.values(), key=lambda record: record.name))

    def load(self, rows: Iterable[StoredRecord], names: Iterable[str]) -> None:
        """Restore the records of the store, and add those of jobs in the queue."""
        for row in rows:
            record = self._make(row.name, row.enabled, decode(row.attributes), row.totals)
            self._records[self._key(row.name)] = record
        self._look_for_limits()
        for name in names:
            self.submits(name)

    def find(self, name: str) -> RecordT | None:
        """The record of this name."""
        return self._records.get(self._key(name))

    def _look_for_limits(self) -> None:
        self.limited = any(record.running_most is not None for record in self._records.values())

    # ---- jobs

    def submits(self, name: str) -> RecordT:
        """The record of a name that has jobs, which is created if need be."""
        record = self.find(name)
        if record is None:
            record = self._records[self._key(name)] = self._make(name)
        return record

    def running_most(self, name: str) -> int | None:
        """The most jobs of that name that may run at a time; None: no limit."""
        record = self.find(name) if self.limited else None
        return None if record is None else record.running_most

    def count(self, jobs: Iterable[Job], name_of: Callable[[Cluster], str], batch: Batch) -> list[Job]:
        """Add the usage of jobs that leave the queue to the totals; returns those that have been counted.

        :param name_of: the name of the record that counts the jobs of a cluster; "" when none does.
        """
        added: dict[str, UserTotals] = {}
        counted = []
        for job in jobs:
            name = name_of(job.cluster)
            if not name or job.counted or job.status not in (Status.COMPLETED, Status.REMOVED):
                continue
            counted.append(job)
            totals = added.setdefault(name, UserTotals())
            cpu_s = job.number("CumulativeRemoteUserCpu") + job.number("CumulativeRemoteSysCpu")
            totals.add(job.status == Status.COMPLETED, cpu_s, job.number("RemoteWallClockTime"))
        for name, totals in added.items():
            record = self.submits(name)
            record.totals.merge(totals)
            batch.add_record_totals(self.kind, record.name, totals)
        return counted

    # ---- administrators

    def add(self, name: str, batch: Batch) -> None:
        """Create a record, or enable an existing one."""
        record = self.submits(name)
        self._enable(record)
        self._store(record, batch)

    def enable(self, name: str, edits: Mapping[str, str], batch: Batch) -> None:
        """Let jobs be submitted again. ``edits``: texts of further attributes to change."""
        record = self.known(name)
        self._edit(record, edits)
        self._enable(record)
        self._store(record, batch)

    @staticmethod
    def _enable(record: RecordT) -> None:
        record.enabled = True
        record.attributes.pop(_REASON, None)

    def disable(self, name: str, reason: str, edits: Mapping[str, str], batch: Batch) -> None:
        """Refuse submissions from now on; jobs in the queue stay."""
        record = self.known(name)
        self._edit(record, edits)
        record.enabled = False
        if reason:
            record.attributes[_REASON] = reason
        self._store(record, batch)

    def edit(self, name: str, edits: Mapping[str, str], batch: Batch) -> list[str]:
        """Change attributes; returns the names of reserved ones, which do not change."""
        record = self.known(name)
        ignored = self._edit(record, edits)
        self._store(record, batch)
        return ignored

    def _delete(self, record: RecordT, batch: Batch) -> None:
        del self._records[self._key(record.name)]
        self._look_for_limits()
        batch.delete_record(self.kind, record.name)

    def known(self, name: str) -> RecordT:
        """The record of this name.

        :raises NotFoundError: when there is none.
        """
        record = self.find(name)
        if record is None:
            raise NotFoundError(
                f"there is no record of {self.noun} {name}", hint="`slotwise qusers -add` makes one, see its -help"
            )
        return record

    @staticmethod
    def _edit(record: RecordT, edits: Mapping[str, str]) -> list[str]:
        ignored = []
        for name, text in edits.items():
            if name.lower() in _RESERVED or (name.lower() == _REASON.lower() and record.enabled):
                ignored.append(name)
                continue
            known = next((one for one in record.attributes if one.lower() == name.lower()), name)
            if name.lower() == _LIMIT.lower():
                known = _LIMIT
            if text.strip().lower() == "delete":
                record.attributes.pop(known, None)
                continue
            tree = ExprTree(text)
            value = plain(tree.eval() if known == _LIMIT else literal_of(tree))
            if known == _LIMIT and not (isinstance(value, int) and 0 <= value < _NO_LIMIT):
                record.attributes.pop(known, None)
            else:
                record.attributes[known] = value if value is not None else Expr(str(tree))
        return ignored

    def _store(self, record: RecordT, batch: Batch) -> None:
        self._look_for_limits()
        batch.put_record(self.kind, record.stored())


def check_edit(name: str, text: str) -> None:
    """Check that an attribute of a record can have this text; ``delete`` removes it.

    :raises UsageError: for a name or a limit that is not valid, AdSyntaxError for text that is not an expression.
    """
    if not name.replace("_", "").isalnum() or name[0].isdigit():
        raise UsageError(f"{name!r} is not an attribute name")
    if text.strip().lower() == "delete":
        return
    value = ExprTree(text).eval()
    is_number = isinstance(value, int) and not isinstance(value, bool | SpecialValue)
    if name.lower() == _LIMIT.lower() and not is_number and text.strip().lower() != "undefined":
        raise UsageError(f"{_LIMIT} = {text} is not a number of jobs", hint="undefined: as many as there are slots for")
