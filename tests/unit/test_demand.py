"""What a cycle has left unmet, and how many slots that would fill."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.cli.pool.demand import shape_of_text
from slotwise.errors import UsageError
from slotwise.matchmaking.demand import MOST_SHAPES, Ask, Shape, shapes_of, supply_for, unmet
from slotwise.negotiator.metrics import DemandMetrics

NOW = 1000.0


def refusal(request: str, count: int, reason: str = "no match found") -> Any:
    return SimpleNamespace(request=request, count=count, reason=reason)


def test_jobs_are_added_up_by_what_they_ask_for() -> None:
    asks = {
        "a": Ask("ann@d", Shape(1, 1024, 1024), 900),
        "b": Ask("bob@d", Shape(1, 1024, 1024), 700),
        "c": Ask("bob@d", Shape(8, 2048, 1024, 1), 990),
    }
    rows = [refusal("a", 5), refusal("b", 7, "concurrency limit: x"), refusal("c", 1), refusal("gone", 9)]
    found = unmet(rows, asks.get, NOW).as_json()
    assert (found["jobs"], found["limited_jobs"], found["submitters"], found["shapes_left_out"]) == (13, 7, 2, 0)
    assert found["shapes"][0] == {
        "cpus": 1, "memory_mib": 1024, "disk_mib": 1024, "gpus": 0, "jobs": 12, "limited_jobs": 7, "autoclusters": 2,
        "submitters": 2, "top_submitters": ["bob@d", "ann@d"], "reasons": {"no_match": 5, "concurrency_limit": 7},
        "oldest_wait_s": 300,
    }  # fmt: skip
    assert shapes_of(found) == [(Shape(1, 1024, 1024), 5), (Shape(8, 2048, 1024, 1), 1)]


def test_the_answer_is_short_however_many_shapes_there_are() -> None:
    asks = {str(n): Ask("ann@d", Shape(n + 1), 0) for n in range(300)}
    found = unmet([refusal(str(n), n + 1) for n in range(300)], asks.get, NOW)
    assert len(found.shapes) == MOST_SHAPES and found.left_out == 200
    assert found.jobs == sum(range(301)) and found.shapes[0].jobs == 300


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ((1, 100, 1, None), Shape(1, 128, 1024)),
        ((4, 4000, 2**20, 2), Shape(4, 4096, 1024, 2)),
        ((None, "much", True, -3), Shape(1, 0, 0, 0)),
        ((float("inf"), float("nan"), 10**30, 0), Shape(1, 0, 1 << 30, 0)),
    ],
)
def test_what_is_not_a_number_is_not_asked_for(values: tuple[Any, ...], shape: Shape) -> None:
    assert Shape.asked(*values) == shape


SLOT = Shape(8, 32768, 100000)


@pytest.mark.parametrize(
    ("jobs", "slots", "placed", "too_large"),
    [
        ([], 0, 0, 0),
        ([(Shape(1, 1024), 16)], 2, 16, 0),
        ([(Shape(1, 32768), 3)], 3, 3, 0),
        ([(Shape(16, 1), 5), (Shape(1, 1, 1, 1), 2)], 0, 0, 7),
        # Small ones go where large ones have left room.
        ([(Shape(5, 1024), 2), (Shape(3, 1024), 2)], 2, 4, 0),
        ([(Shape(5, 1024), 1), (Shape(1, 1024), 4)], 2, 5, 0),
        ([(Shape(1, 1), 10**9)], 125_000_000, 10**9, 0),
    ],
)
def test_how_many_slots_the_jobs_need(jobs: list[tuple[Shape, int]], slots: int, placed: int, too_large: int) -> None:
    found = supply_for(jobs, SLOT)
    assert (found.slots, found.jobs, found.too_large) == (slots, placed, too_large)


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 5000), st.integers(0, 30)), max_size=8))
def test_no_slot_is_overfull_and_none_is_empty(rows: list[tuple[int, int, int]]) -> None:
    jobs = [(Shape(cpus, memory), count) for cpus, memory, count in rows]
    slot = Shape(8, 4096)
    found = supply_for(jobs, slot)
    fits = [(job, count) for job, count in jobs if slot.holds(job)]
    assert found.jobs + found.too_large == sum(count for _, count in jobs)
    assert found.jobs == sum(count for _, count in fits)
    assert sum(job.cpus * count for job, count in fits) <= found.slots * slot.cpus
    assert sum(job.memory_mib * count for job, count in fits) <= found.slots * slot.memory_mib
    assert found.slots <= found.jobs


def test_a_shape_is_written_with_units() -> None:
    assert shape_of_text("cpus=8, memory=32G disk=1T,gpus=2") == Shape(8, 32768, 1 << 20, 2)
    assert shape_of_text("Cpus=1").holds(Shape(1, 1 << 30, 1 << 30)) == 1
    for wrong in ("", "memory=4G", "cpus=many", "cpus=4G", "cpus=1 colour=red"):
        with pytest.raises(UsageError):
            shape_of_text(wrong)


def test_metrics_have_two_labels_of_two_values() -> None:
    asks = {"a": Ask("ann@d", Shape(2, 1024), 400), "b": Ask("ann@d", Shape(1, 0, 0, 1), 990)}
    found = unmet([refusal("a", 3), refusal("b", 2, "group quota exceeded")], asks.get, NOW)
    families = {family.name: family for family in DemandMetrics(lambda: found)()}
    jobs = {tuple(s.labels.values()): s.value for s in families["slotwise_demand_jobs"].samples}
    assert jobs == {("no", "slots"): 3, ("no", "limits"): 0, ("yes", "slots"): 0, ("yes", "limits"): 2}
    cpus = {tuple(s.labels.values()): s.value for s in families["slotwise_demand_cpus"].samples}
    assert cpus["no", "slots"] == 6
    (oldest,) = families["slotwise_demand_oldest_wait_seconds"].samples
    assert oldest.value == 600
    assert len(list(DemandMetrics(lambda: None)())) == 4
