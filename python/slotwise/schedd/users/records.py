"""User records: whether users may submit, their limits, and the usage of their jobs. Pure.

Manual, condor_qusers. A user has a record from the first submission on, or once an administrator added it. Names are
``user@domain``, by default of UID_DOMAIN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.model.ownership import domain_of, owner_attributes, owner_of
from slotwise.schedd.jobs.ads import native, plain
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.protected_attrs import literal_of
from slotwise.schedd.jobs.values import Changes, Expr, decode, encode
from slotwise.schedd.storage.batch import Batch, StoredUser, UserTotals

_LIMIT, _ENABLED, _REASON = "MaxJobsRunning", "Enabled", "DisableReason"
#: A limit of at least this is no limit.
_NO_LIMIT = 2**31 - 1
#: Attributes that are never edited, in lower case: the user's identity, and counts.
_RESERVED = frozenset(
    (
        *("user", "owner", "osuser", "ntdomain", "mytype", "targettype", "requirements", "enabled", "name"),
        *(f"num{what}" for what in ("jobs", "idle", "running", "held", "removed", "completed", "suspended")),
        *("totalcompletedjobs", "completedjobscputime", "completedjobsslottime"),
        *("totalremovedjobs", "removedjobscputime", "removedjobsslottime"),
    )
)
_RUNNING = (Status.RUNNING, Status.TRANSFERRING_OUTPUT)


@dataclass
class UserRecord:
    """The record of a user. ``attributes``: DisableReason, MaxJobsRunning and those that administrators add."""

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

    def stored(self) -> StoredUser:
        """Its row in the store."""
        return StoredUser(self.name, self.enabled, encode(self.attributes), self.totals)

    def ad(self, counts: Sequence[int], account: str) -> ClassAd:
        """The ad for queries. ``counts``: jobs in the queue by JobStatus; ``account``: that the jobs run as."""
        ad = ClassAd(native(self.attributes))
        ad.update(
            {
                "MyType": "Owner",
                **owner_attributes(self.name, account),
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


class UserRecords:
    """All user records.

    ``known_only``: ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY, only users with a record may submit.
    """

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], UserRecord] = {}
        self.known_only = False
        #: Whether any user has a limit; if not, look-ups are skipped.
        self.limited = False

    def __iter__(self) -> Iterator[UserRecord]:
        return iter(sorted(self._records.values(), key=lambda record: record.name))

    def load(self, rows: Iterable[StoredUser], users: Iterable[str]) -> None:
        """Restore the records of the store, and add the users of jobs in the queue."""
        for row in rows:
            self._put(UserRecord(row.name, row.enabled, decode(row.attributes), row.totals))
        for user in users:
            self.submits(user)

    def find(self, user: str) -> UserRecord | None:
        """The record of ``user@domain``."""
        return self._records.get(_key(user))

    def _put(self, record: UserRecord) -> None:
        self._records[_key(record.name)] = record
        self._look_for_limits()

    def _look_for_limits(self) -> None:
        self.limited = any(record.running_most is not None for record in self._records.values())

    # ---- jobs

    def check(self, user: str) -> None:
        """Check that the user may submit.

        :raises DeniedError: as HTCondor words it, with the administrator's reason.
        """
        record = self.find(user)
        if record is None and self.known_only:
            raise DeniedError(
                f"Unknown User {user}. Use condor_qusers to add user before submitting jobs.",
                hint="ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY: an administrator adds users with `slotwise qusers -add`",
            )
        if record is not None and not record.enabled:
            why = record.why_disabled
            raise DeniedError(f"User {user} is disabled : {why}" if why else f"User {user} is disabled")

    def submits(self, user: str) -> UserRecord:
        """The record of a user with jobs, which is created if need be."""
        record = self.find(user)
        if record is None:
            record = UserRecord(user)
            self._records[_key(user)] = record
        return record

    def running_most(self, user: str) -> int | None:
        """The most jobs of the user that may run at a time; None: no limit."""
        record = self.find(user) if self.limited else None
        return None if record is None else record.running_most

    def left(self, jobs: Iterable[Job], batch: Batch) -> None:
        """Add the usage of jobs that leave the queue to their users' totals."""
        added: dict[str, UserTotals] = {}
        for job in jobs:
            if job.counted or job.status not in (Status.COMPLETED, Status.REMOVED):
                continue
            job.counted = True
            user = job.cluster.user
            totals = added.setdefault(user, UserTotals())
            cpu_s = job.number("CumulativeRemoteUserCpu") + job.number("CumulativeRemoteSysCpu")
            totals.add(job.status == Status.COMPLETED, cpu_s, job.number("RemoteWallClockTime"))
        for user, totals in added.items():
            self.submits(user).totals.merge(totals)
            batch.add_user_totals(user, totals)

    # ---- administrators

    def require(self, users: Iterable[str]) -> None:
        """Check that all users have records.

        :raises NotFoundError: naming one that has none.
        """
        for user in users:
            self._known(user)

    @staticmethod
    def require_names(users: Iterable[str]) -> None:
        """Check that these are valid names of users.

        :raises UsageError: naming one that is not.
        """
        for user in users:
            sound = user.isprintable() and not any(char.isspace() or char in "\"'/\\" for char in user)
            if not (sound and owner_of(user) and domain_of(user)):
                raise UsageError(f"{user!r} is not a user's name", hint="write user, or user@domain")

    def add(self, user: str, batch: Batch) -> None:
        """Create a record, or enable an existing one."""
        record = self.submits(user)
        self._enable(record)
        self._store(record, batch)

    def enable(self, user: str, edits: Mapping[str, str], batch: Batch) -> None:
        """Let a user submit again. ``edits``: texts of further attributes to change."""
        record = self._known(user)
        self._edit(record, edits)
        self._enable(record)
        self._store(record, batch)

    @staticmethod
    def _enable(record: UserRecord) -> None:
        record.enabled = True
        record.attributes.pop(_REASON, None)

    def disable(self, user: str, reason: str, edits: Mapping[str, str], batch: Batch) -> None:
        """Keep a user from submitting; jobs in the queue stay."""
        record = self._known(user)
        self._edit(record, edits)
        record.enabled = False
        if reason:
            record.attributes[_REASON] = reason
        self._store(record, batch)

    def edit(self, user: str, edits: Mapping[str, str], batch: Batch) -> list[str]:
        """Change attributes; returns the names of reserved ones, which do not change."""
        record = self._known(user)
        ignored = self._edit(record, edits)
        self._store(record, batch)
        return ignored

    def remove(self, user: str, *, in_use: bool, batch: Batch) -> None:
        """Remove a user's record; as in HTCondor, one with jobs in the queue is disabled instead."""
        record = self._known(user)
        if in_use:
            record.enabled = False
            self._store(record, batch)
            return
        del self._records[_key(user)]
        self._look_for_limits()
        batch.delete_user(record.name)

    def _known(self, user: str) -> UserRecord:
        record = self.find(user)
        if record is None:
            raise NotFoundError(f"there is no record of user {user}", hint="`slotwise qusers -add` makes one")
        return record

    @staticmethod
    def _edit(record: UserRecord, edits: Mapping[str, str]) -> list[str]:
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

    def _store(self, record: UserRecord, batch: Batch) -> None:
        self._look_for_limits()
        batch.put_user(record.stored())


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


def _key(user: str) -> tuple[str, str]:
    """The key of a name: domains are case-insensitive."""
    return owner_of(user), domain_of(user).lower()
