"""``Schedd``: the queue of an access point."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc
from classad2 import ClassAd, ClassAdException, ExprTree, quote
from slotwise.classad import ClassAd as NativeAd
from slotwise.cli.jobs import spool as spooling
from slotwise.client import messages
from slotwise.client.retry import Keys
from slotwise.config import load
from slotwise.errors import SlotwiseError, SubmitError
from slotwise.submit import Submission, parse
from slotwise.table import unpack_ads
from slotwise.wire.gen import common_pb2, negotiator_pb2, negotiator_pb2_grpc, schedd_pb2, schedd_pb2_grpc

from htcondor2 import _pool
from htcondor2._collector import Collector
from htcondor2._enums import AdType, JobAction, QueryOpt, TransactionFlag
from htcondor2._errors import HTCondorException
from htcondor2._submit import DEFAULT_ITEMS, Submit, SubmitResult

_Act = schedd_pb2.ActRequest
_ACTIONS = {
    JobAction.Hold: _Act.HOLD, JobAction.Release: _Act.RELEASE, JobAction.Remove: _Act.REMOVE,
    JobAction.RemoveX: _Act.REMOVE_FORCE, JobAction.Vacate: _Act.VACATE, JobAction.VacateFast: _Act.VACATE_FAST,
    JobAction.Suspend: _Act.SUSPEND, JobAction.Continue: _Act.CONTINUE,
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
        self._keys = Keys()

    def _stub(self) -> schedd_pb2_grpc.ScheddStub:
        found: schedd_pb2_grpc.ScheddStub = _pool.stub(schedd_pb2_grpc.ScheddStub, "schedd", self._addr)
        return found

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

        :raises HTCondorException: the schedd refuses, or ``opts`` asks for what it does not have.
        """
        wanted = QueryOpt(opts)
        if wanted & ~(QueryOpt.DefaultMyJobsOnly | QueryOpt.SummaryOnly | QueryOpt.AutoCluster):
            raise HTCondorException(f"this schedd has no query with {wanted!r}")
        asked = messages.job_query(
            str(constraint), list(projection), max(0, limit), bool(wanted & QueryOpt.DefaultMyJobsOnly)
        )
        if wanted & QueryOpt.AutoCluster:
            raise HTCondorException("this schedd shows no autoclusters")
        asked.totals_only = bool(wanted & QueryOpt.SummaryOnly)
        return _each(_pool.ads("the schedd", lambda: self._stub().Query(asked)), callback)

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
        asked = schedd_pb2.HistoryQuery(since=_since(since))
        asked.query.constraint = "" if constraint is None else str(constraint)
        asked.query.projection.extend(projection)
        asked.query.limit = max(0, match)
        return _pool.ads("the schedd", lambda: self._stub().History(asked))

    def jobEpochHistory(self, *_: object, **__: object) -> list[ClassAd]:
        """Refused: this schedd's epochs are read from its JOB_EPOCH_HISTORY file (`slotwise history -epochs`).

        :raises HTCondorException: always.
        """
        raise HTCondorException("this schedd does not serve its epoch history; read the file JOB_EPOCH_HISTORY names")

    def daemonHistory(self, *_: object, **__: object) -> list[ClassAd]:
        """Refused: read the file that SCHEDD_DAEMON_HISTORY names (`slotwise history -daemon`).

        :raises HTCondorException: always.
        """
        raise HTCondorException("this schedd does not serve its own history; read the file SCHEDD_DAEMON_HISTORY names")

    def get_claims(self, constraint: str | ExprTree | None = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """The slots that this schedd has claimed, as the collector knows them."""
        mine = _pool.ads(
            "the schedd", lambda: self._stub().Query(messages.job_query("JobStatus == 2", ["RemoteHost"], 0, False))
        )
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
        request = schedd_pb2.ActRequest(
            action=_ACTIONS[action], jobs=_selection(job_spec), reason=reason or "Python-initiated action", subcode=code
        )
        reply = _pool.asked("the schedd", lambda: self._stub().Act(request))
        totals = dict(reply.totals)
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
    ) -> ClassAd:
        """Set an attribute of jobs to an expression, whose text is given. Returns how many were changed."""
        request = schedd_pb2.EditRequest(jobs=_selection(job_spec))
        request.set[attr] = str(value)
        reply = _pool.asked("the schedd", lambda: self._stub().Edit(request))
        return ClassAd({"TotalSuccess": dict(reply.totals).get("success", 0)})

    def reschedule(self) -> None:
        """Ask the negotiator for a cycle."""
        negotiator = _pool.stub(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
        _pool.asked("the negotiator", lambda: negotiator.Reschedule(negotiator_pb2.RescheduleRequest(), timeout=60))

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
        call = _pool.caller()
        try:
            config = load(subsystem="SUBMIT", env=call.env, home=call.home)

            def read(first: int | None) -> Submission:
                before = [f"MY.JobSubmitMethod = {method}"] if (method := description.getSubmitMethod()) >= 0 else []
                return parse(
                    text, filename="<python>", config=config, env=call.env, owner=call.account, before=before,
                    check_support=True, spool=spool, first_cluster=first,
                )  # fmt: skip

            made = read(None)
            if not made.count:
                raise SubmitError("no jobs queued", hint="give a count, or a queue statement")
            if len(made.clusters) > 1:
                raise SubmitError("a Submit object has one queue statement")
            stub = self._stub()
            first = 0
            if made.mentions_cluster:
                reserve = schedd_pb2.ReserveClustersRequest(count=1)
                first = int(_pool.asked("the schedd", lambda: stub.ReserveClusters(reserve)).first)
                made = read(first)
            if spool:
                spooling.check(made.clusters[0].job(proc) for proc in range(made.count))
            parts = messages.parts(made, first, self._keys.next(), False)
            result = messages.result(_pool.asked("the schedd", lambda: stub.Submit(parts)), made)
        except SlotwiseError as error:
            raise HTCondorException(str(error)) from error
        for warning in result.warnings:
            warnings.warn(warning, stacklevel=2)
        ad = made.clusters[0].ad
        ad["ClusterId"] = result.cluster
        spooled = None
        if spool:
            spooled = [(f"{result.cluster}.{proc}", _job(made, proc)) for proc in range(made.count)]
        return SubmitResult(result.cluster, result.count, ClassAd._of(ad), spooled)

    def spool(self, result: SubmitResult) -> None:
        """Send the input files of jobs that were submitted with ``spool``.

        :raises ValueError: they were not.
        """
        jobs = result._spooled
        if jobs is None:
            raise ValueError("result must have come from submit() with spool set")
        pairs = [(name, ad._native) for name, ad in jobs]
        try:
            parts = spooling.parts(pairs, _pool.account())
            _pool.asked("the schedd", lambda: self._stub().Spool(parts))
        except SlotwiseError as error:
            raise HTCondorException(str(error)) from error

    def retrieve(self, job_spec: JobSpec) -> None:
        """Fetch what jobs that were submitted with ``spool`` have left, to where they were submitted."""
        try:
            pieces = self._stub().FetchSandboxes(_selection(job_spec))
            arrivals: spooling.Arrivals | None = None
            for piece in pieces:
                if piece.ad:
                    arrivals = spooling.Arrivals(unpack_ads(piece.ad)[0], None)
                if piece.HasField("file") and arrivals is not None:
                    arrivals.take(piece.file)
        except SlotwiseError as error:
            raise HTCondorException(str(error)) from error
        except grpc.RpcError as error:
            failure: grpc.RpcError = error
            _pool.asked("the schedd", lambda: _again(failure))

    # ---- records of users

    def queryUserAds(
        self,
        constraint: str | ExprTree = "",
        projection: Sequence[str] = (),
        callback: Callable[[ClassAd], Any] | None = None,
        limit: int = -1,
    ) -> list[Any]:
        """The records of the access point's users."""
        asked = common_pb2.AdQuery(kind="Owner", constraint=str(constraint), projection=projection)
        found = _pool.ads("the schedd", lambda: self._stub().Users(asked))
        return _each(found[:limit] if limit >= 0 else found, callback)

    def queryProjectAds(self, *_: object, **__: object) -> list[Any]:
        """Nothing: this access point keeps no records of projects."""
        return []

    def addUserRec(self, user_spec: str | list[str]) -> ClassAd:
        """Make records of users."""
        return self._users(schedd_pb2.UsersEdit.ADD, user_spec)

    def enableUserRec(self, user_spec: str | list[str] | ExprTree) -> ClassAd:
        """Let users submit again."""
        return self._users(schedd_pb2.UsersEdit.ENABLE, user_spec)

    def disableUserRec(self, user_spec: str | list[str] | ExprTree, reason: str | None = None) -> ClassAd:
        """Let users submit no more."""
        return self._users(schedd_pb2.UsersEdit.DISABLE, user_spec, reason or "")

    def removeUserRec(self, user_spec: str | list[str] | ExprTree) -> ClassAd:
        """Remove records of users."""
        return self._users(schedd_pb2.UsersEdit.REMOVE, user_spec)

    def _users(self, what: Any, spec: str | list[str] | ExprTree, reason: str = "") -> ClassAd:
        request = schedd_pb2.UsersEdit(what=what, reason=reason)
        if isinstance(spec, ExprTree):
            request.constraint = str(spec)
        else:
            request.names.extend([spec] if isinstance(spec, str) else spec)
        reply = _pool.asked("the schedd", lambda: self._stub().EditUsers(request, timeout=60))
        return ClassAd({"Result": 0, "NumChanged": reply.changed})

    # ---- what this access point does not do

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


def _again(error: grpc.RpcError) -> None:
    raise error


def _job(made: Submission, proc: int) -> ClassAd:
    ad: NativeAd = made.clusters[0].job(proc)
    return ClassAd._of(ad)


def _each(found: list[ClassAd], callback: Callable[[ClassAd], Any] | None) -> list[Any]:
    if callback is None:
        return found
    return [made for ad in found if (made := callback(ad)) is not None]


def _since(since: object) -> str:
    if since is None:
        return ""
    if isinstance(since, int | ExprTree):
        return str(since)
    if not isinstance(since, str):
        raise TypeError("since must be an int, string, or ExprTree")
    return since


def _selection(spec: object) -> schedd_pb2.JobSelection:
    """Which jobs are meant.

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
        return schedd_pb2.JobSelection(ids=spec)
    if isinstance(spec, int):
        return schedd_pb2.JobSelection(ids=[str(spec)])
    if isinstance(spec, str) and re.fullmatch(r"\d+(\.\d+)?", spec):
        return schedd_pb2.JobSelection(ids=[spec])
    if isinstance(spec, str):
        try:
            ExprTree(spec)
        except ClassAdException:
            raise ValueError(
                "The job_spec string must be a clusterID[.procID] or the string form of an ExprTree."
            ) from None
    return schedd_pb2.JobSelection(constraint=str(spec))
