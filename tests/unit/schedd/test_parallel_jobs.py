"""Parallel jobs, decided: when the end of a node is that of the job, usage of all nodes, and what a pool holds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from slotwise.classad import ClassAd, ExprTree
from slotwise.model.job_events import Usage
from slotwise.schedd.jobs.decision import RunEnd, RunOutcome
from slotwise.schedd.jobs.node_ads import NODE_MARK, NodeAd
from slotwise.schedd.jobs.values import Changes, Expr
from slotwise.schedd.parallel.capacity import best_group, capacity
from slotwise.schedd.parallel.node_ends import combined, from_text, outcome, to_text, whole
from slotwise.table import Allowance

EXITED, EVICTED = RunOutcome.EXITED, RunOutcome.EVICTED


def test_the_job_ends_with_its_node_0_whatever_the_others_do() -> None:
    failed, done = RunEnd(EXITED, code=7), RunEnd(EXITED, code=3)
    assert outcome([(1, failed)], 3, waits_for_all=False) is None
    assert outcome([(1, failed), (0, done)], 3, waits_for_all=False) is done


def test_with_wait_for_all_the_job_ends_with_its_last_node_and_the_status_of_node_0() -> None:
    done, others = RunEnd(EXITED, code=3), [RunEnd(EXITED, code=code) for code in (1, 2)]
    assert outcome([(0, done), (1, others[0])], 3, waits_for_all=True) is None
    assert outcome([(0, done), (2, others[1]), (1, others[0])], 3, waits_for_all=True) is done


@pytest.mark.parametrize("waits_for_all", [True, False])
@pytest.mark.parametrize("how", [how for how in RunOutcome if not how.by_itself])
def test_a_node_that_does_not_end_by_itself_ends_the_run_of_the_job(how: RunOutcome, waits_for_all: bool) -> None:
    gone = RunEnd(how, reason="the machine is wanted")
    assert outcome([(1, RunEnd(EXITED)), (2, gone)], 3, waits_for_all=waits_for_all) is gone


def test_the_usage_of_all_nodes_is_that_of_the_job() -> None:
    def node(user_s: float, sent: float, memory: int) -> RunEnd:
        return RunEnd(
            EXITED,
            attributes={"RemoteUserCpu": user_s, "ResidentSetSize": memory, "JobPid": 12},
            usage=Usage(user_s=user_s, sent=sent),
        )

    first = replace(node(2, 100, 50), code=4)
    found = whole(first, [first, node(3, 10, 900)], (20.0, 1.0), (1000.0, 0.0))
    assert found.code == 4
    assert (found.usage.user_s, found.usage.total_user_s) == (5, 25)
    assert (found.usage.sent, found.usage.total_sent) == (110, 1110)
    assert (found.attributes["RemoteUserCpu"], found.attributes["ResidentSetSize"]) == (5, 900)


def test_reports_of_nodes_add_up_in_cpu_time_alone() -> None:
    one: Changes = {"RemoteSysCpu": 1.0, "ImageSize": 10}
    other: Changes = {"RemoteSysCpu": 2.0, "ImageSize": 7, "JobState": "Exited"}
    assert combined([one, other]) == {"RemoteSysCpu": 3.0, "ImageSize": 10, "JobState": "Exited"}


def test_the_end_of_a_node_survives_a_restart() -> None:
    end = RunEnd(
        RunOutcome.SIGNALED,
        code=9,
        reason="killed",
        at=12.5,
        core="core",
        attributes={"MemoryUsage": Expr("1 + 1"), "RemoteUserCpu": 1.5},
        usage=Usage(user_s=1.5, resources={"Cpus": (None, 1, 2.0, "")}),
        wall_s=3.0,
    )
    assert from_text(to_text(end)) == end


def test_a_node_gets_its_number_wherever_the_job_names_it() -> None:
    ad = ClassAd({"Out": f"out.{NODE_MARK}", "Arguments": f"-n {NODE_MARK} {NODE_MARK}", "Cmd": "/bin/true"})
    found = NodeAd(2, 4, "/spool/1/0").attributes(ad)
    assert (found["Out"], found["Arguments"]) == ("out.2", "-n 2 2")
    assert (found["Node"], found["CurrentHosts"], found["RemoteSpoolDir"]) == (2, 4, "/spool/1/0")
    assert "Cmd" not in found


JOB = ClassAd(
    "[RequestCpus = 2; RequestMemory = 100; Requirements = TARGET.Memory >= RequestMemory && TARGET.Arch == 1]"
)


def slot(text: str) -> ClassAd:
    return ClassAd(f"[Arch = 1; {text}]")


def test_a_partitionable_slot_holds_what_it_has_in_all_and_a_dynamic_one_is_part_of_it() -> None:
    busy = slot("PartitionableSlot = true; Cpus = 0; Memory = 10; TotalSlotCpus = 7; TotalSlotMemory = 1000")
    part = slot("DynamicSlot = true; Cpus = 2; Memory = 100")
    static = slot('Cpus = 2; Memory = 200; ParallelSchedulingGroup = "g"')
    small = slot("Cpus = 2; Memory = 20")
    assert dict(capacity(JOB, [busy, part, static, small])) == {"": 3, "g": 1}


def test_a_job_gathers_in_the_smallest_group_that_holds_it() -> None:
    assert best_group(4, {"": 100, "large": 16, "small": 4, "tiny": 3}) == "small"
    assert best_group(17, {"": 100, "large": 16}) == ""


@pytest.mark.parametrize(
    ("job", "held"),
    [
        ("RequestCpus = 5e-324", 10_000),
        ('RequestCpus = real("INF")', 0),
        ('RequestCpus = real("NaN")', 0),
        ("RequestCpus = 2; Requirements = A18 > 0; A0 = 1", 0),
    ],
)
def test_no_job_makes_counting_fail_or_last(job: str, held: int) -> None:
    ad = ClassAd(f"[{job}]")
    for number in range(1, 19):  # 2 ** 18 steps
        ad[f"A{number}"] = ExprTree(f"A{number - 1} + A{number - 1}")
    whole = slot("PartitionableSlot = true; Cpus = 8; TotalSlotCpus = 8")
    with Allowance(1_000_000) as used:
        assert dict(capacity(ad, [whole])) == {"": held}
    assert used.used <= 10_000


def test_no_slot_makes_counting_fail() -> None:
    endless = slot('PartitionableSlot = true; Cpus = 8; Memory = 1000; TotalSlotCpus = real("INF")')
    looping = slot("Memory = Memory + 1")
    assert dict(capacity(JOB, [endless, looping, slot("Memory = 200")])) == {"": 5}
