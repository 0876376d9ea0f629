"""The administrator's cool-down of jobs whose run did not come to its own end (SYSTEM_ON_VACATE_COOL_DOWN). Pure.

Source: Scheduler::jobExitCode of HTCondor 25.14's schedd. The expression sees the job as the end of the run leaves it,
with VacateReasonCode, VacateReasonSubCode and VacateReason; a number of seconds above 0 keeps the job in the queue for
so long, also where its codes would have held it.
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.schedd.jobs.ads import native, plain
from slotwise.schedd.jobs.decision import RunEnd, RunOutcome
from slotwise.schedd.jobs.job import finite

_ENDS = (RunOutcome.EVICTED, RunOutcome.HELD, RunOutcome.NOT_STARTED, RunOutcome.LOST)


class CoolDown(Struct, frozen=True):
    """The expression, and the least time that it gives (SYSTEM_COOLDOWN_DURATION), seconds."""

    expression: ExprTree | None = None
    least_s: float = 20.0

    def seconds(self, ad: ClassAd, end: RunEnd, now: float) -> float:
        """For how long the job is not started again; 0: no cool-down. ``ad`` is modified."""
        if self.expression is None or not (end.how in _ENDS or end.how.by_itself):
            return 0.0
        ad.update(native(end.attributes))
        if not end.how.by_itself:
            ad.update(VacateReasonCode=end.reason_code, VacateReasonSubCode=end.reason_subcode, VacateReason=end.reason)
        value = finite(plain(self.expression.eval(ad, now=int(now))), 0.0)
        return max(self.least_s, value) if value > 0 else 0.0
