"""Gathering claims for parallel jobs: all or nothing, each claim once, and nobody holds what another waits for."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from slotwise.schedd.parallel.gathering import IdleClaim, Part, Plan, WaitingJob, plan

GROUPS = ("", "left", "right")
#: Kinds of slots; a part of a job takes some of them.
KINDS = 3


class Case:
    """Waiting jobs and idle claims, and which claim fits which part."""

    def __init__(
        self, jobs: list[WaitingJob], claims: list[tuple[IdleClaim, int]], takes: dict[Part, set[int]]
    ) -> None:
        self.jobs, self.claims, self.takes = jobs, [claim for claim, _ in claims], takes
        self.kind = {claim.id: kind for claim, kind in claims}

    def fit(self, part: Part, claim: str) -> float | None:
        return float(self.kind[claim]) if self.kind[claim] in self.takes[part] else None

    def plan(self, *, fifo: bool) -> Plan:
        return plan(self.jobs, self.claims, self.fit, fifo=fifo)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    jobs: list[WaitingJob] = []
    takes: dict[Part, set[int]] = {}
    for cluster in range(1, draw(st.integers(1, 4)) + 1):
        counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
        parts = {(cluster, proc): count for proc, count in enumerate(counts)}
        takes |= {part: draw(st.sets(st.integers(1, KINDS), min_size=1)) for part in parts}
        jobs.append(
            WaitingJob(
                cluster,
                draw(st.sampled_from(["ann", "bob"])),
                parts,
                in_one_group=draw(st.booleans()),
                group=draw(st.sampled_from(GROUPS)),
                passed_over=draw(st.integers(0, 4)) == 0,
            )
        )
    claims = [
        (IdleClaim(f"c{n}", draw(st.sampled_from(["ann", "bob"])), draw(st.sampled_from(GROUPS))), kind)
        for n, kind in enumerate(draw(st.lists(st.integers(1, KINDS), max_size=12)))
    ]
    return Case(jobs, claims, takes)


@given(cases(), st.booleans())
def test_a_job_starts_with_all_of_its_claims_or_not_at_all(case: Case, fifo: bool) -> None:
    found = case.plan(fifo=fifo)
    jobs = {job.cluster: job for job in case.jobs}
    for start in found.starts:
        job = jobs[start.cluster]
        assert Counter(part for part, _ in start.nodes) == Counter(job.parts)
        claims = {claim.id: claim for claim in case.claims}
        assert {claims[claim].submitter for _, claim in start.nodes} == {job.submitter}
        assert all(case.fit(part, claim) is not None for part, claim in start.nodes)
        if job.in_one_group:
            (group,) = {claims[claim].group for _, claim in start.nodes}
            assert group


@given(cases(), st.booleans())
def test_no_claim_serves_two_jobs(case: Case, fifo: bool) -> None:
    found = case.plan(fifo=fifo)
    used = [claim for start in found.starts for _, claim in start.nodes] + found.useless
    assert len(used) == len(set(used))


@given(cases(), st.booleans())
def test_one_job_gathers_and_nothing_that_it_cannot_use_stays_in_its_way(case: Case, fifo: bool) -> None:
    found = case.plan(fifo=fifo)
    assert {wanted.part[0] for wanted in found.wanted} == ({found.gathers} if found.gathers is not None else set())
    if found.gathers is None:
        assert not found.useless
        return
    job = next(job for job in case.jobs if job.cluster == found.gathers)
    started = {claim for start in found.starts for _, claim in start.nodes}
    kept = {claim.id for claim in case.claims} - started - set(found.useless)
    assert all(claim.submitter == job.submitter for claim in case.claims if claim.id in kept)
    assert len(kept) + sum(wanted.count for wanted in found.wanted) == job.nodes
    assert all(wanted.count > 0 for wanted in found.wanted)


@given(cases())
def test_with_fifo_nobody_starts_before_the_job_that_gathers(case: Case) -> None:
    found = case.plan(fifo=True)
    order = [job.cluster for job in case.jobs if not job.passed_over]
    begun = [start.cluster for start in found.starts]
    assert begun == order[: len(begun)]
    if found.gathers is not None:
        assert found.gathers == order[len(begun)]


@given(cases(), st.booleans())
def test_who_is_passed_over_gets_nothing(case: Case, fifo: bool) -> None:
    found = case.plan(fifo=fifo)
    passed = {job.cluster for job in case.jobs if job.passed_over}
    assert not passed & ({start.cluster for start in found.starts} | {found.gathers})


@given(cases(), st.booleans())
def test_with_what_is_asked_for_the_job_starts(case: Case, fifo: bool) -> None:
    """What is missing, once it is there, is what was missing: gathering ends."""
    found = case.plan(fifo=fifo)
    if found.gathers is None:
        return
    job = next(job for job in case.jobs if job.cluster == found.gathers)
    useless = set(found.useless) | {claim for start in found.starts for _, claim in start.nodes}
    claims = [claim for claim in case.claims if claim.id not in useless]
    group = next((wanted.group for wanted in found.wanted if wanted.group), "left" if job.in_one_group else "")
    for wanted in found.wanted:
        for n in range(wanted.count):
            claim = IdleClaim(f"new {wanted.part} {n}", job.submitter, group)
            case.kind[claim.id] = min(case.takes[wanted.part])
            claims.append(claim)
    case.jobs, case.claims = [job], claims
    # A claim may suit two parts: a second look may ask for one more of the other.
    again = case.plan(fifo=fifo)
    assert len(again.starts) == 1 or len(job.parts) > 1
