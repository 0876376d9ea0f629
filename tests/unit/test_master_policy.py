"""What the master decides: order, restart delays, harder stops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.master.limits import HARDER, Limits
from slotwise.master.policy import (
    OPTIONAL,
    START_ORDER,
    Backoff,
    daemons_of,
    failures_after,
    restart_delay_s,
    start_order,
)


@pytest.mark.parametrize("unset", [None, [], ["MASTER"], ["master", " "]])
def test_a_pool_without_a_list_runs_everything(unset: list[str] | None) -> None:
    assert daemons_of(unset) == ([name for name in START_ORDER if name not in OPTIONAL], [])
    assert daemons_of(["MASTER", "COLLECTOR", "DEFRAG"]) == (["collector", "defrag"], [])


def test_a_list_is_put_in_order_and_brings_its_helpers() -> None:
    names, unknown = daemons_of(["MASTER", "STARTD", "COLLECTOR", "SHARED_PORT", "FOO"])
    assert names == ["collector", "starter", "startd"]
    assert unknown == ["FOO"]


def test_the_starter_answers_before_the_startd_asks_it() -> None:
    order = start_order({"startd", "starter", "front", "collector"})
    assert order == ["collector", "starter", "startd", "front"]


def test_the_first_restart_comes_at_once_and_the_next_ones_later() -> None:
    usual = Backoff()
    assert [restart_delay_s(n, usual) for n in range(5)] == pytest.approx([0.0, 0.4, 1.6, 6.4, 25.0])


@given(st.integers(0, 200), st.floats(0, 60), st.floats(1, 4), st.floats(1, 4000))
def test_a_delay_never_falls_and_never_passes_the_ceiling(
    failures: int, constant: float, factor: float, ceiling: float
) -> None:
    knobs = Backoff(constant, factor, ceiling)
    assert restart_delay_s(failures, knobs) <= restart_delay_s(failures + 1, knobs) <= ceiling


def test_a_long_run_ends_the_row_of_failures() -> None:
    usual = Backoff()
    assert failures_after(0, 0.1, usual) == 1
    assert failures_after(3, 1.0, usual) == 4
    assert failures_after(3, 64.1, usual) == 0
    assert failures_after(9, usual.recover_s, usual) == 0


def test_every_way_of_stopping_ends_in_kill() -> None:
    for mode in ("peaceful", "graceful", "fast"):
        step, steps = mode, 0
        while step != "kill":
            step, steps = HARDER[step], steps + 1
        assert steps <= 3
    assert Limits().of("peaceful") is None
    assert Limits(graceful_s=7).of("graceful") == 7
