"""``Schedd``: the queue of an access point."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from classad2 import ClassAd, ClassAdException, ExprTree, quote
from slotwise import environment
from slotwise.classad import ClassAd as NativeAd
from slotwise.classad import ExprTree as NativeExpr
from slotwise.client import Negotiator
from slotwise.client import Schedd as Client
from slotwise.client.descriptions import ReadOptions
from slotwise.client.totals import QueueTotals

from htcondor2 import _past, _pool
from htcondor2._collector import Collector
from htcondor2._config import param
from htcondor2._enums import AdType, JobAction, QueryOpt, TransactionFlag
from htcondor2._errors import HTCondorException
from htcondor2._expressions import as_read
from htcondor2._submit import DEFAULT_ITEMS, Submit, SubmitResult

_ACTIONS = {
    JobAction.Hold: "hold", JobAction.Release: "release", JobAction.Remove: "remove",
    JobAction.RemoveX: "remove_force", JobAction.Vacate: "vacate", JobAction.VacateFast: "vacate_fast",
    JobAction.Suspend: "suspend", JobAction.Continue: "continue",
}  # fmt: skip
_TOTALS = {
    "TotalSuccess": "success", "TotalNotFound": "not_found", "TotalBadStatus": "bad_status",
    "TotalAlreadyDone": "already_done", "TotalPermissionDenied": "permission_denied",
}  # fmt: skip

JobSpec = str | int | ExprTree | list[str]


class Schedd:
    """An access point: this host's, or the one of an ad that a collector has given."""

    def __init__(self, location: ClassAd | None = None) -> None:
        if location is None:
            self._addr: str | None = None
            self._version = None
        else:
            self._addr = _pool.address_of(location, "schedd")
            self._version = location.get("CondorVersion")
        #: Names the pool: that of the moment, whatever the environment names later.
        self._env: Mapping[str, str] | None = environment() if location is None else None

    @classmethod
    def _of_pool(cls, env: Mapping[str, str]) -> Schedd:
        """The access point of the pool that ``env`` names."""
        made = cls()
        made._env = env
        return made

    def _client(self) -> Client:
        return _pool.client(Client, self._addr, env=self._env)

    # ---- looking

    def query(
        self,
        constraint: str | ExprTree = "True",
        projection: Sequence[str] = (),
        callback: Callable[[ClassAd], Any] | None = None,
        limit: int = -1,
        opts: QueryOpt = QueryOpt.Default,
    ) -> list[Any]:
        """The jobs for which the constraint is true; what ``callback`` makes of each, where that is not None.

        :raises HTCondorException: the schedd refuses.
        """
        wanted = QueryOpt(opts)
        projection = _pool.projection(projection)
        mine = bool(wanted & QueryOpt.DefaultMyJobsOnly)
        text = as_read(constraint)
        with _pool.calling("the schedd"):
            if wanted & QueryOpt.SummaryOnly:
                return _each([_summary(self._client().totals(text, mine=mine))], callback)
            if wanted & QueryOpt.GroupBy:
                jobs = self._client().query(text, [*projection, "ClusterId", "ProcId"], mine=mine)
                return _each([ClassAd._of(ad) for ad in groups(jobs, projection)], callback)
            if wanted & QueryOpt.AutoCluster:
                jobs = self._client().query(text, [*ALIKE, "ClusterId", "ProcId"], mine=mine)
                return _each([ClassAd._of(ad) for ad in groups(jobs, ALIKE, "AutoClusterId")], callback)
            found = self._client().query(text, list(projection), limit=max(0, limit), mine=mine)
            now = int(time.time())
            for ad in found:
                ad["ServerTime"] = now  # as the answers of HTCondor's schedd have
            if wanted & QueryOpt.IncludeClusterAd:
                found += [_projected(ad, projection) for ad in self._client().cluster_ads(text, mine=mine)]
            if wanted & QueryOpt.IncludeJobsetAds:
                found += self._client().job_sets()
        return _each([ClassAd._of(ad) for ad in found], callback)

    def xquery(
        self,
        requirements: str | ExprTree = "True",
        projection: Sequence[str] = (),
        limit: int = -1,
        opts: QueryOpt = QueryOpt.Default,
        name: str | None = None,
    ) -> Iterable[ClassAd]:
        """An iterator over :meth:`query`, as in version 1."""
        return iter(self.query(requirements, projection, None, limit, opts))

    def history(
        self,
        constraint: str | ExprTree | None = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: int | str | ExprTree | None = None,
    ) -> list[ClassAd]:
        """Jobs that have left the queue, newest first, until ``since`` (a job, a cluster or an expression)."""
        wanted = _past.constraint_text(constraint)
        ends = _past.since_text(since)
        with _pool.calling("the schedd"):
            found = self._client().history(wanted, list(projection), limit=max(0, match), since=ends)
        return [ClassAd._of(ad) for ad in found]

    def jobEpochHistory(
        self,
        constraint: str | ExprTree | None = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: int | str | ExprTree | None = None,
        ad_type: str | Sequence[str] | None = None,
    ) -> list[ClassAd]:
        """Records of runs (JOB_EPOCH_HISTORY), newest first; ``ad_type``: of other kinds, in a list or with commas."""
        named = "EPOCH" if ad_type is None else ad_type if isinstance(ad_type, str) else ",".join(ad_type)
        kinds = [kind.strip().upper() for kind in named.split(",") if kind.strip()]
        wanted = _past.constraint_text(constraint)
        ends = _past.since_text(since)
        with _pool.calling("the schedd"):
            found = self._client().runs(wanted, list(projection), kinds=kinds, limit=max(0, match), since=ends)
        return [ClassAd._of(ad) for ad in found]

    def daemonHistory(
        self,
        constraint: str | ExprTree | None = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: ExprTree | None = None,
    ) -> list[ClassAd]:
        """Records of this schedd's own ad (SCHEDD_DAEMON_HISTORY), newest first. Needs ADMINISTRATOR.

        :raises HTCondorException: the schedd keeps none, or refuses.
        """
        if match == 0:
            return []
        wanted = _past.constraint_text(constraint)
        ends = _past.since_text(since)
        with _pool.calling("the schedd"):
            found = self._client().daemon_history(wanted, list(projection), limit=max(0, match), since=ends)
        return [ClassAd._of(ad) for ad in found]

    def get_claims(self, constraint: str | ExprTree | None = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """The slots that this schedd has claimed, as the collector knows them."""
        with _pool.calling("the schedd"):
            mine = self._client().query("JobStatus == 2", ["RemoteHost"])
        hosts = sorted({str(ad["RemoteHost"]) for ad in mine if "RemoteHost" in ad})
        if not hosts:
            return []
        named = f"stringListIMember(Name, {quote(','.join(hosts))})"
        both = named if constraint is None else f"({named}) && ({constraint})"
        return Collector().query(AdType.Startd, both, list(projection))

    # ---- acting

    def act(self, action: JobAction, job_spec: JobSpec, reason: str | tuple[str, int] | None = None) -> ClassAd:
        """Do something to jobs: ids, a list of ids, a cluster, or a constraint. Returns how many it was done to."""
        if not isinstance(action, JobAction):
            raise TypeError("action must be a JobAction")
        code = 0
        if isinstance(reason, tuple):
            reason, code = reason
        jobs = _jobs(job_spec)
        with _pool.calling("the schedd"):
            done = self._client().act(_ACTIONS[action], jobs, reason=reason or "Python-initiated action", subcode=code)
        totals = done.totals
        result = ClassAd({ours: totals.get(name, 0) for ours, name in _TOTALS.items()})
        result["TotalError"] = totals.get("error", 0)
        result["TotalJobAds"] = 0
        result["TotalChangedAds"] = 1 if totals.get("success") else 0
        return result

    def edit(
        self,
        job_spec: JobSpec,
        attr: str,
        value: str | ExprTree | int,
        flags: TransactionFlag = TransactionFlag.Default,
    ) -> int:
        """Set an attribute of jobs to an expression, whose text is given. Returns how many were changed.

        :raises HTCondorException: one of the jobs that are named is not there, and none was changed; or no job has the
            constraint.
        """
        if not isinstance(flags, TransactionFlag):
            raise TypeError("flags must be a TransactionFlag")
        jobs = _jobs(job_spec)
        if isinstance(jobs, list) and (missing := self._missing(jobs)):
            nonexistent = f"Unable to commit transaction:Modifying attribute {attr} in nonexistent job {missing}"
            raise HTCondorException(nonexistent if "." in missing else "Unable to edit jobs matching constraint")
        with _pool.calling("the schedd"):
            done = self._client().edit(jobs, {attr: NativeExpr(str(value), old=True)})
        if not done.totals:
            raise HTCondorException("Unable to edit jobs matching constraint")
        return done.succeeded

    def _missing(self, ids: Sequence[str]) -> str:
        """The first of these jobs, or of jobs of these clusters, that is not in the queue."""
        clusters = sorted({name.partition(".")[0] for name in ids})
        constraint = " || ".join(f"ClusterId == {cluster}" for cluster in clusters)
        with _pool.calling("the schedd"):
            found = self._client().query(constraint, ["ClusterId", "ProcId"])
        there = {f"{ad['ClusterId']}.{ad['ProcId']}" for ad in found} | {str(ad["ClusterId"]) for ad in found}
        return next((name for name in ids if name not in there), "")

    def reschedule(self) -> None:
        """Ask the negotiator for a cycle."""
        with _pool.calling("the negotiator"):
            _pool.client(Negotiator, env=self._env).reschedule()

    # ---- submitting

    def submit(
        self,
        description: Submit,
        count: int = 0,
        spool: bool = False,
        itemdata: Any = DEFAULT_ITEMS,
        queue: str | None = None,
    ) -> SubmitResult:
        """Queue the jobs of a description. Durable when it returns; warnings come by :mod:`warnings`.

        :raises HTCondorException: the description makes no jobs, or the schedd refuses them, with the reason.
        """
        if not isinstance(description, Submit):
            raise TypeError("description must be an htcondor2.Submit object")
        text = description.description(count, itemdata, queue)
        method = description.getSubmitMethod()
        options = ReadOptions(spool=spool, method=method, one_cluster=True, check_files=False, knobs=param.own)
        with _pool.calling("the schedd"):
            result = self._client().submit(text, options=options)
        for warning in result.warnings:
            warnings.warn(warning, stacklevel=2)
        ad = NativeAd() if result.submission is None else result.submission.clusters[0].ad
        ad["ClusterId"] = result.cluster
        return SubmitResult(result.cluster, result.count, ClassAd._of(ad), result if spool else None)

    def spool(self, result: SubmitResult) -> None:
        """Send the input files of jobs that were submitted with ``spool``.

        :raises ValueError: they were not.
        """
        if result._spooled is None:
            raise ValueError("result must have come from submit() with spool set")
        with _pool.calling("the schedd"):
            self._client().spool(result._spooled)

    def retrieve(self, job_spec: JobSpec) -> None:
        """Fetch what jobs that were submitted with ``spool`` have left, to where they were submitted."""
        jobs = _jobs(job_spec)
        with _pool.calling("the schedd"):
            self._client().retrieve(jobs)

    # ---- records of users

    def queryUserAds(
        self,
        constraint: str | ExprTree = "",
        projection: Sequence[str] = (),
        callback: Callable[[ClassAd], Any] | None = None,
        limit: int = -1,
    ) -> list[Any]:
        """The records of the access point's users."""
        with _pool.calling("the schedd"):
            found = [ClassAd._of(ad) for ad in self._client().users(as_read(constraint), projection)]
        return _each(found[:limit] if limit >= 0 else found, callback)

    def queryProjectAds(self, *_: object, **__: object) -> list[Any]:
        """Nothing: this access point keeps no records of projects."""
        return []

    def addUserRec(self, user_spec: str | list[str]) -> ClassAd:
        """Make records of users."""
        return self._users("add", user_spec)

    def enableUserRec(self, user_spec: str | list[str] | ExprTree) -> ClassAd:
        """Let users submit again."""
        return self._users("enable", user_spec)

    def disableUserRec(self, user_spec: str | list[str] | ExprTree, reason: str | None = None) -> ClassAd:
        """Let users submit no more."""
        return self._users("disable", user_spec, reason or "")

    def removeUserRec(self, user_spec: str | list[str] | ExprTree, reason: str | None = None) -> ClassAd:
        """Remove records of users."""
        return self._users("remove", user_spec, reason or "")

    def updateUserRec(self, user_attributes: list[ClassAd]) -> ClassAd:
        """Refused: records of users have no attributes of one's own.

        :raises HTCondorException: always.
        """
        raise HTCondorException("records of users are added, enabled, disabled and removed, and not edited")

    def _users(self, change: str, spec: str | list[str] | ExprTree, reason: str = "") -> ClassAd:
        users = spec._native if isinstance(spec, ExprTree) else [spec] if isinstance(spec, str) else spec
        with _pool.calling("the schedd"):
            changed = self._client().edit_users(change, users, reason=reason)
        return ClassAd({"Result": 0, "NumChanged": changed})

    # ---- what this access point does not do

    def addProjectRec(self, project_spec: str | list[str] | list[ClassAd]) -> ClassAd:
        """Refused: this access point keeps no records of projects.

        :raises HTCondorException: always.
        """
        raise HTCondorException("this schedd keeps no records of projects: use accounting groups")

    def enableProjectRec(self, project_spec: str | list[str] | ExprTree) -> ClassAd:
        """Refused: see :meth:`addProjectRec`."""
        return self.addProjectRec([])

    def disableProjectRec(self, project_spec: str | list[str] | ExprTree, reason: str | None = None) -> ClassAd:
        """Refused: see :meth:`addProjectRec`."""
        return self.addProjectRec([])

    def removeProjectRec(self, user_spec: str | list[str] | ExprTree, reason: str | None = None) -> ClassAd:
        """Refused: see :meth:`addProjectRec`."""
        return self.addProjectRec([])

    def updateProjectRec(self, project_attributes: list[ClassAd]) -> ClassAd:
        """Refused: see :meth:`addProjectRec`."""
        return self.addProjectRec([])

    def create_ocu(self, request: ClassAd) -> ClassAd:
        """Refused: there are no owner capacity units.

        :raises HTCondorException: always.
        """
        raise HTCondorException("this schedd has no owner capacity units: use group quotas")

    def query_ocu(self, request: ClassAd) -> ClassAd:
        """Refused: see :meth:`create_ocu`."""
        return self.create_ocu(request)

    def remove_ocu(self, request: ClassAd) -> ClassAd:
        """Refused: see :meth:`create_ocu`."""
        return self.create_ocu(request)

    def refreshGSIProxy(self, *_: object, **__: object) -> int:
        """Refused: a proxy that its owner renews in place reaches running jobs by itself.

        :raises HTCondorException: always.
        """
        raise HTCondorException("renew the proxy file in place: SHADOW_CHECKPROXY_INTERVAL sends it to running jobs")

    def export_jobs(self, *_: object, **__: object) -> ClassAd:
        """Refused: jobs cannot leave this queue for another manager.

        :raises HTCondorException: always.
        """
        raise HTCondorException("this schedd does not export jobs")

    import_exported_job_results = unexport_jobs = export_jobs


#: Jobs that are the same in these make an autocluster.
ALIKE = ("JobUniverse", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "Requirements", "Owner")


def groups(jobs: Iterable[NativeAd], names: Sequence[str], number: str = "Id") -> list[NativeAd]:
    """One ad for the jobs that are the same in ``names``: these attributes, JobCount, JobIds, and its number."""
    found: dict[tuple[str, ...], tuple[NativeAd, list[str]]] = {}
    for job in jobs:
        key = tuple(str(job.lookup(name)) if name in job else "" for name in names)
        if key not in found:
            first = NativeAd()
            for name in names:
                if name in job:
                    first[name] = job.lookup(name)
            found[key] = (first, [])
        found[key][1].append(f"{job['ClusterId']}.{job['ProcId']}")
    for place, (first, ids) in enumerate(found.values(), 1):
        first[number], first["JobCount"], first["JobIds"] = place, len(ids), " ".join(ids)
    return [first for first, _ in found.values()]


def _summary(totals: QueueTotals) -> ClassAd:
    """The ad of QueryOpt.SummaryOnly: jobs by state, of the query, the caller (My) and everybody (Allusers)."""
    ad = ClassAd({"MyType": "Summary"})
    for prefix, counts in (("", totals.query), ("My", totals.mine), ("Allusers", totals.everyone)):
        for state, number in vars(counts).items():
            ad[f"{prefix}{state.capitalize()}"] = number
    return ad


def _projected(ad: Any, names: Sequence[str]) -> Any:
    """The ad with these attributes alone; with all for none."""
    wanted = {name.lower() for name in names}
    for name in [name for name in ad if wanted and name.lower() not in wanted]:
        del ad[name]
    return ad


def _each(found: list[ClassAd], callback: Callable[[ClassAd], Any] | None) -> list[Any]:
    if callback is None:
        return found
    return [made for ad in found if (made := callback(ad)) is not None]


def _jobs(spec: object) -> str | list[str]:
    """Which jobs are meant: ids, or a constraint.

    :raises TypeError: nothing that names jobs.
    :raises ValueError: a text that does not.
    """
    if isinstance(spec, bool) or not isinstance(spec, int | str | list | ExprTree):
        raise TypeError("The job_spec must be list of strings, a string, an int, or an ExprTree.")
    if isinstance(spec, list):
        if not all(isinstance(one, str) for one in spec):
            raise TypeError("All elements of the job_spec list must be strings.")
        if not all(re.fullmatch(r"\d+(\.\d+)?", one) for one in spec):
            raise ValueError("All elements of the job_spec list must be strings of the form clusterID[.procID]")
        return spec
    if isinstance(spec, int):
        return [str(spec)]
    if isinstance(spec, str) and re.fullmatch(r"\d+(\.\d+)?", spec):
        return [spec]
    if isinstance(spec, str):
        try:
            ExprTree(spec)
        except ClassAdException:
            raise ValueError(
                "The job_spec string must be a clusterID[.procID] or the string form of an ExprTree."
            ) from None
    return as_read(spec)
