"""Why a job of the scheduler or local universe runs or waits: it runs on the access point, and no slot is looked at."""

from __future__ import annotations

import time

import grpc

from slotwise.classad import ClassAd, SpecialValue, quote
from slotwise.classad.values import Value, whole
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.jobs import match_report as text

_KNOBS = {"StartSchedulerUniverse": "START_SCHEDULER_UNIVERSE", "StartLocalUniverse": "START_LOCAL_UNIVERSE"}
_CONDITIONS = {7: "StartSchedulerUniverse", 12: "StartLocalUniverse"}


def runs_here(job: ClassAd) -> bool:
    """Whether the job is of these universes."""
    return job.get("JobUniverse") in _CONDITIONS


def explain(job: ClassAd, name: str, inv: Invocation) -> str:
    """The job's state, and if it is idle each condition of its start as it is now."""
    return render(job, name, schedd_of(job, inv), time.time())


def render(job: ClassAd, name: str, schedd: ClassAd | None, now: float) -> str:
    """As :func:`explain`, with the schedd's ad, or None when that is not known."""
    status = job.get("JobStatus", 1)
    lines = [text.state(job, name).splitlines()[0] if status != 1 else f"Job {name} is idle."]
    if status == 5:
        lines.append(f"Hold reason: {job.get('HoldReason', 'none was given')}")
    lines.append("It runs on the access point: slots do not matter.")
    if status != 1:
        return "\n".join(lines)
    until = job.get("JobCoolDownExpiration")
    if isinstance(until, int) and until > now:
        lines.append(f"It failed, and is started again at {time.ctime(until)} (SCHEDULER_UNIVERSE_COOL_DOWN_DURATION).")
    if schedd is None:
        lines.append("What its start depends on is not known: the collector has no ad of its schedd.")
        return "\n".join(lines)
    condition = _CONDITIONS[whole(job["JobUniverse"])]
    if condition in schedd:
        value, written = _value(schedd.eval(condition, job)), schedd.lookup(condition).print_old()
        lines.append(f"This schedd's {condition} evaluates to {value} for this job: {written}")
        if schedd.eval(condition, job) is not True:
            lines.append(f"{_KNOBS[condition]} keeps it from starting.")
    if "Requirements" in job:
        value, written = _value(job.eval("Requirements", schedd)), job.lookup("Requirements").print_old()
        lines.append(f"The job's Requirements evaluate to {value} over the schedd's ad: {written}")
    if condition == "StartSchedulerUniverse" and isinstance(most := schedd.get("MaxRunningSchedulerJobsPerOwner"), int):
        lines.append(f"At most {most} of its owner's run at once (MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER).")
    return "\n".join(lines)


def _value(found: Value) -> str:
    return str(found).lower() if isinstance(found, SpecialValue | bool | int | float) else "no truth value"


def schedd_of(job: ClassAd, inv: Invocation) -> ClassAd | None:
    """The ad of the schedd that has the job; None when the collector knows none."""
    from slotwise.table import unpack_ads
    from slotwise.wire.gen import collector_pb2_grpc, common_pb2
    from slotwise.wire.status import to_error

    name = str(job.get("GlobalJobId", "")).partition("#")[0]
    query = common_pb2.AdQuery(kind="Scheduler", constraint=f"Name == {quote(name)}")
    try:
        chunks = list(inv.reading(collector_pb2_grpc.CollectorStub, "collector").Query(query))
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    ads = [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]
    return ads[0] if ads else None
