"""DAGs on a real pool, run by Slotwise's own condor_dagman."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.accounts import host_users
from tests.support.pool import Pool
from tests.support.users_pool import UsersPool

CONFIG = """
NUM_CPUS = 4
NEGOTIATOR_INTERVAL = 1
SCHEDULER_UNIVERSE_COOL_DOWN_DURATION = 1
DAGMAN_QUEUE_UPDATE_INTERVAL = 1
DAGMAN_HOLD_CLAIM_TIME = 0
"""
TRUE = "executable = /bin/true\ntransfer_executable = false\nrequest_memory = 16M\nrequest_disk = 1M\nqueue\n"
DIAMOND = "JOB A a.sub\nJOB B a.sub\nJOB C a.sub\nJOB D a.sub\nPARENT A CHILD B C\nPARENT B C CHILD D\n"


class Place:
    """A directory of a user's DAG on a pool of that user."""

    def __init__(self, pool: Pool, work: Path) -> None:
        self.pool, self.work = pool, work

    def write(self, **files: str) -> None:
        """Files, ``_`` in the name for the point; those with ``#!`` may be run."""
        for name, text in files.items():
            path = self.work / name.replace("_", ".")
            path.write_text(text)
            path.chmod(0o755 if text.startswith("#!") else 0o644)

    def submit(self, *words: str) -> int:
        done = self.pool.run("dag", "submit", *words, cwd=self.work)
        return int(re.findall(r"submitted to cluster (\d+)", done.stdout)[0])

    def text(self, name: str) -> str:
        path = self.work / name
        return path.read_text() if path.exists() else ""

    def ended(self, times: int = 1) -> None:
        """Wait until the DAG's job has left the queue."""
        with self._shown():
            self.pool.until(
                "the DAG is over", lambda: len(re.findall("^00[59] ", self.text("x.dag.dagman.log"), re.M)) >= times
            )

    def until(self, what: str, name: str, pattern: str) -> None:
        with self._shown():
            self.pool.until(what, lambda: re.search(pattern, self.text(name), re.M))

    @contextlib.contextmanager
    def _shown(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            print(self.text("x.dag.dagman.out"), self.text("x.dag.lib.err"), self.text("x.dag.nodes.log"))
            raise

    def runner(self) -> int:
        """The process that runs the DAG."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "cwd").resolve() == self.work:
                    words = (entry / "cmdline").read_bytes()
                    if b"x.dag.lock" in words:
                        return int(entry.name)
        raise AssertionError("no process runs the DAG")

    def submissions(self) -> list[str]:
        """The nodes in the order in which the nodes' log has their submissions."""
        return re.findall(r'^000 .*\n.*(?:DAGNodeName = "|DAG Node: )([\w+]+)', self.text("x.dag.nodes.log"), re.M)

    def past(self, cluster: int, *names: str) -> list[str]:
        """Attributes of the DAG's job, which has ended."""

        def found() -> list[str]:
            return self.pool.run("history", str(cluster), "-af", *names).stdout.split()

        self.pool.until("it is in the history", found)
        return found()


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slotwise-dags-", dir="/var/tmp")))
        root.chmod(0o755)
        if os.geteuid() == 0:  # root's jobs do not run on access points
            host.need(host.open_installation)
            (user,) = stack.enter_context(host_users("dora"))
            pool: Pool = UsersPool(user, root, CONFIG)
        else:
            pool = Pool(root, CONFIG)
        try:
            pool.up()
            yield pool
        finally:
            pool.run("down", "--fast", check=False)


@pytest.fixture
def place(pool: Pool) -> Iterator[Place]:
    work = Path(tempfile.mkdtemp(prefix="dag-", dir=pool.root))
    shutil.chown(work, pool.root.owner(), pool.root.group())
    yield Place(pool, work)


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
