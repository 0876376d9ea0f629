"""`slotwise dag check`: everything that is wrong with a DAG, at once."""

from __future__ import annotations

import io
import json
from pathlib import Path

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch


def check(directory: Path, *words: str, config: str = "") -> tuple[int, str, list[str]]:
    out, err = io.StringIO(), io.StringIO()
    environment = {"HOME": str(directory), "SLOTWISE_HOME": str(directory / "pool")}
    if config:
        environment["CONDOR_CONFIG"] = config
    status = dispatch(["dag", "check", *words], Invocation(directory, environment, io.StringIO(), out, err))
    return status, out.getvalue(), err.getvalue().splitlines()


def script(path: Path, mode: int) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)


def test_a_dag_that_can_run(tmp_path: Path) -> None:
    script(tmp_path / "p.sh", 0o755)
    (tmp_path / "a.sub").write_text("executable = /bin/true\nqueue\n")
    (tmp_path / "x.dag").write_text(
        "JOB A a.sub\nJOB B {\nexecutable = /bin/true\n}\nJOB C none.sub NOOP\nPARENT A B CHILD C\n"
        "SCRIPT PRE A p.sh $JOB\n"
    )
    assert check(tmp_path, "x.dag") == (0, "x.dag: no errors (nodes: 3, dependencies: 2)\n", [])


def test_all_errors_are_told_with_place_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub\nRETRY a 1\nPARRENT A CHILD B\nSPLICE S nowhere.dag\n")
    status, _, told = check(tmp_path, "x.dag")
    assert status == 1
    assert told == [
        "ERROR: x.dag:3 'PARRENT' is not a valid DAG command (did you mean PARENT?)",
        "ERROR: nowhere.dag cannot be read: Provided file path does not exist "
        f"(it is looked for as {tmp_path}/nowhere.dag)",
        "ERROR: x.dag:2 Unknown node a referenced. (did you mean A?)",
        "3 errors; nothing can run until they are mended",
    ]


def test_what_is_wrong_is_told_to_programs(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub NOOP\nRETRY a 1\n")
    status, out, told = check(tmp_path, "--json", "x.dag")
    found = json.loads(out)
    assert (status, told, found["errors"], found["files"]) == (1, [], 1, ["x.dag"])
    (problem,) = found["problems"]
    assert (problem["severity"], problem["file"], problem["line"]) == ("error", "x.dag", 2)
    assert problem["hint"] == "did you mean A?"


def test_what_stops_a_dag_when_it_runs(tmp_path: Path) -> None:
    script(tmp_path / "p.sh", 0o644)
    (tmp_path / "x.dag").write_text(
        "JOB A a.sub\nJOB B b.sub DIR d\nSUBDAG EXTERNAL C c.dag\nPARENT A CHILD B\nPARENT B CHILD A\n"
        "SCRIPT POST A p.sh\nSCRIPT PRE A true\n"
    )
    status, _, told = check(tmp_path, "x.dag")
    assert status == 1
    assert "its nodes wait for each other: " in told[0]
    assert [line.partition(" node ")[2].partition(" (")[0] for line in told[1:-1]] == [
        "A: a.sub: there is no such submit file",
        "A: true: there is no such script",
        "A: p.sh is not executable",
        f"B: there is no directory {tmp_path}/d",
        "C: c.dag: there is no such DAG file",
    ]


def test_a_file_that_is_a_directory_or_missing(tmp_path: Path) -> None:
    (tmp_path / "x.dag").mkdir()
    status, _, told = check(tmp_path, "x.dag", "y.dag")
    assert status == 1 and len(told) == 3
    assert "is not a file" in told[0] and "does not exist" in told[1]


def test_warnings_do_not_stop_a_dag(tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text("executable = /bin/true\nqueue\n")
    (tmp_path / "x.dag").write_text("JOB A a.sub\nVARS A k=1\nVARS A k=2\n")
    status, out, told = check(tmp_path, "x.dag")
    assert (status, out) == (0, "x.dag: no errors (nodes: 1, dependencies: 0)\n")
    assert told == ['WARNING: x.dag:3 VAR "k" is already defined in node "A"']


def test_errors_in_submit_files_are_told_at_the_line_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text("executable = /bin/true\nrequest_memory =\nuniverse = nowhere\nqueue\n")
    (tmp_path / "x.dag").write_text("# a comment\nJOB A a.sub\nJOB B a.sub\n")
    status, _, told = check(tmp_path, "x.dag")
    assert status == 1 and len(told) == 2
    assert told[0].startswith("ERROR: x.dag:2 node A: a.sub:") and "nowhere" in told[0]


def test_files_that_two_nodes_write_are_doubtful(tmp_path: Path) -> None:
    head = "executable = /bin/true\ntransfer_executable = false\nrequest_memory = 1M\nrequest_disk = 1M\n"
    (tmp_path / "a.sub").write_text(head + "output = out.$(part)\nerror = err.$(JOB)\nlog = x.log\nqueue\n")
    (tmp_path / "b.sub").write_text(head + "transfer_output_files = result\noutput = o.$(Cluster)\n")
    (tmp_path / "x.dag").write_text(
        "JOB A a.sub\nJOB B a.sub\nJOB C a.sub\nVARS A part=1\nVARS B part=1\nVARS C part=2\n"
        "JOB D b.sub\nJOB E b.sub\nJOB F b.sub\nJOB G b.sub NOOP\n"
    )
    status, out, told = check(tmp_path, "x.dag")
    assert (status, out) == (0, "x.dag: no errors (nodes: 7, dependencies: 0)\n")
    remedy = "(give it a name with $(JOB), which is the node's)"
    assert told == [
        f"WARNING: x.dag:2 nodes A, B write the same file out.1 {remedy}",
        f"WARNING: x.dag:8 nodes D, E and 1 more write the same file result {remedy}",
    ]


def test_knobs_that_no_runner_follows_are_told_before_the_dag_is_submitted(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub NOOP\nCONFIG x.cfg\n")
    (tmp_path / "x.cfg").write_text(
        "DAGMAN_MAX_JOBS_SUBMITTED = 3\nDAGMAN_SUBMIT_DELAY = 5\nDAGMAN_SUBMIT_DELAYS = 0\nNEGOTIATOR_INTERVAL = 7\n"
    )
    status, _, told = check(tmp_path, "x.dag")
    assert status == 0
    assert told == [
        f"WARNING: {tmp_path}/x.cfg:2 DAGMAN_SUBMIT_DELAY delays no submission (write DAGMAN_MAX_SUBMITS_PER_INTERVAL)",
        f"WARNING: {tmp_path}/x.cfg:3 there is no knob DAGMAN_SUBMIT_DELAYS (did you mean DAGMAN_SUBMIT_DELAY?)",
        f"WARNING: {tmp_path}/x.cfg:4 NEGOTIATOR_INTERVAL has no effect in the CONFIG file of a DAG "
        "(the administrator's configuration has what is not about DAGs)",
    ]
    (tmp_path / "x.cfg").write_text("DAGMAN_USE_OLD_FILE_PARSER = True\n")
    status, _, told = check(tmp_path, "x.dag")
    assert status == 1
    assert "DAGMAN_USE_OLD_FILE_PARSER = True is not followed yet" in told[1], told
    (tmp_path / "condor_config").write_text("SLOTWISE_DAGMAN = /usr/bin/condor_dagman\n")
    assert check(tmp_path, "x.dag", config=str(tmp_path / "condor_config"))[0] == 0, "HTCondor's own follows it"
