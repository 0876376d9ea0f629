"""Jobs on the access point: what their keepers are told, and what their ends mean."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.execution.job_view import JobView, KillSignals
from slotwise.execution.keeper_spec import Identity, KeeperResult
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Kill
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.local import ending
from slotwise.schedd.local.keeper_spec import LocalLimits, MemoryLimit, RunPlace, Surroundings, compose, memory_limit
from slotwise.schedd.local.start_rules import REST_S, StartPace

FACTS = JobView("1.0", "run.sh", ("a b",), {"A": "1"}, "/home/ann", "/dev/null", "out", "/abs/err", "ann")
PLACE = RunPlace("dir_1.0_1", Path("/run/sw/dir_1.0_1"), Path("/var/local"))
WHO = Identity(1000, 1000, (4,), "ann", "/home/ann")


def job(universe: int, status: Status = Status.RUNNING) -> Job:
    cluster = Cluster(1, "ann", "ann@x", "ann@x", 0, {}, universe=universe)
    return Job(cluster, 0, status)


def test_a_scheduler_job_is_told_what_it_needs_and_no_more() -> None:
    limits = LocalLimits(memory_mib=64, processes=10, open_files=100, nice=5)
    host = CgroupHost(2, {"": Path("/cg/sw")}, frozenset(("memory", "pids")))
    around = Surroundings(limits, host, Path("/run/sw/notices"), "sw_", {"SLOTWISE_HOME": "/pool"})
    spec = compose(FACTS, 7, WHO, PLACE, around, memory_limit(limits, 7, 8), secret="s")
    assert (spec.exe, spec.args, spec.cwd) == ("/home/ann/run.sh", ("/home/ann/run.sh", "a b"), "/home/ann")
    assert (spec.stdin, spec.stdout, spec.stderr) == ("/dev/null", "/home/ann/out", "/abs/err")
    assert spec.env == {
        "SLOTWISE_HOME": "/pool",
        "A": "1",
        "CONDOR_ID": "1.0",
        "_CONDOR_JOB_AD": "/var/local/dir_1.0_1/.job.ad",
        "_SLOTWISE_FAMILY": "dir_1.0_1.s",
    }
    assert set(spec.limits.rlimits) == {(resource.RLIMIT_CORE, 0, 0), (resource.RLIMIT_NOFILE, 100, 100)}
    assert (spec.limits.nice, spec.limits.processes, spec.lease_s) == (5, 0, 0), "its group counts processes"
    settings = {Path(one.path).name: one.value for one in spec.cgroup.settings}
    assert (settings["memory.max"], settings["pids.max"]) == (str(64 << 20), "10")
    assert spec.identity == WHO


def test_without_groups_the_account_is_bounded_and_a_local_job_has_scratch() -> None:
    around = Surroundings(LocalLimits(processes=10, nice=5), CgroupHost(), Path("/n"), "sw_")
    spec = compose(FACTS, 12, WHO, PLACE, around, MemoryLimit(0), secret="s")
    assert (spec.limits.processes, spec.limits.nice, spec.cgroup.version) == (10, 0, 0)
    assert spec.env["_CONDOR_SCRATCH_DIR"] == spec.env["TMPDIR"] == "/var/local/dir_1.0_1/scratch"
    assert (spec.env["HOME"], "CONDOR_ID" in spec.env) == ("/home/ann", False)


@pytest.mark.parametrize(
    ("status", "expected"), [(Status.REMOVED, (10, 60)), (Status.HELD, (12, 60)), (Status.RUNNING, (15, 60))]
)
def test_the_signal_is_that_of_what_is_done_to_the_job(status: Status, expected: tuple[int, int]) -> None:
    facts = JobView("1.0", "", (), {}, "/", "", "", "", "ann", kill=KillSignals(15, remove=10, hold=12))
    assert ending.soft_kill(facts, status, default_s=60) == expected
    patient = JobView("1.0", "", (), {}, "/", "", "", "", "ann", kill=KillSignals(vacate_s=7))
    assert ending.soft_kill(patient, status, default_s=60) == (15, 7)


def test_ends() -> None:
    limit = MemoryLimit(64)

    def end(result: KeeperResult, kill: Kill | None = None, universe: int = 7) -> tuple[str, int, str]:
        found = ending.judge_end(FACTS, job(universe), result, kill, limit, rounding={}, born_at=0, now=10)
        return found.how, found.reason_code or found.code, found.reason

    assert end(KeeperResult("exited", code=3)) == ("exited", 3, "")
    assert end(KeeperResult("signaled", code=9)) == ("signaled", 9, "")
    missing = KeeperResult("failed", stage="exec", errno=13)
    assert end(missing) == ("held", 6, "File '/home/ann/run.sh' is missing or not executable")
    assert end(missing, universe=12)[2].startswith("Failed to execute 'run.sh' with arguments")
    killed = KeeperResult("signaled", code=15, ended_by="soft")
    assert end(killed, Kill("1.0#1", False, "vacated", 1022)) == ("evicted", 1022, "vacated")
    assert end(killed)[:2] == ("evicted", 1022), "told by a former schedd, or by the end of the pool"
    assert end(KeeperResult("lost"))[:2] == ("evicted", 1007)
    over = "Job has gone over the limit of 64 megabytes of jobs on the access point"
    too_much = KeeperResult("signaled", code=9, oom_kills=1, ended_by="memory")
    assert end(too_much) == ("held", 34, over)
    limit = MemoryLimit(64, is_request=True)
    assert "Consider resubmitting with a higher request_memory" in end(too_much, universe=12)[2]


def test_the_request_of_a_local_job_limits_it_where_that_is_enforced() -> None:
    assert memory_limit(LocalLimits(memory_mib=64), 12, 8) == MemoryLimit(64)
    enforced = LocalLimits(memory_mib=64, requests_bind=True)
    assert memory_limit(enforced, 12, 8) == MemoryLimit(8, is_request=True)
    assert memory_limit(enforced, 12, 100) == MemoryLimit(64), "the administrator's limit stays"
    assert memory_limit(enforced, 12, 0) == MemoryLimit(64), "as in HTCondor, a job without a request has no own limit"
    assert memory_limit(enforced, 7, 8) == MemoryLimit(64), "and a job of the scheduler universe"
    assert memory_limit(LocalLimits(requests_bind=True), 12, 8) == MemoryLimit(8, is_request=True)


def test_the_pace_of_starts() -> None:
    pace = StartPace()
    assert pace.rest_s("1.0", 5.0) == 0
    pace.started("1.0", 5.0)
    assert pace.rest_s("1.0", 5.0) == pytest.approx(REST_S)
    assert pace.rest_s("1.1", 5.0) == 0
    assert pace.rest_s("1.0", 5.0 + REST_S) == pytest.approx(0)
    pace.started("1.1", 5.2)
    pace.started("1.0", 5.4)
    pace.started("1.2", 5.2 + REST_S)  # 1.1 is forgotten
    assert list(pace._started) == ["1.0", "1.2"]
    assert pace.rest_s("1.0", 5.4) == pytest.approx(REST_S)
