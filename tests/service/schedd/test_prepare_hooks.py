"""The shadow's hook, with real programs. Words and codes are what HTCondor 25.14.1 answered to the same ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import htcondor2
import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint
from tests.support.waiting import until

#: What each hook prints, or does.
HOOKS = {
    "HOLD": "echo 'HookStatusMessage = \"Really bad\"'; echo HookStatusCode = 190",
    "IDLE": "echo 'HookStatusMessage = \"Kinda bad\"'; echo HookStatusCode = 390",
    "EXIT": "exit 3",
    "DIED": "kill -9 $$",
    "GOOD": 'cat > ad; pwd > cwd; echo "$@" > words; echo Extra = 1 + 2; echo \'Arguments = "0.1"\'',
    "SLOW": 'echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done; echo "once" >> runs; echo Extra = 3',
}


@pytest.fixture
async def schedd(tmp_path: Path) -> AsyncIterator[RunningAccessPoint]:
    knobs = {"GOOD_HOOK_SHADOW_PREPARE_JOB_ARGS": "1 'two words'", "GONE_HOOK_SHADOW_PREPARE_JOB": "/absent"}
    running = RunningAccessPoint(tmp_path / "pool")
    for keyword, script in HOOKS.items():
        path = running.home.root / f"{keyword.lower()}.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        knobs[f"{keyword}_HOOK_SHADOW_PREPARE_JOB"] = str(path)
    await running.start(**knobs)
    yield running
    await running.stop()


def numbers(log: Path) -> list[int]:
    return [int(event.type) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]


async def job(schedd: RunningAccessPoint) -> Any:
    """The ad of the one job."""
    (ad,) = await schedd.jobs()
    return ad


@pytest.mark.parametrize(
    ("keyword", "subcode", "words"),
    [
        ("HOLD", 190, "SHADOW_PREPARE_JOB (hold.sh) failed (reported status 190): Really bad"),
        ("EXIT", 3, "SHADOW_PREPARE_JOB (exit.sh) failed (exited with status 3): <no message>"),
        ("DIED", -9, "SHADOW_PREPARE_JOB (died.sh) failed (died with signal 9): <no message>"),
    ],
)
async def test_a_hook_that_fails_holds_the_job(
    schedd: RunningAccessPoint, point: ExecutionPoint, keyword: str, subcode: int, words: str
) -> None:
    await schedd.submit(HookKeyword=keyword, UserLog="j.log")
    await schedd.negotiate(point.address)

    async def held() -> bool:
        return bool((await job(schedd))["JobStatus"] == 5)

    await schedd.until(held)
    ad = await job(schedd)
    assert (ad["HoldReason"], ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (words, 48, subcode)
    assert (ad["NumShadowStarts"], ad["NumJobStarts"]) == (1, 0)
    assert str(ad.lookup("NumHoldsByReason")) == "[ HookShadowPrepareJobFailure = 1 ]"
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 12]
    await schedd.until(lambda: not point.runs)


@pytest.mark.parametrize(
    ("keyword", "words"),
    [
        ("IDLE", "SHADOW_PREPARE_JOB (idle.sh) failed (reported status 390): Kinda bad"),
        (
            "GONE",
            "GONE_HOOK_SHADOW_PREPARE_JOB (/absent) cannot be looked at: No such file or directory: it is not used, ",
        ),
    ],
)
async def test_a_job_that_must_not_start_now_goes_back_to_idle(
    schedd: RunningAccessPoint, point: ExecutionPoint, keyword: str, words: str
) -> None:
    await schedd.submit(HookKeyword=keyword, UserLog="j.log")
    await schedd.negotiate(point.address)

    async def went_back() -> bool:
        ad = await job(schedd)
        return ad["JobStatus"] == 1 and "VacateReason" in ad

    await schedd.until(went_back)
    ad = await job(schedd)
    assert ad["VacateReason"].startswith(words) and ad["VacateReasonCode"] == 1002
    assert (ad["NumShadowStarts"], ad["NumJobStarts"]) == (1, 0)
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 7]
    assert words in (schedd.home.root / "j.log").read_text()


async def test_what_a_hook_prints_changes_the_ad_of_this_run_alone(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await schedd.submit(HookKeyword="good", Arguments="9")
    await schedd.submit(Arguments="9")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    given = {ad["ClusterId"]: (ad["Arguments"], ad.eval("Extra") if "Extra" in ad else None) for ad in point.given}
    assert given == {1: ("0.1", 3), 2: ("9", None)}
    assert [("Extra" in ad, ad["Arguments"]) for ad in await schedd.history()] == [(False, "9"), (False, "9")]
    root = schedd.home.root
    assert (root / "cwd").read_text() == f"{root}\n" and (root / "words").read_text() == "1 two words\n"
    lines = (root / "ad").read_text().splitlines()
    assert 'Arguments = "9"' in lines
    assert lines == sorted(lines, key=lambda line: line.partition(" ")[0].upper())


async def test_a_starter_that_speaks_again_meanwhile_gets_the_job_once(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await schedd.submit(HookKeyword="slow")
    await schedd.negotiate(point.address)
    await schedd.until(lambda: (schedd.home.root / "pid").exists())
    (run,) = point.runs.values()
    for _ in range(3):
        point.say(run, hello=schedd_pb2.RunHello(token=point.newest_token, slot_name="slot1_1@ep"))
    assert not run.accepted
    (schedd.home.root / "go").touch()
    await schedd.until_gone()
    assert [ad["Extra"] for ad in point.given] == [3] and (schedd.home.root / "runs").read_text() == "once\n"


async def test_a_hook_ends_with_its_run(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(HookKeyword="slow")
    await schedd.negotiate(point.address)
    pid = schedd.home.root / "pid"
    await schedd.until(lambda: pid.exists() and pid.read_text().strip())
    await schedd.act("REMOVE", "true")
    await schedd.until_gone()
    await until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), "the hook is gone")


async def test_the_administrators_keyword_holds_for_every_job(tmp_path: Path) -> None:
    running = RunningAccessPoint(tmp_path / "pool")
    for name in ("site", "fallback"):
        path = running.home.root / name
        path.write_text(f"#!/bin/sh\necho By = '\"{name}\"'\n")
        path.chmod(0o755)
    await running.start(
        SITE_HOOK_SHADOW_PREPARE_JOB=str(running.home.root / "site"),
        OWN_HOOK_SHADOW_PREPARE_JOB=str(running.home.root / "fallback"),
        SHADOW_DEFAULT_JOB_HOOK_KEYWORD="own",
    )
    point = ExecutionPoint(tmp_path / "ep.sock", running.daemon_token)
    await point.start()
    try:
        for keyword in ("", "site", "unknown"):
            await running.submit(HookKeyword=keyword)
            await running.negotiate(point.address)
            await running.until_gone()
        assert [ad["By"] for ad in point.given] == ["fallback", "site", "fallback"]
    finally:
        await point.stop()
        await running.stop()
