"""Slots that are alike to jobs: what was found out for one must hold for all of its group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import ClassAd
from slotwise.schedd.claims.starts.slot_equivalence import SlotEquivalence

SLOT_EXPRESSIONS = ["true", "START", "START && TARGET.RequestMemory <= Memory", "TARGET.Wanted =?= Kind", "Kind == 1"]
JOB_EXPRESSIONS = [
    "true",
    "TARGET.Memory >= RequestMemory",
    "Kind == 2 && TARGET.Cpus > 1",
    "Needs",
    'MY.Needs || TARGET.Name == "b"',
]

slots = st.builds(
    lambda requirements, start, memory, cpus, kind, name: ClassAd(
        f"[Requirements = {requirements}; START = {start}; Memory = {memory}; Cpus = {cpus}; Kind = {kind};"
        f' Name = "{name}"; Unread = {memory * 7 + cpus}]'
    ),
    st.sampled_from(SLOT_EXPRESSIONS),
    st.sampled_from(["true", "Cpus == 2", "TARGET.RequestMemory > 1"]),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from("ab"),
)
jobs = st.builds(
    lambda requirements, memory, needs, wanted: ClassAd(
        f"[Requirements = {requirements}; RequestMemory = {memory}; Needs = {needs}; Wanted = {wanted}]"
    ),
    st.sampled_from(JOB_EXPRESSIONS),
    st.integers(1, 2),
    st.sampled_from(["TARGET.Cpus == 2", "TARGET.Kind == Wanted", "false"]),
    st.integers(1, 2),
)


@given(st.lists(slots, min_size=2, max_size=6), st.lists(jobs, min_size=1, max_size=4))
def test_what_fits_one_slot_fits_all_that_are_alike(some_slots: list[ClassAd], some_jobs: list[ClassAd]) -> None:
    likeness = SlotEquivalence()
    for _ in range(2):
        for slot in some_slots:
            for number, job in enumerate(some_jobs):
                group = likeness.of(slot, "")
                found = job.symmetric_match(slot)
                assert group.fits.get(number, found) == found
                if likeness.learn(job) and group.generation == likeness.generation:
                    group.fits[number] = found


def test_only_what_a_match_reads_tells_slots_apart() -> None:
    likeness = SlotEquivalence()
    job = ClassAd("[Requirements = TARGET.Memory >= RequestMemory; RequestMemory = 5]")
    first, second = (ClassAd(f'[Requirements = true; Memory = 8; Name = "slot1_{n}"]') for n in (1, 2))
    small = ClassAd('[Requirements = true; Memory = 4; Name = "slot1_3"]')
    assert likeness.learn(job)
    assert likeness.of(first, "") is likeness.of(second, "")
    assert likeness.of(first, "") is not likeness.of(small, "")
    assert likeness.of(first, "") is not likeness.of(first, "licence"), "jobs with other limits use it"
    kept = likeness.of(first, "")
    assert likeness.learn(ClassAd('[Requirements = TARGET.Name == "slot1_1"]'))
    assert kept.generation != likeness.generation
    kept, other = likeness.of(first, ""), likeness.of(second, "")
    assert kept is not other


def test_what_changes_with_time_is_not_shared() -> None:
    likeness = SlotEquivalence()
    assert not likeness.learn(ClassAd("[Requirements = time() % 2 == 0]"))
    assert not likeness.learn(ClassAd("[Requirements = Late; Late = time() > 5]"))
    assert not likeness.learn(ClassAd("[Requirements = eval(TARGET.Text) == 1]"))
    slot = ClassAd("[Requirements = time() > 5; Memory = 1]")
    assert likeness.of(slot, "") is not likeness.of(slot, "")
