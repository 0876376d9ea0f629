"""A claim: who holds a slot, under which terms; and the run of a job on it."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace


class Run(Struct, frozen=True):
    """One activation of a claim.

    ``ran_s`` is the time the job has really run until ``running_since`` (None while it does not run: suspended).
    ``machine_vacate_s`` was promised at activation. The job's own ``vacate_s`` and ``retirement_s`` are None where
    it does not say.
    """

    run_id: str
    activated_at: float
    machine_vacate_s: float = 600
    vacate_s: float | None = None
    retirement_s: float | None = None
    nice_user: bool = False
    accepted_while_draining: bool = False
    ran_s: float = 0
    running_since: float | None = None

    def ran(self, now: float) -> float:
        """Seconds the job has run, suspensions not counted."""
        if self.running_since is None:
            return self.ran_s
        return self.ran_s + max(0.0, now - self.running_since)

    def paused(self, now: float) -> Run:
        """The run as it is once the job is suspended."""
        return replace(self, ran_s=self.ran(now), running_since=None)

    def resumed(self, now: float) -> Run:
        """The run as it is once the job runs (again)."""
        return self if self.running_since is not None else replace(self, running_since=now)


class Claim(Struct, frozen=True):
    """A schedd's hold on a slot, or that of fetched work, which has no schedd. ``claim_id`` is the capability: whoever
    has it may use the claim."""

    claim_id: str
    schedd_name: str
    claimed_at: float
    lease_s: float
    last_alive: float
    rank: float = 0.0
    submitter: str = ""
    #: How many jobs have been started under this claim.
    activations: int = 0
    #: Seconds that its former jobs ran, and were suspended.
    ran_s: float = 0.0
    suspended_s: float = 0.0
    #: When it ends at the latest, whatever its schedd says: claims of partitionable slots only.
    ends_at: float | None = None
    #: When the startd was started again, if the schedd has not called since.
    unheard_since: float | None = None
    #: A hook fetched the work. Nobody renews such a claim: it has no lease, and ``lease_s`` is the keeper's alone.
    fetched: bool = False

    def lease_ends(self) -> float:
        """When the lease runs out unless the schedd is heard of before; or the claim's time is up."""
        lease = math.inf if self.fetched else self.last_alive + self.lease_s
        return lease if self.ends_at is None else min(lease, self.ends_at)


#: The lease when neither the job nor the schedd says anything (seconds).
DEFAULT_LEASE_S = 1200
#: How many alive intervals a lease lasts (MAX_CLAIM_ALIVES_MISSED).
ALIVES_PER_LEASE = 6


def lease_length(job_lease_s: float | None, alive_interval_s: float | None, alives: int = ALIVES_PER_LEASE) -> float:
    """JobLeaseDuration of the job, else MAX_CLAIM_ALIVES_MISSED alive intervals of the schedd, else 1200 seconds."""
    if job_lease_s is not None and job_lease_s > 0:
        return job_lease_s
    if alive_interval_s is not None and alive_interval_s > 0:
        return alives * alive_interval_s
    return DEFAULT_LEASE_S
