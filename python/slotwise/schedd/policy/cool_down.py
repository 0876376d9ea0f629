"""The administrator's cool-down of jobs whose run did not come to its own end (SYSTEM_ON_VACATE_COOL_DOWN). Pure.

Source: Scheduler::jobExitCode of HTCondor 25.14's schedd. The expression sees the job as the end of the run leaves it,
this eviction or completion counted; a number of seconds above 0, without its fraction, keeps the job in the queue for
so long, also where its codes would have held it. Jobs of the local universe are subject to it, those of the scheduler
universe have a cool-down of their own (SCHEDULER_UNIVERSE_COOL_DOWN_DURATION).
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.schedd.jobs.ads import native, plain
from slotwise.schedd.jobs.decision import RunEnd, RunOutcome
from slotwise.schedd.jobs.end_attrs import vacate_attributes
from slotwise.schedd.jobs.job import Job, finite

_ENDS = (RunOutcome.EVICTED, RunOutcome.HELD, RunOutcome.NOT_STARTED, RunOutcome.LOST)


class CoolDown(Struct, frozen=True):
    """The expression, and the least time that it gives (SYSTEM_COOLDOWN_DURATION), seconds."""

    expression: ExprTree | None = None
    least_s: float = 20.0

    def seconds(self, ad: ClassAd, job: Job, end: RunEnd, now: float) -> float:
        """For how long the job is not started again; 0: no cool-down. ``ad`` is modified."""
        if self.expression is None or not (end.how in _ENDS or end.how.by_itself):
            return 0.0
        ad.update(native(end.attributes))
        if end.how.by_itself:
            ad["NumJobCompletions"] = int(job.number("NumJobCompletions")) + 1
        else:
            ad.update(native(vacate_attributes(job, end.reason, end.reason_code, end.reason_subcode, now)))
        value = int(finite(plain(self.expression.eval(ad, now=int(now))), 0.0))
        return max(self.least_s, value) if value > 0 else 0.0
