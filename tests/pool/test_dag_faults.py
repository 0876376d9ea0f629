"""DAGs that meet what nobody wants: files that cannot be written, scripts that never end, limits that are set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.cli.host import condor_names
from slotwise.dag.runner import RESTART
from slotwise.execution.dagman import PROGRAM

from tests.support import host
from tests.support.dags import TRUE, Place, place_on, pool_of_a_user
from tests.support.pool import Pool
from tests.support.small_disk import small_disk
from tests.support.waiting import LIMIT_S, block_until


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with pool_of_a_user() as pool:
        yield pool


@pytest.fixture
def place(pool: Pool) -> Place:
    return place_on(pool)


def test_a_status_file_that_cannot_be_written_is_told_and_stops_nothing(place: Place) -> None:
    place.write(x_dag="JOB A a.sub\nNODE_STATUS_FILE closed/x.status 1\n", a_sub=TRUE)
    (place.work / "closed").mkdir()
    (place.work / "closed").chmod(0o555)
    place.submit("x.dag")
    place.ended()
    told = place.text("x.dag.dagman.out")
    assert "EXITING WITH STATUS 0" in told
    assert f"ERROR: cannot write {place.work}/closed/x.status: Permission denied" in told


def test_a_rescue_file_that_cannot_be_written_is_told_and_leaves_no_part_of_it(place: Place) -> None:
    fails = f"executable = /bin/sh\narguments = \"-c 'chmod 0555 {place.work}; exit 1'\"\nlog = a.log\nqueue\n"
    place.write(x_dag="JOB A a.sub\n", a_sub=fails)
    place.submit("x.dag")
    place.ended()
    place.work.chmod(0o755)
    told = place.text("x.dag.dagman.out")
    assert f"ERROR: cannot write {place.work}/x.dag.rescue001: Permission denied" in told
    assert "EXITING WITH STATUS 1" in told
    assert not [path for path in place.work.iterdir() if "rescue" in path.name]


def test_a_rescue_file_of_another_dag_is_refused_with_its_place(place: Place) -> None:
    place.write(x_dag="JOB A a.sub\n", a_sub=TRUE, x_dag_rescue001="DONE A\nDONE Other\n")
    place.submit("x.dag")
    place.ended()
    told = place.text("x.dag.dagman.out")
    assert "Unknown node Other referenced" in told and "Processing error at x.dag.rescue001:2" in told, told
    assert "EXITING WITH STATUS 1" in told
    assert not place.submissions()


def test_a_post_script_that_never_ends_is_ended_with_the_dag(place: Place) -> None:
    place.write(
        x_dag="JOB A a.sub\nSCRIPT POST A forever.sh\nJOB B a.sub\nPARENT A CHILD B\n",
        a_sub=TRUE,
        forever_sh="#!/bin/sh\necho $$ > pid\nexec sleep 1000\n",
    )
    cluster = place.submit("x.dag")
    place.until("the script runs", "pid", r"^\d+$")
    place.pool.run("rm", str(cluster))
    place.ended()
    process = int(place.text("pid"))
    place.pool.until("the script has ended", lambda: not os.path.exists(f"/proc/{process}"))  # noqa: PTH110
    assert place.submissions() == ["A"]
    assert not re.findall("^DONE", place.text("x.dag.rescue001"), re.M)


def test_a_submission_limit_holds_for_an_interval(place: Place) -> None:
    place.write(
        x_dag="".join(f"JOB N{n} a.sub NOOP\n" for n in range(6)) + "CONFIG x.cfg\n",
        x_cfg="DAGMAN_MAX_SUBMITS_PER_INTERVAL = 2\nDAGMAN_USER_LOG_SCAN_INTERVAL = 1\n",
    )
    cluster = place.submit("x.dag")
    place.ended()
    seconds = re.findall(r"^\S+ (\S+) Event: ULOG_SUBMIT", place.text("x.dag.dagman.out"), re.M)
    assert len(seconds) == 6
    assert len(set(seconds)) >= 3, "two in a second at most"
    assert place.past(cluster, "DAGMan_MaxSubmitsPerInterval") == ["2"]


def test_nodes_of_many_jobs_are_refused_where_that_is_asked(place: Place) -> None:
    place.write(
        x_dag="JOB A a.sub\nCONFIG x.cfg\n",
        x_cfg="DAGMAN_PROHIBIT_MULTI_JOBS = True\n",
        a_sub=TRUE.replace("queue\n", "queue 2\n"),
    )
    place.submit("x.dag")
    place.ended()
    told = place.text("x.dag.dagman.out")
    assert "Submit generated multiple job procs; disallowed by DAGMAN_PROHIBIT_MULTI_JOBS setting" in told
    assert "EXITING WITH STATUS 1" in told
    assert not place.submissions()


def test_jobs_that_have_failed_are_put_on_hold_where_that_is_asked(place: Place) -> None:
    fails = TRUE.replace("/bin/true", "/bin/sh").replace("queue", "arguments = \"-c 'test -e ok'\"\nqueue")
    place.write(
        x_dag="JOB A a.sub\nCONFIG x.cfg\n",
        x_cfg="DAGMAN_PUT_FAILED_JOBS_ON_HOLD = True\n",
        a_sub=f"initialdir = {place.work}\nshould_transfer_files = NO\n{fails}",
    )
    cluster = place.submit("x.dag")
    held = ("q", "-all", "-constraint", f"DAGManJobId == {cluster} && JobStatus == 5", "-af", "ClusterId")
    place.pool.until("its job is on hold", lambda: place.pool.run(*held).stdout)
    place.write(ok="")
    place.pool.run("release", place.pool.run(*held).stdout.strip())
    place.ended()
    assert "EXITING WITH STATUS 0" in place.text("x.dag.dagman.out")
    assert place.submissions() == ["A", "A"]


def test_a_halted_dag_is_halted_for_the_next_runner_too(place: Place) -> None:
    waits = TRUE.replace("/bin/true", "/bin/sh").replace(
        "queue", f"arguments = \"-c 'while test ! -e {place.work}/go; do sleep 0.1; done'\"\nqueue"
    )
    place.write(x_dag="JOB A a.sub\nJOB B a.sub\nPARENT A CHILD B\n", a_sub=waits)
    cluster = place.submit("x.dag")
    place.until("the first node runs", "x.dag.nodes.log", "^001 ")
    place.write(x_dag_halt="")
    shown = ("q", str(cluster), "-af", "DAG_Status")
    place.pool.until("its ad says so", lambda: place.pool.run(*shown).stdout.strip() == "6")
    (place.work / "x.dag.halt").unlink()
    os.kill(place.runner(), 9)
    place.until("another runner recovers", "x.dag.dagman.out", "done with RECOVERY mode")
    place.write(go="")
    place.ended()
    assert place.submissions() == ["A"]
    assert place.past(cluster, "ExitCode", "DAG_Status", "DAG_InRecovery") == ["1", "6", "0"]


def test_a_runner_whose_schedd_is_away_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub\n")
    (tmp_path / "a.sub").write_text(TRUE)
    words = [str(condor_names.program(PROGRAM)), "-Lockfile", "x.dag.lock", "-Dag", "x.dag"]
    env = os.environ | {"SLOTWISE_HOME": str(tmp_path / "home"), "CONDOR_ID": "7.0"}
    log = tmp_path / "x.dag.dagman.out"
    with subprocess.Popen(words, cwd=tmp_path, env=env) as runner:
        try:
            block_until(lambda: log.exists() and "waiting for the schedd" in log.read_text(), "it waits for the schedd")
            runner.terminate()
            assert runner.wait(LIMIT_S) == RESTART
        finally:
            runner.kill()


@host.needs(host.loop_mounts)
def test_a_full_disk_below_the_nodes_log_makes_the_dag_wait_and_loses_nothing() -> None:
    with small_disk(20) as disk, pool_of_a_user() as pool:
        work = disk.at / "work"
        work.mkdir()
        shutil.chown(work, pool.root.owner(), pool.root.group())
        place, elsewhere = Place(pool, work), place_on(pool)
        waits = f"#!/bin/sh\necho > {elsewhere.work}/begun\nuntil test -e {elsewhere.work}/go; do sleep 0.1; done\n"
        # Their entries are longer than what is left of the log's last block.
        names = [f"N{number}" for number in range(100)]
        many = "".join(f"JOB {name} a.sub NOOP\n" for name in names)
        place.write(
            x_dag=f"JOB A a.sub\nSCRIPT POST A post.sh\n{many}JOB B a.sub\nPARENT A CHILD {' '.join(names)} B\n",
            a_sub=TRUE,
            post_sh=waits,
        )
        place.submit("-outfile_dir", str(elsewhere.work), "x.dag")
        elsewhere.until("the POST script runs", "begun", "")
        pool.until("so it has", (elsewhere.work / "begun").exists)
        disk.fill()
        elsewhere.write(go="")
        elsewhere.until("the runner tells of it", "x.dag.dagman.out", "No space left on device; waiting for room")
        disk.make_room()
        place.ended()
        assert "EXITING WITH STATUS 0" in elsewhere.text("x.dag.dagman.out")
        assert sorted(place.submissions()) == sorted(["A", "B", *names])
        assert len(re.findall(r"^016 ", place.text("x.dag.nodes.log"), re.M)) == 1


def test_a_dag_file_that_is_too_large_is_refused_and_told(place: Place) -> None:
    with (place.work / "x.dag").open("w") as file:
        file.truncate((1 << 30) + 1)
    for command in (("dag", "check"), ("dag", "submit"), ("condor_submit_dag",)):
        done = place.pool.run(*command, "x.dag", cwd=place.work, check=False)
        assert done.returncode == 1
        assert "x.dag" in done.stderr and "larger than all files of a DAG may be" in done.stderr, done.stderr
    assert not (place.work / "x.dag.dagman.log").exists()


def test_splices_without_end_are_refused_and_told(place: Place) -> None:
    for number in range(600):
        (place.work / f"s{number}.dag").write_text(f"SPLICE S s{number + 1}.dag\n")
    place.write(x_dag="SPLICE S s0.dag\n", self_dag="SPLICE S self.dag\n")
    for name, told in (("x.dag", "500"), ("self.dag", "self.dag")):
        done = place.pool.run("dag", "submit", name, cwd=place.work, check=False)
        assert done.returncode == 1
        assert told in done.stderr, done.stderr
        assert len(done.stderr) < 100_000


def test_a_dag_that_aborts_with_a_high_status_is_over(place: Place) -> None:
    fails = TRUE.replace("/bin/true", "/bin/false")
    place.write(x_dag="JOB A a.sub\nABORT-DAG-ON A 1 RETURN 7\n", a_sub=fails)
    cluster = place.submit("x.dag")
    place.ended()
    assert place.past(cluster, "ExitCode", "JobStatus") == ["7", "4"]
    assert place.text("x.dag.dagman.out").count("STARTING UP") == 1
    assert place.submissions() == ["A"]
