"""Claims at the execution point: carving, refusals, capabilities, waiting claims, pslot preemption."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import ANY

import pytest
from slotwise.classad import ExprTree
from slotwise.model.resources import Resources
from slotwise.startd.host.outbox import Ended, Granted, Kill, NowIn, Refused
from slotwise.startd.publish.daemon_ad import daemon_attributes
from slotwise.startd.records.slot_record import ScheddId
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Draining
from slotwise.startd.slot_types.custom import CustomResource, parse_inventory

from tests.support.ads import nested_in
from tests.support.startd_point import job, point

GPUS = CustomResource(
    "GPUs", 3, ("a", "b", "c"), (), {"a": {"Capability": "6.0"}, "b": {"Capability": "8.0"}, "c": {"Capability": "8.6"}}
)


def test_amounts_go_out_and_come_back() -> None:
    p = point()
    claim_id = p.claim(wanted=job(RequestCpus=2, RequestMemory=1000, RequestDisk=5000))
    child = p["slot1_1"]
    assert (child.total.cpus, child.total.memory_mib, child.total.disk_kib) == (2, 1024, 5120)
    assert p["slot1"].free == Resources(2, 3072, 994_880, 500_000)
    assert p.ad("slot1")["NumDynamicSlots"] == 1
    p.it.claims.apply(claim_id, 0, ev.Released(), p.now)
    assert not p.has("slot1_1")
    assert p["slot1"].free == p["slot1"].total
    assert "slot1_1@host" in p.it.outbox.removed


def test_a_request_that_fits_only_unrounded_is_met_unrounded_unless_rounding_is_a_must() -> None:
    wanted = job(RequestMemory=4000)
    p = point(MEMORY="4000")
    p.claim(wanted=wanted)
    assert p["slot1_1"].total.memory_mib == 4000
    refused = point(MEMORY="4000", MUST_MODIFY_REQUEST_EXPRS="true").request(wanted=wanted)
    assert isinstance(refused, Refused)


@pytest.mark.parametrize("missing", ["RequestMemory", "RequestDisk"])
def test_a_job_without_memory_or_disk_request_is_refused(missing: str) -> None:
    answer = point().request(wanted=job(**{missing: None}))
    assert isinstance(answer, Refused)


def test_a_job_without_cpus_gets_one() -> None:
    p = point()
    p.claim(wanted=job(RequestCpus=None))
    assert p["slot1_1"].total.cpus == 1


def test_numbers_of_dynamic_slots_are_used_again() -> None:
    p = point()
    ids = [p.claim() for _ in range(3)]
    p.it.claims.apply(ids[1], 0, ev.Released(), p.now)
    p.claim()
    assert p.has("slot1_2") and not p.has("slot1_4")


def test_k_slots_come_in_one_answer_as_far_as_they_fit() -> None:
    p = point()
    granted = p.request(count=10)
    assert isinstance(granted, Granted) and len(granted.slots) == 4
    assert p["slot1"].free.cpus == 0


def test_the_machines_requirements_are_checked_and_the_jobs_are_the_negotiators_business() -> None:
    p = point(START='TARGET.Owner == "bob"')
    assert isinstance(p.request(), Refused)
    assert isinstance(p.request(wanted=job(Owner="bob")), Granted)
    picky = job(Owner="bob", Requirements=ExprTree('TARGET.Arch == "PPC"'))
    assert isinstance(p.request(wanted=picky), Granted)


def test_what_the_machine_says_of_the_carved_slot_leaves_nothing_behind() -> None:
    p = point(START="DynamicSlot =!= true")
    refused = p.request()
    assert isinstance(refused, Refused) and "Requirements" in refused.reason
    assert not p.has("slot1_1") and p["slot1"].free == p["slot1"].total


def test_devices_are_handed_out_in_order_and_by_constraint() -> None:
    p = point([GPUS])
    p.claim(wanted=job(RequestGPUs=1))
    assert p.ad("slot1_1")["AssignedGPUs"] == "a"
    p.claim(wanted=job(RequestGPUs=1, RequireGPUs=ExprTree("Capability > 8.5")))
    assert p.ad("slot1_2")["AssignedGPUs"] == "c"
    assert str(p.ad("slot1").lookup("AvailableGPUs")) == "{ GPUs_b }"
    none = p.request(wanted=job(RequestGPUs=1, RequireGPUs=ExprTree("Capability > 9")))
    assert isinstance(none, Refused) and "suit" in none.reason


def test_devices_that_are_free_are_a_list_of_ads() -> None:
    """What the manual's submit descriptions say: countMatches(RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs."""
    cards = CustomResource("GPUs", 3, ("GPU-d9f2", "b", "c"), (), {
        "": {"DriverVersion": "12.4", "DeviceName": '"A100"'}, "GPU-d9f2": {"Capability": "8.0"},
        "b": {"Capability": "7.0", "Slot": "left of the fan"}, "c": {"Capability": "9.0"},
    })  # fmt: skip
    p = point([cards])
    ad = p.ad("slot1")
    first, second = nested_in(ad, "GPUs_GPU_d9f2"), nested_in(ad, "GPUs_b")
    assert first["Capability"] == 8.0 and first["Id"] == "GPU-d9f2"
    assert second["Slot"] == "left of the fan" and second["DriverVersion"] == 12.4
    assert (ad["GPUs_DriverVersion"], ad["GPUs_DeviceName"]) == (12.4, "A100")
    wanted = job(
        RequestGPUs=1, RequireGPUs=ExprTree("Capability >= 8"),
        Requirements=ExprTree("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs"),
    )  # fmt: skip
    taken = []
    for number in (1, 2):
        assert isinstance(p.request(wanted=wanted), Granted)
        p.forget()
        taken.append(str(p.ad(f"slot1_{number}").lookup("AvailableGPUs")))
    assert taken == ["{ GPUs_GPU_d9f2 }", "{ GPUs_c }"]
    assert "GPUs_b" not in p.ad("slot1_1") and "GPUs_c" in p.ad("slot1")
    assert "devices suit" in p.request(wanted=wanted).reason  # the one that is left is too old
    p.claim(wanted=job(RequestGPUs=1))
    assert p.ad("slot1").eval("AvailableGPUs") == []


def test_a_slot_type_may_choose_devices() -> None:
    p = point([GPUS], SLOT_TYPE_1="cpus=1, gpus=1:Capability>7", NUM_SLOTS_TYPE_1="2")
    assert [p.ad(name)["AssignedGPUs"] for name in ("slot1", "slot2")] == ["b", "c"]


#: What HTCondor 25.14's startd was given, too: three GPUs as condor_gpu_discovery tells of them, and plain devices.
CARDS = parse_inventory(
    "GPUs",
    'DetectedGPUs="GPU-6a96bd13, GPU-aabbccdd, GPU-00112233"\n'
    "Common=[ DriverVersion=12.0; ]\n"
    'GPU_6a96bd13=[ id="GPU-6a96bd13"; Capability=8.0; ]\n'
    'GPU_aabbccdd=[ id="GPU-aabbccdd"; Capability=7.5; ]\n'
    'GPU_00112233=[ id="GPU-00112233"; Capability=8.0; ]\n',
)
PLAIN = CustomResource("Dev", 4, ("d1", "d2", "d3", "d4"))


def assigned(second: str, third: str) -> list[tuple[Any, Any]]:
    p = point(
        [CARDS, PLAIN], NUM_CPUS="8", SLOT_TYPE_2=second, NUM_SLOTS_TYPE_2="1", SLOT_TYPE_3=third, NUM_SLOTS_TYPE_3="1"
    )
    return [(p.ad(name).get("AssignedGPUs"), p.ad(name).get("AssignedDev")) for name in ("slot1", "slot2")]


@pytest.mark.parametrize(
    ("second", "third", "expected"),
    [
        # HTCondor's answers
        (
            'cpus=1, gpus=1:"GPU-aabbccdd", dev=1:"d3"', 'cpus=1,gpus=1:"gpu-6A96BD13",dev=1:"D1"',
            [("GPU-aabbccdd", "d3"), ("GPU-6a96bd13", "d1")],
        ),
        (
            "cpus=1, gpus=1, dev=1:2", 'cpus=1,gpus=1:Capability>=8,dev=1:"d1"',
            [("GPU-6a96bd13", "d3"), ("GPU-00112233", "d1")],
        ),
        # where HTCondor has a broken slot: Id in an expression, several ids, ids without quotes, blanks
        ('cpus=1\ngpus=1 : Id == "GPU-00112233"\ndev=0', "auto", [("GPU-00112233", None), (ANY, "d1,d2,d3,d4")]),
        (
            'cpus=1, gpus=2 : "GPU-AABBCCDD, GPU-6a96bd13", dev=0', "cpus=1 gpus=1 : GPU-00112233 dev=2:\"d4,d2\"",
            [("GPU-6a96bd13,GPU-aabbccdd", None), ("GPU-00112233", "d2,d4")],
        ),
        ("cpus=1\ngpus=1:2\ndev=1:3", 'cpus=1\ndev=2:{"d1","d2"}', [("GPU-00112233", "d4"), (ANY, "d1,d2")]),
    ],
)  # fmt: skip
def test_a_slot_type_may_name_devices(second: str, third: str, expected: list[tuple[Any, Any]]) -> None:
    assert assigned(second, third) == expected


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ('gpus=1:"GPU-none"', 'wants 1, and none of GPU-6a96bd13, GPU-aabbccdd, GPU-00112233 suits "GPU-none"'),
        ('gpus=1:"GPU-6a96bd13"', 'wants 1, and only 1 of .* suits "GPU-6a96bd13"; GPU-6a96bd13 is in slot1'),
        ("dev=1:9", "Dev: slot2 .slot type 3. wants 1, and none of d1, d2, d3, d4 suits 9"),
    ],
)
def test_devices_that_cannot_be_had_are_named(second: str, reason: str) -> None:
    p = point(
        [CARDS, PLAIN], SLOT_TYPE_2="cpus=1,gpus=1", NUM_SLOTS_TYPE_2="1",
        SLOT_TYPE_3="cpus=1\n" + second, NUM_SLOTS_TYPE_3="1",
    )  # fmt: skip
    assert re.search(reason, str(p.ad("slot2")["SlotBrokenReason"]))


def test_names_for_a_resource_that_is_only_counted_are_told_to_be_in_vain(caplog: pytest.LogCaptureFixture) -> None:
    point([CustomResource("Cogs", 4)], SLOT_TYPE_1='cogs=1:"a"', NUM_SLOTS_TYPE_1="1")
    assert "SLOT_TYPE_1" in caplog.text and "Cogs" in caplog.text


def test_a_job_may_require_a_device_by_its_id() -> None:
    p = point([CARDS])
    p.claim(wanted=job(RequestGPUs=1, RequireGPUs="gpu-AABBCCDD"))
    assert p.ad("slot1_1")["AssignedGPUs"] == "GPU-aabbccdd"


def test_a_claim_that_waits_is_answered_when_the_slot_is_its() -> None:
    p = point(NUM_SLOTS="1", RANK='(TARGET.Owner == "bob") * 10', MaxJobRetirementTime="3600")
    p.run()
    waiting = p.request("slot1", job(Owner="bob"), schedd="other")
    assert waiting is None
    assert p.place("slot1") == "Claimed/Retiring"
    assert p.ad("slot1")["PreemptingRank"] == 10
    p.gone()
    grants = [m for m in p.said(Granted) if m.schedd.name == "other"]
    assert len(grants) == 1 and grants[0].serial == p.serial
    assert p["slot1"].terms.schedd_name == "other"
    assert [m.what.cause.code for m in p.said(Ended)] == [1018]


def test_a_lost_schedd_withdraws_its_waiting_request() -> None:
    p = point(NUM_SLOTS="1", MaxJobRetirementTime="3600")
    p.run()
    p.request("slot1", schedd="other")
    assert p.place("slot1") == "Claimed/Retiring"
    p.it.claims.schedd_lost(ScheddId("other"), p.now)
    assert p.place("slot1") == "Claimed/Busy"


def test_pslot_preemption_gives_amounts_back_before_the_jobs_are_gone() -> None:
    p = point()
    victims = [p.run(run_id=f"1.{n}#1", wanted=job(RequestCpus=2)) for n in range(2)]
    assert p["slot1"].free.cpus == 0
    granted = p.request(wanted=job(RequestCpus=4), preempt=tuple(victims))
    assert isinstance(granted, Granted)
    assert [(k.fast, k.cause.code) for k in p.told(Kill)] == [(True, 1019)] * 2
    p.gone("1.0#1")
    p.gone("1.1#1")
    assert p["slot1"].free.cpus == 0 and len(p["slot1"].children) == 1


def test_pslot_preemption_fails_whole_when_one_victim_may_not_go() -> None:
    p = point(MaxJobRetirementTime="1000")
    victim = p.run(wanted=job(RequestCpus=4))
    assert "retirement" in p.request(preempt=(victim,)).reason
    assert "gone" in p.request(preempt=("nonsense",)).reason
    assert p.place("slot1_1") == "Claimed/Busy"


def test_claims_become_one_slot_with_what_they_had() -> None:
    """Also while what they ran is being cleaned up, and no more than that, whatever else is free."""
    p = point()
    parts = [p.run(run_id=f"1.{n}#1", wanted=job(RequestCpus=1)) for n in range(2)]
    assert p["slot1"].free.cpus == 2
    too_large = p.request_id(parts[0], job(RequestCpus=3), coalesce=tuple(parts))
    assert isinstance(too_large, Refused)
    p.gone("1.0#1")
    p.gone("1.1#1")
    assert p["slot1"].free.cpus == 4  # the claims were given up for it

    parts = [p.run(run_id=f"2.{n}#1", wanted=job(RequestCpus=1)) for n in range(2)]
    granted = p.request_id(parts[0], job(RequestCpus=2), coalesce=tuple(parts))
    assert isinstance(granted, Granted)
    ((claim_id, name),) = granted.slots
    assert claim_id not in parts and p.ad(name.partition("@")[0])["Cpus"] == 2
    p.gone("2.0#1")
    p.gone("2.1#1")
    assert p["slot1"].free.cpus == 2 and p["slot1"].children == {name}


def test_claims_of_others_or_of_two_machines_do_not_become_one_slot() -> None:
    p = point()
    own, others = p.claim(), p.claim(schedd="other")
    for parts in ((own, others), (own, "nonsense"), (p["slot1"].ids.current,)):
        refused = p.request_id(parts[0], coalesce=parts)
        assert isinstance(refused, Refused) and "one partitionable slot" in refused.reason, parts
    assert len(p["slot1"].children) == 2


def test_reuse_of_a_claim_for_one_job_after_another() -> None:
    p = point()
    claim_id = p.run(run_id="1.0#1")
    p.gone("1.0#1")
    assert p.activate(claim_id, "1.1#1") is None
    ends = [m.what.run_id for m in p.said(NowIn) if m.what.activity == "Idle"]
    assert ends == ["1.0#1"]


def test_activation_checks_the_job_again() -> None:
    p = point(START="TARGET.RequestMemory < 1000")
    claim_id = p.claim()
    assert p.activate(claim_id, wanted=job(RequestMemory=2000)).code == 1027  # type: ignore[union-attr]
    assert p.activate(claim_id, wanted=job(JobUniverse=None)).code == 1026  # type: ignore[union-attr]
    assert p.activate("nonsense").code == 1034  # type: ignore[union-attr]


def test_an_activation_that_waits_too_long_is_refused() -> None:
    p = point()
    claim_id = p.run()
    assert p.activate(claim_id, "1.1#1") is None
    p.now += 20
    p.it.claims.refuse_stale_activations(p.now)
    refusal = p.it.outbox.schedds[-1].what
    assert (refusal.run_id, refusal.code) == ("1.1#1", 1028)  # type: ignore[union-attr]


def test_a_broken_dynamic_slot_takes_its_amounts_along() -> None:
    p = point()
    p.run()
    p.gone(broken="scratch directory cannot be removed")
    assert not p.has("slot1_1")
    assert p["slot1"].free.cpus == 3
    assert p.ad("slot1")["BrokenSlotCpus"] == 1
    own: dict[str, Any] = dict(daemon_attributes(p.it, p.now))
    assert "JobDurationCount" not in own, "as in HTCondor, unless STATISTICS_TO_PUBLISH_LIST names it"
    p.it.settings.statistics_listed = frozenset({"jobdurationavg"})
    own = dict(daemon_attributes(p.it, p.now))
    assert own["BrokenContextAds"][0]["Reason"] == "scratch directory cannot be removed"
    assert (own["JobStarts"], own["JobDurationCount"]) == (1, 1)


def test_a_consumption_policy_decides_what_is_taken() -> None:
    p = point(CONSUMPTION_POLICY="true", CONSUMPTION_CPUS="1", CONSUMPTION_MEMORY="512", CONSUMPTION_DISK="1024")
    p.claim(wanted=job(RequestCpus=4, RequestMemory=1))
    assert (p["slot1_1"].total.cpus, p["slot1_1"].total.memory_mib) == (1, 512)
    assert p.ad("slot1")["ConsumptionMemory"] == 512


def test_a_consumption_that_is_no_amount_is_refused_with_its_knob() -> None:
    p = point(CONSUMPTION_POLICY="true", CONSUMPTION_MEMORY="TARGET.NoSuch * 2")
    refused = p.request()
    assert isinstance(refused, Refused)
    assert "CONSUMPTION_MEMORY is not an amount" in refused.reason
    nothing = point(CONSUMPTION_POLICY="true", CONSUMPTION_CPUS="0", CONSUMPTION_MEMORY="0", CONSUMPTION_DISK="0")
    assert nothing.request().reason == "the consumption policy takes nothing for the job"


def test_a_static_slot_has_no_consumption_policy() -> None:
    p = point(CONSUMPTION_POLICY="true", CONSUMPTION_CPUS="TARGET.RequestCpus * 2", NUM_SLOTS="4")
    assert "ConsumptionCpus" not in p.ad("slot1")
    p.run("slot1")


def test_swap_follows_memory_when_told_to() -> None:
    p = point(PROPORTIONAL_SWAP_ASSIGNMENT="true")
    p.claim(wanted=job(RequestMemory=1024))
    assert p["slot1_1"].total.swap_kib == 125_000


# ----------------------------------------------------------------------------------------------------------- draining


def begin(p, schedule: int = 0, **terms: Any) -> str:  # type: ignore[no-untyped-def]
    asked = {"reason": "test", "on_completion": "", "check": "", "start": "", **terms}
    request_id = p.it.drain.begin(schedule=schedule, now=p.now, **asked)
    p.it.validate()
    return request_id


def test_policies_see_the_drain_and_its_deadline_at_once() -> None:
    p = point(MAXJOBRETIREMENTTIME="ifThenElse(Draining =?= true, DrainingDeadline - time(), 7200)", NUM_SLOTS="2")
    p.run("slot1")
    begin(p, deadline=int(p.now) + 900)
    assert p["slot1"].policy is not None and p["slot1"].policy.machine_retirement_s == 900
    p.it.drain.cancel("", p.now)
    assert "DrainingDeadline" not in p.ad("slot1")


def test_an_empty_machine_is_drained_at_once_and_says_so() -> None:
    p = point()
    old = p["slot1"].ids.current
    begin(p, reason="kernel")
    assert p.place("slot1") == "Drained/Idle"
    p.it.ads.machine.update(p.it.drain.attributes(p.now))
    ad = p.ad("slot1")
    assert (ad["Draining"], ad["DrainReason"], ad["DrainingRequestId"], ad["Requirements"]) == (
        True,
        "kernel",
        "1",
        False,
    )
    assert p.request_id(old).code == 1034
    p.it.drain.cancel("", p.now)
    assert p.place("slot1") == "Unclaimed/Idle"


def test_a_second_request_is_refused_and_a_wrong_id_does_not_cancel() -> None:
    p = point()
    assert begin(p) == "1"
    with pytest.raises(Exception, match="drains already"):
        begin(p)
    with pytest.raises(Exception, match="request 7"):
        p.it.drain.cancel("7", p.now)
    p.it.drain.cancel("1", p.now)
    p.it.drain.cancel("", p.now)
    assert begin(p) == "2"


def test_a_false_check_stops_it() -> None:
    p = point()
    with pytest.raises(Exception, match="check is not true"):
        begin(p, check="Cpus > 100")
    assert p.place("slot1") == "Unclaimed/Idle"


@pytest.mark.parametrize(
    ("schedule", "place"), [(0, "Claimed/Retiring"), (3, "Preempting/Vacating"), (20, "Preempting/Killing")]
)
def test_schedules(schedule: int, place: str) -> None:
    p = point(MaxJobRetirementTime="3600")
    p.run()
    p.now += 100
    begin(p, schedule)
    assert p.place("slot1_1") == place
    assert p.place("slot1") == "Drained/Retiring"
    assert p.it.drain.state.costs.badput_cpu_s == (0 if schedule == 0 else 100)
    p.gone()
    p.it.drain.settle(p.now)
    assert p.place("slot1") == "Drained/Idle"


@pytest.mark.parametrize(
    ("action", "place"), [("nothing", "Drained/Idle"), ("resume", "Unclaimed/Idle"), ("exit", "Drained/Idle")]
)
def test_completion(action: str, place: str) -> None:
    p = point()
    begin(p, on_completion=action)
    assert p.place("slot1") == place
    assert p.it.outbox.completion == ("exit" if action == "exit" else "")


def test_jobs_accepted_while_draining_leave_with_the_last_of_the_others() -> None:
    p = point(MaxJobRetirementTime="10000", MachineMaxVacateTime="60")
    p.run(run_id="1.0#1")
    begin(p, start='TARGET.Owner == "short"')
    assert isinstance(p.request(), Refused)
    late = p.run(run_id="2.0#1", wanted=job(Owner="short"))
    assert late and p.place("slot1_2") == "Claimed/Busy"
    assert p["slot1_2"].slot.run.accepted_while_draining  # type: ignore[union-attr]
    assert p.ad("slot1_2")["AcceptedWhileDraining"] is True
    p.gone("1.0#1")
    p.it.drain.settle(p.now)
    p.poll(1)
    assert p.place("slot1_2") == "Preempting/Vacating"
    assert isinstance(p.request(wanted=job(Owner="short")), Refused)


def test_the_default_start_expression_of_drains_holds_when_the_command_names_none() -> None:
    p = point(MaxJobRetirementTime="10000", DEFAULT_DRAINING_START_EXPR='TARGET.Owner == "short"')
    p.run(run_id="1.0#1")
    begin(p)
    assert isinstance(p.request(), Refused)
    p.run(run_id="2.0#1", wanted=job(Owner="short"))
    assert p["slot1_2"].slot.run.accepted_while_draining  # type: ignore[union-attr]
    other = point(MaxJobRetirementTime="10000", DEFAULT_DRAINING_START_EXPR='TARGET.Owner == "short"')
    other.run(run_id="1.0#1")
    begin(other, start='TARGET.RequestCpus == 1 && TARGET.Owner == "long"')
    assert isinstance(other.request(wanted=job(Owner="short")), Refused)


def test_cancelling_lets_retiring_jobs_go_on() -> None:
    p = point(MaxJobRetirementTime="3600")
    p.run()
    begin(p)
    p.it.drain.cancel("", p.now + 5)
    assert p.place("slot1_1") == "Claimed/Busy"
    assert p.place("slot1") == "Unclaimed/Idle"


def test_what_draining_would_cost() -> None:
    p = point(MaxJobRetirementTime="3600", MachineMaxVacateTime="600")
    p.run(wanted=job(RequestCpus=2))
    p.poll(1000)
    found = p.it.drain.attributes(p.now)
    assert found["ExpectedMachineGracefulDrainingBadput"] == 2 * (1000 + 2600)
    assert found["ExpectedMachineQuickDrainingBadput"] == 2 * (1000 + 600)
    assert found["ExpectedMachineGracefulDrainingCompletion"] == p.now + 2600
    assert found["ExpectedMachineQuickDrainingCompletion"] == p.now + 600
    p.poll(3400)  # less retirement left than vacating takes
    assert p.it.drain.attributes(p.now)["ExpectedMachineGracefulDrainingBadput"] == 2 * (4400 + 600)


def test_a_schedd_may_have_a_partitionable_slot_to_itself_for_a_while() -> None:
    knobs: dict[str, Any] = {"ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS": "true", "MAX_PARTITIONABLE_SLOT_CLAIM_TIME": "600"}
    p = point(**knobs)
    assert p.ad("slot1")["MaxClaimTime"] == 600
    granted = p.request(pslot_itself=True, count=1)
    assert [name for _, name in granted.slots] == ["slot1@host", "slot1_1@host"]
    whole = granted.slots[0][0]
    assert p.place("slot1") == "Claimed/Idle"
    assert (p.ad("slot1")["ClaimEndTime"], p.ad("slot1")["RemoteUser"]) == (p.now + 600, "ann@test")
    assert isinstance(p.request(schedd="other"), Refused), "whatever the id: another schedd gets nothing"
    assert isinstance(p.request_id(whole, pslot_itself=True), Refused), "it is claimed already"
    assert [name for _, name in p.request_id(whole, count=2).slots] == ["slot1_2@host", "slot1_3@host"]
    assert p.activate(granted.slots[1][0]) is None
    p.it.claims.keep_alive([record.slot.claim.claim_id for record in p.it.slots if record.slot.claim], p.now + 590)
    p.poll(600)
    assert p.place("slot1") == "Unclaimed/Idle", "its time is up, whatever the schedd says"
    assert p.place("slot1_1") == "Claimed/Busy", "the claims of dynamic slots go on"
    assert isinstance(p.request_id(whole), Refused)
    assert isinstance(p.request(schedd="other"), Granted)


def test_a_claim_of_a_partitionable_slot_ends_when_its_holder_or_a_drain_says_so() -> None:
    p = point(ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS="true")
    (whole,) = p.request(pslot_itself=True, count=0, pslot_claim_s=100).slots
    assert p.ad("slot1")["ClaimEndTime"] == p.now + 100
    p.it.claims.apply(whole[0], 0, ev.Released(), p.now)
    assert p.place("slot1") == "Unclaimed/Idle" and p["slot1"].free.cpus == 4
    p.request(pslot_itself=True, count=0)
    p.apply("slot1", ev.DrainBegun(Draining(0, "1", "why", p.now)))
    p.poll(21)
    assert p.place("slot1") == "Drained/Idle"


def test_without_leave_a_partitionable_slot_is_only_carved() -> None:
    p = point()
    assert [name for _, name in p.request(pslot_itself=True).slots] == ["slot1_1@host"]
    assert p.place("slot1") == "Unclaimed/Idle" and "MaxClaimTime" not in p.ad("slot1")
    q = point(ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS="true", CONSUMPTION_POLICY="true")
    assert isinstance(q.request(pslot_itself=True), Refused)
