"""Docker jobs under a real starter, in containers of a real daemon."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution import launcher
from slotwise.wire.gen import schedd_pb2

from tests.support.containers import IMAGE, Engine, docker_daemon
from tests.support.starter_bench import StarterBench, groups_of, starter_bench

pytestmark = pytest.mark.host
EXITED, SIGNALED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.SIGNALED, schedd_pb2.RunEnded.HELD


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_daemon() as found:
        yield found


@pytest.fixture
def docker(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The daemon, for starters of this test."""
    for name, text in engine.env.items():
        monkeypatch.setenv(name, text)
    return engine


def knobs(engine: Engine, **more: Any) -> dict[str, Any]:
    return {"DOCKER": engine.program, "DOCKER_TRUST_LOCAL_IMAGES": True, "DOCKER_PERFORM_TEST": False, **more}


def submit(bench: StarterBench, script: str, **more: Any) -> str:
    job = {"WantDocker": True, "DockerImage": IMAGE, "DockerNetworkType": "none", **more}
    return bench.submit("/bin/sh", "-c", script, **job)


async def test_a_job_runs_in_its_image_as_its_user_in_its_scratch_directory(docker: Engine) -> None:
    async with starter_bench(**knobs(docker)) as bench:
        script = (
            "ls /bin/busybox; id -u; pwd; cat given; cat; echo made > made; echo wrong >&2; cat $_CONDOR_JOB_AD; exit 7"
        )
        run = submit(bench, script, inputs={"given": b"in\n", "typed": b"typed\n"}, In="typed", Environment="A=b")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 7)
        lines = bench.output(run).splitlines()
        assert lines[:2] == ["/bin/busybox", "65534"] and lines[2].endswith("/scratch")
        assert lines[3:5] == ["in", "typed"] and f'DockerImage = "{IMAGE}"' in lines
        assert bench.output(run, "_condor_stderr") == "wrong\n"
        assert bench.output(run, "made") == "made\n"
        assert docker.containers() == [] and groups_of(bench.execute) == []
