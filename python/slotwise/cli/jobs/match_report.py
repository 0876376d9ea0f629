"""The blocks of ``q -better-analyze``: state, Requirements, conditions, counts of slots, warnings."""

from __future__ import annotations

import time
from collections.abc import Sequence

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import Value, number, whole
from slotwise.matchmaking.clauses import bare, clauses_of
from slotwise.matchmaking.failed_starts import failed_start
from slotwise.matchmaking.fit import Fit, Obstacle, ReverseFit, Step
from slotwise.matchmaking.kept_out import kept_back
from slotwise.matchmaking.rows import JsonObject

_STATES = {
    2: "is running.",
    3: "is being removed.",
    4: "has completed.",
    6: "is running, and transfers its output.",
    7: "is suspended.",
}
_MOST_NAMES = 10


def state(job: ClassAd, name: str, alike: ClassAd | None = None) -> str:
    """What the job does now, and what the matchmaker said of it last.

    ``alike``: a similar job that was not matched. Of similar jobs only the first records the reason.
    """
    status = job.get("JobStatus", 1)
    if status == 5:
        lines = [f"Job {name} is held.", "", f"Hold reason: {job.get('HoldReason', 'none was given')}"]
    elif (what := _STATES.get(whole(status))) is not None:
        lines = [f"Job {name} {what}"]
    elif alike is None and not any(job.get(at) for at in ("LastMatchTime", "LastRejMatchTime")):
        lines = [f"Job {name} has not yet been considered by the matchmaker."]
    else:
        lines = [f"Job {name} is idle."]
    lines.append("")
    if (start := failed_start(job)) is not None:
        lines += start.lines()
    failed, matched = job.get("LastRejMatchTime"), job.get("LastMatchTime")
    if (reason := kept_back(job)) is not None:
        lines.append(f"Kept back by its access point: {reason}")
    lines.append(f"Last successful match: {_moment(matched)}" if matched else "No successful match recorded.")
    if not (failed and number(failed) > number(matched)) and alike is not None:
        job, failed = alike, alike.get("LastRejMatchTime")
        lines.append(f"Last failed match for jobs like it: {_moment(failed)} ({_id_of(alike)})")
    elif failed and number(failed) > number(matched):
        lines.append(f"Last failed match: {_moment(failed)}")
    else:
        return "\n".join(lines)
    lines.append(f"Reason for last match failure: {job.get('LastRejMatchReason', 'unknown')}")
    if negotiator := job.get("LastRejMatchNegotiator"):
        lines.append(f"Negotiator of last match failure: {negotiator}")
    return "\n".join(lines)


def _id_of(job: ClassAd) -> str:
    """``cluster.proc``."""
    return f"{job.get('ClusterId')}.{job.get('ProcId')}"


def _moment(at: Value) -> str:
    return time.ctime(at) if isinstance(at, int | float) else "??"


def requirements(ad: ClassAd, whose: str, values: Sequence[tuple[str, ClassAd]]) -> str:
    """The expression, a condition a line, and the values of the attributes in it. ``values``: whose they are."""
    clauses = clauses_of(ad, depth=0)
    text = f"The Requirements expression for {whose} is\n\n    " + " &&\n    ".join(
        f"({bare(clause)})" for clause in clauses
    )
    for name, of in values:
        lines = [f"    {attribute} = {of.lookup(attribute)}" for attribute in _attributes(clauses, ad, of)]
        if lines:
            text += f"\n\n{name} defines the following attributes:\n\n" + "\n".join(lines)
    return text


def _attributes(clauses: Sequence[ExprTree], ad: ClassAd, of: ClassAd) -> list[str]:
    """Attributes of ``of`` that the conditions of ``ad`` speak of."""
    found: dict[str, str] = {}
    for clause in clauses:
        spoken = clause.references()
        own = [*spoken.my, *(name for name in spoken.bare if name in ad)]
        other = [*spoken.target, *(name for name in spoken.bare if name not in ad)]
        for name in own if of is ad else other:
            if name in of:
                found.setdefault(name.lower(), name)
    return sorted(found.values(), key=str.lower)


def conditions(steps: Sequence[Step], whose: str, what: str) -> str:
    """The table of conditions. ``what`` is counted: Slots or Jobs."""
    drained = any(step.drained for step in steps)
    more = ("  Drained", "  -------") if drained else ("", "")
    head = f"{'':<6}{what:>9}\n{'Step':<6}{'Matched':>9}{more[0]}  Condition"
    rule = f"{'-----':<6}{'--------':>9}{more[1]}  ---------"
    lines = [
        f"{f'[{step.number}]':<6}{step.matched:>9}{f'  {step.drained or str():>7}' if drained else ''}  {step.text}"
        for step in steps
    ]
    return f"The Requirements expression for {whose} reduces to these conditions:\n\n" + "\n".join([head, rule, *lines])


_IN_HTCONDORS_WORDS = {
    "slots rejected by the job's requirements": "slots are rejected by your job's requirements",
    "slots that reject the job by their own requirements": "slots reject your job because of their own requirements",
    "match and already run your jobs": "slots match and are already running your jobs",
    "match but serve other users": "slots match but are serving other users",
    "match but are offline": "slots match but are currently offline",
    "match and are willing to run the job": "slots match and are willing to run your job",
    "would match if drained": "slots would match if drained",
}


def counts(found: Fit, name: str, report: JsonObject | None, *, verbose: bool, as_htcondor: bool = False) -> str:
    """What became of the slots. ``report``: how the negotiator sees them (with ``:priority``). ``as_htcondor``: in the
    words of HTCondor's tool, which programs look for."""
    how = "considering user priority" if report else "ignoring user priority"
    lines = [f"{name}:  Run analysis summary {how}.  Of {found.slots} slots,"]

    def line(names: Sequence[str], words: str, *, always: bool = False, count: int | None = None) -> None:
        number = len(names) if count is None else count
        if number or always:
            shown = f" [{', '.join(names[:_MOST_NAMES])}]" if verbose and names else ""
            said = _IN_HTCONDORS_WORDS.get(words, words) if as_htcondor else words
            lines.append(f"{f'{number:>7}' if as_htcondor else f'{number:>5}'} {said}{shown}")

    line(found.by_job, "slots rejected by the job's requirements", always=True)
    line(found.by_slot, "slots that reject the job by their own requirements", always=True)
    line(found.own, "match and already run your jobs")
    if report is None:
        line(found.others, "match but serve other users")
        willing = len(found.willing)
    else:
        seen = report["matching_slots"]
        line(
            (),
            "match but serve users with better priority, or will not preempt",
            count=seen["protected"] + seen.get("prefer_running", 0),
        )
        willing = seen["free"] + seen["preemptable"]
    line(found.offline, "match but are offline")
    line(found.willing, "match and are willing to run the job", always=True, count=willing)
    line(found.drained, "would match if drained")
    return "\n".join(lines)


def suggestions(hints: Sequence[JsonObject]) -> str:
    """What the job would have to ask for, condition by condition; empty without hints."""
    if not hints:
        return ""
    width = max(len("Condition"), *(len(bare(ExprTree(hint["clause"]))) for hint in hints))
    rows = [("Condition", "Suggestion"), ("---------", "----------")]
    rows += [(bare(ExprTree(hint["clause"])), hint["text"]) for hint in hints]
    return "Suggestions:\n\n" + "\n".join(f"    {clause:<{width}}  {hint}" for clause, hint in rows)


_WARNINGS = {
    Obstacle.NO_SLOTS: "There are no slots to look at.",
    Obstacle.JOB_ACCEPTS_NONE: "No slot satisfies the job's requirements.",
    Obstacle.ONLY_DRAINED: "Only machines that are empty satisfy the job's requirements.",
    Obstacle.SLOTS_REFUSE: "Every slot that satisfies the job's requirements rejects the job by its own.",
}


def warning(found: Fit, name: str) -> str:
    """What the user should know when the job cannot run; empty when it can."""
    if (why := found.obstacle) is None:
        return ""
    return f"WARNING:  Be advised:\n   {_WARNINGS[why]}\n   `slotwise analyze {name}` shows which condition to relax."


def summary(rows: Sequence[tuple[str, str, Fit]]) -> str:
    """One line a job: id, owner, and what became of the slots."""
    lines = [
        f"{'ID':>8} {'OWNER':<14} {'BY_JOB':>8} {'BY_SLOT':>8} {'RUNNING':>8} {'BUSY':>8} {'WILLING':>8} {'DRAINED':>8}"
    ]
    for name, owner, found in rows:
        numbers = (found.by_job, found.by_slot, found.own, found.others, found.willing, found.drained)
        lines.append(f"{name:>8} {owner:<14} " + " ".join(f"{len(names):>8}" for names in numbers))
    return "\n".join(lines)


def reverse(slot: ClassAd, found: ReverseFit) -> str:
    """A slot's Requirements and conditions, and what became of the jobs."""
    name = f"slot {slot.get('Name')}"
    lines = [
        f"{slot.get('Name')}:  Run analysis summary of {found.jobs} jobs.",
        f"{found.refused:>5} rejected by the slot's requirements",
        f"{found.refusing:>5} reject the slot by their own requirements",
        f"{found.matches:>5} match the slot",
    ]
    blocks = [requirements(slot, name, [(name.capitalize(), slot)]), conditions(found.steps, name, "Jobs")]
    return "\n\n".join([*blocks, "\n".join(lines)])
