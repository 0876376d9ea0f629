"""Why a job does not run: what its Requirements let pass, who refuses it, and what a cycle now would say. Pure."""

from __future__ import annotations

from typing import Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import whole
from slotwise.matchmaking import kept_machines
from slotwise.matchmaking.engine import CycleOutcome, Engine, Row
from slotwise.matchmaking.hints import hints
from slotwise.matchmaking.snapshot import CycleInput

_STATUS = {2: "running", 3: "removed", 4: "completed", 5: "held", 6: "transferring its output", 7: "suspended"}


def analyze(given: CycleInput, job: ClassAd, engine: Engine | None = None) -> dict[str, Any]:
    """Everything that keeps a job from running, as values.

    :param engine: one that knows the slots from cycles before spares reading them.
    """
    engine = engine or Engine()
    view = engine.explain(given.slots, given.requests, job, given.knobs, given.accounting, given.now)
    outcome = given.run(engine)
    name = f"{job.eval('ClusterId')}.{job.eval('ProcId')}"
    fate = _fate(outcome, job, name, view["submitter"])
    report = {
        "job": name,
        "submitter": view["submitter"],
        "status": _status(job),
        "slots": view["slots"],
        "requirements": {
            "job_accepts": view["job_accepts"],
            "slots_accept": view["slot_accepts"],
            "matches": view["matches"],
            "clauses": [{key: row[key] for key in ("clause", "passes", "without")} for row in view["clauses"]],
            "hints": hints(view["clauses"]),
            "unmet": _unmet(job, view),
            "relax": _relax(view),
            "refused_by": [{"clause": text, "slots": count} for text, count in view["refused_by"]],
        },
        "matching_slots": {
            key: view[key] for key in ("free", "held_by_submitter", "protected", "preemptable", "offline", "trimmed")
        },
        **fate,
    }
    report["verdict"] = _verdict(report)
    return report


def _unmet(job: ClassAd, view: Row) -> list[Row]:
    """The clauses of the job's Requirements that no slot satisfies, each with its place in their text."""
    requirements = job.get("Requirements")
    if not isinstance(requirements, ExprTree):
        return []
    nobody = {ExprTree(clause["clause"]).canonical_hash for clause in view["clauses"] if not clause["passes"]}
    unmet: dict[int, Row] = {}
    for clause in ExprTree(str(requirements), spans=True).conjuncts():
        if clause.canonical_hash in nobody:
            unmet.setdefault(clause.canonical_hash, {"clause": str(clause), "excerpt": clause.excerpt()})
    return list(unmet.values())


def _status(job: ClassAd) -> str:
    status = whole(job.get("JobStatus"), 1)
    text = _STATUS.get(status, "idle")
    if text == "held":
        text += f": {job.get('HoldReason', 'no reason given')}"
    return text


def _relax(view: Row) -> Row | None:
    """The clause whose removal lets most slots match, when that is more than now."""
    clauses = [clause for clause in view["clauses"] if clause["without"] > view["job_accepts"]]
    if not clauses:
        return None
    best = max(clauses, key=lambda clause: clause["without"])
    return {"clause": best["clause"], "slots": best["without"]}


def _fate(outcome: CycleOutcome, job: ClassAd, name: str, submitter: str) -> Row:
    """What a cycle now would do with the job, and what bounds its submitter."""
    matched = next((m for m in outcome.matches() if m["job"] == name), None)
    cluster = next((r for r in outcome.requests() if name in r["jobs"]), None)
    first = cluster["autocluster"] if cluster else name
    rejections = [
        {"reason": r["reason"], "count": r["count"], "slots": r["slots"]}
        for r in outcome.rejections()
        if r["submitter"] == submitter
        and (r["autocluster"] == first or r["autocluster_id"] == job.get("AutoClusterId"))
    ]
    reserved = next((r for r in outcome.reservations() if r["job"] == first and r["submitter"] == submitter), None)
    mine = next((s for s in outcome.submitters() if s["name"] == submitter), None)
    groups = [g for g in outcome.groups() if mine is not None and g["name"] == mine["group"]]
    return {
        "would_match": None if matched is None else matched["slot"],
        "autocluster": first,
        "jobs_alike": cluster["count"] if cluster else None,
        "rejections": rejections,
        "reservation": reserved,
        "submitter_limits": mine,
        "group": groups[0] if groups and len(outcome.groups()) > 1 else None,
    }


def _verdict(report: Row) -> str:
    if report["status"] != "idle":
        return f"The job is {report['status']}."
    if report["would_match"]:
        return f"The next cycle would give it {report['would_match']}."
    needs = report["requirements"]
    if (reserved := report["reservation"]) is not None:
        expected, ends = (kept_machines.minute(reserved[name]) for name in ("starts_at", "gives_up_at"))
        return (
            f"{reserved['slot']} is kept for it and takes no jobs but such as end in time: expected to be ready by "
            f"{expected}, given up at {ends}."
        )
    if not report["slots"]:
        return "There are no slots."
    if not needs["job_accepts"]:
        return "No slot satisfies the job's Requirements."
    if not needs["matches"]:
        return "Every slot that the job would take refuses it."
    if report["rejections"]:
        reasons = ", ".join(dict.fromkeys(r["reason"] for r in report["rejections"]))
        if reasons == "no match found":
            return f"{counted(needs['matches'])} match, but are held, or go to jobs that are served before it."
        return f"{counted(needs['matches'])} match, but the cycle rejects the job: {reasons}."
    if report["matching_slots"]["held_by_submitter"] == needs["matches"]:
        return f"{counted(needs['matches'])} match, and all of them run jobs of {report['submitter']} already."
    held = (report["submitter_limits"] or {}).get("held_back")
    if held:
        return f"{counted(needs['matches'])} match, but {report['submitter']} is held back: {held[0]}."
    return f"{counted(needs['matches'])} match; none is free for it now."


def counted(number: int) -> str:
    """``1 slot``, ``2 slots``."""
    return f"{number} slot" if number == 1 else f"{number} slots"
