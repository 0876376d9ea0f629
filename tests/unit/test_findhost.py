"""Which slots `slotwise findhost` would take first, and when a whole machine can be had."""

from __future__ import annotations

from slotwise.classad import ClassAd, ExprTree
from slotwise.cli.pool.findhost import candidates, whole_machines

REQUEST = ClassAd({"Requirements": True, "Interactive": True, "RequestCpus": 1})


def _slot(name: str, **attributes: object) -> ClassAd:
    machine = name.partition("@")[2]
    slot = {"Name": name, "Machine": machine, "Requirements": True, "Rank": 0, "CurrentRank": 0, "TotalSlots": 1}
    return ClassAd(slot | attributes)


def _names(found: object) -> list[object]:
    return [one.ad.get("Name") for one in found]  # type: ignore[attr-defined]


def _request(rank: str) -> ClassAd:
    made = REQUEST.copy()
    made["Rank"] = ExprTree(rank)
    return made


def test_idle_slots_come_first_then_those_that_rank_the_request_higher() -> None:
    slots = [
        _slot("a@x", RemoteUser="u@d", RemoteUserPrio=9.0),
        _slot("b@x", RemoteUser="u@d", Rank=2, CurrentRank=1),
        _slot("c@x"),
    ]
    assert _names(candidates(REQUEST, slots, "", "")) == ["c@x", "b@x", "a@x"]


def test_preemption_requirements_protect_and_preemption_rank_orders() -> None:
    slots = [
        _slot("a@x", RemoteUser="u@d", TotalJobRunTime=10),
        _slot("b@x", RemoteUser="u@d", TotalJobRunTime=5),
        _slot("c@x", RemoteUser="u@d", TotalJobRunTime=5, CurrentRank=1),
        _slot("d@x", RemoteUser="u@d", TotalJobRunTime=500),
    ]
    requirements = "TARGET.Interactive =?= True && MY.TotalJobRunTime < 100"
    assert _names(candidates(REQUEST, slots, requirements, "-TotalJobRunTime")) == ["b@x", "a@x"]


def test_of_equals_the_callers_rank_decides_then_the_order_given() -> None:
    slots = [_slot("a@x", Memory=5), _slot("b@x", Memory=7), _slot("c@x", Memory=7)]
    assert _names(candidates(_request("TARGET.Memory"), slots, "", "")) == ["b@x", "c@x", "a@x"]
    assert _names(candidates(REQUEST, slots, "", "")) == ["a@x", "b@x", "c@x"]


def test_a_slot_that_refuses_the_request_is_none() -> None:
    slots = [_slot("a@x", Requirements=False), _slot("b@x", Requirements=ExprTree("TARGET.RequestCpus > 4"))]
    assert candidates(REQUEST, slots, "", "") == []


def test_a_machine_is_found_when_all_its_slots_are() -> None:
    both = [_slot("slot1@x", TotalSlots=2), _slot("slot2@x", TotalSlots=2), _slot("slot1@y", TotalSlots=2)]
    assert [one.ad.get("Machine") for one in whole_machines(candidates(REQUEST, both, "", ""))] == ["x"]
