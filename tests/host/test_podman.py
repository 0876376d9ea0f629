"""Docker jobs under a real starter, in containers of podman, whose command line is Docker's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.ads import number_of
from tests.support.containers import IMAGE, Engine, podman
from tests.support.starter_bench import StarterBench, groups_of, starter_bench

pytestmark = pytest.mark.host
EXITED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.HELD


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with podman() as found:
        yield found


@pytest.fixture
def knobs(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a starter needs to use it."""
    for name, text in engine.env.items():
        monkeypatch.setenv(name, text)
    return {"DOCKER": engine.program, "DOCKER_TRUST_LOCAL_IMAGES": True, "DOCKER_LOG_DRIVER_NONE": True}


def submit(bench: StarterBench, script: str, **more: Any) -> str:
    job = {"WantDocker": True, "DockerImage": f"docker.io/{IMAGE}", "DockerNetworkType": "none", **more}
    return bench.submit("/bin/sh", "-c", script, **job)


async def test_podman_is_offered_and_runs_jobs_within_their_limits(
    engine: Engine, knobs: dict[str, Any], memory_cgroup: Any
) -> None:
    async with starter_bench(**knobs) as bench:
        facts = await bench.facts()
        assert facts.eval("HasDocker") is True and "podman" in str(facts.eval("DockerVersion"))
        plain = submit(bench, "id -u; pwd; cat; echo wrong >&2; exit 7", inputs={"typed": b"typed\n"}, In="typed")
        ended = await bench.ended(plain, 60)
        assert (ended.how, ended.code) == (EXITED, 7)
        lines = bench.output(plain).splitlines()
        assert lines[0] == "65534" and lines[1].endswith("/scratch") and lines[2] == "typed"
        assert "wrong\n" in bench.output(plain, "_condor_stderr")
        hog = submit(bench, "yes aaaaaaaaaaaaaaaa | tr -d '\\n' | tail -c 300m", slot={"Memory": 48})
        ended = await bench.ended(hog, 60)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102)
        busy = submit(bench, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
        assert (await bench.ended(busy, 60)).how == EXITED
        assert number_of(bench.shadow.runs[busy].end_ad, "RemoteUserCpu") > 0
        assert engine.containers() == [] and groups_of(bench.execute) == []


async def test_a_killed_job_leaves_no_container(engine: Engine, knobs: dict[str, Any], freezer: Any) -> None:
    async with starter_bench(**knobs, DOCKER_PERFORM_TEST=False, DOCKER_RUN_UNDER_INIT=False) as bench:
        assert bench.startd is not None
        run = submit(bench, "trap 'exit 3' TERM; echo here > ready; while true; do sleep 0.1; done")
        scratch = Path((await bench.running(run)).scratch_dir)
        await bench.eventually((scratch / "ready").exists, "the job is in its container")
        bench.startd.command(run, kill={"reason_code": 1010, "vacate_s": 30})
        assert (await bench.ended(run, 60)).how == schedd_pb2.RunEnded.EVICTED
        assert engine.containers() == [] and groups_of(bench.execute) == []
