"""A projection brings along what the attributes that are asked for read, at every daemon and on every path."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from slotwise.client import Collector, Schedd

from tests.support.pool import Pool

_JOB = """\
executable = /bin/true
hold = true
request_memory = ifThenElse(MemoryUsage =!= undefined, MAX({MemoryUsage * 3/2, 1500}), 1500)
+MemoryUsage = (ResidentSetSize + 1023) / 1024
+ResidentSetSize = 3250000
+Deep1 = Deep2 + 1
+Deep2 = MY.Deep3 * 2
+Deep3 = RequestCpus + ProcId
+ByEval = eval("Deep3")
+WhichOne = "Deep3"
+ByName = eval(WhichOne)
+Inner = [ a = Deep3; b = a ]
+OfInner = Inner.b
queue
"""
#: Each attribute with its value; alone, each would be undefined or another.
_VALUES = {"RequestMemory": 4761, "MemoryUsage": 3174, "Deep1": 3, "ByEval": 1, "ByName": 1, "OfInner": 1}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    made = Pool(tmp_path_factory.mktemp("p"), "NUM_CPUS = 3\nMEMORY = 300\nSLOT_WEIGHT = Cpus * 2\n")
    try:
        made.up()
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module", params=["queue", "history"])
def place(request: pytest.FixtureRequest, pool: Pool) -> str:
    """Where the job is; first in the queue, then in the history, also where these tests run without the others."""
    if not pool.run("q", "1", "-af", "ClusterId").stdout:
        (pool.root / "a.sub").write_text(_JOB)
        pool.run("submit", "a.sub")
    if request.param == "queue":
        return "q"
    pool.run("rm", "1")
    pool.until("the job is in the history", lambda: pool.run("history", "1", "-af", "ClusterId").stdout)
    return "history"


def test_values_of_chosen_attributes_are_those_of_the_whole_ad(pool: Pool, place: str) -> None:
    for name, value in _VALUES.items():
        assert pool.run(place, "1", "-af", name).stdout == f"{value}\n", name
        assert pool.run(place, "1", "-format", "%v", name).stdout == str(value), name
    together = pool.run(place, "1", "-af", *_VALUES).stdout.split()
    assert together == [str(value) for value in _VALUES.values()]


def test_what_is_printed_as_it_is_has_the_attributes_asked_for_and_no_others(pool: Pool, place: str) -> None:
    assert pool.run(place, "1", "-long", "-attributes", "Deep1").stdout == "Deep1 = Deep2 + 1\n\n"
    (ad,) = json.loads(pool.run(place, "1", "-json", "-attributes", "Deep1").stdout)
    assert ad == {"Deep1": "/Expr(Deep2 + 1)/"}


def test_programs_get_ads_that_can_be_evaluated(pool: Pool, place: str) -> None:
    with Schedd(env=pool.env) as schedd:
        ask = schedd.query if place == "q" else schedd.history
        for name, value in _VALUES.items():
            (ad,) = ask("ClusterId == 1", [name])
            assert ad.eval(name) == value, name
        (text,) = json.loads(schedd.query_json("ClusterId == 1", ["Deep1"])) if place == "q" else [None]
        assert text is None or {"Deep1", "Deep2", "Deep3", "ProcId", "RequestCpus"} == set(text)


def test_slots_weigh_what_they_weigh(pool: Pool) -> None:
    pool.until("the slot is advertised", lambda: pool.run("status", "-af", "Name").stdout)
    assert pool.run("status", "-af", "SlotWeight").stdout == "6\n"
    assert pool.run("status", "-direct", "localhost", "-af", "SlotWeight").stdout == "6\n"
    assert pool.run("status", "-long", "-attributes", "SlotWeight").stdout == "SlotWeight = Cpus * 2\n\n"
    with Collector(env=pool.env) as collector:
        (slot,) = collector.query("startd", projection=["SlotWeight"])
    assert slot.eval("SlotWeight") == 6
    assert set(slot) == {"SlotWeight", "Cpus"}


def test_the_time_of_the_answer_is_an_attribute_like_others(pool: Pool) -> None:
    (pool.root / "b.sub").write_text("executable = /bin/true\nhold = true\nqueue 2\n")
    pool.run("submit", "b.sub")
    cluster = pool.run("q", "-constraint", "TotalSubmitProcs == 2 && ProcId == 1", "-af", "ClusterId").stdout.strip()
    for ad in json.loads(pool.run("q", cluster, "-json", "-attributes", "ServerTime").stdout):
        assert list(ad) == ["ServerTime"]
    both = json.loads(pool.run("q", f"{cluster}.1", "-json", "-attributes", "ProcId,ServerTime").stdout)
    assert [list(ad) for ad in both] == [["ProcId", "ServerTime"]]
    lines = pool.run("q", cluster, "-long", "-attributes", "ServerTime").stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["ServerTime", "", "ServerTime", ""]
    assert pool.run("q", cluster, "-af", "ServerTime >= QDate").stdout == "true\ntrue\n"
    refused = pool.run("condor_q", "-batch", "-af", "ClusterId", check=False)
    assert (refused.returncode, refused.stderr) == (1, "Error: -batch conflicts with -format and -af\n")
