"""DAGs whose runner and schedd are killed at random moments: each node is submitted once, and the ends are the same.

``SLOTWISE_TEST_DAG_KILLS=DAGS,NODES,KILLS[,SEED]`` asks for more than the few rounds of every day.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections import Counter

from tests.support.dags import Place, place_on, pool_of_a_user, runners
from tests.support.pool import Pool

_ASKED = os.environ.get("SLOTWISE_TEST_DAG_KILLS", "3,12,12").split(",")
DAGS, NODES, KILLS = (int(word) for word in _ASKED[:3])
SEED = int(_ASKED[3]) if len(_ASKED) > 3 else 37
CONFIG = "NUM_CPUS = 16\nMEMORY = 16384\nMASTER_BACKOFF_CONSTANT = 1\nMASTER_BACKOFF_CEILING = 2\n"
#: Fails in its first attempt if the node's name ends with F, always if it ends with X.
SUB = """
executable = /bin/sh
transfer_executable = false
arguments = "-c 'case $(JOB) in *X) exit 1;; *F) test $(RETRY) -gt 0;; esac'"
request_memory = 16M
request_disk = 1M
queue
"""


def dag_text(rng: random.Random, *, fails: bool) -> str:
    """A DAG of :data:`NODES` nodes in layers: some with scripts, some that need a retry, a sub-DAG, and one that fails
    for good."""
    names = [f"N{n}{rng.choice(['', '', '', 'F'])}" for n in range(NODES)]
    if fails:
        names[-1] += "X"
    lines = []
    for place, name in enumerate(names):
        lines.append(f"JOB {name} a.sub")
        lines.append(f"RETRY {name} 2" if name.endswith("F") else "")
        if place >= 4:
            lines.append(f"PARENT {' '.join(rng.sample(names[place - 4 : place], 2))} CHILD {name}")
        if rng.random() < 0.3:
            lines.append(f"SCRIPT PRE {name} script.sh")
        if rng.random() < 0.3 and not name.endswith("X"):
            lines.append(f"SCRIPT POST {name} script.sh $RETURN")
    lines += [f"SUBDAG EXTERNAL S sub.dag\nPARENT {names[0]} CHILD S"]
    return "\n".join(line for line in lines if line) + "\n"


def wanted(text: str) -> dict[str, int]:
    """How often each node is submitted."""
    names = re.findall(r"^(?:JOB|SUBDAG EXTERNAL) (\S+)", text, re.M)
    return {name: 2 if name.endswith("F") else 1 for name in names}


def submitted(log: str) -> Counter[str]:
    """How often the nodes' log has the submission of each node."""
    return Counter(re.findall(r'^000 .*\n\s+\[ DAGNodeName = "(\w+)"', log, re.M))


def test_whatever_is_killed_each_node_is_submitted_once_and_the_dag_ends_the_same() -> None:
    rng = random.Random(SEED)
    with pool_of_a_user(CONFIG) as pool:
        places, texts = [], []
        for number in range(DAGS):
            place = place_on(pool)
            texts.append(dag_text(rng, fails=number % 3 == 2))
            place.write(
                x_dag=texts[-1], sub_dag="JOB P a.sub\nJOB QF a.sub\nRETRY QF 1\nPARENT P CHILD QF\n", a_sub=SUB,
                script_sh='#!/bin/sh\nexit "${1:-0}"\n',
            )  # fmt: skip
            places.append(place)
        clusters = [place.submit("x.dag") for place in places]
        killed = kill_until_over(pool, places, rng)
        pool.until("the schedd is there again", lambda: pool.answers("schedd"))
        pool.until("the queue is empty", lambda: not pool.run("q", "-all", "-af", "ClusterId").stdout.split())
        for cluster, place, text in zip(clusters, places, texts, strict=True):
            names = ("x.dag.dagman.out", "sub.dag.dagman.out", "x.dag.lib.err", "sub.dag.lib.err", "x.dag.nodes.log")
            told = f"seed {SEED}, {killed}: " + "\n".join(f"{name}:\n{place.text(name)}" for name in names)
            fails = any(name.endswith("X") for name in wanted(text))
            assert f"EXITING WITH STATUS {int(fails)}" in place.text("x.dag.dagman.out"), told
            assert submitted(place.text("x.dag.nodes.log")) == Counter(wanted(text)), told
            assert submitted(place.text("sub.dag.nodes.log")) == Counter({"P": 1, "QF": 2}), told
            # What the schedd has of the DAG, whatever the log says.
            of_dag = pool.run("history", "-constraint", f"DAGManJobId == {cluster}", "-af", "DAGNodeName").stdout
            assert Counter(of_dag.split()) == Counter(wanted(text)), told
            if fails:
                done = re.findall(r"^DONE (\S+)$", place.text("x.dag.rescue001"), re.M)
                assert done == [name for name in wanted(text) if not name.endswith("X")], told
        print(f"{DAGS} DAGs of {NODES + 1} nodes, seed {SEED}: killed {dict(killed)}")


def kill_until_over(pool: Pool, places: list[Place], rng: random.Random) -> Counter[str]:
    """Kill runners and the schedd, :data:`KILLS` times, and wait until all DAGs have ended; gives what was killed."""

    def over(place: Place) -> bool:
        return re.search("^00[59] ", place.text("x.dag.dagman.log"), re.M) is not None

    killed: Counter[str] = Counter()
    for _ in range(KILLS):
        if all(map(over, places)):
            break
        time.sleep(rng.uniform(0.05, 1.0))  # any moment is as good as another
        what = rng.choices(["runner", "schedd", "both"], [8, 1, 1])[0]
        if what != "runner" and killed["schedd"] < KILLS / 6:
            with contextlib.suppress(AssertionError):  # it is still down
                pool.kill("schedd")
                killed["schedd"] += 1
        if what != "schedd":
            for process in runners(rng.choice(places).work):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed["runner"] += 1
    pool.until("the DAGs are over", lambda: all(map(over, places)), limit_s=60 + 4 * DAGS * NODES)
    return killed
