"""How long a job may stay: retirement and vacate arithmetic. All times in seconds.

Source: manual, "condor_startd Policy Configuration", MaxJobRetirementTime and MachineMaxVacateTime.
"""

from __future__ import annotations

import math

from slotwise.model.claim import Run
from slotwise.startd.slot.events import PolicyEval
from slotwise.startd.slot.states import Slot

GRACEFUL = 0


def own_remaining(slot: Slot, policy: PolicyEval, run: Run, now: float) -> float:
    """What is left of the job's own retirement: the lesser of machine's and job's, less the time it has run.

    A job may only shorten what the machine gives; nice users' jobs that say nothing have none. Peaceful shutdown makes
    the machine's part unlimited, unless it is negative, which marks jobs that go even then.
    """
    machine = policy.machine_retirement_s
    if slot.shutdown == "peaceful" and machine >= 0:
        machine = math.inf
    job = policy.job_retirement_s if policy.job_retirement_s is not None else run.retirement_s
    if job is None and run.nice_user:
        job = 0.0
    allowed = machine if job is None else min(machine, job)
    return allowed - run.ran(now)


def remaining(slot: Slot, policy: PolicyEval, now: float) -> float:
    """What is left of retirement, with what graceful draining changes. 0 without a job.

    Under graceful draining a job that was accepted while draining, or that the START now in force would accept,
    may stay as long as the job of the machine that stays longest: its resources would be idle otherwise.
    """
    run = slot.run
    if run is None:
        return 0.0
    own = own_remaining(slot, policy, run, now)
    if slot.draining is None or slot.draining.schedule > GRACEFUL or own <= 0:
        return own
    if run.accepted_while_draining or policy.start_in_force:
        return policy.longest_retirement_s
    return own


def vacate_time(slot: Slot, policy: PolicyEval, now: float) -> float:
    """How long the job may take to end once asked.

    The machine's promise was made at activation. A job that wants less gets less; one that wants more may use what is
    left of its retirement time.
    """
    run = slot.run
    if run is None:
        return 0.0
    promised = run.machine_vacate_s
    if run.vacate_s is None:
        return promised
    wanted = run.vacate_s
    if wanted <= promised:
        return max(0.0, wanted)
    left = remaining(slot, policy, now)
    if left >= wanted:
        return wanted
    return max(left, promised)


def expired(slot: Slot, policy: PolicyEval, now: float) -> bool:
    """Whether retirement is over: nothing left, or only as much as vacating takes."""
    left = remaining(slot, policy, now)
    return left <= 0 or vacate_time(slot, policy, now) >= left


def expires_at(slot: Slot, policy: PolicyEval, now: float) -> float | None:
    """When retirement will be over if the job goes on running; None when never."""
    left = remaining(slot, policy, now) - vacate_time(slot, policy, now)
    return None if math.isinf(left) else now + max(0.0, left)
