"""What the schedd does for HTCondor's condor_dagman, and what the client counts in its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slotwise.classad import ClassAd
from slotwise.schedd.jobs import dags, from_ad
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.submit.dag_files import nodes_total

ARGUMENTS = "-f -l . -Lockfile x.dag.lock -Dag sub/x.dag -CsdVersion $CondorVersion:' '25.14.1' '$ -AutoRescue 1"


def dagman(**more: Any) -> ClassAd:
    return ClassAd({"JobUniverse": 7, "Cmd": "/usr/bin/condor_dagman", "Arguments": ARGUMENTS, "Iwd": "/", **more})


def test_a_batch_has_the_name_that_condor_dagman_gives_it() -> None:
    assert dags.batch_name(dagman(), 12) == "x.dag+12"
    for other in ({"Cmd": "/bin/true"}, {"JobUniverse": 5}, {"JobBatchName": "mine"}, {"Arguments": "-f"}):
        assert dags.batch_name(dagman(**other), 12) == ""
    old = dagman(Args="-f -Dag y.dag")
    del old["Arguments"]
    assert dags.batch_name(old, 3) == "y.dag+3"


def test_condor_dagman_is_told_its_name_once() -> None:
    assert dags.with_batch_name(["-f"], "x.dag+1") == ["-f", "-Batch-Name", "x.dag+1"]
    assert dags.with_batch_name(["-batch-name", "a"], "x.dag+1") == ["-batch-name", "a"]
    assert dags.with_batch_name(["-f"], "") == ["-f"]


def test_the_environment_has_commands_that_there_are() -> None:
    assert dags.environment("/c/condor_submit", "") == {
        "_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "False",
        "_CONDOR_LOG": ".",
        "_CONDOR_DAGMAN_CONDOR_SUBMIT_EXE": "/c/condor_submit",
    }


def cluster(number: int, user: str = "ann@here", **more: Any) -> Cluster:
    made = Cluster(number, user.partition("@")[0], user, user, 0, {}, **more)
    made.jobs[0] = Job(made, 0, Status.RUNNING)
    return made


def test_only_ones_own_condor_dagman_is_told_of_nodes() -> None:
    driver = cluster(1, universe=7, is_dagman=True)
    node = cluster(2, dag=1)
    assert dags.driver_of(node, {1: driver}) is driver.jobs[0]
    assert dags.driver_of(node, {}) is None
    assert dags.driver_of(cluster(2, "bob@here", dag=1), {1: driver}) is None
    assert dags.driver_of(node, {1: cluster(1, universe=7)}) is None
    assert dags.driver_of(node, {1: cluster(1, is_dagman=True)}) is None


def test_jobs_that_complete_are_counted_and_nodes_when_all_of_theirs_went_well() -> None:
    driver, job = cluster(1).jobs[0], cluster(2).jobs[0]
    driver.changes = {"DAG_JobsCompleted": 4, "DAG_NodesDone": 2}
    assert dags.left(driver, job, last=True) == {}
    job.status, job.changes = Status.COMPLETED, {"ExitCode": 0}
    assert dags.left(driver, job, last=False) == {"DAG_JobsCompleted": 5}
    assert dags.left(driver, job, last=True) == {"DAG_JobsCompleted": 5, "DAG_NodesDone": 3}
    job.changes = {"ExitCode": 1}
    assert dags.left(driver, job, last=True) == {"DAG_JobsCompleted": 5}


def test_nodes_of_splices_and_included_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.dag").write_text(
        "# JOB no\nJOB A a.sub\njob B \\\n  b.sub\nPARENT A CHILD B\nSUBDAG EXTERNAL S s.dag\nFINAL F f.sub\n"
        "SPLICE P sub/p.dag\nSPLICE Q q.dag DIR sub\nINCLUDE more.dag\nSERVICE M m.sub\n"
    )
    for name, jobs in (("sub/p.dag", 2), ("sub/q.dag", 3), ("more.dag", 1)):
        (tmp_path / name).write_text("".join(f"JOB N{at} n.sub\n" for at in range(jobs)))
    assert nodes_total(dagman(Iwd=str(tmp_path))) == 10
    (tmp_path / "more.dag").write_text("INCLUDE more.dag\n")
    assert nodes_total(dagman(Iwd=str(tmp_path))) is None, "a file that includes itself"
    assert nodes_total(dagman(Iwd=str(tmp_path / "sub"))) is None, "no such file"
    assert nodes_total(dagman(Iwd=str(tmp_path), Cmd="/bin/true")) is None


def test_slotwises_own_condor_dagman_counts_for_itself() -> None:
    for program, counted in (("/usr/bin/condor_dagman", True), ("/x/slotwise/condor_names/condor_dagman", False)):
        driver = cluster(1)
        from_ad.describe(driver, ClassAd({"JobUniverse": 7, "Cmd": program}))
        assert driver.is_dagman is counted
        submitted = ClassAd({"JobUniverse": 7, "Cmd": program, "Arguments": "-Dag x.dag"})
        assert dags.batch_name(submitted, 3) == "x.dag+3"
