"""How long a process takes for what it does again and again."""

from __future__ import annotations

import pytest
from slotwise.model.publication import Publication
from slotwise.run_times import RunTime, RunTimes, command


def test_the_spread_of_times_is_that_which_htcondor_publishes() -> None:
    spent = RunTime()
    assert spent.summary() == {}
    spent.add(3.0)
    assert spent.summary() == {"Avg": 3.0, "Max": 3.0, "Min": 3.0, "Std": 3.0}, "as HTCondor's of a single time"
    spent.add(1.0)
    assert spent.summary() == {"Avg": 2.0, "Max": 3.0, "Min": 1.0, "Std": pytest.approx(2**0.5)}


def test_statistics_to_publish_decides_which_run_times_an_ad_shows() -> None:
    spent = RunTimes()
    spent.calls = 7
    spent.of(command("Schedd/Act")).add(0.5)
    spent.of(command("Schedd/SubmitOne"))
    act, submit = "DCCommand_ACT_ON_JOBS", "DCCommand_Schedd_SubmitOne"
    assert spent.attributes(Publication(0)) == {}
    basic = {"DCCommands": 7, act: 1, f"{act}Runtime": 0.5, submit: 0, f"{submit}Runtime": 0.0}
    assert spent.attributes(Publication(1)) == basic
    spread = {f"{act}Runtime{kind}": 0.5 for kind in ("Avg", "Max", "Min", "Std")}
    assert spent.attributes(Publication(2)) == basic | spread
    assert submit not in spent.attributes(Publication(1, nonzero=True))
    assert spent.attributes(Publication(0, listed=frozenset({act.lower()}))) == {act: 1, f"{act}Runtime": 0.5}
