"""The rows of the store, and batches of changes to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from slotwise.schedd.storage.run_rows import StoredLocalRun, StoredNode, StoredRun
from slotwise.schedd.userlog.planned_text import PlannedText

#: The prefix of names in the table ``meta`` under which starter addresses are kept, by startd address.
STARTER = "starter "
#: The same of hosts that were removed from the pool, and that has been seen to.
REMOVED_HOST = "removed "
#: How long a submission may be sent again, in seconds.
SENT_AGAIN_S = 1800
#: How long reserved cluster ids wait for their clusters, in seconds.
RESERVED_S = 3600
#: The columns of :class:`UserTotals`, in its order.
_TOTALS = [f"{kind}{what}" for kind in ("completed", "removed") for what in ("", "_cpu_s", "_slot_s")]
#: Whether nothing refers to a row of ``clusters``.
UNUSED_CLUSTER = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.cluster = clusters.cluster)"
    for table in ("jobs", "factories", "history")
)


class StoredCluster(Struct, frozen=True):
    """The row of a cluster: the submitted ad (pack) and the attributes that the schedd added to all jobs (JSON)."""

    cluster: int
    owner: str
    qdate: int
    next_proc: int
    ad: bytes
    common: str


class StoredClaim(Struct, frozen=True):
    """The row of a claim."""

    claim: str
    startd: str
    slot: str
    submitter: str
    lease_s: int
    slot_ad: bytes
    #: Concurrency limits of the jobs it was matched for.
    limits: str = ""
    #: It is the dedicated scheduler's, for parallel jobs.
    dedicated: bool = False


class StoredFactory(Struct, frozen=True):
    """The row of a factory; the deltas of its jobs are in parts of their own."""

    cluster: int
    total: int
    next_proc: int
    most: int
    max_idle: int
    paused: int


class RecordKind(StrEnum):
    """Whose records they are; the value is the name of the table."""

    USER = "users"
    PROJECT = "projects"


class UserTotals(Struct):
    """Usage of the jobs of a user, a project or a set that have left the queue.

    Of each kind their number, CPU seconds and wall-clock seconds.
    """

    completed: tuple[int, float, float] = (0, 0.0, 0.0)
    removed: tuple[int, float, float] = (0, 0.0, 0.0)

    def add(self, completed: bool, cpu_s: float, slot_s: float) -> None:
        """Add the usage of one job."""
        used = (1, cpu_s, slot_s)
        self.merge(UserTotals(completed=used) if completed else UserTotals(removed=used))

    def merge(self, more: UserTotals) -> None:
        """Add other totals."""
        self.completed = _sum(self.completed, more.completed)
        self.removed = _sum(self.removed, more.removed)


def _sum(one: tuple[int, float, float], other: tuple[int, float, float]) -> tuple[int, float, float]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


class StoredRecord(Struct, frozen=True):
    """The row of the record of a user or a project; attributes as JSON."""

    name: str
    enabled: bool
    attributes: str
    totals: UserTotals


class StoredJobSet(Struct, frozen=True):
    """The row of a job set, with the usage of its jobs that have left the queue."""

    number: int
    user: str
    name: str
    totals: UserTotals
    #: What submissions gave it: names and expressions.
    attributes: Mapping[str, str]


class StoredAction(Struct, frozen=True):
    """The row of an action on many jobs that goes on: their ids, packed, of which ``done`` have had their turn."""

    id: int
    user: str
    action: str
    reason: str
    subcode: int
    at: int
    total: int
    done: int
    jobs: bytes


class Reservation(Struct, frozen=True):
    """``count`` cluster ids from ``first`` on that ``owner`` reserved at the time ``at``."""

    first: int
    count: int
    at: int
    owner: str


class StoredQueue(Struct):
    """Everything that a schedd restores when it starts."""

    next_cluster: int = 1
    next_planned: int = 1
    #: When the queue was made, or its first job, seconds since the epoch.
    birthdate: int = 0
    #: Jobs of the clusters that completed and left.
    done: dict[int, int] = field(default_factory=dict)
    #: Starter address by startd address.
    starters: dict[str, str] = field(default_factory=dict)
    #: When hosts were removed from the pool whose claims have been ended, epoch seconds.
    removed_hosts: dict[str, int] = field(default_factory=dict)
    factories: list[StoredFactory] = field(default_factory=list)
    clusters: list[StoredCluster] = field(default_factory=list)
    #: (cluster, proc, status, delta pack, changes JSON)
    jobs: list[tuple[int, int, int, bytes | None, str | None]] = field(default_factory=list)
    runs: list[StoredRun] = field(default_factory=list)
    local_runs: list[StoredLocalRun] = field(default_factory=list)
    nodes: list[StoredNode] = field(default_factory=list)
    claims: list[StoredClaim] = field(default_factory=list)
    planned: list[PlannedText] = field(default_factory=list)
    #: Reserved cluster ids, and those of them that clusters have taken.
    reserved: list[Reservation] = field(default_factory=list)
    reserved_taken: list[int] = field(default_factory=list)
    users: list[StoredRecord] = field(default_factory=list)
    projects: list[StoredRecord] = field(default_factory=list)
    job_sets: list[StoredJobSet] = field(default_factory=list)
    actions: list[StoredAction] = field(default_factory=list)


#: What SQLite keeps in a column.
Column: TypeAlias = int | float | str | bytes | None


class Once(NamedTuple):
    """An SQL statement with its values."""

    sql: str
    values: Sequence[Column]


class ForEach(NamedTuple):
    """An SQL statement that is carried out for each of some rows."""

    sql: str
    rows: Iterable[Sequence[Column]]


class Batch:
    """Changes that become durable together."""

    __slots__ = ("next_cluster", "statements")

    def __init__(self) -> None:
        #: Clusters before this one have got their ids; 0: it gives none.
        self.next_cluster = 0
        self.statements: list[Once | ForEach] = []

    def __bool__(self) -> bool:
        return bool(self.statements)

    def put_before(self, other: Batch) -> None:
        """Take over the changes of ``other``, before those that are here."""
        self.statements[:0] = other.statements
        self.next_cluster = max(self.next_cluster, other.next_cluster)

    def _one(self, sql: str, values: Sequence[Column]) -> None:
        self.statements.append(Once(sql, values))

    def _each(self, sql: str, rows: Iterable[Sequence[Column]]) -> None:
        self.statements.append(ForEach(sql, rows))

    def insert_cluster(self, row: StoredCluster) -> None:
        """Insert a cluster, and move the cluster counter past it."""
        self._one(
            "INSERT INTO clusters VALUES (?,?,?,?,?,?)",
            (row.cluster, row.owner, row.qdate, row.next_proc, row.ad, row.common),
        )
        self._one(
            "INSERT INTO meta VALUES ('next_cluster', ?) ON CONFLICT (name)"
            " DO UPDATE SET value=max(value, excluded.value)",
            (row.cluster + 1,),
        )
        self.next_cluster = max(self.next_cluster, row.cluster + 1)

    def update_cluster(self, cluster: int, ad: bytes) -> None:
        """Replace the ad (pack) of the jobs that a cluster's factory has yet to materialize."""
        self._one("UPDATE clusters SET ad=? WHERE cluster=?", (ad, cluster))

    def insert_factory(self, row: StoredFactory, parts: Iterable[tuple[int, int, bytes]]) -> None:
        """Insert a factory with its parts: (first proc, count, delta pack)."""
        values = (row.cluster, row.total, row.next_proc, row.most, row.max_idle, row.paused)
        self._one("INSERT INTO factories VALUES (?,?,?,?,?,?)", values)
        rows = [(row.cluster, *part) for part in parts]
        self._each("INSERT INTO factory_parts VALUES (?,?,?,?)", rows)

    def advance_factory(self, cluster: int, next_proc: int) -> None:
        """Note that jobs before ``next_proc`` are materialized."""
        self._one("UPDATE factories SET next_proc=? WHERE cluster=?", (next_proc, cluster))

    def set_factory(self, cluster: int, most: int, max_idle: int, paused: int) -> None:
        """Change the bounds or the state of a factory."""
        sql = "UPDATE factories SET most=?, max_idle=?, paused=? WHERE cluster=?"
        self._one(sql, (most, max_idle, paused, cluster))

    def delete_factory(self, cluster: int) -> None:
        """Delete the factory of a cluster that has left the queue."""
        self._one("DELETE FROM factories WHERE cluster=?", (cluster,))
        self._one("DELETE FROM factory_parts WHERE cluster=?", (cluster,))

    def put_starter(self, startd: str, starter: str) -> None:
        """Note the starter to which a startd's runs belong."""
        self._one("INSERT OR REPLACE INTO meta VALUES (?, ?)", (STARTER + startd, starter))

    def put_removed_host(self, host: str, at: int) -> None:
        """Note that the claims at a host that was removed at that time have been ended."""
        self._one("INSERT OR REPLACE INTO meta VALUES (?, ?)", (REMOVED_HOST + host, at))

    def raise_counter(self, next_cluster: int) -> None:
        """Raise the cluster counter to at least this number."""
        self._one("INSERT OR REPLACE INTO meta VALUES ('next_cluster', ?)", (next_cluster,))
        self.next_cluster = max(self.next_cluster, next_cluster)

    def reserve(self, ids: Reservation) -> None:
        """Reserve cluster ids for a submitter."""
        sql = "INSERT INTO reserved (first, count, at, owner) VALUES (?,?,?,?)"
        self._one(sql, (ids.first, ids.count, ids.at, ids.owner))

    def remember(self, owner: str, key: bytes, at: int, reply: bytes) -> None:
        """Keep the reply to a submission with a key, should it be sent again."""
        self._one("INSERT OR REPLACE INTO submissions VALUES (?,?,?,?)", (owner, key, at, reply))

    def know_record(self, kind: RecordKind, name: str) -> None:
        """Insert the record of a user who submits, or of a project that is submitted to, unless there is one."""
        self._one(f"INSERT OR IGNORE INTO {kind} (name) VALUES (?)", (name,))

    def put_record(self, kind: RecordKind, row: StoredRecord) -> None:
        """Insert or change a record; the totals stay as they are."""
        self._one(
            f"INSERT INTO {kind} (name, enabled, attributes) VALUES (?,?,?) ON CONFLICT (name)"
            " DO UPDATE SET enabled=excluded.enabled, attributes=excluded.attributes",
            (row.name, row.enabled, row.attributes),
        )

    def add_record_totals(self, kind: RecordKind, name: str, more: UserTotals) -> None:
        """Add usage to the totals of a record."""
        added = ", ".join(f"{column}={column}+excluded.{column}" for column in _TOTALS)
        self._one(
            f"INSERT INTO {kind} (name, {', '.join(_TOTALS)}) VALUES (?,?,?,?,?,?,?)"
            f" ON CONFLICT (name) DO UPDATE SET {added}",
            (name, *more.completed, *more.removed),
        )

    def delete_record(self, kind: RecordKind, name: str) -> None:
        """Delete a record."""
        self._one(f"DELETE FROM {kind} WHERE name=?", (name,))

    def know_job_set(self, number: int, user: str, name: str, attributes: Mapping[str, str]) -> None:
        """Insert the row of a job set, unless there is one, and set attributes of it to expressions."""
        sql = "INSERT INTO job_set_attributes VALUES (?,?,?) ON CONFLICT DO UPDATE SET value=excluded.value"
        for attribute, text in attributes.items():
            self._one(sql, (number, attribute, text))
        self._one("INSERT OR IGNORE INTO job_sets (number, user, name) VALUES (?,?,?)", (number, user, name))

    def add_job_set_totals(self, number: int, more: UserTotals) -> None:
        """Add usage to the totals of a job set."""
        added = ", ".join(f"{column}={column}+?" for column in _TOTALS)
        self._one(f"UPDATE job_sets SET {added} WHERE number=?", (*more.completed, *more.removed, number))

    def delete_job_set(self, number: int) -> None:
        """Delete a job set that has no clusters any more."""
        self._one("DELETE FROM job_sets WHERE number=?", (number,))
        self._one("DELETE FROM job_set_attributes WHERE number=?", (number,))

    def put_action(self, row: StoredAction) -> None:
        """Insert an action that goes on."""
        values = (row.id, row.user, row.action, row.reason, row.subcode, row.at, row.total, row.done, row.jobs)
        self._one("INSERT INTO actions VALUES (?,?,?,?,?,?,?,?,?)", values)

    def note_action(self, number: int, done: int) -> None:
        """Note how far an action has come."""
        self._one("UPDATE actions SET done=? WHERE id=?", (done, number))

    def delete_action(self, number: int) -> None:
        """Delete an action that is done."""
        self._one("DELETE FROM actions WHERE id=?", (number,))

    def insert_jobs(self, rows: Iterable[tuple[int, int, int, bytes | None, str | None]]) -> None:
        """Insert jobs: (cluster, proc, status, delta pack, changes)."""
        self._each("INSERT INTO jobs VALUES (?,?,?,?,?)", rows)

    def update_job(self, cluster: int, proc: int, status: int, changes: str) -> None:
        """Change the status and the changes of a job."""
        self._one("UPDATE jobs SET status=?, changes=? WHERE cluster=? AND proc=?", (status, changes, cluster, proc))

    def retire_job(self, cluster: int, proc: int, owner: str, status: int, completed: int, changes: str) -> None:
        """Move a job from the queue to the history."""
        self._one(
            "INSERT INTO history (cluster, proc, owner, status, completed, delta, changes)"
            " SELECT cluster, proc, ?, ?, ?, delta, ? FROM jobs WHERE cluster=? AND proc=?",
            (owner, status, completed, changes, cluster, proc),
        )
        self._one("DELETE FROM jobs WHERE cluster=? AND proc=?", (cluster, proc))

    def mark_history(self, seq: int) -> None:
        """Note that rows of the history up to ``seq`` are in the HISTORY file."""
        self._one("UPDATE meta SET value=? WHERE name='history file'", (seq,))

    def put_run(self, run: StoredRun | StoredLocalRun | StoredNode) -> None:
        """Insert or change a run."""
        if isinstance(run, StoredNode):
            self._one("INSERT OR REPLACE INTO nodes VALUES (?,?,?,?,?,?,?,?,?)", run.columns())
            return
        self._one("INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?)", run.columns())

    def delete_run(self, cluster: int, proc: int) -> None:
        """Delete the run of a job."""
        self._one("DELETE FROM runs WHERE cluster=? AND proc=?", (cluster, proc))

    def delete_nodes(self, cluster: int) -> None:
        """Delete the runs of a parallel job's nodes."""
        self._one("DELETE FROM nodes WHERE cluster=?", (cluster,))

    def put_claim(self, claim: StoredClaim) -> None:
        """Insert or change a claim."""
        self._one(
            "INSERT OR REPLACE INTO claims (claim, startd, slot, submitter, lease_s, slot_ad, limits, dedicated)"
            " VALUES (?,?,?,?,?,?,?,?)",
            (
                claim.claim,
                claim.startd,
                claim.slot,
                claim.submitter,
                claim.lease_s,
                claim.slot_ad,
                claim.limits,
                claim.dedicated,
            ),
        )

    def delete_claim(self, claim: str) -> None:
        """Delete a claim."""
        self._one("DELETE FROM claims WHERE claim=?", (claim,))

    def plan(self, text: PlannedText) -> None:
        """Plan a text for an event log, to be written after this commit."""
        self._one("INSERT INTO planned VALUES (?,?,?,?,?)", (text.seq, text.path, text.owner, text.offset, text.text))

    def written(self, seqs: Iterable[int]) -> None:
        """Delete the plans of texts that have been written."""
        self._each("DELETE FROM planned WHERE seq=?", [(seq,) for seq in seqs])

    def forget_past(self, seqs: Iterable[int]) -> None:
        """Delete rows of the history."""
        self._each("DELETE FROM history WHERE seq=?", [(seq,) for seq in seqs])

    def forget_clusters(self, clusters: Iterable[int]) -> None:
        """Delete those of the clusters to which no row refers."""
        sql = f"DELETE FROM clusters WHERE cluster=? AND {UNUSED_CLUSTER}"
        self._each(sql, [(cluster,) for cluster in clusters])

    def tidy(self, now: int) -> None:
        """Delete expired submission keys and reserved ids."""
        self._one("DELETE FROM submissions WHERE at < ?", (now - SENT_AGAIN_S,))
        self._one("DELETE FROM reserved WHERE at < ?", (now - RESERVED_S,))
