"""The states of a claim at the schedd, with the data that each carries."""

from __future__ import annotations

import math

from msgspec import Struct

from slotwise.schedd.jobs.job import Job


class EndedByStartd(Struct, frozen=True):
    """Why a startd ended a claim, in its own words and codes. ``hold``: the job is to be held for it."""

    reason: str = ""
    code: int = 0
    subcode: int = 0
    hold: bool = False


class ClaimState(Struct, frozen=True):
    """What all states have in common."""

    @property
    def run_id(self) -> str:
        """The run on the claim, or the one whose end is awaited; "" when there is none."""
        return ""


class Requested(ClaimState, frozen=True):
    """The startd has been asked for the slot and has not answered."""


class Idle(ClaimState, frozen=True):
    """The claim is held without a job.

    ``since`` is when it was kept (KeepClaimIdle) for ``keep_s`` seconds, on the monotonic clock; None while the schedd
    chooses its next job. ``pledged``: no job starts on it, as it is to become part of a larger slot.
    """

    since: float | None = None
    keep_s: int = 0
    pledged: bool = False


class Reserved(ClaimState, frozen=True):
    """A job starts on it as soon as JOB_START_DELAY allows; until then the job is idle in the queue."""

    job: Job


class _WithRun(ClaimState, frozen=True):
    run: str

    @property
    def run_id(self) -> str:
        return self.run


class Running(_WithRun, frozen=True):
    """A run has been decided for it, and its end has not been taken over."""


class Disconnected(_WithRun, frozen=True):
    """The startd has yet to say whether it still has the claim: the link broke, or the schedd has restarted.

    ``run`` is "" when no run was on it; then the claim's lease ends at ``until``, on the monotonic clock.
    """

    until: float = math.inf


class Closing(_WithRun, frozen=True):
    """The startd is taking the slot back: no job follows the run."""


class Gone(_WithRun, frozen=True):
    """Released, refused or ended. A run that was on it may still report its end."""

    run: str = ""
    ended: EndedByStartd | None = None


STATES: tuple[type[ClaimState], ...] = (Requested, Idle, Reserved, Running, Disconnected, Closing, Gone)
