"""Why a job does not run: what its Requirements let pass, who refuses it, and what a cycle now would say. Pure."""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import whole
from slotwise.matchmaking import kept_machines
from slotwise.matchmaking.clauses import distinct
from slotwise.matchmaking.dedicated import as_request, is_parallel, words
from slotwise.matchmaking.engine import CycleOutcome, Engine
from slotwise.matchmaking.failed_starts import FailedStart, failed_start
from slotwise.matchmaking.fit import Obstacle, obstacle
from slotwise.matchmaking.hints import hints
from slotwise.matchmaking.kept_out import kept_out, uncounted
from slotwise.matchmaking.rows import Group, JobExplanation, KeptMachine, Match, Rejection, Submitter
from slotwise.matchmaking.snapshot import CycleInput
from slotwise.model.hold_explanations import action
from slotwise.model.job_status import JobStatus
from slotwise.submit.doubts import without_value
from slotwise.table import Allowance, too_much

_STATUS = {2: "running", 3: "removed", 4: "completed", 5: "held", 6: "transferring its output", 7: "suspended"}

_OBSTACLES = {
    Obstacle.NO_SLOTS: "There are no slots.",
    Obstacle.JOB_ACCEPTS_NONE: "No slot satisfies the job's Requirements.",
    Obstacle.ONLY_DRAINED: "Only machines that are empty satisfy the job's Requirements.",
    Obstacle.SLOTS_REFUSE: "Every slot that the job would take refuses it.",
}


def analyze(
    given: CycleInput, job: ClassAd, engine: Engine | None = None, most: int | None = None
) -> dict[str, object]:
    """Everything that keeps a job from running, as a JSON object.

    :param engine: one that knows the slots from cycles before spares reading them.
    :param most: the steps that the expressions of the job and of the slots may take for it; None: any number.
    :raises BusyError: when they take more.
    """
    engine, allowed = engine or Engine(), 1 << 60 if most is None else most
    job = as_request(job)
    try:
        with Allowance(allowed) as spent:
            name = f"{job.eval('ClusterId')}.{job.eval('ProcId')}"
            view = engine.explain(given.slots, given.requests, job, given.knobs, given.accounting, given.now)
        outcome = given.run(engine)  # a cycle bounds its own work
        with Allowance(allowed - spent.used) as rest:
            report = _report(given, job, view, _prospects(outcome, job, name, view.submitter), name)
    except ValueError:  # of an evaluation that takes too much by itself, or for which nothing is left
        raise too_much(allowed) from None
    if spent.exhausted or rest.exhausted:
        raise too_much(allowed)
    return report


def _report(
    given: CycleInput, job: ClassAd, view: JobExplanation, prospects: _Prospects, name: str
) -> dict[str, object]:
    status, failed = _status(job), failed_start(job)
    kept, fewer = kept_out(given, job, view), uncounted(given, view)
    return {
        "job": name,
        "submitter": view.submitter,
        "status": status,
        "slots": view.slots,
        "requirements": {
            "job_accepts": view.job_accepts,
            "slots_accept": view.slot_accepts,
            "matches": view.matches,
            "clauses": [{"clause": row.clause, "passes": row.passes, "without": row.without} for row in view.clauses],
            "hints": hints(view.clauses),
            "valueless": without_value(job),
            "unmet": _unmet(job, view),
            "relax": _relax(view),
            "refused_by": [{"clause": text, "slots": count} for text, count in view.refused_by],
        },
        "matching_slots": {
            "free": view.free,
            "held_by_submitter": view.held_by_submitter,
            "protected": view.protected,
            "prefer_running": view.prefer_running,
            "preemptable": view.preemptable,
            "offline": view.offline,
            "trimmed": view.trimmed,
        },
        "would_match": prospects.would_match,
        "autocluster": prospects.autocluster,
        "jobs_alike": prospects.jobs_alike,
        "rejections": [
            {"reason": row.reason, "count": row.count, "slots": row.slots.as_dict()} for row in prospects.rejections
        ],
        "reservation": prospects.reservation and prospects.reservation.as_dict(),
        "submitter_limits": prospects.limits and prospects.limits.as_dict(),
        "group": prospects.group and prospects.group.as_dict(),
        "parallel": words(job, _dedicated(view)) if is_parallel(job) else "",
        "failed_start": failed
        and {
            "slot": failed.slot,
            "reason": failed.reason,
            "time": failed.at,
            "count": failed.count,
        },
        "excluded": view.excluded,
        "kept_out": kept or "",
        "uncounted": fewer or "",
        "held": _held(job),
        "verdict": _verdict(status, view, prospects, failed, kept, fewer),
    }


def _dedicated(view: JobExplanation) -> int:
    """How many slots are those of the job's dedicated scheduler."""
    return next((row.passes for row in view.clauses if "DedicatedScheduler" in row.clause), 0)


def _unmet(job: ClassAd, view: JobExplanation) -> list[dict[str, str]]:
    """The clauses of the job's Requirements that no slot satisfies, each with its place in their text."""
    requirements = job.get("Requirements")
    if not isinstance(requirements, ExprTree):
        return []
    nobody = {ExprTree(row.clause).canonical_hash for row in view.clauses if not row.passes}
    written = distinct(ExprTree(str(requirements), spans=True).conjuncts())
    unmet = [clause for clause in written if clause.canonical_hash in nobody]
    return [{"clause": str(clause), "excerpt": clause.excerpt()} for clause in unmet]


def _held(job: ClassAd) -> dict[str, object] | None:
    """Why a held job is held, and what to do about it; None of other jobs."""
    if whole(job.get("JobStatus"), 1) != JobStatus.HELD:
        return None
    code = whole(job.get("HoldReasonCode"))
    return {
        "code": code,
        "subcode": whole(job.get("HoldReasonSubCode")),
        "reason": str(job.get("HoldReason", "")),
        "action": action(code),
    }


def _status(job: ClassAd) -> str:
    status = whole(job.get("JobStatus"), 1)
    text = _STATUS.get(status, "idle")
    if text == "held":
        text += f": {job.get('HoldReason', 'no reason given')}"
    return text


def _relax(view: JobExplanation) -> dict[str, str | int] | None:
    """The clause whose removal lets most slots match, when that is more than now."""
    clauses = [row for row in view.clauses if row.without > view.job_accepts]
    if not clauses:
        return None
    best = max(clauses, key=lambda row: row.without)
    return {"clause": best.clause, "slots": best.without}


class _Prospects(Struct, frozen=True):
    """What a cycle now would do with a job, and what bounds its submitter."""

    #: Slot that the job would get, and by what means in words.
    would_match: str | None
    how: str
    #: First job of its autocluster.
    autocluster: str
    jobs_alike: int | None
    rejections: list[Rejection]
    reservation: KeptMachine | None
    limits: Submitter | None
    group: Group | None


def _prospects(outcome: CycleOutcome, job: ClassAd, name: str, submitter: str) -> _Prospects:
    matched = next((row for row in outcome.matches() if row.job == name), None)
    cluster = next((row for row in outcome.requests() if name in row.jobs), None)
    first = cluster.autocluster if cluster else name
    autocluster_id = job.get("AutoClusterId")
    limits = next((row for row in outcome.submitters() if row.name == submitter), None)
    groups = outcome.groups()
    return _Prospects(
        would_match=None if matched is None else matched.slot,
        how="" if matched is None else _means(matched),
        autocluster=first,
        jobs_alike=cluster.count if cluster else None,
        rejections=[
            row
            for row in outcome.rejections()
            if row.submitter == submitter and (row.autocluster == first or row.autocluster_id == autocluster_id)
        ],
        reservation=next(
            (row for row in outcome.reservations() if row.job == first and row.submitter == submitter), None
        ),
        limits=limits,
        group=next((row for row in groups if limits and row.name == limits.group), None) if len(groups) > 1 else None,
    )


def _means(matched: Match) -> str:
    """How a match comes about that takes a slot from others."""
    if matched.evicts:
        return f", and preempt what runs on {', '.join(matched.evicts)} for it (ALLOW_PSLOT_PREEMPTION)"
    if matched.preempts is None:
        return ""
    why = "the slot ranks this job higher" if matched.preemption == "rank" else "PREEMPTION_REQUIREMENTS permits it"
    return f", and preempt {matched.preempts}'s job there: {why}"


def _verdict(
    status: str,
    view: JobExplanation,
    prospects: _Prospects,
    failed: FailedStart | None,
    kept: str | None,
    uncounted: str | None,
) -> str:
    if status != "idle":
        return f"The job is {status}."
    if kept is not None:
        return kept if failed is None else f"{kept} Besides, {failed.words()}"
    if failed is None:
        found = _of_cycle(view, prospects)
        return found if uncounted is None or prospects.would_match else f"{found} {uncounted}"
    if prospects.would_match and failed.is_of(prospects.would_match):
        text = failed.words()
        return f"{text[0].upper()}{text[1:]} By its ad that slot suits it, and is the one that a cycle would choose."
    return f"{_of_cycle(view, prospects)} But {failed.words()}"


def _of_cycle(view: JobExplanation, prospects: _Prospects) -> str:
    if prospects.would_match:
        return f"The next cycle would give it {prospects.would_match}{prospects.how}."
    if (kept := prospects.reservation) is not None:
        expected, ends = kept_machines.minute(kept.starts_at), kept_machines.minute(kept.gives_up_at)
        return (
            f"{kept.slot} is kept for it and takes no jobs but such as end in time: expected to be ready by "
            f"{expected}, given up at {ends}."
        )
    if (why := obstacle(view.slots, view.job_accepts, view.matches)) is not None:
        return _OBSTACLES[why]
    if prospects.rejections:
        reasons = ", ".join(dict.fromkeys(row.reason for row in prospects.rejections))
        if reasons == "no match found":
            return f"{counted(view.matches)} match, but are held, or go to jobs that are served before it."
        return f"{counted(view.matches)} match, but the cycle rejects the job: {reasons}."
    if view.held_by_submitter == view.matches:
        return f"{counted(view.matches)} match, and all of them run jobs of {view.submitter} already."
    if prospects.limits is not None and prospects.limits.held_back:
        return f"{counted(view.matches)} match, but {view.submitter} is held back: {prospects.limits.held_back[0]}."
    return f"{counted(view.matches)} match; none is free for it now."


def counted(number: int) -> str:
    """``1 slot``, ``2 slots``."""
    return f"{number} slot" if number == 1 else f"{number} slots"
