"""`slotwise power what-if` on files: where runs come from, what is asked of the configuration, what is told."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.pool import power
from slotwise.cli.pool.power_what_if import machine_of, percentile, run_of
from slotwise.errors import NotFoundError, UsageError

T0 = 1_700_000_100  # a whole number of times 300 s
HOUR = 3600
#: Two runs in HTCondor's form of a history, half a day apart, and a third on another machine.
HISTORY = "".join(
    f'ClusterId = {n}\nProcId = 0\nLastRemoteHost = "{slot}"\nJobCurrentStartDate = {T0 + begin}\n'
    f"CompletionDate = {T0 + end}\n*** Offset = 0 ClusterId = {n} ProcId = 0 Owner = \"u\"\n"
    for n, slot, begin, end in (
        (1, "slot1_1@node1.example", 0, HOUR), (2, "slot1_2@node1.example", 13 * HOUR, 14 * HOUR),
        (3, "slot1@node2.example", 0, 14 * HOUR),
    )
)  # fmt: skip


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A history, one job of which is in a part that was rotated away."""
    at = HISTORY.index("ClusterId = 2")
    (tmp_path / "history.20230101T000000").write_text(HISTORY[:at])
    (tmp_path / "history").write_text(HISTORY[at:])
    return tmp_path / "history"


def run(tmp_path: Path, *args: str) -> str:
    out = io.StringIO()
    env = {"SLOTWISE_HOME": str(tmp_path / "home")}
    assert power.main(["what-if", *args], Invocation(tmp_path, env, io.StringIO(), out, io.StringIO())) == 0
    return out.getvalue()


def told(tmp_path: Path, *args: str) -> dict[str, Any]:
    return json.loads(run(tmp_path, "-file", "history", "-json", *args))


IDLE = "time() - UnclaimedSince >= 2 * 3600"


def test_hours_saved_and_jobs_delayed(history: Path, tmp_path: Path) -> None:
    found = told(tmp_path, "-policy", IDLE, "-interval", "300", "-wake", "30", "-rooster", "600")
    assert (found["hours_idle"], found["runs"], found["sleeps"], found["runs_delayed"]) == (12, 3, 1, 1)
    asleep = 10 * HOUR  # from two hours after the first run until the call, at the next multiple of 600 s
    called = -(-(T0 + 13 * HOUR) // 600) * 600 - (T0 + 13 * HOUR)
    assert found["hours_asleep"] == pytest.approx((asleep + called) / HOUR, abs=1e-3)
    assert found["delay_s"] == dict.fromkeys(("median", "95", "most", "sum"), 30.0 + called)
    text = run(tmp_path, "-file", "history", "-policy", IDLE, "-interval", "300", "-wake", "30", "-rooster", "600")
    assert "2 machines and 3 runs" in text and f"delayed:  1 runs (33.3 %), half of them by {30 + called} s" in text
    assert "node1.example" in text and "kWh" not in text


@pytest.mark.parametrize("policy", ["NONE", '"NONE"', "false", "none"])
def test_a_policy_of_none_saves_nothing(history: Path, tmp_path: Path, policy: str) -> None:
    found = told(tmp_path, "-policy", policy)
    assert (found["hours_asleep"], found["sleeps"], found["runs_delayed"]) == (0, 0, 0)


def test_levels_cost_what_they_cost_and_watts_are_those_of_the_ads(history: Path, tmp_path: Path) -> None:
    (tmp_path / "slots.ads").write_text(
        'Name = "slot1@node1.example"\nMachine = "node1.example"\nPartitionableSlot = true\n'
        "IdleWatts = 103\nAsleepWatts = 3\n\n"
        'Name = "slot1@node9.example"\nMachine = "node9.example"\nPartitionableSlot = true\n'
    )
    how = ("-policy", IDLE, "-rooster", "0", "-ads", "slots.ads")
    fast, slow = told(tmp_path, *how), told(tmp_path, *how, "-level", "off")
    assert (fast["delay_s"]["most"], slow["delay_s"]["most"]) == (15, 180)
    assert [one["machine"] for one in fast["machines"]] == ["node1.example", "node2.example", "node9.example"]
    assert fast["machines"][2]["hours_idle"] == 14, "a machine that no job ran on was idle all the time"
    assert fast["kwh_saved"] is None
    known = told(tmp_path, *how, "-watts", "50")
    hours = [one["hours_asleep"] for one in known["machines"]]
    assert known["kwh_saved"] == pytest.approx(0.1 * hours[0] + 0.05 * (hours[1] + hours[2]), abs=0.01)
    assert told(tmp_path, *how, "-days", "0.25")["hours_idle"] == 5 + 0 + 6


def test_jobs_that_a_policy_sends_away_are_named(history: Path, tmp_path: Path) -> None:
    assert told(tmp_path, "-policy", "RAM")["runs_vacated"] == ["1.0", "3.0"], "2.0 is awake for its hour"
    text = run(tmp_path, "-file", "history", "-policy", "RAM")
    assert "WARNING: the policy would have sent 2 running jobs away (1.0, 3.0)" in text


def test_what_is_wrong_is_said(history: Path, tmp_path: Path) -> None:
    for args, why in (
        (["-policy", "1 +"], "is not an expression"), (["-policy", "true", "-level", "S9"], "not a low power state"),
        (["-policy", "true", "-wake", "soon"], "-wake soon"), ([], "HIBERNATE is not set"),
        (["State", "==", "x"], "in quotes"), (["-policy", "true", "-interval", "0"], "from 1 on"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            run(tmp_path, "-file", "history", *args)
    with pytest.raises(NotFoundError, match="no file"):
        run(tmp_path, "-file", "nowhere", "-policy", "true")
    (tmp_path / "empty").write_text("Cpus = 1\n")
    with pytest.raises(NotFoundError, match="no run"):
        run(tmp_path, "-file", "empty", "-policy", "true")


@pytest.mark.parametrize(
    ("ad", "span"),
    [
        ({"LastRemoteHost": "s@h", "JobCurrentStartDate": 5, "CompletionDate": 9}, (5, 9)),
        ({"RemoteHost": "s@h", "JobStartDate": 5, "CompletionDate": 0, "EpochWriteDate": 8}, (5, 8)),
        ({"LastRemoteHost": "s@h", "JobCurrentStartDate": 5, "LastVacateTime": 7, "EnteredCurrentStatus": 99}, (5, 7)),
        ({"LastRemoteHost": "s@h", "JobCurrentStartDate": 5, "EnteredCurrentStatus": 6}, (5, 6)),
        ({"LastRemoteHost": "s@h", "JobCurrentStartDate": 5, "CompletionDate": 3}, None),
        ({"JobCurrentStartDate": 5, "CompletionDate": 9}, None),
        ({"LastRemoteHost": "s@h", "CompletionDate": 9}, None),
    ],
)
def test_runs_are_found_in_histories_of_jobs_and_of_runs(ad: dict[str, Any], span: tuple[int, int] | None) -> None:
    found = run_of(ClassAd(ad))
    assert (None if found is None else (found.begin, found.end)) == span


def test_percentiles_are_values_that_were_there() -> None:
    assert [percentile(sorted([5.0, 1.0, 3.0, 9.0]), share) for share in (0.5, 0.95, 1)] == [3, 9, 9]
    assert percentile([], 0.5) == 0 and machine_of("slot1_3@Node.Example") == "node.example"
