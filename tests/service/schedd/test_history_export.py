"""The HISTORY file: each job that leaves the queue, once, whatever happens between the commit and the file."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import parse_ads
from slotwise.config import load
from slotwise.daemon import history_file
from slotwise.schedd.history import history_files, past_ads

from tests.service.schedd.test_commands import run
from tests.support.access_point import RunningAccessPoint
from tests.support.waiting import LIMIT_S

RECORDED = Path(__file__).parents[2] / "conformance" / "history-banners.json"


def ids(path: Path) -> list[str]:
    """Of the banners, oldest first."""
    found = []
    for part in history_file.parts_of(path):
        for line in part.read_text().splitlines():
            if line.startswith("*** "):
                words = line.replace(" = ", "=").split()
                facts = dict(word.split("=", 1) for word in words if "=" in word)
                found.append(f"{facts['ClusterId']}.{facts['ProcId']}")
    return found


async def until_written(schedd: RunningAccessPoint, path: Path, count: int) -> None:
    async def written() -> bool:
        return len(ids(path)) >= count

    await schedd.until(written)


async def removed(schedd: RunningAccessPoint, count: int, **attributes: Any) -> int:
    """Jobs that come and go; the number of their cluster."""
    cluster = await schedd.submit(count, **attributes)
    await schedd.act("REMOVE", f"ClusterId == {cluster}")
    await schedd.until_gone()
    return cluster


async def test_jobs_that_leave_are_in_the_file_as_in_the_database(schedd: RunningAccessPoint) -> None:
    path = schedd.home.spool / "history"
    cluster = await removed(schedd, 3, Env="A=1", Note='a "quoted"\nline', Size=1.5)
    await until_written(schedd, path, 3)
    told = {ad["ProcId"]: ad for ad in await schedd.history()}
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert ids(path) == [f"{cluster}.{proc}" for proc in range(3)]
    for record in text.split("*** Offset")[:-1]:
        body = record.partition("\n")[2] if record.startswith(" = ") else record
        (ad,) = parse_ads(body.encode())
        same = told[ad["ProcId"]]
        assert {name.lower() for name in ad} == {name.lower() for name in same}
        assert all(str(ad.lookup(name)) == str(same.lookup(name)) for name in ad if name != "Note")
        assert ad["Env"] == "A=1" and ad["JobStatus"] == 3


async def test_banners_are_those_of_htcondor(schedd: RunningAccessPoint) -> None:
    """Recorded of 25.14: the words of its banner lines, and that they lead from one to the one before."""
    await removed(schedd, 3)
    path = schedd.home.spool / "history"
    await until_written(schedd, path, 3)

    def shape(data: bytes) -> list[str]:
        places = [0]
        found = []
        for line in data.splitlines(keepends=True):
            if line.startswith(b"*** "):
                words = line.decode().split()
                assert int(words[3]) == places[-1]
                places.append(data.index(line))
                found.append(" ".join(word for word in words if not word.lstrip("-").isdigit() and '"' not in word))
        return found

    recorded = json.loads(RECORDED.read_text())
    assert shape(recorded["history"].encode())[:3] == shape(path.read_bytes())


async def test_the_file_is_read_without_the_schedd(schedd: RunningAccessPoint) -> None:
    cluster = await removed(schedd, 3)
    path = schedd.home.spool / "history"
    await until_written(schedd, path, 3)
    for source in (["-local"], ["-file", str(path)], ["-search", str(path)], ["-no-librarian", "-sear", str(path)]):
        found = await run(schedd, "history", *source, "-af:j", "JobStatus", "-limit", "2")
        assert found.out == f"{cluster}.2 3\n{cluster}.1 3\n"
    refused = await run(schedd, "history", "-inherit")
    assert refused.status != 0 and "-name" in refused.err


async def test_environments_stay_out_when_the_administrator_says_so(tmp_path: Path) -> None:
    per_job = tmp_path / "per-job"
    per_job.mkdir()
    schedd = await RunningAccessPoint(tmp_path / "pool").start(
        HISTORY_CONTAINS_JOB_ENVIRONMENT="false", PER_JOB_HISTORY_DIR=str(per_job)
    )
    try:
        cluster = await removed(schedd, 2, Env="SECRET=1", Environment="SECRET=2", Args="kept")
        path = schedd.home.spool / "history"
        await until_written(schedd, path, 2)
        single = [per_job / f"history.{cluster}.{proc}" for proc in range(2)]
        assert sorted(per_job.iterdir()) == single, "no temporary file is left"
        for file in (path, *single):
            assert "SECRET" not in file.read_text() and 'Args = "kept"' in file.read_text()
        shown = (await schedd.history())[0]
        assert shown["Args"] == "kept" and not {"Env", "Environment"} & set(shown), (
            "`history` does not show them, either"
        )
    finally:
        await schedd.stop()


async def test_no_file_while_history_is_empty(tmp_path: Path) -> None:
    """What leaves meanwhile stays out, as in HTCondor; also through a restart."""
    path = tmp_path / "pool" / "spool" / "history"
    schedd = RunningAccessPoint(tmp_path / "pool")
    await schedd.start(HISTORY="")
    await removed(schedd, 2)
    await schedd.stop()
    assert not path.exists()
    await schedd.start()
    first = await removed(schedd, 1)
    await until_written(schedd, path, 1)
    assert ids(path) == [f"{first}.0"]
    await reconfigured(schedd, HISTORY="")
    await removed(schedd, 1)
    await reconfigured(schedd)
    last = await removed(schedd, 1)
    await until_written(schedd, path, 2)
    await schedd.stop()
    assert ids(path) == [f"{first}.0", f"{last}.0"]


async def reconfigured(schedd: RunningAccessPoint, **knobs: str) -> None:
    file = schedd.home.root / "config"
    before = [line for line in file.read_text().splitlines() if not line.startswith("HISTORY")]
    file.write_text("\n".join([*before, *(f"{name} = {value}" for name, value in knobs.items())]) + "\n")
    env = {"CONDOR_CONFIG": str(file), "SLOTWISE_HOME": str(schedd.home.root)}
    await schedd.point.reconfig(load(str(file), subsystem="SCHEDD", env=env, home=schedd.home))
    export = schedd.point.history_export

    async def applied() -> bool:
        return export._applied == export.settings

    await schedd.until(applied)


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.999, 1.0])
async def test_nothing_is_lost_or_repeated_when_the_schedd_dies_before_the_file(
    cut: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the commit and the write, in the middle of a write, and between the write and its mark."""
    monkeypatch.setattr(history_files, "_PIECE", 3)
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    path = schedd.home.spool / "history"
    first = await removed(schedd, 4)
    await until_written(schedd, path, 4)
    before = path.stat().st_size
    marks: list[int] = []
    monkeypatch.setattr("slotwise.schedd.storage.store.Batch.mark_history", lambda self, seq: marks.append(seq))
    second = await removed(schedd, 5)
    await until_written(schedd, path, 9)
    await schedd.kill()
    monkeypatch.undo()
    whole = path.read_bytes()
    path.write_bytes(whole[: before + round((len(whole) - before) * cut)])
    await schedd.start()
    third = await removed(schedd, 1)
    await until_written(schedd, path, 10)
    await schedd.stop()
    assert ids(path) == [f"{first}.{n}" for n in range(4)] + [f"{second}.{n}" for n in range(5)] + [f"{third}.0"]
    former = 0
    for line in path.read_bytes().splitlines(keepends=True):
        if line.startswith(b"*** "):
            assert int(line.split()[3]) == former
            former = path.read_bytes().index(line)


async def test_a_disk_that_is_full_delays_the_file(schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_files, "_AGAIN_S", 0.05)
    append, refused = history_file.append, list[Any]()

    def full(*args: Any) -> None:
        if len(refused) < 3:
            refused.append(args)
            raise OSError(28, "No space left on device")
        append(*args)

    monkeypatch.setattr(history_file, "append", full)
    path = schedd.home.spool / "history"
    cluster = await removed(schedd, 2)
    await until_written(schedd, path, 2)
    assert len(refused) == 3
    assert ids(path) == [f"{cluster}.0", f"{cluster}.1"]


async def test_the_file_is_written_apart_from_commits(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that hangs holds up nothing but the file."""
    append, let = history_file.append, threading.Event()

    def slow(*args: Any) -> None:
        assert let.wait(LIMIT_S)
        append(*args)

    monkeypatch.setattr(history_file, "append", slow)
    path = schedd.home.spool / "history"
    for _ in range(3):
        await removed(schedd, 2)
    assert not path.exists()
    let.set()
    await until_written(schedd, path, 6)
    assert len(ids(path)) == 6


async def test_records_that_the_disk_refuses_are_not_marked(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def refuse(path: str) -> None:
        refused.append(path)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(history_files, "_MARK_S", 0.05)
    monkeypatch.setattr(history_file, "synchronise", refuse)
    await removed(schedd, 1)

    async def tried() -> bool:
        return len(refused) > 1  # a mark that was set ends the attempts

    await schedd.until(tried)


async def test_a_row_that_cannot_be_read_keeps_nothing_else_back(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = past_ads.PastAds.ad

    def broken(self: Any, job: Any) -> Any:
        if job.proc == 1:
            raise ValueError("no pack")
        return right(self, job)

    monkeypatch.setattr(past_ads.PastAds, "ad", broken)
    cluster = await removed(schedd, 3)
    path = schedd.home.spool / "history"
    await until_written(schedd, path, 2)
    assert ids(path) == [f"{cluster}.0", f"{cluster}.2"]


async def test_an_unforeseen_failure_is_tried_again(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, failed = history_files.long_forms, list[bool]()

    def once(ads: Any) -> list[str]:
        if not failed:
            failed.append(True)
            raise RuntimeError("unforeseen")
        return right(ads)

    monkeypatch.setattr(history_files, "_AGAIN_S", 0.05)
    monkeypatch.setattr(history_files, "long_forms", once)
    await removed(schedd, 2)
    await until_written(schedd, schedd.home.spool / "history", 2)
    assert failed
