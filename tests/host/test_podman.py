"""Docker jobs under a real starter, in containers of podman: by its program, which takes Docker's words, and by its
service, which answers as Docker's daemon does."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.ads import number_of
from tests.support.containers import IMAGE, Engine, podman, podman_socket
from tests.support.starter_bench import StarterBench, groups_of, starter_bench

pytestmark = pytest.mark.host
EXITED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.HELD


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    host.need(host.podman)
    with podman() as found:
        yield found


@pytest.fixture(params=["program", "socket"])
def knobs(request: pytest.FixtureRequest, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What a starter needs to use it."""
    rules = {"DOCKER_TRUST_LOCAL_IMAGES": True, "DOCKER_LOG_DRIVER_NONE": True}
    for name, text in engine.env.items():
        monkeypatch.setenv(name, text)
    if request.param == "program":
        yield {"DOCKER": engine.program, **rules}
        return
    host.need(host.host_programs("docker"))
    docker = shutil.which("docker", path="/usr/bin:/usr/local/bin")
    assert docker is not None
    if Path(docker).read_bytes()[:2] == b"#!":
        pytest.skip("needs Docker's own program: here it is podman's")
    with podman_socket(engine) as socket:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        yield {"DOCKER": docker, **rules}


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of the jobs' account that it can reach."""
    with tempfile.TemporaryDirectory(prefix="sw-home-", dir="/var/tmp") as directory:
        found = Path(directory, "job")
        found.mkdir()
        for place in (found.parent, found):
            place.chmod(0o755)
        os.chown(found, 65534, 65534)
        yield found


def submit(bench: StarterBench, script: str, **more: Any) -> str:
    job = {"WantDocker": True, "DockerImage": f"docker.io/{IMAGE}", "DockerNetworkType": "none", **more}
    return bench.submit("/bin/sh", "-c", script, **job)


async def test_podman_is_offered_and_runs_jobs_within_their_limits(
    engine: Engine, knobs: dict[str, Any], home: Path, memory_cgroup: Any
) -> None:
    async with starter_bench(**knobs) as bench:
        facts = await bench.facts()
        assert facts.eval("HasDocker") is True, facts.eval("HasDockerReason")
        by_program = "DOCKER_HOST" not in os.environ
        assert ("podman" if by_program else "Docker version") in str(facts.eval("DockerVersion"))
        assert "could put a link in the place" in str(facts.eval("EnforcementGaps")), "it has no such volumes"
        plain = submit(bench, "id -u; pwd; cat; echo wrong >&2; exit 7", inputs={"typed": b"typed\n"}, In="typed")
        ended = await bench.ended(plain)
        assert (ended.how, ended.code) == (EXITED, 7)
        lines = bench.output(plain).splitlines()
        assert lines[0] == "65534" and lines[1].endswith("/scratch") and lines[2] == "typed"
        assert "wrong\n" in bench.output(plain, "_condor_stderr")
        hog = submit(bench, "yes aaaaaaaaaaaaaaaa | tr -d '\\n' | tail -c 100m", slot={"Memory": 48})
        ended = await bench.ended(hog)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102)
        busy = submit(bench, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
        assert (await bench.ended(busy)).how == EXITED
        assert number_of(bench.shadow.runs[busy].end_ad, "RemoteUserCpu") > 0
        place = submit(bench, "echo made > made", ShouldTransferFiles="NO", Iwd=str(home))
        ended = await bench.ended(place)
        assert (ended.how, ended.code) == (EXITED, 0), ended.reason
        assert (home / "made").read_text() == "made\n"
        assert engine.containers() == [] and groups_of(bench.execute) == []


async def test_a_killed_job_leaves_no_container(engine: Engine, knobs: dict[str, Any], freezer: Any) -> None:
    async with starter_bench(**knobs, DOCKER_PERFORM_TEST=False, DOCKER_RUN_UNDER_INIT=False) as bench:
        assert bench.startd is not None
        run = submit(bench, "trap 'exit 3' TERM; echo here > ready; while true; do sleep 0.1; done")
        scratch = Path((await bench.running(run)).scratch_dir)
        await bench.eventually((scratch / "ready").exists, "the job is in its container")
        bench.startd.command(run, kill={"reason_code": 1010, "vacate_s": 30})
        assert (await bench.ended(run)).how == schedd_pb2.RunEnded.EVICTED
        assert engine.containers() == [] and groups_of(bench.execute) == []
