"""What hooks print, when they are asked, and what the execution point makes of it, without any process."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.classad import ClassAd
from slotwise.errors import UsageError
from slotwise.model.ownership import LocalDomains
from slotwise.model.slot import SlotKind
from slotwise.startd.fetch import schedule, work
from slotwise.startd.fetch.service import work_offers
from slotwise.startd.journal import Journal
from slotwise.startd.records.fetch_attempts import Attempts
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Claimed, Owner, Preempting, Slot, Unclaimed
from slotwise.table import unpack_ads

from tests.support.startd_point import Point, job, point
from tests.support.startd_slots import T0, busy, claimed, owner, suspended, unclaimed, vacating

DOMAINS = LocalDomains("here", ("there",))

# ------------------------------------------------------------------------------------------------- what a hook prints


def test_lines_are_an_ad_and_nothing_is_no_work() -> None:
    ad = work.read(b'\n Cmd = "/bin/x"\nArgs="a = b"\n\nRequestCpus = 1 + 1\n')
    assert ad is not None
    assert (ad.eval("Cmd"), ad.eval("Args"), ad.eval("RequestCpus")) == ("/bin/x", "a = b", 2)
    assert work.read(b"") is None and work.read(b"\n  \n") is None


@pytest.mark.parametrize(
    "output",
    [
        b"hello",
        b"= 3",
        b"A B = 1",
        b"A = (",
        b"A = 1\nB",
        b"\xff\xfe",
        b"A" * (work.LONGEST + 1),
        b"A = " + b"(" * 9999,
    ],
)
def test_what_is_not_an_ad_is_refused_whole(output: bytes) -> None:
    with pytest.raises(UsageError):
        work.read(output)


def completed(static: bool = True, **attributes: Any) -> ClassAd:
    return work.completed(ClassAd({"Cmd": "/bin/x", **attributes}), "K", static=static, now=T0)


def test_what_the_ad_does_not_say_is_filled_in_as_in_htcondor() -> None:
    ad = completed()
    names = ("ClusterId", "ProcId", "JobUniverse", "HookKeyword", "RequestCpus", "RequestMemory", "RequestDisk")
    assert [ad.eval(name) for name in names] == [1, 0, 5, "K", 1, 1, 1]
    assert "RequestCpus" not in completed(static=False)
    assert completed(HookKeyword="OWN", RequestCpus=3).eval("HookKeyword") == "OWN"
    assert completed(ShouldTransferFiles="YES").eval("ShouldTransferFiles") == "NO", "nobody could send the files"


def test_what_no_slot_can_run() -> None:
    assert work.unfit(completed(), now=T0) == ""
    assert "no program" in work.unfit(completed(Cmd=3), now=T0)
    assert "universe" in work.unfit(completed(JobUniverse=10), now=T0)
    assert "ClusterId" in work.unfit(completed(ClusterId="x"), now=T0)


@pytest.mark.parametrize(
    ("names", "user"),
    [
        ({"Owner": "ann"}, "ann@here"), ({"User": "ann@there", "Owner": "bob"}, "ann@there"),
        ({"OsUser": "eve", "User": "ann@there"}, "eve@here"), ({"User": "ann@other.org"}, "ann@other.org"),
        ({}, "me@here"), ({"Owner": 3}, "me@here"),
    ],
)  # fmt: skip
def test_whose_it_is(names: dict[str, Any], user: str) -> None:
    assert work.owner(completed(**names), DOMAINS, "me", now=T0) == user


def test_somebody_must_be_named_on_a_host_of_roots() -> None:
    with pytest.raises(UsageError, match="does not say whose"):
        work.owner(completed(), DOMAINS, "", now=T0)
    for name in ("@here", "a\nb"):
        with pytest.raises(UsageError, match="is not a user"):
            work.owner(completed(Owner=name), DOMAINS, "", now=T0)


# ---------------------------------------------------------------------------------------------------- when one is asked


def test_which_slots_ask() -> None:
    asking = [owner(), unclaimed(), unclaimed(SlotKind.PARTITIONABLE), claimed(), busy()]
    silent = [suspended(), vacating(), owner(SlotKind.PARTITIONABLE)]
    assert [schedule.asks(d.slot) for d in (*asking, *silent)] == [True] * 5 + [False] * 3
    d = unclaimed()
    d.apply(ev.FoundBroken("x"))
    assert not schedule.asks(d.slot)


def test_the_delay_counts_from_the_end_of_the_last_attempt() -> None:
    slot = Slot("slot1", SlotKind.STATIC, Unclaimed(), T0, T0)
    assert schedule.due_at(Attempts(), slot, 300) == 0.0
    tried = Attempts().begin(T0).end(T0 + 7, failed=False)
    assert schedule.due_at(tried, slot, 300) == T0 + 307
    assert schedule.due_at(tried, slot, 0) == schedule.due_at(tried, slot, -5) == T0 + 8, "a second passes at least"
    assert [schedule.delay(value) for value in (None, "x", 10**12, 7.9, True)] == [300, 300, 300, 7, 1]


def test_a_claim_that_has_just_become_idle_asks_at_once() -> None:
    d = claimed()
    tried = Attempts().begin(T0).end(d.slot.entered_activity, failed=False)
    assert schedule.due_at(tried, d.slot, 0) == T0
    assert schedule.due_at(tried.end(T0 + 1, failed=False), d.slot, 0) == T0 + 2


def test_failures_are_tried_again_later_and_later() -> None:
    slot = Slot("slot1", SlotKind.STATIC, Owner(), T0, T0)
    tried, waits = Attempts(), []
    for _ in range(12):
        tried = tried.end(T0, failed=True)
        waits.append(schedule.due_at(tried, slot, 0) - T0)
    assert waits[:4] == [5, 10, 20, 40] and waits[-1] == 600
    assert schedule.due_at(tried.end(T0, failed=False), slot, 0) == T0 + 1
    assert schedule.due_at(Attempts().end(T0, failed=False).work_failed(), slot, 0) == T0 + 5


# ------------------------------------------------------------------------------------------ on an execution point

KNOBS: dict[str, Any] = {"STARTD_JOB_HOOK_KEYWORD": "K", "NUM_SLOTS": "1", "RANK": "TARGET.Liking"}


def offer(p: Point, record: SlotRecord, call_id: str = "f1", **attributes: Any) -> bool:
    ad = ClassAd({"Cmd": "/bin/x", "Owner": "ann", **attributes})
    return work_offers(p.it).offer(record, ad, lambda found: work.owner(found, DOMAINS, "", now=p.now), call_id, p.now)


def told(p: Point) -> list[tuple[str, ...]]:
    """Hook, slot, arguments, of what hooks are to hear."""
    return [(call.hook, call.slot_name, *call.arguments) for call in p.it.outbox.hooks]


def only(p: Point) -> SlotRecord:
    (record,) = (record for record in p.it.slots if record.parent is None)
    return record


def test_accepted_work_runs_and_the_hook_gets_both_ads_with_the_claim() -> None:
    p = point(**KNOBS)
    record = only(p)
    assert offer(p, record, Item="x")
    assert (
        record.slot.state_activity == ("Claimed", "Busy")
        and record.activation is not None
        and record.activation.fetched
    )
    assert record.activation.run_id == "1.0#f1" and record.activation.job.values["User"] == "ann@here"
    assert told(p) == [("REPLY_FETCH", record.name, "accept")]
    first, _, second = p.it.outbox.hooks[0].given.decode().partition("-----\n")
    assert 'Item = "x"' in first and 'State = "Unclaimed"' in second
    assert record.slot.claim is not None and f'ClaimId = "{record.slot.claim.claim_id}"' in second
    p.it.validate()
    claim_id = record.slot.claim.claim_id
    assert p.it.claims.keep_alive([claim_id], p.now) == [claim_id], "no schedd can speak of the claim"
    for name in ("RemoteUser", "RemoteScheddName", "ClientMachine"):
        assert p.it.ads.attributes(record, p.now)[name] is None


@pytest.mark.parametrize(
    ("attributes", "knobs"),
    [
        ({"Owner": None}, {}), ({"Cmd": None}, {}), ({}, {"START": "TARGET.Blue"}), ({"RequestCpus": 99}, {}),
        ({}, {"SLOT_TYPE_1": "100%", "SLOT_TYPE_1_PARTITIONABLE": "true", "NUM_SLOTS_TYPE_1": "1", "NUM_SLOTS": ""}),
    ],
)  # fmt: skip
def test_rejected_work_is_told_too(attributes: dict[str, Any], knobs: dict[str, str]) -> None:
    p = point(**{**KNOBS, **knobs})
    record = only(p)
    ad = {name: value for name, value in {"Cmd": "/bin/x", "Owner": "ann", **attributes}.items() if value is not None}
    assert not work_offers(p.it).offer(
        record, ClassAd(ad), lambda found: work.owner(found, DOMAINS, "", now=p.now), "f1", p.now
    )
    assert told(p) == [("REPLY_FETCH", record.name, "reject")]
    assert b"ClaimId" not in p.it.outbox.hooks[0].given
    assert record.slot.claim is None and record.fetch.work is None and not record.children


def test_the_requirements_of_the_work_itself_are_not_asked() -> None:
    """As in HTCondor 25.14, whatever its manual says of other jobs."""
    p = point(**KNOBS)
    assert offer(p, only(p), Requirements=False)


def test_the_end_of_work_is_told_only_if_it_did_not_come_to_its_end() -> None:
    p = point(**KNOBS)
    record = only(p)
    offer(p, record)
    p.it.claims.run_gone("1.0#f1", p.now, finished=True)
    assert record.slot.state_activity == ("Claimed", "Idle")
    p.it.apply(record, ev.NoWorkFetched(), p.now)
    assert record.slot.state_activity == ("Unclaimed", "Idle") and told(p) == [("REPLY_FETCH", record.name, "accept")]
    offer(p, record, "f2")
    p.it.claims.run_gone("1.0#f2", p.now, reason="no such program")
    assert record.slot.state_activity == ("Unclaimed", "Idle")
    assert told(p)[-1] == ("EVICT_CLAIM", record.name)
    given = p.it.outbox.hooks[-1].given.decode()
    accepted = p.it.outbox.hooks[-2].given.decode()
    assert 'VacateReason = "no such program"' in given
    assert given.rpartition("ClaimId")[2] == accepted.rpartition("ClaimId")[2]
    assert record.fetch.attempts.failures == 1


def test_work_that_waits_displaced_by_better_is_given_back() -> None:
    p = point(**KNOBS, MaxJobRetirementTime="3600")
    record = only(p)
    offer(p, record, "f1", Liking=1)
    assert offer(p, record, "f2", Liking=2) and record.slot.state_activity == ("Claimed", "Retiring")
    assert not offer(p, record, "f3", Liking=2)
    assert offer(p, record, "f4", Liking=3)
    assert told(p)[1:] == [
        ("REPLY_FETCH", record.name, "accept"), ("REPLY_FETCH", record.name, "reject"), ("EVICT_CLAIM", record.name),
        ("REPLY_FETCH", record.name, "accept"),
    ]  # fmt: skip
    p.poll(3601)
    assert isinstance(record.slot.state, Preempting)
    p.it.claims.run_gone("1.0#f1", p.now)
    assert record.slot.run is not None and record.slot.run.run_id == "1.0#f4" and record.fetch.work is None
    assert record.job is not None and record.activation is not None and record.activation.run_id == "1.0#f4"
    assert told(p)[-1] == ("EVICT_CLAIM", record.name), "the first did not come to its end"


def test_a_schedds_better_claim_gets_the_slot_of_work_that_waited() -> None:
    p = point(**KNOBS, MaxJobRetirementTime="3600")
    record = only(p)
    offer(p, record, "f1", Liking=1)
    offer(p, record, "f2", Liking=2)
    p.request("slot1", wanted=job(Liking=5))
    assert told(p)[-1] == ("EVICT_CLAIM", record.name) and record.fetch.work is None
    assert isinstance(record.slot.state, Claimed) and record.slot.state.waiting is not None
    assert not record.slot.state.waiting.claim.fetched


def test_a_refusal_goes_to_the_schedd_that_asked() -> None:
    p = point(**KNOBS)
    record = only(p)
    offer(p, record, "f1", Liking=5)
    answer = p.request("slot1", wanted=job(Liking=1))
    assert type(answer).__name__ == "Refused"


def test_a_partitionable_slot_gives_it_a_dynamic_one() -> None:
    shape = {"SLOT_TYPE_1": "100%", "SLOT_TYPE_1_PARTITIONABLE": "true", "NUM_SLOTS_TYPE_1": "1", "NUM_SLOTS": ""}
    p = point(**{**KNOBS, **shape})
    record = only(p)
    assert offer(p, record, RequestCpus=1, RequestMemory=100, RequestDisk=10)
    (child,) = p.it.slots.children(record)
    assert child.slot.state_activity == ("Claimed", "Busy") and child.total.memory_mib == 128
    assert told(p) == [("REPLY_FETCH", child.name, "accept")]
    p.it.validate()
    p.it.claims.run_gone("1.0#f1", p.now, finished=True)
    p.it.apply(child, ev.NoWorkFetched(), p.now)
    assert not record.children
    p.it.validate()


# ------------------------------------------------------------------------------------------------- over a restart


def again(p: Point, tmp_path: Any, **knobs: str) -> Point:
    """What a new startd makes of the journal."""
    journal = Journal(tmp_path / "journal")
    journal.save(p.it.slots, ())
    fresh = point(**{**KNOBS, **knobs})
    fresh.now = p.now
    fresh.it.restore(journal.load(), unpack_ads, fresh.now)
    journal.close()
    return fresh


def test_claims_of_fetched_work_are_found_again_with_what_waits(tmp_path: Any) -> None:
    p = point(**KNOBS, MaxJobRetirementTime="3600")
    offer(p, only(p), "f1", Liking=1, Item="a")
    offer(p, only(p), "f2", Liking=2, Item="b")
    fresh = again(p, tmp_path, MaxJobRetirementTime="3600")
    record = only(fresh)
    assert record.slot.state == only(p).slot.state and record.fetch.work is not None and record.fetch.work.accepted
    assert record.activation is not None and record.activation.fetched and not told(fresh)
    fresh.it.claims.run_gone("1.0#f1", fresh.now, finished=True)
    assert record.slot.run is not None and record.slot.run.run_id == "1.0#f2"
    assert record.job is not None and record.job.ad.eval("Item") == "b"


def test_work_whose_slot_is_no_more_is_given_back(tmp_path: Any) -> None:
    p = point(**{**KNOBS, "NUM_SLOTS": "2"})
    _, second = p.it.slots
    offer(p, second, "f1", Item="a")
    fresh = again(p, tmp_path)
    assert told(fresh) == [("EVICT_CLAIM", second.name)]
    assert b'Item = "a"' in fresh.it.outbox.hooks[0].given


def test_calls_of_hooks_are_kept_until_they_are_settled(tmp_path: Any) -> None:
    p = point(**KNOBS)
    offer(p, only(p), "f1")
    journal = Journal(tmp_path / "journal")
    journal.save((), (), p.it.outbox.hooks)
    assert journal.calls() == p.it.outbox.hooks
    journal.save((), (), (), [call.call_id for call in p.it.outbox.hooks])
    assert journal.calls() == []
    journal.close()
