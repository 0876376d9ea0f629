"""What keeps a job, its submitter or all slots that suit it out of cycles. Pure.

NEGOTIATOR_JOB_CONSTRAINT, NEGOTIATOR_SUBMITTER_CONSTRAINT and NEGOTIATOR_SLOT_CONSTRAINT leave no trace in a cycle:
what they keep out is not looked at, and every other reason would be a false one. So it is with jobs in cool-down, and
with those for which their access point asks for no slots.
"""

from __future__ import annotations

import time

from slotwise.classad import ClassAd, ExprTree, quote
from slotwise.classad.values import whole
from slotwise.errors import SlotwiseError
from slotwise.matchmaking.rows import JobExplanation
from slotwise.matchmaking.snapshot import CycleInput
from slotwise.model.job_status import JobStatus


def kept_out(given: CycleInput, job: ClassAd, view: JobExplanation) -> str | None:
    """The sentence that names it; None when nothing of this kind keeps the job from all slots."""
    cool = whole(job.get("JobCoolDownExpiration"))
    if cool > given.now:
        return f"It is in cool-down until {time.ctime(cool)}: {_reason_of_cool_down(job)}"
    if (text := _refusing(given, "NEGOTIATOR_JOB_CONSTRAINT", job)) is not None:
        return f"NEGOTIATOR_JOB_CONSTRAINT keeps it out: {text} is not true for the job."
    if given.submitters is not None:
        for key in given.submitters.keys():  # noqa: SIM118 - a table, not a mapping
            ad = given.submitters.get(key)
            if ad is None or ad.get("Name") != view.submitter:
                continue
            if (text := _refusing(given, "NEGOTIATOR_SUBMITTER_CONSTRAINT", ad)) is not None:
                return f"NEGOTIATOR_SUBMITTER_CONSTRAINT keeps {view.submitter} out: {text} is not true for it."
    if (reason := kept_back(job)) is not None and not _is_asked_for(given, job, view):
        return f"Its access point asks for no slots for it now: {reason}."
    if _is_not_asked_for(given, job, view):
        return (
            f"Its access point asks for no slots for {view.submitter} now: START_VANILLA_UNIVERSE, MAX_JOBS_RUNNING,"
            " or a limit of the user or the project (MaxJobsRunning) keeps the job back, or it is about to start."
        )
    places = (view.free, view.held_by_submitter, view.protected, view.prefer_running, view.preemptable, view.offline)
    if view.matches and view.excluded and not sum(places) and not view.trimmed:
        text = given.knobs.values.get("NEGOTIATOR_SLOT_CONSTRAINT", "")
        return f"NEGOTIATOR_SLOT_CONSTRAINT keeps out all slots that match: {text} is not true for them."
    return None


def kept_back(job: ClassAd) -> str | None:
    """What the access point of an idle job has in its way, when it asks for no slots for it; None when it asks."""
    if whole(job.get("JobStatus"), JobStatus.IDLE) != JobStatus.IDLE:
        return None
    return str(job.get("KeptBackReason", "") or "") or None


def uncounted(given: CycleInput, view: JobExplanation) -> str | None:
    """The sentence on NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT, where it makes less of the pool count than there is; None
    where no slot could be given anyway."""
    text = given.knobs.values.get("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", "").strip()
    if not text or not view.free + view.preemptable:
        return None
    try:
        counted = given.slots.count(ExprTree(text, old=True), now=given.now)
    except (SlotwiseError, ValueError):
        counted = 0
    if counted == len(given.slots):
        return None
    return (
        f"NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT counts {counted} of {len(given.slots)} slots, and shares and quotas are"
        f" parts of those: {text} is not true for the others."
    )


def _reason_of_cool_down(job: ClassAd) -> str:
    reason = str(job.get("VacateReason", "") or "")
    return f"{reason.rstrip('.')}." if reason else "its last run did not come to its end."


def _is_asked_for(given: CycleInput, job: ClassAd, view: JobExplanation) -> bool:
    """Whether there is a request for jobs like it: what its ad tells is from before then."""
    number = whole(job.get("AutoClusterId"), -1)
    return bool(given.requests.count(f"Submitter == {quote(view.submitter)} && AutoClusterId == {number}"))


def _is_not_asked_for(given: CycleInput, job: ClassAd, view: JobExplanation) -> bool:
    """Whether requests are those of live access points, and there is none of the job's submitter among them.

    The job's own autocluster is not asked about: the one in its ad may be that of before its last run.
    """
    if given.submitters is None or "AutoClusterId" not in job:
        return False
    return not given.requests.count(f"Submitter == {quote(view.submitter)}")


def _refusing(given: CycleInput, knob: str, ad: ClassAd) -> str | None:
    """The text of a constraint that is not true for an ad."""
    text = given.knobs.values.get(knob, "").strip()
    if not text:
        return None
    try:
        found = ExprTree(text, old=True).eval(ad, now=given.now)
    except (SlotwiseError, ValueError):
        return text
    return None if isinstance(found, bool | int | float) and found else text
