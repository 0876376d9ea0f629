"""Rows of outcomes, of which a test names what it is about."""

from __future__ import annotations

from slotwise.matchmaking.rows import Group, KeptMachine, Match, Rejection, SlotCounts


def made_match(
    slot: str,
    *,
    submitter: str = "ann@d",
    schedd: str = "ap",
    carve: dict[str, float] | None = None,
    limits: str | None = None,
    offline: bool = False,
) -> Match:
    """A match of one job with a slot."""
    return Match(
        job="1.0",
        slot=slot,
        request="1",
        autocluster=1,
        submitter=submitter,
        schedd=schedd,
        rank=0.0,
        cost=1.0,
        carve=carve or {},
        preempts=None,
        preemption=None,
        evicts=[],
        offline=offline,
        claimable=not offline,
        limits=limits,
        group="<none>",
    )


def rejection(submitter: str, job: str, reason: str) -> Rejection:
    """A rejection of one job."""
    return Rejection(
        autocluster=job,
        autocluster_id=1,
        submitter=submitter,
        schedd="ap",
        request="1",
        reason=reason,
        count=1,
        slots=SlotCounts(protected=0, prefer_running=0, too_heavy=0, limited=0),
    )


def kept_machine(slot: str, submitter: str, job: str, claims: list[str]) -> KeptMachine:
    """A machine that is expected to be ready at 1,000 and given up at 2,000."""
    return KeptMachine(job=job, slot=slot, submitter=submitter, starts_at=1_000.0, gives_up_at=2_000.0, claims=claims)


def group(name: str) -> Group:
    """A group that has nothing."""
    return Group(
        name=name,
        quota=0.0,
        config_quota=0.0,
        static=True,
        subtree_quota=0.0,
        requested=0.0,
        allocated=0.0,
        usage=0.0,
        matched=0,
        surplus="no",
        sort_key=0.0,
    )
