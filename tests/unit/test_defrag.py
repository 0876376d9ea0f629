"""The defragmenter's decisions: how many machines, which, and which drains to cancel."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import asdict
from slotwise.classad import ClassAd
from slotwise.defrag.decide import Arrivals, Plan, costs, due, plan
from slotwise.defrag.rules import DefragRules, Pace, pace, read
from slotwise.errors import ConfigError

from tests.support.configured import configured

NOW = 1_700_000_000.0
BUSY = DefragRules("cm", per_hour=3600, interval_s=1)


def machine(name: str, **more: Any) -> ClassAd:
    return ClassAd(
        {
            "Name": f"slot1@{name}", "MyAddress": f"addr-{name}", "PartitionableSlot": True, "Cpus": 1,
            "TotalSlotCpus": 8, "SlotID": 1, "ExpectedMachineGracefulDrainingBadput": 100,
            "ExpectedMachineGracefulDrainingCompletion": int(NOW) + 60, **more,
        }
    )  # fmt: skip


def planned(*slots: ClassAd, rules: DefragRules = BUSY, **knobs: Any) -> Plan:
    rules = DefragRules(**{**asdict(rules), **knobs})
    return plan(rules, slots, NOW - 1, NOW, list)


def names(plan_: Plan) -> list[str]:
    return [target.machine for target in plan_.drain]


@pytest.mark.parametrize(
    ("per_hour", "interval_s", "parts"),
    [
        (0, 600, Pace(0, 0, 0)),
        (6, 600, Pace(1, 0, 0)),
        (3, 600, Pace(0, 3, 0)),
        (7, 600, Pace(1, 1, 0)),
        (0.5, 600, Pace(0, 0, 12)),
        (10, 3600, Pace(10, 0, 0)),
    ],
)
def test_a_rate_is_divided_into_whole_machines(per_hour: float, interval_s: float, parts: Pace) -> None:
    assert pace(DefragRules(per_hour=per_hour, interval_s=interval_s)) == parts


def test_the_share_of_an_hour_is_taken_in_its_first_poll() -> None:
    rules = DefragRules(per_hour=3, interval_s=600)
    hour = 1_700_000_000 // 3600 * 3600
    assert due(rules, hour - 10, hour + 10) == 3
    assert due(rules, hour + 10, hour + 610) == 0
    assert due(rules, hour - 4000, hour + 1800) == 2, "half an hour is gone, and one interval may have been missed"
    assert due(rules, 0, hour + 10) == 0, "never polled before"


def test_no_more_than_the_rate_over_a_day() -> None:
    rules = DefragRules(per_hour=3.5, interval_s=600)
    start = 1_700_000_000 // 86400 * 86400
    polls = [start - 600 + 600 * n for n in range(145)]
    assert sum(due(rules, before, now) for before, now in pairwise(polls)) == 3.5 * 24


def test_cheap_machines_come_first_and_each_only_once() -> None:
    found = planned(
        machine("dear", ExpectedMachineGracefulDrainingBadput=900),
        machine("cheap", ExpectedMachineGracefulDrainingBadput=5),
        machine("cheap", Name="slot2@cheap"),
    )
    assert names(found) == ["cheap", "dear"]
    assert found.drain[0].address == "addr-cheap"


@pytest.mark.parametrize(
    "more",
    [
        {"PartitionableSlot": False}, {"Offline": True}, {"Draining": True, "DrainReason": "other"}, {"Cpus": 8},
        {"Fast": True},
    ],
)  # fmt: skip
def test_some_are_left_alone(more: dict[str, Any]) -> None:
    assert names(planned(machine("a", **more), machine("b"), requirements="Fast =!= true")) == ["b"]


def test_the_cost_must_not_have_grown_much() -> None:
    (target,) = planned(machine("a")).drain
    assert target.check == (
        f"ExpectedMachineGracefulDrainingCompletion <= {int(NOW) + 1260} && "
        "ExpectedMachineGracefulDrainingBadput <= 1325"
    )
    (target,) = planned(machine("a"), schedule=20).drain
    assert "QuickDraining" in target.check


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"max_draining": 1}, "drain already"),
        ({"max_draining": 0}, "drain already"),
        ({"max_whole": 1}, "whole machines"),
        ({"per_hour": 0}, "PER_HOUR"),
        ({"per_hour": 1}, "none is due"),
    ],
)
def test_limits(knobs: dict[str, Any], reason: str) -> None:
    slots = [machine("a"), machine("b", Draining=True, DrainReason="Defrag cm"), machine("c", Cpus=8)]
    found = planned(*slots, **knobs)
    assert found.drain == ()
    assert reason in found.why_not
    assert names(planned(*slots, max_draining=2, max_whole=2)) == ["a"]


def test_others_drains_are_nobodys_business_here() -> None:
    found = planned(
        machine("a", Draining=True, DrainReason="kernel", Cpus=8), machine("b", Draining=True, Cpus=8),
        cancel="Cpus == TotalSlotCpus",
    )  # fmt: skip
    assert found.draining == {"b"}
    assert [target.machine for target in found.cancel] == ["b"]


def test_a_machine_whose_drain_is_cancelled_is_not_drained_in_the_same_poll() -> None:
    found = planned(
        machine("a", Draining=True, DrainReason="Defrag cm"), machine("a", Name="slot2@a"), cancel="true",
    )  # fmt: skip
    assert ([t.machine for t in found.cancel], found.drain) == (["a"], ())


def test_knobs() -> None:
    knobs = {"DEFRAG_WHOLE_MACHINE_EXPR": "Cpus > 4", "DEFRAG_DRAINING_SCHEDULE": "Quick", "DEFRAG_INTERVAL": "60"}
    found = read(configured("DEFRAG", **knobs), "cm")
    assert (found.whole, found.cancel, found.schedule, found.interval_s) == ("Cpus > 4", "Cpus > 4", 10, 60)
    assert found.reason == "Defrag cm"
    for knob, text in (("DEFRAG_RANK", "1 +"), ("DEFRAG_INTERVAL", "soon"), ("DEFRAG_DRAINING_SCHEDULE", "slowly")):
        with pytest.raises(ConfigError, match=knob):
            read(configured("DEFRAG", **{knob: text}), "cm")


def test_arrivals_are_counted_from_the_second_on() -> None:
    arrivals = Arrivals()
    arrivals.seen(frozenset("a"), frozenset("b"), 100)
    arrivals.seen(frozenset("a"), frozenset(), 200)
    assert (arrivals.count, arrivals.rate) == (1, 0.01)


def test_costs_of_the_pool() -> None:
    ads = [
        machine("a", TotalMachineDrainingBadput=800, TotalMachineDrainingUnclaimedTime=80, TotalCpus=4,
                DaemonStartTime=int(NOW) - 100, LastHeardFrom=int(NOW)),
        machine("b"),
    ]  # fmt: skip
    assert costs(ads, NOW) == (2.0, 0.2)


def test_a_name_may_have_any_characters() -> None:
    ours = machine("a", Draining=True, DrainReason='Defrag the "big" \\ one')
    assert planned(ours, name='the "big" \\ one').draining == {"a"}
