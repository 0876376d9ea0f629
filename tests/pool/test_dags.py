"""DAGs on a real pool, run by Slotwise's own condor_dagman."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator

import pytest

from tests.support.dags import DIAMOND, TRUE, Place, place_on, pool_of_a_user
from tests.support.pool import Pool


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with pool_of_a_user() as pool:
        yield pool


@pytest.fixture
def place(pool: Pool) -> Place:
    return place_on(pool)


def test_a_diamond_runs_from_top_to_bottom(place: Place) -> None:
    place.write(x_dag=DIAMOND, a_sub=TRUE)
    cluster = place.submit("x.dag")
    place.ended()
    assert "EXITING WITH STATUS 0" in place.text("x.dag.dagman.out"), place.text("x.dag.dagman.out")
    order = place.submissions()
    assert order[0] == "A" and sorted(order[1:3]) == ["B", "C"] and order[3:] == ["D"]
    metrics = json.loads(place.text("x.dag.metrics"))
    assert (metrics["exitcode"], metrics["nodes_succeeded"], metrics["jobs_submitted"]) == (0, 4, 4)
    assert not (place.work / "x.dag.lock").exists()
    names = ("ExitCode", "DAG_NodesTotal", "DAG_NodesDone", "DAG_JobsCompleted", "DAG_Status", "JobBatchName")
    assert place.past(cluster, *names) == ["0", "4", "4", "4", "0", f"x.dag+{cluster}"]
    told = place.pool.run(
        "history",
        "-constraint",
        f"DAGManJobId == {cluster}",
        "-af",
        "DAGNodeName",
        "DAGParentNodeNames",
        "JobBatchName",
    )
    assert sorted(told.stdout.splitlines()) == sorted(
        f"{node} {parents} x.dag+{cluster}".replace("  ", "  ")
        for node, parents in (("A", ""), ("B", "A"), ("C", "A"), ("D", "B,C"))
    )


def test_a_node_that_fails_ends_in_a_rescue_file_from_which_the_dag_goes_on(place: Place) -> None:
    fails = TRUE.replace("/bin/true", "/bin/sh").replace("queue", "arguments = \"-c 'test -e $(JOB).ok'\"\nqueue")
    fails += f"initialdir = {place.work}\n"
    fails = f"initialdir = {place.work}\nshould_transfer_files = NO\n" + fails.split("initialdir")[0]
    place.write(
        x_dag=DIAMOND + "RETRY B 1\nSCRIPT PRE D pre.sh $NODE $RETRY\nSCRIPT POST A post.sh $RETURN\n",
        a_sub=fails,
        pre_sh='#!/bin/sh\necho "$@" > pre.out\n',
        post_sh='#!/bin/sh\necho "$@" > post.out\nexit 0\n',
    )
    for node in "CD":
        place.write(**{f"{node}_ok": ""})
    place.submit("x.dag")
    place.ended()
    assert "EXITING WITH STATUS 1" in place.text("x.dag.dagman.out"), place.text("x.dag.dagman.out")
    assert place.text("x.dag.dagman.out").count("EXITING WITH STATUS") == 1
    assert place.text("post.out") == "1\n"
    assert sorted(place.submissions()) == ["A", "B", "B", "C"]
    assert re.findall("^DONE (.)$", place.text("x.dag.rescue001"), re.M) == ["A", "C"]
    place.write(B_ok="")
    place.submit("x.dag")
    place.ended(2)
    assert place.submissions() == ["B", "D"]
    assert place.text("pre.out") == "D 0\n"
    assert json.loads(place.text("x.dag.metrics"))["rescue_dag_number"] == 1


def test_a_runner_that_was_killed_goes_on_and_submits_nothing_twice(place: Place) -> None:
    waits = TRUE.replace("/bin/true", "/bin/sh").replace(
        "queue", f"arguments = \"-c 'while test ! -e {place.work}/go; do sleep 0.1; done'\"\nqueue"
    )
    place.write(x_dag=DIAMOND, a_sub=waits)
    place.submit("x.dag")
    place.until("the first node runs", "x.dag.nodes.log", "^001 ")
    os.kill(place.runner(), signal.SIGKILL)
    place.until("another runner recovers", "x.dag.dagman.out", "done with RECOVERY mode")
    place.write(go="")
    place.ended()
    assert sorted(place.submissions()) == ["A", "B", "C", "D"]
    assert json.loads(place.text("x.dag.metrics"))["exitcode"] == 0


def test_a_dag_that_is_removed_takes_its_jobs_along(place: Place) -> None:
    place.write(x_dag=DIAMOND, a_sub=TRUE.replace("/bin/true", "/bin/sleep").replace("queue", "arguments = 600\nqueue"))
    cluster = place.submit("x.dag")
    place.until("the first node runs", "x.dag.nodes.log", "^001 ")
    place.pool.run("rm", str(cluster))
    place.until("its job is removed", "x.dag.nodes.log", "^009 ")
    place.ended()
    assert place.text("x.dag.rescue001").endswith("<ENDLIST>\n\n")
    place.pool.until("the queue is empty", lambda: not place.pool.run("q", "-af", "ClusterId").stdout)
    assert place.past(cluster, "JobStatus", "DAG_Status") == ["3", "4"]
