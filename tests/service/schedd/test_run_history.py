"""Records of runs: those of their starts and of transfers by plugins, as HTCondor 25.14 writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd, parse_ads
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2, schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, PretendedRun, Script

RECORDED = Path(__file__).parents[2] / "conformance" / "epoch-history.json"
_RECORD = re.compile(r"(?P<ad>.*?\n)\*\*\* (?P<banner>(?P<kind>\w+) [^\n]*)\n", re.DOTALL)


def records(text: str) -> list[tuple[str, ClassAd, list[str]]]:
    """Kind, ad and names in the banner of each record."""
    found = []
    for record in _RECORD.finditer(text):
        (ad,) = parse_ads(record["ad"].encode())
        found.append((record["kind"], ad, re.findall(r"(\w+)=", record["banner"])))
    return found


def of_htcondor(kind: str) -> tuple[ClassAd, list[str]]:
    """The ad and the banner of the recorded run of job 5, which has a DAGNodeName."""
    text = json.loads(RECORDED.read_text())["file"]
    return next((ad, banner) for one, ad, banner in records(text) if one == kind and ad["ClusterId"] == 5)


async def run_records(
    tmp_path: Path, reported: list[ClassAd], **knobs: str
) -> tuple[list[tuple[str, ClassAd, list[str]]], ClassAd]:
    """The records of a run whose starter sends these updates, and the ad of its job as the history has it."""
    path = tmp_path / "epochs"
    schedd = await RunningAccessPoint(tmp_path / "pool").start(JOB_EPOCH_HISTORY=str(path), **knobs)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=1)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        await schedd.submit(1, DAGNodeName="n1", Note="a note")
        await schedd.negotiate(point.address)

        async def running() -> bool:
            return bool(await schedd.jobs("NumJobStarts == 1"))

        await schedd.until(running)
        run: PretendedRun = next(iter(point.runs.values()))
        for ad in [*reported, ClassAd({"Heard": True})]:
            point.say(run, update=common_pb2.AdBatch(pack=pack_ads([ad])))

        async def heard() -> bool:
            return bool(await schedd.jobs("Heard"))

        await schedd.until(heard)
        await schedd.act("REMOVE", "true")
        await schedd.until_gone()
        (job,) = await schedd.history()
        await schedd.stop()
    finally:
        await point.stop()
    return records(path.read_text()), job


def report_of(ad: ClassAd, kind: str) -> ClassAd:
    """What the starter tells, from the record of it: how plugins were called and what they said, in one list."""
    word = kind.capitalize()
    called, said = ad[f"{word}PluginInvocations"], ad[f"{word}PluginResultList"]
    assert isinstance(called, list) and isinstance(said, list)
    told = [*called, *said]
    return ClassAd({f"{word}PluginResultList": told})


async def test_a_run_has_the_records_of_htcondor(tmp_path: Path) -> None:
    recorded = {kind: of_htcondor(kind) for kind in ("SPAWN", "INPUT", "OUTPUT")}
    reports = [report_of(recorded[kind][0], kind) for kind in ("INPUT", "OUTPUT")]
    found, job = await run_records(tmp_path, reports, SPAWN_JOB_ATTRS="Cmd, Arguments, Missing")
    assert [kind for kind, _, _ in found] == ["SPAWN", "INPUT", "OUTPUT", "EPOCH"]
    for kind, ad, banner in found[:3]:
        same, same_banner = recorded[kind]
        also = {"Arguments"} if kind == "SPAWN" else set()
        assert set(ad) - also == set(same) - also
        assert banner == same_banner
        assert (ad["EpochAdType"], ad["RunInstanceID"], ad["NumShadowStarts"]) == (kind, 0, 1)
        for name in same:
            if name.endswith(("PluginInvocations", "PluginResultList")):
                assert str(ad.lookup(name)) == str(same.lookup(name))
    assert not [name for name in job if "Plugin" in name], "they are not the job's"


async def test_knobs_choose_the_attributes_of_records(tmp_path: Path) -> None:
    report = report_of(of_htcondor("INPUT")[0], "INPUT")
    knobs = {"SPAWN_JOB_ATTRS": "ALL", "TRANSFER_JOB_ATTRS": "DAGNodeName", "INPUT_JOB_ATTRS": "Note"}
    found, _ = await run_records(tmp_path, [report], **knobs)
    (_, spawned, _), (_, moved, _), _ = found
    assert spawned["Note"] == "a note" and "Requirements" in spawned
    assert moved["Note"] == "a note" and "DAGNodeName" not in moved


async def test_results_that_are_no_ads_make_no_record_wrong(tmp_path: Path) -> None:
    reports = [ClassAd({"InputPluginResultList": "text"}), ClassAd({"OutputPluginResultList": [1, "two"]})]
    found, job = await run_records(tmp_path, reports)
    assert [kind for kind, _, _ in found] == ["SPAWN", "OUTPUT", "EPOCH"]
    assert found[1][1]["OutputPluginResultList"] == []
    assert "InputPluginResultList" not in job


async def test_the_access_point_answers_about_runs(tmp_path: Path) -> None:
    text = json.loads(RECORDED.read_text())["file"]
    path = tmp_path / "epochs"
    cut = text.index("\n", text.index("*** EPOCH ClusterId=4")) + 1
    (tmp_path / "epochs.20260101T000000").write_text(text[:cut])
    path.write_text(text[cut:])
    schedd = await RunningAccessPoint(tmp_path / "pool").start(JOB_EPOCH_HISTORY=str(path))

    async def ask(constraint: str = "", limit: int = 0, ids: tuple[str, ...] = (), **fields: Any) -> list[str]:
        query = common_pb2.AdQuery(constraint=constraint, limit=limit)
        jobs = schedd_pb2.JobSelection(ids=ids)
        found = await schedd.history(runs=True, query=query, jobs=jobs, **fields)
        return [f"{ad['ClusterId']} {ad['RunInstanceID']} {ad['EpochAdType']}" for ad in found]

    try:
        everything = await ask()
        assert len(everything) == text.count("\n*** ")
        assert everything[:3] == ["6 0 EPOCH", "6 0 CHECKPOINT", "6 0 SPAWN"]
        assert await ask(forwards=True) == everything[::-1]
        ends = ["6 0 EPOCH", "5 0 EPOCH", "4 1 EPOCH", "4 0 EPOCH", "3 0 EPOCH"]
        assert await ask(kinds=["epoch"]) == ends
        assert await ask(kinds=["EPOCH"], limit=2) == ends[:2]
        assert await ask(kinds=["EPOCH"], scan_limit=3, constraint="ClusterId < 6") == ends[1:3]
        assert await ask(kinds=["EPOCH"], since="4.0") == ends[:2]
        assert await ask(since='EpochAdType == "INPUT"') == everything[: everything.index("5 0 INPUT")]
        assert await ask(kinds=["INPUT", "OUTPUT"], ids=("5", "3.0")) == ["5 0 OUTPUT", "5 0 INPUT", "3 0 INPUT"]
        path.write_text("= [\n*** EPOCH ClusterId=1\n")
        with pytest.raises(grpc.RpcError, match="cannot be read"):
            await ask()
    finally:
        await schedd.stop()


async def test_an_access_point_without_a_history_of_runs_says_so(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(JOB_EPOCH_HISTORY="")
    try:
        with pytest.raises(grpc.RpcError, match="no history of runs"):
            await schedd.history(runs=True)
    finally:
        await schedd.stop()
