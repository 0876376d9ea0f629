"""The ads of all jobs in the queue, in one columnar table, and the evaluation of their attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.classad.values import Value as AdValue
from slotwise.errors import UsageError
from slotwise.schedd.jobs.job import Cluster, Job, finite
from slotwise.schedd.jobs.match_substitution import KEPT_MATCH_EXPR, MATCH_EXPR, UnresolvedError, filled
from slotwise.schedd.jobs.node_ads import NodeAd
from slotwise.schedd.jobs.round_attrs import DEFAULT_STEPS
from slotwise.schedd.jobs.values import Changes, Evaluate, Expr, Value
from slotwise.table import AdTable, pack_ads, unpack_ads

#: The largest ad that a job may have, as a pack in bytes: other things travel with it.
JOB_AD_MOST = 1024 * 1024


def native(changes: Mapping[str, Value]) -> dict[str, AdValue]:
    """The attributes that changes set, in the form that the table takes."""
    return {
        name: ExprTree(str(value)) if isinstance(value, Expr) else value
        for name, value in changes.items()
        if value is not None
    }


def removed(changes: Mapping[str, Value]) -> list[str]:
    """The names of the attributes that changes remove."""
    return [name for name, value in changes.items() if value is None]


def plain(value: object) -> Value:
    """An evaluated value as the schedd keeps it: None for undefined, error and anything that is not a scalar."""
    if isinstance(value, (bool, int, float, str)) and not isinstance(value, SpecialValue):
        return value
    return None


def ranks_jobs(slot: ClassAd) -> bool:
    """Whether the machine ranks jobs: its Rank is more than a number."""
    return "Rank" in slot and not isinstance(slot["Rank"], (bool, int, float))


def kept(ad: ClassAd) -> Changes:
    """All attributes of an ad as changes."""
    changes: Changes = {}
    for name, value in ad.items():
        scalar = plain(value)
        changes[name] = scalar if scalar is not None else Expr(str(ad.lookup(name)))
    return changes


class FreshAds(Struct, frozen=True):
    """Ads of new jobs of one cluster, ready for the table."""

    cluster: int
    template: ClassAd
    keys: list[str]
    deltas: bytes | Sequence[ClassAd] | None
    columns: dict[str, Iterable[AdValue]]
    dollars: bool


def fresh_ads(
    cluster: Cluster,
    submitted: ClassAd,
    procs: Sequence[int],
    deltas: bytes | Sequence[ClassAd] | None,
    columns: Mapping[str, Iterable[AdValue]],
    *,
    dollars: bool = False,
) -> FreshAds:
    """Ads for new jobs: the cluster's ad, what the schedd adds to all, each job's delta, then the columns.

    ``dollars``: some attribute has ``$$()`` in it.
    """
    template = submitted.copy()
    template.update(native(cluster.common))
    keys = [f"{cluster.number}.{proc}" for proc in procs]
    return FreshAds(cluster.number, template, keys, deltas or None, {"ProcId": list(procs), **columns}, dollars)


#: Attributes that limit how long a job may take, or stay in the queue.
_TIME_LIMITS = ("AllowedJobDuration", "AllowedExecuteDuration", "TimerRemove")
#: What may keep a job that has ended from leaving, in lower case.
_EXIT_POLICY = frozenset(
    {"onexitremove", "onexithold", "periodichold", "periodicremove", *(name.lower() for name in _TIME_LIMITS)}
)


class JobAds:
    """Job ads by ``cluster.proc``."""

    def __init__(self) -> None:
        self.table = AdTable()
        #: How usage is rounded in ads (SCHEDD_ROUND_ATTR_<name>).
        self.rounding: Mapping[str, str] = DEFAULT_STEPS
        #: Clusters whose jobs have $$() in some attribute.
        self._dollars: set[int] = set()
        self._plain_exit: dict[int, bool] = {}
        #: Clusters whose jobs leave the queue when they are completed, whatever else.
        self._leaves: set[int] = set()
        self._requests: dict[int, dict[str, float]] = {}

    # ---- inserting, changing, removing

    def insert(self, fresh: FreshAds) -> None:
        """Insert the ads of new jobs."""
        self.table.insert_from_template(fresh.template, fresh.keys, fresh.deltas, columns=fresh.columns)
        if fresh.dollars:
            self._dollars.add(fresh.cluster)

    def set(self, key: str, changes: Changes) -> None:
        """Change attributes of a job."""
        self.table.update(key, native(changes), removed(changes))

    def remove(self, key: str) -> None:
        """Remove the ad of a job."""
        self.table.remove(key)

    def compact(self) -> None:
        """Rebuild the table at the size that its ads need."""
        fresh = AdTable()
        if len(self.table):
            fresh.apply(self.table.changes_since(0))
        self.table = fresh

    def forget_cluster(self, number: int) -> None:
        """Discard what is cached of a cluster: it has no jobs left, or its common attributes changed."""
        self._dollars.discard(number)
        self._plain_exit.pop(number, None)
        self._leaves.discard(number)

    def forget_edit(self, number: int, *, dollars: bool = False) -> None:
        """Discard what is cached of a cluster's attributes: one of its jobs was edited.

        ``dollars``: an attribute has ``$$()`` in it now.
        """
        if dollars:
            self._dollars.add(number)
        self._plain_exit.pop(number, None)
        self._leaves.discard(number)
        self._requests.clear()

    # ---- one job

    def has(self, job: Job) -> bool:
        """Whether the job has an ad; one that was removed by force has none while its run is still ending."""
        return job.key in self.table

    def ad(self, job: Job) -> ClassAd:
        """The job's ad."""
        found = self.table.get(job.key)
        if found is None:
            raise KeyError(job.key)
        return found

    def request_pack(self, job: Job) -> bytes:
        """The job's ad as a pack, for a startd that is asked for a claim.

        :raises UsageError: when it is too large to be sent.
        """
        return _bounded(self.pack(job))

    def pack(self, job: Job, extra: Mapping[str, Value] | None = None) -> bytes:
        """The job's ad as a pack, with ``extra`` attributes."""
        ad = self.ad(job)
        if extra:
            ad.update(native(extra))
        return pack_ads([ad])

    def latest_pack(self, job: Job, extra: Mapping[str, Value]) -> bytes:
        """As :meth:`pack`, with the changes of the job that are not committed yet."""
        ad = self.ad(job)
        changes = job.changes or {}
        ad.update(native({**changes, **extra}))
        for name in removed(changes):
            ad.pop(name, None)
        return pack_ads([ad])

    def final_pack(
        self, job: Job, slot: ClassAd, node: NodeAd | None = None, *, also: Mapping[str, ExprTree] | None = None
    ) -> bytes:
        """The job's ad as its starter gets it, with ``$$()`` filled in from the slot; of a parallel job, for a node.

        :param also: attributes of this run alone.
        :raises UnresolvedError: for a reference without a value, UsageError for an ad that is too large to be sent.
        """
        ad = self.expanded(job, slot, node)
        ad.update(dict(also or {}))
        return _bounded(pack_ads([ad]))

    def expanded(self, job: Job, slot: ClassAd, node: NodeAd | None = None) -> ClassAd:
        """The job's ad with ``$$()`` filled in from the slot; of a parallel job, for a node.

        :raises UnresolvedError: for a reference without a value.
        """
        ad = self.ad(job)
        if job.cluster.number in self._dollars:
            ad.update(filled(ad, slot).attributes)
        if any(name.startswith(KEPT_MATCH_EXPR) for name in job.changes or ()):
            ad.update({name: slot.lookup(name) for name in slot if name.startswith(MATCH_EXPR)})
        if node is not None:
            ad.update(node.attributes(ad))
        return ad

    def taken_from(self, job: Job, slot: ClassAd) -> Changes:
        """What of the slot stays in the job's ad (``MATCH_<attribute>``); nothing when a reference has no value there,
        with which the start will fail."""
        if job.cluster.number not in self._dollars:
            return {}
        try:
            return filled(self.ad(job), slot).kept
        except UnresolvedError:
            return {}

    def value(self, job: Job, name: str) -> Value:
        """An attribute of the job, evaluated."""
        return plain(self.table.value(job.key, name))

    def text(self, job: Job, name: str, default: str = "") -> str:
        """A string attribute of the job."""
        value = self.value(job, name)
        return value if isinstance(value, str) else default

    def expression(self, job: Job, name: str) -> str:
        """The text of an attribute's expression, or "" if the ad does not have it."""
        ad = self.ad(job)
        return ad.lookup(name).print_old() if name in ad else ""

    def number(self, job: Job, name: str, default: float = 0) -> float:
        """A numeric attribute of the job, see :func:`finite`."""
        return finite(self.value(job, name), default)

    def truth(self, job: Job, name: str) -> bool:
        """Whether an attribute of the job is true."""
        value = self.value(job, name)
        return bool(value) if isinstance(value, (bool, int, float)) else False

    def matches(self, job: Job, slot: ClassAd) -> bool:
        """Whether job and slot satisfy each other's Requirements."""
        return bool(self.ad(job).symmetric_match(slot))

    def ranked_no_lower(self, job: Job, slot: ClassAd) -> bool:
        """Whether the machine ranks the job at least as high as the one that the slot was claimed for."""
        if not ranks_jobs(slot):
            return True
        rank, current = plain(slot.eval("Rank", self.ad(job))), plain(slot.eval("CurrentRank"))
        return not isinstance(rank, (int, float)) or not isinstance(current, (int, float)) or rank >= current

    def evaluator(self, job: Job, overlay: Mapping[str, Value], now: float) -> Evaluate:
        """An evaluator of the job's attributes, with ``overlay`` over them."""
        ad = self.ad(job)
        ad.update(native(overlay))
        for name in removed(overlay):
            ad.pop(name, None)
        return lambda name: _value(lambda: ad.eval(name, now=int(now)))

    def text_evaluator(self, job: Job, now: float) -> Evaluate:
        """An evaluator of expression texts in the scope of the job."""
        ad = self.ad(job)
        return lambda text: _value(lambda: ExprTree(text).eval(ad, now=int(now)))

    def plain_exit_policy(self, job: Job) -> bool:
        """Whether the job simply leaves when it ends: OnExitRemove is true or unset, and what may hold or remove it
        is false or unset."""
        cluster = job.cluster
        shared = not (_EXIT_POLICY & cluster.varied)
        if shared and (known := self._plain_exit.get(cluster.number)) is not None:
            return known
        ad = self.ad(job)
        found = (
            ad.get("OnExitRemove", True) is True
            and ad.get("OnExitHold", False) is False
            and ad.get("PeriodicHold", False) is False
            and ad.get("PeriodicRemove", False) is False
            and not any(name in ad for name in _TIME_LIMITS)
        )
        if shared:
            self._plain_exit[cluster.number] = found
        return found

    def stays(self, job: Job, now: float) -> bool:
        """Whether the job, now that it is completed, stays in the queue (LeaveJobInQueue).

        The newest changes count, including those not yet in the ad: most expressions ask for JobStatus.
        """
        cluster = job.cluster
        shared = "leavejobinqueue" not in cluster.varied
        if shared and cluster.number in self._leaves:
            return False
        if shared and self.ad(job).get("LeaveJobInQueue", False) is False:
            self._leaves.add(cluster.number)
            return False
        value = self.evaluator(job, job.changes or {}, now)("LeaveJobInQueue")
        return bool(value) if isinstance(value, (bool, int, float)) else False

    def requested(self, job: Job) -> dict[str, float]:
        """The resources that the job requests: Cpus, Memory (MiB), Disk (KiB), and custom ones."""
        cluster = job.autocluster
        if cluster is not None and (known := self._requests.get(cluster)) is not None:
            return known
        found: dict[str, float] = {}
        ad = self.ad(job)
        for name in ad:
            if name.lower().startswith("request") and len(name) > 7:
                value = plain(ad.eval(name))
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    found[name[7:]] = value
        if cluster is not None:
            if len(self._requests) > 5000:
                self._requests.clear()
            self._requests[cluster] = found
        return found

    def autoclusters_renewed(self) -> None:
        """Discard what is cached by autocluster: the ids were given out anew."""
        self._requests.clear()

    # ---- signatures

    def signatures(self, jobs: Sequence[Job], names: Sequence[str]) -> tuple[list[str], list[str]]:
        """The unevaluated significant attributes of each job, and the attributes that these refer to."""
        numbers, texts, mentioned = self.table.signatures([job.key for job in jobs], names)
        return [texts[number] if number is not None else "" for number in numbers], mentioned

    # ---- ads of others

    @staticmethod
    def parse(pack: bytes) -> ClassAd:
        """The one ad of a pack; an empty ad for an empty pack."""
        ads = unpack_ads(pack) if pack else []
        return ads[0] if ads else ClassAd()

    @staticmethod
    def value_of(ad: ClassAd, name: str) -> Value:
        """An attribute of any ad, evaluated."""
        return plain(ad.eval(name))

    def changes_of(self, pack: bytes) -> Changes:
        """All attributes of a pack's ad as changes."""
        return kept(self.parse(pack)) if pack else {}


def _value(evaluate: Callable[[], object]) -> object:
    """The plain value; None, as for error, when the evaluation exceeded its steps."""
    try:
        return plain(evaluate())
    except ValueError:
        return None


def _bounded(pack: bytes) -> bytes:
    if len(pack) > JOB_AD_MOST:
        raise UsageError(f"the job's ad has {len(pack)} bytes; at most {JOB_AD_MOST} can be sent to an execution point")
    return pack


__all__ = ["FreshAds", "JobAds", "UnresolvedError", "fresh_ads", "kept", "native", "plain", "removed"]
