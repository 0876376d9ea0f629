"""Docker jobs under a real starter, in containers of a real daemon."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.control_dir import control_root
from slotwise.execution.launcher import holder
from slotwise.wire.gen import schedd_pb2

from tests.support.ads import number_of
from tests.support.containers import IMAGE, Engine, busybox_tree, docker_daemon
from tests.support.registry import Registry
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
        assert docker.containers() == [] and groups_of(bench.execute) == []


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
        assert docker.containers() == [] and groups_of(bench.execute) == []


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
            assert (await bench.ended(run, 60)).how == EXITED and bench.output(run) == "done\n"
    assert registry.asked["layer"] == 1


async def test_an_image_that_is_not_there_holds_the_job_with_dockers_words(docker: Engine, registry: Registry) -> None:
    async with starter_bench(**pulling(docker)) as bench:
        ended = await bench.ended(submit(bench, "true", DockerImage=f"{registry.address}/absent:1"))
        assert (ended.how, ended.reason_code) == (HELD, 35)
        assert ended.reason.startswith(f"Cannot pull image {registry.address}/absent:1") and "unknown" in ended.reason
        registry.architecture = "s390x"
        ended = await bench.ended(submit(bench, "true", DockerImage=f"{registry.address}/other:1"))
        assert (ended.how, ended.reason_code) == (HELD, 35) and "s390x" in ended.reason


async def test_a_host_whose_pulls_keep_failing_sends_jobs_away_and_offers_docker_no_more(
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

        def offered() -> object:
            return startd.facts.eval("HasDocker") if startd.facts is not None else None

        await bench.eventually(lambda: offered() is False, "Docker is offered no more")
        assert startd.facts is not None and "keep failing" in str(startd.facts.eval("HasDockerReason"))


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


async def test_docker_is_offered_once_a_test_container_has_run(docker: Engine) -> None:
    rules = knobs(docker, DOCKER_PERFORM_TEST=True, DOCKER_VOLUMES="A, B", DOCKER_NETWORKS="mine, yours")
    async with starter_bench(**rules) as bench:
        facts = await bench.facts()
        for name in ("HasDocker", "HasDockerURL", "HasContainer", "HasDockerVolumeA", "HasDockerVolumeB"):
            assert facts.eval(name) is True, name
        assert str(facts.eval("DockerVersion")).startswith("Docker version")
        assert facts.eval("DockerNetworks") == "mine, yours"


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
