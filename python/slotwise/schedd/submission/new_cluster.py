"""Builds the records of a new cluster from its submission and the attributes that the schedd adds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.errors import DeniedError, UsageError
from slotwise.model.ownership import LocalDomains, owner_attributes, owner_of
from slotwise.model.reason_codes import HOLD_NAMES, Hold
from slotwise.schedd.jobs import dags
from slotwise.schedd.jobs.ads import JOB_AD_MOST, plain
from slotwise.schedd.jobs.codes import RUN_HERE, Status, Universe
from slotwise.schedd.jobs.factory import asked_for
from slotwise.schedd.jobs.from_ad import PRIORITIES, describe, log_of, priority_of, project_of, submitter_of
from slotwise.schedd.jobs.job import Cluster, Job, finite
from slotwise.schedd.jobs.node_ads import scheduler_name
from slotwise.schedd.jobs.protected_attrs import AttributeLocks, check_submitted
from slotwise.schedd.jobs.round_attrs import DEFAULT_STEPS, ROUNDED, with_rounded
from slotwise.schedd.jobs.values import Changes, Expr
from slotwise.schedd.user_files import proxies
from slotwise.table import pack_ads, survey_pack, unpack_ads

_RUN = RUN_HERE | {Universe.VANILLA, Universe.JAVA, Universe.PARALLEL, Universe.VM}
_NOT_RUN = {1: "standard", 9: "grid"}
_COUNTERS: Changes = {
    "NumJobStarts": 0,
    "NumJobCompletions": 0,
    "NumShadowStarts": 0,
    "NumJobMatches": 0,
    "NumHolds": 0,
    "NumVacates": 0,
    "NumSystemHolds": 0,
    "CurrentHosts": 0,
    "MinHosts": 1,
    "MaxHosts": 1,
    "RemoteWallClockTime": 0.0,
    "RemoteUserCpu": 0.0,
    "RemoteSysCpu": 0.0,
    "CumulativeRemoteUserCpu": 0.0,
    "CumulativeRemoteSysCpu": 0.0,
    "CumulativeSuspensionTime": 0,
    "TotalSuspensions": 0,
    "CommittedTime": 0,
    "CommittedSuspensionTime": 0,
    "CompletionDate": 0,
    "ExitStatus": 0,
    "LastJobStatus": 0,
    "JobStatus": int(Status.IDLE),
}
#: Jobs that a cluster can have.
_PROCS_MOST = (1 << 31) - 1
#: Those of them that a submission may set; the schedd counts all others.
_SUBMITTED = frozenset(("MinHosts", "MaxHosts", "JobStatus"))
_OWN = frozenset(_COUNTERS) - _SUBMITTED


#: OsUser of jobs whose user has no account here.
_NO_ACCOUNT = "nobody"


class NewJobSettings(Struct, frozen=True):
    """The settings that go into every job."""

    schedd_name: str
    domains: LocalDomains
    version: str = ""
    platform: str = ""
    #: Attributes of a submission that are left out.
    locks: AttributeLocks = field(default_factory=AttributeLocks)
    #: How amounts are rounded (SCHEDD_ROUND_ATTR_<name>).
    rounding: Mapping[str, str] = field(default_factory=lambda: DEFAULT_STEPS)


class NewJobs(Struct):
    """Jobs about to enter the queue: those of a new cluster, or more of a factory's."""

    cluster: Cluster
    submitted: ClassAd
    jobs: list[Job]
    deltas: Sequence[ClassAd] | None
    #: The cluster's ad, and the jobs' differences if any, as packs.
    pack: bytes
    delta_pack: bytes
    #: GlobalJobId of each job.
    globals: list[str]
    #: The parts of a factory: (first proc, count, delta pack). Empty when all jobs are materialized at once.
    parts: list[tuple[int, int, bytes]] = field(default_factory=list)
    #: Warnings for its user.
    warnings: list[str] = field(default_factory=list)
    #: Further ones, which the event log does not have.
    notices: list[str] = field(default_factory=list)


class ProcBatch(Struct, frozen=True):
    """Jobs as deltas to their cluster's ad: ``count`` without any, or one for each ad in ``deltas``, a pack."""

    count: int
    deltas: bytes = b""


class SubmittedCluster(Struct):
    """A cluster as it was submitted, with its jobs in one or more batches."""

    #: A pack with one ad: what all jobs share.
    cluster_ad: bytes
    batches: list[ProcBatch]
    #: The id that was reserved for it; 0: it gets the next one.
    cluster_id: int = 0
    #: A pack with one ad: attributes of its set; empty for none.
    job_set_ad: bytes = b""
    #: The attributes read from its proxy certificate.
    proxy_attributes: Changes = field(default_factory=dict)

    def announced(self) -> int:
        """The number of its jobs, determined without building any of them.

        :raises UsageError: when there are none, or the counts contradict each other.
        """
        count = sum(_announced(batch) for batch in self.batches)
        if not count:
            raise UsageError("a cluster needs at least one proc")
        if count > _PROCS_MOST:
            raise UsageError(f"a cluster cannot have {count} procs", hint=f"at most {_PROCS_MOST}")
        return count

    def joined(self) -> tuple[int, Sequence[ClassAd] | None, bytes]:
        """The number of jobs, their deltas if they have any, and these as a pack."""
        differ = any(batch.deltas for batch in self.batches)
        count = 0
        ads: list[ClassAd] = []
        for batch in self.batches:
            own = unpack_ads(batch.deltas) if batch.deltas else []
            count += len(own) or batch.count
            if differ:
                ads.extend(own or (ClassAd() for _ in range(batch.count)))
        if not differ:
            return count, None, b""
        return count, ads, self.batches[0].deltas if len(self.batches) == 1 else pack_ads(ads)

    def parts(self, locks: AttributeLocks) -> list[tuple[int, int, bytes]]:
        """The parts of a factory.

        :raises UsageError: for deltas that no job may have, DeniedError for those that ``locks`` refuse.
        """
        parts: list[tuple[int, int, bytes]] = []
        first = 0
        for batch in self.batches:
            count, deltas = batch.count, batch.deltas
            if deltas:
                ads, names = survey_pack(deltas)
                check_submitted(names)
                if insecure := locks.insecure(names):
                    deltas = pack_ads(_without(unpack_ads(deltas), insecure))
                count = ads or count
            if count:
                parts.append((first, count, deltas))
            first += count
        return parts


def _without(ads: Sequence[ClassAd], names: Iterable[str]) -> Sequence[ClassAd]:
    """The ads without these attributes."""
    for ad in ads:
        for name in names:
            ad.pop(name, None)
    return ads


def _of_parallel_jobs(submitted: ClassAd) -> set[str]:
    """Scheduler, where it is that of no parallel job: slots that prefer the jobs of a dedicated scheduler go by it."""
    if submitted.get("JobUniverse") == Universe.PARALLEL:
        return set()
    return {name for name in submitted if name.lower() == "scheduler"}


def _announced(batch: ProcBatch) -> int:
    """Number of jobs of a batch."""
    ads, _ = survey_pack(batch.deltas) if batch.deltas else (0, [])
    if ads and batch.count and batch.count != ads:
        raise UsageError(f"{batch.count} procs were announced, {ads} came")
    return ads or batch.count


def submitted_ad(pack: bytes) -> ClassAd:
    """The one ad of a cluster.

    :raises UsageError: for another number of ads, or a universe that does not run here.
    """
    if len(pack) > JOB_AD_MOST:
        raise UsageError(f"the ad of a cluster has {len(pack)} bytes", hint=f"at most {JOB_AD_MOST}")
    count, _ = survey_pack(pack)
    if count != 1:
        raise UsageError(f"a cluster needs one ad, {count} came")
    ads = unpack_ads(pack)
    status = ads[0].get("JobStatus", Status.IDLE)
    if status not in (Status.IDLE, Status.HELD):
        raise UsageError(f"a job cannot begin with JobStatus {status}", hint="1 (idle) or 5 (held)")
    _require_universe(ads[0])
    return ads[0]


def job_set_ad(pack: bytes, locks: AttributeLocks) -> ClassAd:
    """The attributes that a submission gives to the set of a cluster.

    :raises UsageError: for another number of ads, DeniedError for attributes that ``locks`` refuse.
    """
    if not pack:
        return ClassAd()
    if len(pack) > JOB_AD_MOST:
        raise UsageError(f"the ad of a job set has {len(pack)} bytes", hint=f"at most {JOB_AD_MOST}")
    count, names = survey_pack(pack)
    if count != 1:
        raise UsageError(f"a job set has one ad, {count} came")
    if strange := [name for name in names if not (name.isascii() and name.isidentifier())]:
        raise UsageError(f"{strange[0]!r} is not the name of an attribute of a job set")
    if secure := sorted(name for name in names if name.lower() in locks.secure):
        raise DeniedError(
            f"Attempt to set secure attribute {', '.join(secure)} of a job set",
            hint="the access point gives the attributes of SECURE_JOB_ATTRS; leave them out",
        )
    return unpack_ads(pack)[0]


def _require_universe(ad: ClassAd) -> None:
    universe = ad.get("JobUniverse", Universe.VANILLA)
    if isinstance(universe, bool) or universe not in _RUN:
        name = _NOT_RUN.get(universe, str(universe)) if isinstance(universe, int) else str(universe)
        raise UsageError(
            f"this access point runs no jobs of universe {name}",
            hint="use universe = vanilla, java, parallel, vm, local or scheduler",
        )


def build(
    user: str, sent: SubmittedCluster, submitted: ClassAd, number: Callable[[], int], now: int, settings: NewJobSettings
) -> NewJobs:
    """A new cluster of ``user@domain`` with all that the queue needs to know.

    ``number`` gives its id, once it is known to be sound.

    :raises UsageError: for a submission that is not valid, DeniedError for attributes that it may not set.
    """
    proxies.check(submitted)
    pack = sent.cluster_ad
    if insecure := settings.locks.insecure(submitted) | _of_parallel_jobs(submitted):
        pack = pack_ads(_without([submitted], insecure))
    if (factory := asked_for(submitted, 0)) is not None:
        if submitted.get("JobUniverse") == Universe.PARALLEL:
            raise UsageError(
                "the procs of a parallel job start together, so they cannot be materialized late",
                hint="leave max_materialize and max_idle out",
            )
        parts = sent.parts(settings.locks)
        factory.total = parts[-1][0] + parts[-1][1]
        cluster = _cluster(user, number(), submitted, set(), now, settings)
        cluster.common.update(sent.proxy_attributes, TotalSubmitProcs=factory.total)
        cluster.next_proc = factory.total
        cluster.factory = factory
        return NewJobs(cluster, submitted, [], None, pack, b"", [], parts)
    count, deltas, delta_pack = sent.joined()
    varied = varied_names(deltas)
    check_submitted(varied)
    if deltas is not None and (insecure := settings.locks.insecure(varied)):
        delta_pack = pack_ads(_without(deltas, insecure))
        varied -= insecure
    cluster = _cluster(user, number(), submitted, varied, now, settings)
    cluster.common.update(sent.proxy_attributes, TotalSubmitProcs=count)
    cluster.next_proc = count
    return jobs_of(cluster, submitted, pack, range(count), deltas, delta_pack, settings)


def jobs_of(
    cluster: Cluster,
    submitted: ClassAd,
    pack: bytes,
    procs: range,
    deltas: Sequence[ClassAd] | None,
    delta_pack: bytes,
    settings: NewJobSettings,
) -> NewJobs:
    """The jobs ``procs`` of a cluster, with their deltas if they have any."""
    head, tail = f"{settings.schedd_name}#{cluster.number}.", f"#{cluster.qdate}"
    new = NewJobs(
        cluster,
        submitted,
        [Job(cluster, proc, Status.IDLE) for proc in procs],
        deltas,
        pack,
        delta_pack,
        [f"{head}{proc}{tail}" for proc in procs],
    )
    _status(new)
    _each_job(new)
    return new


def redescribe(new: NewJobs, *, late: bool = False) -> None:
    """Update the records of new jobs whose ads have been changed.

    ``late``: the new jobs belong to a cluster that is in the queue already, and whose ad stays as it is.

    :raises UsageError: when they have a universe now that does not run here.
    """
    cluster = new.cluster
    _require_universe(new.submitted)
    for delta in new.deltas or ():
        if "JobUniverse" in delta and delta.get("JobUniverse") != new.submitted.get("JobUniverse", Universe.VANILLA):
            raise UsageError("the jobs of a cluster have one universe", hint="submit those of another on their own")
    if new.deltas is not None and not any(len(delta) for delta in new.deltas):
        new.deltas = None
    new.delta_pack = pack_ads(new.deltas) if new.deltas is not None else b""
    varied = frozenset(name.lower() for name in varied_names(new.deltas))
    if late:
        cluster.varied |= varied
    else:
        cluster.varied = varied if cluster.factory is None else cluster.varied
        new.pack = pack_ads([new.submitted])
        cluster.submitter = submitter_of(cluster.user, new.submitted)
        cluster.project = project_of(new.submitted)
        cluster.common.pop("JobUniverse", None)
        for name in ROUNDED:  # one that has been changed is as it is now
            if new.submitted.get(name) != cluster.common.get(f"{name}_RAW"):
                cluster.common.pop(name, None)
                cluster.common.pop(f"{name}_RAW", None)
        describe(cluster, new.submitted)
        asked = asked_for(new.submitted, 0)
        if cluster.factory is not None and asked is not None:
            cluster.factory.limit, cluster.factory.max_idle = asked.limit, asked.max_idle
    _each_job(new)


def _cluster(
    user: str,
    number: int,
    submitted: ClassAd,
    varied: Iterable[str],
    now: int,
    settings: NewJobSettings,
) -> Cluster:
    user = settings.domains.named(user)
    account = settings.domains.account_of(user)
    common: Changes = {name: value for name, value in _COUNTERS.items() if name not in submitted or name in _OWN}
    common.update(
        ClusterId=number,
        **owner_attributes(user, account or _NO_ACCOUNT),
        QDate=now,
        EnteredCurrentStatus=now,
        MyType="Job",
        TargetType="Machine",
    )
    given: Changes = {name: value for name in settings.rounding if (value := plain(submitted.get(name))) is not None}
    common.update(with_rounded(given, settings.rounding))
    if submitted.get("JobUniverse") == Universe.PARALLEL:
        common["Scheduler"] = scheduler_name(settings.schedd_name)
    releases = (("CondorVersion", settings.version), ("SubmitVersion", settings.version))
    for name, value in (*releases, ("CondorPlatform", settings.platform)):
        if value and name not in submitted:
            common[name] = value
    if name := dags.batch_name(submitted, number):
        common["JobBatchName"] = name
    cluster = Cluster(number, owner_of(user), user, submitter_of(user, submitted), now, common)
    cluster.account = account
    cluster.project = project_of(submitted)
    cluster.varied = frozenset(name.lower() for name in varied)
    describe(cluster, submitted)
    return cluster


def varied_names(deltas: Sequence[ClassAd] | None) -> set[str]:
    """The attributes in which jobs differ from their cluster, as they are written."""
    return {name for delta in deltas or () for name in delta}


def _status(new: NewJobs) -> None:
    """Put jobs on hold that are submitted on hold, with code 15."""
    held = new.submitted.get("JobStatus") == Status.HELD
    if not held and "jobstatus" not in new.cluster.varied:
        return
    code = int(finite(new.submitted.get("HoldReasonCode"), Hold.SUBMITTED_ON_HOLD))
    name = HOLD_NAMES.get(code, "SubmittedOnHold")
    reason = new.submitted.get("HoldReason")
    changes: Changes = {
        "JobStatus": int(Status.HELD),
        "HoldReason": reason if reason and isinstance(reason, str) else "submitted on hold at user's request",
        "HoldReasonCode": code,
        "NumHolds": 1,
        "NumHoldsByReason": Expr(f"[ {name} = 1 ]"),
    }
    deltas: list[ClassAd | None] = [*(new.deltas or ())] or [None] * len(new.jobs)
    for job, delta in zip(new.jobs, deltas, strict=True):
        own = delta.get("JobStatus") if delta is not None and "JobStatus" in delta else None
        if own not in (None, Status.IDLE, Status.HELD):
            raise UsageError(f"a job cannot begin with JobStatus {own}", hint="1 (idle) or 5 (held)")
        if own == Status.HELD or (held and own is None):
            job.status = Status.HELD
            job.changes = changes  # shared by all: it is replaced, never modified


def _each_job(new: NewJobs) -> None:
    """Set the fields of job records in which procs differ."""
    varied = new.cluster.varied
    if not varied:
        return
    priorities = not varied.isdisjoint(name.lower() for name in PRIORITIES)
    logs = not varied.isdisjoint(("userlog", "iwd"))
    groups = not varied.isdisjoint(("accountinggroup", "niceuser"))
    if not (priorities or logs or groups):
        return
    for job, delta in zip(new.jobs, new.deltas or (), strict=True):
        own = new.submitted.copy()
        own.update(delta)
        if priorities:
            job.priority = priority_of(own)
        if logs:
            job.log = log_of(own)
        if groups:
            job.submitter = submitter_of(new.cluster.user, own)
