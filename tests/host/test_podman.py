"""Docker jobs under a real starter, in containers of podman: by its program, which takes Docker's words, and by its
service, which answers as Docker's daemon does."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.ads import number_of
from tests.support.containers import IMAGE, Engine, busybox_tree, podman, podman_socket
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
        assert "could put a link in the place" not in str(facts.eval("EnforcementGaps")), "containers are looked into"
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


@contextlib.asynccontextmanager
async def asking_first(knobs: dict[str, Any], top: Path, script: Path) -> AsyncIterator[dict[str, Any]]:
    """The knobs of a starter whose engine runs a script right before it makes a container."""
    if "DOCKER_HOST" not in os.environ:
        program = top / "engine"
        words = f'case " $* " in *\' create \'*) {script} ;; esac\nexec {knobs["DOCKER"]} "$@"\n'
        program.write_text(f"#!/bin/sh\n{words}")
        program.chmod(0o755)
        yield {**knobs, "DOCKER": program}
        return
    service, here = os.environ["DOCKER_HOST"].removeprefix("unix://"), top / "here.sock"

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if data.startswith(b"POST /containers/create"):
                await asyncio.to_thread(subprocess.run, [script], check=True)
            writer.write(data)
        with contextlib.suppress(OSError):
            writer.write_eof()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_unix_connection(service)
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(copy(reader, ours), copy(theirs, writer))
        for each in (writer, ours):
            each.close()

    server = await asyncio.start_unix_server(relay, here)
    os.environ["DOCKER_HOST"] = f"unix://{here}"  # put back by the fixture of the knobs
    try:
        yield knobs
    finally:
        server.close()


@pytest.mark.parametrize("image_has", ["", "a link"])
async def test_a_directory_that_is_exchanged_while_its_container_is_made_is_not_shown(
    engine: Engine, knobs: dict[str, Any], home: Path, image_has: str
) -> None:
    """It is a link to an open directory then, below one that only its owner can enter."""
    closed, top, inside = home.parent / "victim", home.parent, home.with_name("inside")
    (closed / "open").mkdir(parents=True)
    (closed / "open/secret").write_text("hunter2\n")
    closed.chmod(0o700)
    script = top / "exchange"
    script.write_text(f"#!/bin/sh\n[ -L {home} ] || {{ mv {home} {top}/moved; ln -s {closed}/open {home}; }}\n")
    script.chmod(0o755)
    job: dict[str, Any] = {"ShouldTransferFiles": "NO", "Iwd": str(home), "Out": "/dev/null", "Err": "/dev/null"}
    if image_has:
        # Who looks from outside would follow it to the job's own directory.
        image = f"docker.io/slotwise/links:{os.getpid()}"
        engine.call("import", "-", image, given=with_link(busybox_tree(), str(home)[1:], str(inside)))
        job["DockerImage"] = image
        inside.symlink_to(top / "moved")
    told = top / "told"
    told.mkdir()
    told.chmod(0o777)
    volumes = {"DOCKER_VOLUMES": "TOLD", "DOCKER_MOUNT_VOLUMES": "TOLD", "DOCKER_VOLUME_DIR_TOLD": f"{told}:/told"}
    more: dict[str, Any] = {"DOCKER_PERFORM_TEST": False, "DOCKER_RUN_UNDER_INIT": False, **volumes}
    async with asking_first(knobs, top, script) as asking, starter_bench(**asking, **more) as bench:
        ended = await bench.ended(submit(bench, f"cat {home}/secret {inside}/secret > /told/out; id > /told/id", **job))
        assert (top / "moved").is_dir() and home.is_symlink(), "it was exchanged"
        assert ended.how == HELD and "was another directory when its container was made" in ended.reason
        assert list(told.iterdir()) == [] and engine.containers() == []


def with_link(tree: bytes, name: str, target: str) -> bytes:
    """A file tree with another link in it."""
    file = io.BytesIO(tree)
    with tarfile.open(fileobj=file, mode="a") as tar:
        for parent in reversed(Path(name).parents[:-1]):
            place = tarfile.TarInfo(str(parent))
            place.type, place.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(place)
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, target
        tar.addfile(link)
    return file.getvalue()
