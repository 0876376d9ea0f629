"""What a policy would have saved: hours add up, NONE saves nothing, sleeping always saves all but what waking costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import ClassAd
from slotwise.classad.evaluate import compiled
from slotwise.model.power.decision import Rules
from slotwise.model.power.what_if import Outcome, Plan, Run, base_slot, replay

HOUR, DAY = 3600.0, 86400.0
SINCE = 1_000_000.0
WAKE_S = (0.0, 5.0, 5.0, 20.0, 60.0, 180.0)
IDLE = 'State == "Unclaimed"'
#: Runs of one slot, one after the other, with time between the last of them and the end of the past.
SPANS = st.lists(st.tuples(st.integers(0, 4_000), st.integers(1, 4_000)), max_size=8)
#: How often HIBERNATE is looked at, where it is often (seconds).
LOOK_S = 30.0


def plan(
    policy: str, *, interval_s: float = LOOK_S, uptime_s: float = 0.0, rooster_s: float = 0.0, level: int = 3
) -> Plan:
    """A plan in which each level is there, and waking takes 20 s from S3."""
    rules = Rules(interval_s, uptime_s, frozenset(range(1, 6)), wakeable=True)
    return Plan(compiled("policy", policy), level, rules, rooster_s, WAKE_S)


def runs_of(spans: list[tuple[int, int]], slot: str = "slot1@m") -> tuple[list[Run], float]:
    """Runs with these gaps and lengths, and when the past ends."""
    at, found = SINCE, []
    for number, (gap, length) in enumerate(spans):
        found.append(Run(f"{number}.0", slot, at + gap, at + gap + length))
        at += gap + length
    return found, at + HOUR


def times(found: Outcome) -> float:
    return found.busy_s + found.asleep_s + found.waking_s + found.idle_s


@given(SPANS, st.sampled_from(['"NONE"', "undefined", "false", "1/0", '"nonsense"']))
def test_a_policy_that_never_sleeps_saves_nothing(spans: list[tuple[int, int]], policy: str) -> None:
    runs, until = runs_of(spans)
    found = replay("m", [], runs, plan(policy, interval_s=900), SINCE, until)
    assert (found.asleep_s, found.sleeps, found.delays, found.vacated) == (0, 0, [], [])
    assert found.idle_s == pytest.approx(found.past_idle_s)


@given(SPANS)
def test_sleeping_whenever_idle_saves_all_idle_time_but_what_looking_and_waking_cost(
    spans: list[tuple[int, int]],
) -> None:
    runs, until = runs_of(spans)
    ads = [ClassAd({"Name": "slot1@m"})]
    found = replay("m", ads, runs, plan(f'ifThenElse({IDLE}, "S3", "NONE")'), SINCE, until)
    assert times(found) == pytest.approx(until - SINCE)
    assert found.busy_s == pytest.approx(sum(run.end - run.begin for run in runs)), "no run is lost or cut"
    assert 20.0 * (found.sleeps - 1) <= found.waking_s <= 20.0 * found.sleeps, "the last one sleeps on"
    assert 0 <= found.idle_s <= LOOK_S * (found.sleeps + len(runs) + 1), "until the next look"
    assert found.asleep_s == pytest.approx(found.past_idle_s - found.waking_s - found.idle_s)
    assert all(0 < delay <= 20.0 * (len(runs) + 1) for delay in found.delays)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20_000), st.integers(1, 5_000)), max_size=10),
    st.integers(60, 900), st.integers(0, 3600), st.integers(0, 600),
    st.sampled_from([f"time() - UnclaimedSince > 600 && {IDLE}", IDLE, "true", "TotalLoadAvg < 1.5"]),
)  # fmt: skip
def test_times_add_up_and_no_run_is_lost(
    given_runs: list[tuple[int, int, int]], interval_s: int, uptime_s: int, rooster_s: int, policy: str
) -> None:
    runs = [
        Run(f"{n}.0", f"slot1_{slot}@m", SINCE + at, SINCE + at + length)
        for n, (slot, at, length) in enumerate(given_runs)
    ]
    until = SINCE + DAY
    how = plan(policy, interval_s=interval_s, uptime_s=uptime_s, rooster_s=rooster_s)
    found = replay("m", [], runs, how, SINCE, until)
    assert times(found) == pytest.approx(until - SINCE)
    assert min(found.busy_s, found.asleep_s, found.waking_s, found.idle_s) >= 0
    assert found.runs == len(runs) and len(found.delays) <= len(runs)
    if policy == IDLE or "UnclaimedSince" in policy:
        assert not found.vacated


def test_a_run_waits_for_the_rooster_and_for_the_machine_and_later_ones_for_it() -> None:
    runs = [
        Run("1.0", "slot1@m", SINCE + 50_010, SINCE + 50_110),
        Run("2.0", "slot1@m", SINCE + 50_115, SINCE + 50_200),
        Run("3.0", "slot1@m", SINCE + 60_000, SINCE + 60_010),
    ]
    how = plan(IDLE, interval_s=300, uptime_s=20_000, rooster_s=300)
    found = replay("m", [], runs, how, SINCE, SINCE + 65_000)
    called = 50_300.0  # 3501 times 300 s since the epoch
    first = called + 20 - 50_010
    assert found.delays == [first, first + 50_110 - 50_115], "the second begins when the first ends; the third on time"
    assert (found.sleeps, found.asleep_s) == (1, called - 300)


def test_one_busy_slot_keeps_the_machine_awake_and_a_partitionable_slot_alone_does_not() -> None:
    ads = [ClassAd({"Name": f"slot{n}@m", "Cpus": 1}) for n in (1, 2)]
    busy = [Run("1.0", "slot2@m", SINCE, SINCE + 50_000)]
    assert replay("m", ads, busy, plan(IDLE), SINCE, SINCE + 50_000).sleeps == 0
    dynamic = [Run("1.0", "slot1_1@m", SINCE, SINCE + 50_000)]
    assert replay("m", [], dynamic, plan(IDLE), SINCE, SINCE + 50_000).sleeps == 0
    after = replay("m", [], dynamic, plan("time() - UnclaimedSince >= 600", interval_s=60), SINCE, SINCE + 60_000)
    assert after.sleeps == 1 and after.asleep_s == pytest.approx(9400, abs=60)


def test_a_policy_that_does_not_ask_whether_the_slot_is_in_use_sends_jobs_away() -> None:
    runs = [Run("7.0", "slot1@m", SINCE, SINCE + 9000)]
    found = replay("m", [], runs, plan('"RAM"', interval_s=300), SINCE, SINCE + 9000)
    assert (found.vacated, found.busy_s, found.asleep_s) == (["7.0"], 300, 8700)


@pytest.mark.parametrize(
    ("name", "base"),
    [("slot1_3@h", "slot1@h"), ("slot12_34@a_1", "slot12@a_1"), ("slot2@h", "slot2@h"), ("h", "h"), ("_1@h", "_1@h"),
     ("slot_a@h", "slot_a@h")],
)  # fmt: skip
def test_slots_that_others_are_carved_from(name: str, base: str) -> None:
    assert base_slot(name) == base
