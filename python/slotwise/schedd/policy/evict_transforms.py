"""Transforms of a job at its eviction: how ``retry_request_memory`` makes a job ask for more and run again.

``TransformOnEvict`` names transforms, ``TransformBody_<name>`` holds their statements: REQUIREMENTS says for
which evictions (VacateReasonCode and VacateReasonSubCode), SET and EVALSET change attributes. The first that
applies sends the job back to the queue instead of holding it (manual page of condor_submit, "retry_request_memory").
Also: the kill that is owed to a run whose job was held or removed.
"""

from __future__ import annotations

from slotwise.classad import ClassAd, ExprTree
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.jobs.ads import plain
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Kill
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import TRANSFER_ON_REMOVE
from slotwise.schedd.jobs.values import Changes, Expr


def transformed(ad: ClassAd, code: int, subcode: int, reason: str, now: int) -> Changes | None:
    """The changes of the first transform that applies, or None when none does. ``ad`` is modified."""
    names = ad.get("TransformOnEvict")
    if not isinstance(names, str):
        return None
    ad["VacateReasonCode"], ad["VacateReasonSubCode"], ad["VacateReason"] = code, subcode, reason
    for name in names.replace(",", " ").split():
        body = ad.get(f"TransformBody_{name}")
        if isinstance(body, str) and (changes := _apply(ad, body, now)) is not None:
            return changes
    return None


def _apply(ad: ClassAd, body: str, now: int) -> Changes | None:
    changes: Changes = {}
    for statement in body.replace("\x1e", "\n").splitlines():
        keyword, _, rest = statement.strip().partition(" ")
        attribute, _, text = rest.strip().partition(" ")
        if keyword.upper() == "REQUIREMENTS":
            if ExprTree(rest, old=True).eval(ad, now=now) is not True:
                return None
        elif keyword.upper() == "EVALSET":
            value = plain(ExprTree(text, old=True).eval(ad, now=now))
            if value is None:
                return None
            ad[attribute] = changes[attribute] = value
        elif keyword.upper() == "SET":
            tree = ExprTree(text, old=True)
            ad[attribute] = tree
            value = plain(ad[attribute])
            changes[attribute] = value if value is not None else Expr(str(tree))
    return changes or None


def kill_owed(job: Job) -> Kill | None:
    """The kill for a run whose job was held or removed; None while it may run."""
    changes = job.changes or {}
    if job.status == Status.REMOVED:
        with_outputs = changes.get(TRANSFER_ON_REMOVE) is True
        reason = str(changes.get("RemoveReason") or "")
        return Kill(job.run, False, reason, int(Vacate.JOB_REMOVED), with_outputs=with_outputs)
    if job.status == Status.HELD:
        return Kill(job.run, False, str(changes.get("HoldReason") or ""), int(job.number("HoldReasonCode")))
    if job.status == Status.IDLE:
        return Kill(job.run, False, "the job was held and released", int(Vacate.SCHEDD_VACATE))
    return None
