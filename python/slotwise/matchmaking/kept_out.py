"""Which of the administrator's constraints keeps a job, its submitter or all slots that suit it out of cycles. Pure.

NEGOTIATOR_JOB_CONSTRAINT, NEGOTIATOR_SUBMITTER_CONSTRAINT and NEGOTIATOR_SLOT_CONSTRAINT leave no trace in a cycle:
what they keep out is not looked at, and every other reason would be a false one.
"""

from __future__ import annotations

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import SlotwiseError
from slotwise.matchmaking.rows import JobExplanation
from slotwise.matchmaking.snapshot import CycleInput


def kept_out(given: CycleInput, job: ClassAd, view: JobExplanation) -> str | None:
    """The sentence that names the constraint; None when none keeps the job from all slots."""
    if (text := _refusing(given, "NEGOTIATOR_JOB_CONSTRAINT", job)) is not None:
        return f"NEGOTIATOR_JOB_CONSTRAINT keeps it out: {text} is not true for the job."
    if given.submitters is not None:
        for key in given.submitters.keys():  # noqa: SIM118 - a table, not a mapping
            ad = given.submitters.get(key)
            if ad is None or ad.get("Name") != view.submitter:
                continue
            if (text := _refusing(given, "NEGOTIATOR_SUBMITTER_CONSTRAINT", ad)) is not None:
                return f"NEGOTIATOR_SUBMITTER_CONSTRAINT keeps {view.submitter} out: {text} is not true for it."
    places = (view.free, view.held_by_submitter, view.protected, view.preemptable, view.offline)
    if view.matches and view.excluded and not sum(places) and not view.trimmed:
        text = given.knobs.values.get("NEGOTIATOR_SLOT_CONSTRAINT", "")
        return f"NEGOTIATOR_SLOT_CONSTRAINT keeps out all slots that match: {text} is not true for them."
    return None


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
