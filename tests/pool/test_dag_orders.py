"""What users ask of DAGs that run on a real pool: states, reasons, and orders."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator

import pytest

from tests.support.dags import TRUE, Place, place_on, pool_of_a_user
from tests.support.pool import Pool

SHELL = TRUE.replace("/bin/true", "/bin/sh").replace("queue", "should_transfer_files = NO\nqueue")
#: It runs until a file of its node's name is there.
WAITS = SHELL.replace("queue", "arguments = \"-c 'while ! test -e $(JOB).go; do sleep 0.2; done'\"\nqueue")
#: It fails unless a file of its node's name is there.
CHECKS = SHELL.replace("queue", "arguments = \"-c 'test -e $(JOB).ok'\"\nqueue")
#: A fails, L runs on; C and D come behind A.
DAG = "JOB A check.sub\nJOB C true.sub\nJOB D true.sub\nJOB L wait.sub\nPARENT A CHILD C\nPARENT C L CHILD D\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with pool_of_a_user() as found:
        yield found


@pytest.fixture
def place(pool: Pool) -> Place:
    return place_on(pool)


def begun(place: Place, dag: str = DAG) -> int:
    """A DAG in which A has failed while L runs."""
    place.write(x_dag=dag, check_sub=CHECKS, true_sub=TRUE, wait_sub=WAITS)
    cluster = place.submit("x.dag")
    place.until("A has failed", "x.dag.nodes.log", r"return value 1")
    place.until("L runs", "x.dag.nodes.log", r"(?s)DAGNodeName = \"L\".*^001 ")
    return cluster


def ask(place: Place, *words: str, status: int = 0) -> str:
    done = place.pool.run("dag", *words, cwd=place.work, check=False)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def states(place: Place, dag: str = "x.dag") -> dict[str, str]:
    return {node["name"]: node["state"] for node in json.loads(ask(place, "status", "--json", dag))["nodes"]}


def go(place: Place, *names: str) -> None:
    for name in names:
        (place.work / name).touch()
        (place.work / name).chmod(0o644)


def test_a_failed_node_is_retried_while_the_dag_runs_and_the_dag_succeeds(place: Place) -> None:
    cluster = begun(place)
    assert states(place) == {"A": "error", "C": "futile", "D": "futile", "L": "submitted"}
    told = ask(place, "status", str(cluster))
    assert f"DAG {cluster} [x.dag] is running." in told and "A (x.dag:1): Job proc" in told
    assert "A, an ancestor, failed: Job proc" in ask(place, "why", "x.dag", "D")
    assert re.search(r"Job \d+\.0 runs since [\d:]+ on slot", ask(place, "why", "x.dag", "L"))
    assert "L: it has jobs in the queue" in ask(place, "retry", "x.dag", "L", "A", status=1)
    go(place, "A.ok")
    assert ask(place, "retry", "x.dag", "A") == "A: runs once more\n"
    place.until("C runs", "x.dag.nodes.log", r'DAGNodeName = "C"')
    go(place, "L.go")
    place.ended()
    assert "EXITING WITH STATUS 0" in place.text("x.dag.dagman.out"), place.text("x.dag.dagman.out")
    assert place.submissions() == ["A", "L", "A", "C", "D"]
    assert states(place) == dict.fromkeys("ACDL", "done")
    assert "has ended with status 0" in ask(place, "status", "x.dag")


def test_orders_survive_a_runner_that_is_killed_and_are_carried_out_once(place: Place) -> None:
    begun(place)
    assert ask(place, "skip", "x.dag", "A") == "A: counts as done\n"
    place.until("C has ended", "x.dag.nodes.log", r'(?s)DAGNodeName = "C".*^005 ')
    os.kill(place.runner(), signal.SIGKILL)
    place.until("it recovers", "x.dag.dagman.out", "done with RECOVERY mode")
    assert states(place) == {"A": "done", "C": "done", "D": "not_ready", "L": "submitted"}
    go(place, "L.go")
    place.ended()
    assert "EXITING WITH STATUS 0" in place.text("x.dag.dagman.out"), place.text("x.dag.dagman.out")
    assert place.submissions() == ["A", "L", "C", "D"]
    assert place.text("x.dag.nodes.log").count("DAG order") == 1


def test_an_order_that_was_given_while_no_runner_lived_is_carried_out(place: Place) -> None:
    cluster = begun(place)
    place.pool.run("hold", str(cluster))
    place.pool.until("it is held", lambda: "held" in ask(place, "status", "x.dag").splitlines()[0])
    assert "carried out when the DAG's job runs again" in ask(place, "skip", "x.dag", "A")
    assert "DAG order" not in place.text("x.dag.nodes.log")
    place.pool.run("release", str(cluster))
    place.until("C has ended", "x.dag.nodes.log", r'(?s)DAGNodeName = "C".*^005 ')
    go(place, "L.go")
    place.ended()
    assert states(place) == dict.fromkeys("ACDL", "done")


def test_a_halted_dag_begins_nothing_and_goes_on_when_it_is_resumed(place: Place) -> None:
    place.write(
        x_dag="JOB L wait.sub\nJOB M wait.sub\nJOB N true.sub\nPARENT L CHILD N\n", wait_sub=WAITS, true_sub=TRUE
    )
    cluster = place.submit("x.dag")
    place.until("both run", "x.dag.nodes.log", r"(?s)^001 .*^001 ")
    assert ask(place, "halt", str(cluster)) == f"Halted DAG {cluster} [x.dag]\n"
    place.until("it is halted", "x.dag.dagman.out", "DAG is halted")
    go(place, "L.go")
    place.until("L has ended", "x.dag.nodes.log", "^005 ")
    assert "is halted" in ask(place, "status", "x.dag") and states(place)["N"] == "ready"
    assert "`slotwise dag resume`" in ask(place, "why", "x.dag", "N")
    assert ask(place, "resume", "x.dag") == f"Resumed DAG {cluster} [x.dag]\n"
    assert "the DAG is not halted" in ask(place, "resume", "x.dag", status=2)
    place.until("N is submitted", "x.dag.nodes.log", 'DAGNodeName = "N"')
    go(place, "M.go")
    place.ended()
    assert "EXITING WITH STATUS 0" in place.text("x.dag.dagman.out"), place.text("x.dag.dagman.out")
    assert "x.dag is not running" in ask(place, "halt", "x.dag", status=2)


def test_a_node_that_no_slot_can_run_is_explained_by_what_slots_have(place: Place) -> None:
    place.write(x_dag="JOB A a.sub\n", a_sub=TRUE.replace("queue", "request_cpus = 999\nqueue"))
    cluster = place.submit("x.dag")
    place.until("it is submitted", "x.dag.nodes.log", "^000 ")
    told = ask(place, "why", str(cluster), "A")
    assert "is idle:" in told and "No slot satisfies the job's Requirements" in told
    place.pool.run("rm", str(cluster))
    place.ended()


def test_a_failed_dag_goes_on_without_the_node_that_is_skipped(place: Place) -> None:
    place.write(x_dag="JOB A check.sub\nJOB B true.sub\nPARENT A CHILD B\n", check_sub=CHECKS, true_sub=TRUE)
    place.submit("x.dag")
    place.ended()
    assert "goes on from its rescue file 1" in ask(place, "status", "x.dag")
    assert "1" in ask(place, "rescue", "x.dag")
    assert "A: counts as done when x.dag is submitted again" in ask(place, "skip", "x.dag", "A")
    place.submit("x.dag")
    place.ended(2)
    assert place.submissions() == ["B"]
    assert states(place) == {"A": "done", "B": "done"}


def test_htcondors_own_words_for_it(place: Place) -> None:
    place.write(
        x_dag="JOB L wait.sub\nJOB M wait.sub\nJOB N true.sub\nPARENT L CHILD N\n", wait_sub=WAITS, true_sub=TRUE
    )

    def htcondor(*words: str, status: int = 0) -> str:
        done = place.pool.run("htcondor", "dag", *words, cwd=place.work, check=False)
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    told = htcondor("submit", "x.dag")
    (cluster,) = re.fullmatch(r"DAG (\d+) was submitted\.\n", told).groups()  # type: ignore[union-attr]
    place.until("both run", "x.dag.nodes.log", r"(?s)^001 .*^001 ")
    place.pool.until(
        "the ad tells so", lambda: place.pool.run("q", cluster, "-af", "DAG_JobsRunning").stdout.strip() == "2"
    )
    lines = htcondor("status", cluster).splitlines()
    assert re.fullmatch(rf"DAG {cluster} \[x\.dag\] has been running for  and 00:\d\d:\d\d", lines[0])
    assert lines[1:] == [
        "DAG has submitted 2 job(s), of which:",
        "\t      2 are running.",
        "DAG contains 3 node(s) total, of which:",
        "\t[=]   2 are running: 2 jobs.",
        "\t[-]   1 is waiting on other nodes to finish.",
        "DAG is running normally.",
        f"[{'=' * 26}{'-' * 13}] DAG is 0.00% complete.",
    ]
    assert htcondor("halt", cluster, "--reason", "lunch") == f"Halted DAG {cluster}\n"
    place.until("it is halted", "x.dag.dagman.out", "Halt reason: lunch")
    assert htcondor("resume", cluster) == f"Resumed DAG {cluster}\n"
    go(place, "L.go", "M.go")
    place.ended()
    place.pool.until("it has left the queue", lambda: not place.pool.run("q", cluster, "-af", "ClusterId").stdout)
    assert f"No DAG found for ID {cluster}." in htcondor("status", cluster, status=1)
