"""Docker jobs under a real starter, in containers of a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket as socketlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.control_dir import control_root
from slotwise.execution.launcher import holder
from slotwise.starter.runtimes.docker import launch
from slotwise.starter.runtimes.docker.create_body import create_body
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.ads import number_of
from tests.support.containers import IMAGE, Engine, busybox_tree, docker_daemon
from tests.support.registry import Registry
from tests.support.starter_bench import StarterBench, groups_of, starter_bench

pytestmark = pytest.mark.host
EXITED, SIGNALED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.SIGNALED, schedd_pb2.RunEnded.HELD


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    host.need(host.docker)
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


def is_frozen(engine: Engine) -> bool:
    """Whether all processes of the one container are stopped by its cgroup."""
    (name,) = engine.containers()
    (pid,) = engine.call("inspect", "--format", "{{.State.Pid}}", name).split()
    group = next(
        line for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if ":freezer:" in line or "::" in line
    )
    path = Path("/sys/fs/cgroup/freezer" if ":freezer:" in group else "/sys/fs/cgroup") / group.rpartition(":")[2][1:]
    state = path / ("freezer.state" if ":freezer:" in group else "cgroup.events")
    return "FROZEN" in (text := state.read_text()) or "frozen 1" in text


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
        assert docker.containers() == []
        assert groups_of(bench.execute) == []


#: One of each word that a job's container may have.
WORDS = [
    "--label", "a=b", "--label", "empty=", "--cpu-shares=150", "--memory=64m", "--memory-swap=64m", "--pids-limit=50",
    "--cpuset-cpus=0", "--ulimit=core=0:0", "--cap-drop=all", "--cap-add=SYS_PTRACE", "--security-opt",
    "no-new-privileges", "--init", "--log-driver", "none", "--interactive", "-e", "A=b c", "-e", "Q=\"\\x",
    "--volume", "/tmp:/mnt:ro", "--volume", "/var/tmp:/var/tmp", "--device", "/dev/null", "--workdir", "/mnt",
    "--user", "65534:65534", "--group-add", "50", "--network=none", "--hostname", "there", "-p", "8080",
    "--shm-size", "5242880", "--read-only", "--add-host", "a:127.0.0.1", "--dns", "127.0.0.1", "--ipc=private",
    "--env=LAST=x",
]  # fmt: skip


@pytest.mark.parametrize(
    "end", [[IMAGE, "true"], [IMAGE, "echo", "--x", "$y"], ["--entrypoint", "/bin/sh", IMAGE, "-c", ""]]
)
def test_the_daemon_is_asked_for_the_container_that_dockers_program_asks_for(
    engine: Engine, home: Path, end: list[str]
) -> None:
    """The same inspection but for what is of the one container."""
    socket = engine.env["DOCKER_HOST"].removeprefix("unix://")
    directory = (str(home), 65534, 65534, ())
    words = ["create", "--name", "NAME", *WORDS, *end]
    body = create_body(words, directory)
    assert body
    open_one = os.open(home, os.O_PATH)
    place = f"/proc/{os.getpid()}/fd/{open_one}"
    found = []
    try:
        engine.call("create", *launch.volume(place, str(home)), "--name", "by-program", *words[3:])
        with socketlib.socket(socketlib.AF_UNIX) as link:
            link.connect(socket)
            link.sendall(launch.request("POST", "/containers/create?name=by-socket", body.replace("\n", place)))
            status, said = launch.answer(link.makefile("rb").read())
        assert status == 201, said
        for name in ("by-program", "by-socket"):
            (seen,) = json.loads(engine.call("inspect", name))
            for own in (
                "Id",
                "Created",
                "Name",
                "ResolvConfPath",
                "HostnamePath",
                "HostsPath",
                "LogPath",
                "GraphDriver",
            ):
                seen.pop(own, None)
            for own in ("Name", "Source"):  # of the volume
                for mount in seen["Mounts"]:
                    mount.pop(own, None)
            seen["Mounts"].sort(key=str)
            seen["HostConfig"].pop("ConsoleSize")  # the program's terminal
            for some in (seen["Config"]["Env"], seen["HostConfig"]["Binds"]):  # in any order
                some.sort()
            # The program gives some defaults in so many words, the daemon as nothing.
            found.append({
                f"{part}.{name}": what
                for part in ("Config", "HostConfig", "NetworkSettings")
                for name, what in seen.pop(part).items()
                if what
            } | seen)  # fmt: skip
    finally:
        os.close(open_one)
        engine.call("rm", "--force", "--volumes", "by-program", "by-socket", check=False)
    by_program, by_socket = found
    assert {name: (what, by_socket.get(name)) for name, what in by_program.items() if by_socket.get(name) != what} == {}
    assert by_socket.keys() == by_program.keys()


async def test_a_program_that_a_site_wrote_is_run_for_all_that_a_job_needs(docker: Engine, home: Path) -> None:
    script, log = home.parent / "docker", home.parent / "calls"
    script.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {docker.program} "$@"\n')
    script.chmod(0o755)
    async with starter_bench(**knobs(docker, DOCKER=script)) as bench:
        run = submit(bench, "cat; echo wrong >&2; exit 7", inputs={"typed": b"typed\n"}, In="typed")
        ended = await bench.ended(run)
        assert (ended.how, ended.code, bench.output(run)) == (EXITED, 7, "typed\n")
        assert bench.output(run, "_condor_stderr") == "wrong\n"
        assert {"create", "start", "rm"} <= {line.split()[0] for line in log.read_text().splitlines()}


#: Reads the command lines of all processes of the host until its standard input ends; prints what has the word.
_READING = """
import pathlib, select, sys
word, found = b"hunt" + b"er2", set()
print("reads", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                data = (process / name).read_bytes()
            except OSError:
                continue
            if word in data:
                found.add(data.replace(bytes(1), b" ").decode(errors="replace")[:300])
print(*found, sep="\\n")
"""


@pytest.fixture
def by_program(docker: Engine, home: Path) -> dict[str, Any]:
    """The knobs of a starter that makes containers by Docker's program, and not by the daemon's socket."""
    script = home.parent / "docker"
    script.write_text(f'#!/bin/sh\nexec {docker.program} "$@"\n')
    script.chmod(0o755)
    return knobs(docker, DOCKER=script)


@pytest.mark.parametrize("way", ["socket", "program"])
async def test_no_account_reads_the_environment_of_a_job_in_a_list_of_processes(
    docker: Engine, by_program: dict[str, Any], way: str, root: None
) -> None:
    drop = ["setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", "/usr/bin/python3", "-c", _READING]
    async with starter_bench(**(by_program if way == "program" else knobs(docker))) as bench:
        with subprocess.Popen(drop, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reading:
            assert reading.stdout is not None and reading.stdout.readline() == "reads\n"
            script = 'echo "$PASSWORD"; echo "$ODD"; sleep 1'
            run = submit(bench, script, Environment="PASSWORD=hunter2 ODD='''two  blanks'' and # \\ $HOME'")
            ended = await bench.ended(run)
            said, _ = await asyncio.to_thread(reading.communicate, "")
        assert (ended.how, bench.output(run)) == (EXITED, "hunter2\n'two  blanks' and # \\ $HOME\n")
        assert said.strip() == ""


async def test_a_variable_that_dockers_program_cannot_be_given_holds_the_job(
    docker: Engine, by_program: dict[str, Any]
) -> None:
    lines = {"Environment": "LINES_OF_IT='one\ntwo'"}
    async with starter_bench(**knobs(docker)) as bench:
        run = submit(bench, 'echo "$LINES_OF_IT"', **lines)
        assert ((await bench.ended(run)).how, bench.output(run)) == (EXITED, "one\ntwo\n")
    async with starter_bench(**by_program) as bench:
        ended = await bench.ended(submit(bench, "true", **lines))
        assert ended.how == HELD and "cannot be given the variable LINES_OF_IT" in ended.reason


async def test_much_goes_into_a_container_and_out_of_it_at_once(docker: Engine) -> None:
    """More than pipes and sockets hold, in both directions, and to a job that reads only a part of its input."""
    data = bytes(range(256)) * 16384
    async with starter_bench(**knobs(docker)) as bench:
        echo = submit(bench, "tr a-z A-Z | tr A-Z a-z", inputs={"typed": data.lower()}, In="typed")
        part = submit(bench, "head -c 10; exec 1>&- 2>&-; sleep 0.3; exit 3", inputs={"typed": data}, In="typed")
        assert (await bench.ended(echo)).code == 0
        assert bench.shadow.runs[echo].outputs["_condor_stdout"] == data.lower()
        assert (await bench.ended(part)).code == 3
        assert bench.shadow.runs[part].outputs["_condor_stdout"] == data[:10]


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


async def test_a_job_without_file_transfer_works_in_its_own_directory(docker: Engine, home: Path) -> None:
    (home / "given").write_text("at home\n")
    own = {"Iwd": str(home), "ShouldTransferFiles": "NO", "Out": "out", "Err": "err"}
    async with starter_bench(**knobs(docker, DOCKER_PERFORM_TEST=True)) as bench:
        assert "could put a link" not in str((await bench.facts()).eval("EnforcementGaps"))
        ended = await bench.ended(submit(bench, "pwd; cat given; echo made > made", **own))
        assert ended.how == EXITED, ended
        assert (home / "out").read_text() == f"{home}\nat home\n" and (home / "made").read_text() == "made\n"
        home.rename(home.with_name("away"))
        home.symlink_to("/root")
        ended = await bench.ended(submit(bench, "ls", **own))
        assert ended.how == HELD and "Permission denied" in ended.reason
        assert docker.containers() == [] and not docker.call("volume", "ls", "--quiet")


async def test_a_signal_ends_the_job_by_that_signal_and_what_cannot_start_is_held_with_dockers_words(
    docker: Engine,
) -> None:
    async with starter_bench(**knobs(docker, DOCKER_RUN_UNDER_INIT=False)) as bench:
        ended = await bench.ended(submit(bench, "(sh -c 'kill -9 $$'); exit $?"))
        assert (ended.how, ended.code) == (SIGNALED, 9)
        wrong = bench.submit("/bin/nothing", WantDocker=True, DockerImage=IMAGE, DockerNetworkType="none")
        ended = await bench.ended(wrong)
        assert (ended.how, ended.reason_code) == (HELD, 6) and "/bin/nothing" in ended.reason
        extra = submit(bench, "true", DockerNetworkType="mine", slot={"DockerNetworks": "mine"})
        ended = await bench.ended(extra)
        assert (ended.how, ended.reason_code) in ((HELD, 6), (HELD, 35)) and "mine" in ended.reason
        other = await bench.ended(submit(bench, "true", DockerNetworkType="other"))
        assert (other.how, other.reason_code) == (HELD, 6) and "DOCKER_NETWORKS" in other.reason
        assert docker.containers() == []


async def test_a_memory_hog_is_held_as_every_job_and_a_modest_one_is_measured(
    docker: Engine, memory_cgroup: Any
) -> None:
    async with starter_bench(**knobs(docker)) as bench:
        hog = submit(
            bench, "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | tr -d '\\n' | tail -c 300m", slot={"Memory": 48}
        )
        ended = await bench.ended(hog)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102)
        assert ended.reason.startswith("Job has gone over cgroup memory limit of 48 megabytes.")
        assert groups_of(bench.execute) == []
        busy = submit(bench, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
        assert (await bench.ended(busy)).how == EXITED
        assert number_of(bench.shadow.runs[busy].end_ad, "RemoteUserCpu") > 0


async def test_containers_are_in_slices_of_systemd_where_its_groups_are_dockers(docker: Engine) -> None:
    """Limited by Docker, measured and killed by the keeper; make test-guest has such a host."""
    if (driver := docker.call("info", "--format", "{{.CgroupDriver}}").strip()) != "systemd":
        pytest.skip(f"needs a Docker whose cgroup driver is systemd, here it is {driver}: make test-guest")
    async with starter_bench(**knobs(docker)) as bench:
        assert bench.startd is not None
        run = submit(bench, "sleep 1000 & wait", slot={"Memory": 48})
        await bench.running(run)

        def pid() -> str:
            return docker.call("inspect", "--format", "{{.State.Pid}}", *docker.containers()).strip()

        await bench.eventually(lambda: docker.containers() and pid() not in ("", "0"), "the container runs")
        (line,) = Path(f"/proc/{pid()}/cgroup").read_text().splitlines()
        scope = Path(f"/sys/fs/cgroup{line.partition('::')[2]}")
        assert scope.parent.parent == Path("/sys/fs/cgroup/htcondor.slice") and scope.name.startswith("docker-")
        assert (scope / "memory.max").read_text() == f"{48 << 20}\n"
        bench.startd.command(run, kill={"reason_code": 1010, "vacate_s": 0})
        assert (await bench.ended(run)).how == schedd_pb2.RunEnded.EVICTED
        hog = submit(bench, "yes aaaaaaaaaaaaaaaa | tr -d '\\n' | tail -c 100m", slot={"Memory": 48})
        ended = await bench.ended(hog)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102)
        assert docker.containers() == []
        await bench.eventually(lambda: not scope.parent.exists(), "systemd has removed the slice")


async def test_a_job_is_suspended_continued_and_leaves_when_it_is_asked_to(docker: Engine, freezer: Any) -> None:
    async with starter_bench(**knobs(docker, STARTER_UPDATE_INTERVAL=1)) as bench:
        assert bench.startd is not None
        run = submit(bench, "trap 'echo asked; exit 3' TERM; echo here > ready; while true; do sleep 0.1; done")
        scratch = Path((await bench.running(run)).scratch_dir)
        await bench.eventually((scratch / "ready").exists, "the job is in its container")
        bench.startd.command(run, suspend={"resume": False})
        await bench.eventually(lambda: is_frozen(docker), "the container is frozen")
        bench.startd.command(run, suspend={"resume": True})
        await bench.eventually(lambda: not is_frozen(docker), "the container goes on")
        bench.startd.command(run, kill={"reason_code": 1010, "vacate_s": 30})
        ended = await bench.ended(run)
        assert ended.how == schedd_pb2.RunEnded.EVICTED
        assert docker.containers() == []


async def test_a_fast_kill_ends_the_container_at_once(docker: Engine) -> None:
    async with starter_bench(**knobs(docker)) as bench:
        assert bench.startd is not None
        run = submit(bench, "trap '' TERM; echo here > ready; while true; do sleep 1; done")
        scratch = Path((await bench.running(run)).scratch_dir)
        await bench.eventually((scratch / "ready").exists, "the job is in its container")
        bench.startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == schedd_pb2.RunEnded.EVICTED
        await bench.gone(run)
        assert docker.containers() == [] and groups_of(bench.execute) == []


async def test_no_container_is_left_when_starter_and_keeper_are_killed(docker: Engine) -> None:
    async with starter_bench(**knobs(docker)) as bench:
        first = submit(bench, "echo here > ready; sleep 300")
        second = submit(bench, "echo here > ready; sleep 300")
        places = {run: Path((await bench.running(run)).scratch_dir) for run in (first, second)}
        for place in places.values():
            await bench.eventually((place / "ready").exists, "the job is in its container")
        assert len(docker.containers()) == 2
        keeper = holder(control_root(bench.execute, "") / places[first].parent.name)
        assert keeper is not None
        await bench.kill_9()
        os.kill(keeper, signal.SIGKILL)
        await bench.start()
        ended = await bench.ended(first)
        assert ended.how == schedd_pb2.RunEnded.EVICTED
        await bench.eventually(lambda: len(docker.containers()) == 1, "the container of the dead keeper is gone")
        assert bench.startd is not None
        bench.startd.command(second, kill={"fast": True})
        assert (await bench.ended(second)).how == schedd_pb2.RunEnded.EVICTED
        assert docker.containers() == []


async def test_a_job_of_whose_container_the_daemon_knows_nothing_is_evicted_not_done(docker: Engine) -> None:
    async with starter_bench(**knobs(docker)) as bench:
        run = submit(bench, "echo here > ready; sleep 300")
        scratch = Path((await bench.running(run)).scratch_dir)
        await bench.eventually((scratch / "ready").exists, "the job is in its container")
        (name,) = docker.containers()
        docker.call("rename", name, "taken-away")
        docker.call("kill", "taken-away")
        ended = await bench.ended(run)
        assert ended.how == schedd_pb2.RunEnded.EVICTED
        assert groups_of(bench.execute) == []
    docker.call("rm", "--force", "taken-away")


async def test_a_job_that_wrote_its_checkpoint_goes_on_in_a_new_container(docker: Engine) -> None:
    async with starter_bench(**knobs(docker)) as bench:
        script = "if [ -e state ]; then cat state; hostname; exit 3; fi; echo saved > state; exit 85"
        more = {"WantFTOnCheckpoint": True, "SuccessCheckpointExitCode": 85, "TransferCheckpoint": "state"}
        run = submit(bench, script, **more)
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 3) and "saved" in bench.output(run)
        assert [files["state"] for files in bench.shadow.runs[run].checkpoints] == [b"saved\n"]
        assert docker.containers() == []
        assert groups_of(bench.execute) == []


@pytest.fixture
def registry() -> Iterator[Registry]:
    found = Registry(busybox_tree())
    yield found
    found.close()


def pulling(engine: Engine, **more: Any) -> dict[str, Any]:
    return knobs(engine, DOCKER_TRUST_LOCAL_IMAGES=False, **more)


async def test_twenty_jobs_of_one_image_pull_it_once(docker: Engine, registry: Registry) -> None:
    registry.open.clear()
    image = f"{registry.address}/shared:1"
    async with starter_bench(**pulling(docker)) as bench:
        runs = [submit(bench, "echo done", DockerImage=image) for _ in range(20)]
        await bench.eventually(lambda: registry.asked["shared:1"], "the image is pulled")
        await bench.eventually(lambda: bench.log().count(f"pulling {image}") == 20, "all jobs wait for the image")
        registry.open.set()
        for run in runs:
            assert (await bench.ended(run)).how == EXITED and bench.output(run) == "done\n"
    assert registry.asked["layer"] == 1


async def test_an_image_that_is_not_there_holds_the_job_with_dockers_words(docker: Engine, registry: Registry) -> None:
    async with starter_bench(**pulling(docker)) as bench:
        ended = await bench.ended(submit(bench, "true", DockerImage=f"{registry.address}/absent:1"))
        assert (ended.how, ended.reason_code) == (HELD, 35)
        assert ended.reason.startswith(f"Cannot pull image {registry.address}/absent:1") and "unknown" in ended.reason
        registry.architecture = "s390x"
        ended = await bench.ended(submit(bench, "true", DockerImage=f"{registry.address}/other:1"))
        assert (ended.how, ended.reason_code) == (HELD, 35) and "s390x" in ended.reason


async def test_a_registry_whose_pulls_keep_failing_is_named_and_its_jobs_go_elsewhere(
    docker: Engine, registry: Registry
) -> None:
    registry.overloaded = True
    async with starter_bench(**pulling(docker)) as bench:
        assert (await bench.facts()).eval("HasDocker") is True
        for number in range(3):
            ended = await bench.ended(submit(bench, "true", DockerImage=f"{registry.address}/some:{number}"))
            assert ended.how == schedd_pb2.RunEnded.NOT_STARTED and "toomanyrequests" in ended.reason
        startd = bench.startd
        assert startd is not None

        def offline() -> object:
            return startd.facts.eval("ContainerRegistriesOffline") if startd.facts is not None else None

        await bench.eventually(lambda: offline() == registry.address, "nothing is pulled from there")
        assert startd.facts is not None and startd.facts.eval("HasDocker") is True
        assert f"images are not pulled from {registry.address}" in str(startd.facts.eval("EnforcementGaps"))
        registry.overloaded = False
        assert (await bench.ended(submit(bench, "true", DockerImage=f"{registry.address}/some:4"))).how == EXITED
        await bench.eventually(lambda: offline() != registry.address, "it is well again")


async def test_an_image_is_pulled_once_more_where_the_job_says_always(docker: Engine, registry: Registry) -> None:
    image = f"{registry.address}/moving:1"
    async with starter_bench(**pulling(docker)) as bench:

        async def version(**more: Any) -> str:
            run = submit(bench, "cat /version", DockerImage=image, **more)
            assert (await bench.ended(run)).how == EXITED
            return bench.output(run)

        registry.tree = busybox_tree(version=b"1")
        assert await version() == "1"
        registry.tree = busybox_tree(version=b"2")
        assert await version() == "1"
        assert await version(DockerPullPolicy="always") == "2"
        assert await version() == "2"
        registry.overloaded = True
        run = submit(bench, "true", DockerImage=image, DockerPullPolicy="always")
        assert (await bench.ended(run)).how == schedd_pb2.RunEnded.NOT_STARTED
        assert await version() == "2"


async def test_images_that_were_not_used_for_longest_go_and_only_those_that_jobs_have_pulled(
    docker: Engine, registry: Registry
) -> None:
    async with starter_bench(**pulling(docker, DOCKER_IMAGE_CACHE_SIZE=2)) as bench:
        names = [f"{registry.address}/cached:{number}" for number in (1, 2, 3)]
        docker.call("pull", "--quiet", f"{registry.address}/admins:1")
        for name in (f"{registry.address}/admins:1", *names[:2], names[0], names[2]):
            assert (await bench.ended(submit(bench, "true", DockerImage=name))).how == EXITED
        left = docker.images()
        assert names[0] in left and names[2] in left and names[1] not in left
        assert f"{registry.address}/admins:1" in left and IMAGE in left
        assert not [name for name in left if name.endswith("/cached:2")]


async def test_volumes_devices_and_arguments_of_the_administrator(docker: Engine, tmp_path_factory: Any) -> None:
    here = tmp_path_factory.mktemp("volumes")
    for place in (here, *here.parents[:2]):
        place.chmod(0o755)
    (here / "note").write_text("from the host\n")
    rules = {
        "DOCKER_MOUNT_VOLUMES": "ALL, SOME, OTHER",
        "DOCKER_VOLUME_DIR_ALL": f"{here}:/mnt/all:ro",
        "DOCKER_VOLUME_DIR_SOME": f"{here}:/mnt/some",
        "DOCKER_VOLUME_DIR_SOME_MOUNT_IF": "TARGET.WantsSome && MY.Memory > 100",
        "DOCKER_VOLUME_DIR_OTHER": f"{here}:/mnt/other",
        "DOCKER_VOLUME_DIR_OTHER_MOUNT_IF": "TARGET.WantsOther",
        "DOCKER_SHM_SIZE": "TARGET.Shm * 1024 * 1024",
        "DOCKER_EXTRA_ARGUMENTS": "\"--env 'EXTRA=two words' --read-only\"",
        "DOCKER_DROP_ALL_CAPABILITIES": "TARGET.Tame",
        "MOUNT_UNDER_SCRATCH": "/tmp",
    }
    script = (
        "cat /mnt/all/note; ls /mnt; echo $EXTRA; hostname; grep -c . /proc/self/mounts >/dev/null;"
        "grep /dev/shm /proc/self/mounts; grep -e CapBnd -e NoNewPrivs /proc/self/status; echo x > /tmp/y && ls /tmp;"
        "touch /bin/new || echo read-only"
    )
    async with starter_bench(**knobs(docker, **rules)) as bench:
        wild = submit(bench, script, WantsSome=True, Shm=5, Tame=False, slot={"Machine": "node.example"})
        tame = submit(bench, script, Tame=True)
        assert (await bench.ended(wild)).how == EXITED and (await bench.ended(tame)).how == EXITED
        lines = bench.output(wild).splitlines()
        assert lines[0] == "from the host" and {"all", "some"} <= set(lines) and "other" not in lines
        assert "two words" in lines and "ann-1.0-node.example" in lines and "y" in lines and "read-only" in lines
        assert any("size=5120k" in line for line in lines)
        others = bench.output(tame).splitlines()
        assert "some" not in others and "NoNewPrivs:\t1" in others and "CapBnd:\t0000000000080000" in others
        assert "NoNewPrivs:\t0" in lines


async def test_the_entry_point_of_an_image_and_the_network_of_the_host(docker: Engine) -> None:
    docker.call("import", "--change", 'ENTRYPOINT ["/bin/echo", "entry"]', "-", "entry:1", given=busybox_tree())
    async with starter_bench(**knobs(docker)) as bench:

        async def said(script: str, **more: Any) -> str:
            run = submit(bench, script, **more)
            assert (await bench.ended(run)).how == EXITED
            return bench.output(run).strip()

        assert await said("echo job", DockerImage="entry:1") == "entry /bin/sh -c echo job"
        assert await said("echo job", DockerImage="entry:1", DockerOverrideEntrypoint=True) == "job"
        # Without a program the image's own runs.
        run = bench.submit("", "own", WantDocker=True, DockerImage="entry:1", DockerNetworkType="none")
        assert (await bench.ended(run)).how == EXITED and bench.output(run) == "entry own\n"
        space = str(Path("/proc/self/ns/net").readlink())
        look = "/bin/busybox readlink /proc/self/ns/net"
        assert await said(look, DockerNetworkType="host") == space
        assert await said(look, DockerNetworkType="none") != space


async def test_a_pull_that_takes_too_long_is_given_up(docker: Engine, registry: Registry) -> None:
    registry.open.clear()
    async with starter_bench(**pulling(docker, DOCKER_PULL_TIMEOUT=1)) as bench:
        ended = await bench.ended(submit(bench, "true", DockerImage=f"{registry.address}/slow:1"))
        assert ended.how == schedd_pb2.RunEnded.NOT_STARTED and "no answer in 1 s" in ended.reason, ended
        assert registry.asked["slow:1"]
        await bench.clean()


async def test_what_an_image_says_of_itself_gives_its_job_no_rights(docker: Engine) -> None:
    """Root as its user, volumes, variables, and the label by which containers of jobs are found."""
    async with starter_bench(**knobs(docker)) as bench:
        says = ["USER 0:0", "VOLUME /etc", "WORKDIR /root", "ENV PATH=/mine HOME=/root"]
        says += [f"LABEL slotwise.run={bench.execute}/dir_0_0"]
        changes = [word for one in says for word in ("--change", one)]
        docker.call("import", *changes, "-", "hostile:1", given=busybox_tree())
        run = submit(bench, "PATH=/bin; id -u; id -G; pwd; grep CapEff /proc/self/status", DockerImage="hostile:1")
        ended = await bench.ended(run)
        lines = bench.output(run).splitlines()
        assert (ended.how, lines[:2]) == (EXITED, ["65534", "65534"]), ended
        assert lines[2].endswith("/scratch") and lines[3].split()[1] in ("0000000000000000", "0000000000080000")
        assert docker.call("volume", "ls", "--quiet") == "", "its volumes are gone"
        # Somebody else's container of it is none of ours.
        docker.call("run", "--detach", "--name", "somebodys", "--network=none", "hostile:1", "/bin/sleep", "300")
        try:
            await bench.kill_9()
            await bench.start()
            assert docker.containers() == ["somebodys"]
        finally:
            docker.call("rm", "--force", "--volumes", "somebodys")


async def test_nothing_is_left_of_a_pull_whose_starter_is_killed(docker: Engine, registry: Registry) -> None:
    registry.open.clear()
    image = f"{registry.address}/held:1"

    def pulls() -> list[str]:
        found = subprocess.run(["pgrep", "-f", f"docker.* pull .*{image}"], capture_output=True, text=True, check=False)
        return found.stdout.split()

    async with starter_bench(**pulling(docker)) as bench:
        submit(bench, "true", DockerImage=image)
        await bench.eventually(lambda: registry.asked["held:1"], "the image is pulled")
        assert len(pulls()) == 1
        await bench.kill_9()
        await bench.start()
        await bench.eventually(lambda: not pulls(), "the pull has ended with its starter")
        await bench.clean()


async def test_docker_is_offered_once_a_test_container_has_run(docker: Engine) -> None:
    rules = knobs(docker, DOCKER_PERFORM_TEST=True, DOCKER_VOLUMES="A, B", DOCKER_NETWORKS="mine, yours")
    async with starter_bench(**rules) as bench:
        facts = await bench.facts()
        for name in ("HasDocker", "HasDockerURL", "HasContainer", "HasDockerVolumeA", "HasDockerVolumeB"):
            assert facts.eval(name) is True, name
        assert str(facts.eval("DockerVersion")).startswith("Docker version")
        assert facts.eval("DockerNetworks") == "mine, yours"


async def test_an_ordinary_account_that_may_use_the_daemon_runs_jobs_which_docker_limits(docker: Engine) -> None:
    socket = Path(docker.env["DOCKER_HOST"].removeprefix("unix://"))
    socket.parent.chmod(0o755)
    socket.chmod(0o666)
    async with starter_bench(as_user=65534, **knobs(docker)) as bench:
        gaps = str((await bench.facts()).eval("EnforcementGaps"))
        assert "Docker jobs are limited by Docker alone" in gaps and "the daemons are not root" in gaps
        run = submit(bench, "id -u; cat; exit 4", inputs={"typed": b"typed\n"}, In="typed")
        ended = await bench.ended(run)
        assert (ended.how, ended.code, bench.output(run)) == (EXITED, 4, "65534\ntyped\n")
        hog = submit(bench, "yes aaaaaaaaaaaaaaaa | tr -d '\\n' | tail -c 100m", slot={"Memory": 48})
        ended = await bench.ended(hog)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102)
        assert docker.containers() == []


async def test_a_daemon_that_dies_is_not_offered_until_it_is_back(docker: Engine, home: Path) -> None:
    """A link in the place of its socket leads to it, or nowhere."""
    socket = home.parent / "d.sock"
    real = docker.env["DOCKER_HOST"].removeprefix("unix://")
    socket.symlink_to(real)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{socket}")
        async with starter_bench(**knobs(docker)) as bench:
            startd = bench.startd
            assert startd is not None and (await bench.facts()).eval("HasDocker") is True

            def offers() -> object:
                return startd.facts.eval("HasDocker") if startd.facts is not None else None

            run = submit(bench, "echo here > ready; sleep 300")
            scratch = Path((await bench.running(run)).scratch_dir)
            await bench.eventually((scratch / "ready").exists, "the job is in its container")
            socket.unlink()
            docker.call("kill", *docker.containers())
            ended = await bench.ended(run)
            assert ended.how == schedd_pb2.RunEnded.EVICTED and "container is lost" in ended.reason, ended
            await bench.eventually(lambda: offers() is False, "Docker is not offered any more")
            socket.symlink_to(real)
            await bench.kill_9()
            await bench.start()  # looks for leftovers, as it does now and then
            assert (await bench.facts()).eval("HasDocker") is True
            await bench.eventually(lambda: docker.containers() == [], "the container is gone")


async def test_a_daemon_that_is_not_there_is_no_docker_and_the_reason_is_told(
    docker: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    async with starter_bench(**knobs(docker)) as bench:
        facts = await bench.facts()
        assert facts.eval("HasDocker") is False
        assert "daemon" in str(facts.eval("HasDockerReason")) and facts.eval("HasContainer") is not True
        ended = await bench.ended(submit(bench, "true"))
        assert (ended.how, ended.reason_code) == (HELD, 6) and "Docker does not work here" in ended.reason


async def test_a_visitor_has_no_more_rights_than_the_job_and_sees_no_more(docker: Engine) -> None:
    """Whatever the image says of accounts: its user may have written it."""
    async with starter_bench(**knobs(docker)) as bench:
        told = "id; cat /proc/self/status /proc/self/mountinfo"
        run = submit(bench, f"{told}; echo told; while [ ! -e go ]; do sleep 0.1; done")
        await bench.running(run)
        (directory,) = bench.execute.glob("dir_*")
        await bench.eventually(
            lambda: "told" in (directory / "scratch/_condor_stdout").read_text(), "the job has begun"
        )
        (name,) = docker.containers()
        # As `Docker.inside` has it.
        seen = docker.call("exec", "--interactive", name, "/bin/sh", "-c", f"{told}; touch go")
        await bench.ended(run)
        job = bench.output(run).splitlines()
    kinds = ("uid=", "Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:")

    def rights(lines: list[str]) -> list[str]:
        return [line for line in lines if line.startswith(kinds)]

    def places(lines: list[str]) -> list[str]:
        return [line.split()[4] for line in lines if " - " in line]

    visitor = seen.splitlines()
    assert rights(visitor) == rights(job) and "NoNewPrivs:\t1" in visitor and "CapEff:\t0000000000000000" in visitor
    assert places(visitor) == places(job)
    mounts = [line for line in visitor if " - " in line and " - cgroup" not in line]
    shown = [line.split()[3] for line in mounts if "slotwise" in line.split()[3]]
    assert shown and all(f"/{directory.name}/" in f"{place}/" for place in shown), "nothing of other jobs or of daemons"
