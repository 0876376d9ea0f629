"""Jobs in containers of the real Apptainer, under starters with and without root."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.starter.runtimes.apptainer import innermost
from slotwise.starter.sessions import launch
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.images import apptainer, image_directory, image_file, open_to_all, tree_of
from tests.support.registry import Registry
from tests.support.starter_bench import StarterBench, groups_of, processes_below, starter_bench
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def program() -> str:
    host.need(host.image_directories)
    return apptainer()


@pytest.fixture(scope="module")
def place(program: str) -> Iterator[Path]:
    """A directory that jobs' users can enter."""
    found = Path(tempfile.mkdtemp(prefix="slotwise-images-", dir="/var/tmp"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture(scope="module")
def image(place: Path) -> Path:
    return image_directory(place / "image")


@pytest.fixture(scope="module")
def sif(program: str, image: Path, place: Path) -> Path:
    host.need(host.image_files)
    return image_file(program, image, place / "image.sif")


def in_container(bench: StarterBench, image: object, script: str, **ad: Any) -> str:
    wants: dict[str, Any] = {"WantContainer": True, "WantSandboxImage": True, "ContainerImage": str(image)}
    return bench.submit("/bin/sh", "-c", script, **{**wants, **ad})


async def ready(bench: StarterBench) -> None:
    """Wait until the one job has printed that it is ready."""

    def says_so() -> bool:
        return any("ready" in path.read_text() for path in bench.execute.glob("dir_*/scratch/_condor_stdout"))

    await bench.eventually(says_so, "the job has begun")


@pytest.fixture(params=["root", "user"])
def as_user(request: pytest.FixtureRequest) -> int | None:
    """The account of the starter; None: root."""
    if request.param == "root":
        host.need(host.root)
    elif host.root():
        return None
    return 65534 if request.param == "user" else None


async def test_a_job_runs_in_its_image_with_its_files(program: str, image: Path, as_user: int | None) -> None:
    async with starter_bench(as_user, SINGULARITY=program) as bench:
        facts = await bench.facts()
        assert facts.get("HasSingularity") is True, bench.log()
        assert facts["HasContainer"] is True and facts["HasSandboxImage"] is True
        assert "apptainer" in str(facts["SingularityVersion"])
        script = "cat /etc/image in; pwd; echo $COLOR $_CONDOR_SCRATCH_DIR $HOME; ls $_CONDOR_JOB_AD; echo done > made"
        run = in_container(bench, image, f"{script}; exit 7", inputs={"in": b"input\n"}, Environment="COLOR=red")
        ended = await bench.ended(run)
        said = bench.output(run).splitlines()
        assert said[:2] == ["made by the test", "input"], bench.output(run, "_condor_stderr")
        scratch = said[2]
        assert said[3] == f"red {scratch} {scratch}" and said[4].endswith("/htcondor/.job.ad")
        assert ended.code == 7
        assert bench.output(run, "made") == "done\n"
        await bench.clean()
        assert not processes_below(bench.root)


async def test_an_image_file_that_comes_with_the_job(program: str, sif: Path) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        assert (await bench.facts())["HasSIF"] is True
        ad = {"WantSandboxImage": False, "WantSIF": True}
        run = in_container(bench, "image.sif", "cat /etc/image", inputs={"image.sif": sif.read_bytes()}, **ad)
        await bench.ended(run)
        assert bench.output(run) == "made by the test\n", bench.output(run, "_condor_stderr")


async def test_a_slot_with_gpus_shows_its_container_the_driver(program: str, image: Path) -> None:
    """Apptainer itself says that there is no driver here, and runs the job."""
    slot = {
        "MachineResources": "Cpus Memory Disk GPUs",
        "AssignedGPUs": "GPU-c0ffee00",
        "GPUs": 1,
        "GPUs_NvidiaDriver": "550.54.15",
    }
    async with starter_bench(SINGULARITY=program) as bench:
        run = in_container(bench, image, "env", slot=slot)
        assert (await bench.ended(run)).code == 0, bench.output(run, "_condor_stderr")
        assert "NVIDIA_VISIBLE_DEVICES=GPU-c0ffee00" in bench.output(run).splitlines()
        await bench.eventually(lambda: re.search(r"about to exec \S+ -s exec .* --nv ", bench.log()), "the log has it")


async def test_a_missing_image_holds_the_job_with_the_words_of_the_runtime(program: str) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        run = in_container(bench, "/nowhere/image", "true")
        ended = await bench.ended(run)
        assert (ended.reason_code, ended.reason_subcode) == (45, -1000)
        assert "Singularity test failed:" in ended.reason and "/nowhere/image" in ended.reason


async def test_the_administrator_puts_jobs_into_containers(program: str, image: Path, place: Path) -> None:
    (place / "shared").mkdir(exist_ok=True)
    (place / "shared" / "data").write_text("shared\n")
    open_to_all(place / "shared")
    knobs: dict[str, Any] = {
        "SINGULARITY": program,
        "SINGULARITY_JOB": "!isUndefined(TARGET.SingularityImage)",
        "SINGULARITY_IMAGE_EXPR": "TARGET.SingularityImage",
        "SINGULARITY_BIND_EXPR": f'"{place}/shared:/shared /nowhere:/else"',
        "SINGULARITY_TARGET_DIR": "/target",
        "SINGULARITY_EXTRA_ARGUMENTS": "--env MORE=extra",
        "MOUNT_UNDER_SCRATCH": "/tmp",
    }
    async with starter_bench(**knobs) as bench:
        script = (
            "cat /etc/image /shared/data; pwd; echo $MORE; echo $_CONDOR_SCRATCH_DIR; touch /tmp/x; ls /tmp; ls /else"
        )
        run = bench.submit("/bin/sh", "-c", script, SingularityImage=str(image))
        ended = await bench.ended(run)
        said = bench.output(run).splitlines()
        assert said == ["made by the test", "shared", "/target/scratch", "extra", "/target/scratch", "x"], bench.output(
            run, "_condor_stderr"
        )
        assert ended.code == 2
        plain = bench.submit("/bin/sh", "-c", "ls /etc/image")
        assert (await bench.ended(plain)).code != 0


@pytest.fixture(scope="module")
def broken(image: Path, place: Path) -> Path:
    """An unpacked image whose own test fails."""
    found = place / "broken"
    shutil.copytree(image, found, symlinks=True)
    (found / ".singularity.d/actions").mkdir(parents=True)
    (found / ".singularity.d/actions/test").write_text("#!/bin/sh\necho unfit >&2\nexit 3\n")
    open_to_all(found)
    return found


async def test_an_image_that_fails_its_own_test_runs_no_job(program: str, broken: Path) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        ended = await bench.ended(in_container(bench, broken, "true"))
        assert (ended.reason_code, ended.reason_subcode) == (45, -1000) and "unfit" in ended.reason


async def test_what_knobs_change_of_the_call(program: str, image: Path, broken: Path, place: Path) -> None:
    """SINGULARITY_RUN_TEST_BEFORE_JOB, _VERBOSITY, _IGNORE_MISSING_BIND_TARGET, _USE_LAUNCHER."""
    (place / "shared").mkdir(exist_ok=True)
    (place / "shared" / "data").write_text("shared\n")
    open_to_all(place / "shared")
    knobs: dict[str, Any] = {
        "SINGULARITY": program,
        "SINGULARITY_RUN_TEST_BEFORE_JOB": False,
        "SINGULARITY_VERBOSITY": "-d",
        "SINGULARITY_BIND_EXPR": f'"{place}/shared:/lacking {place}/shared:/target"',
        "SINGULARITY_IGNORE_MISSING_BIND_TARGET": True,
        "SINGULARITY_EXTRA_ARGUMENTS": 'strcat("--env MORE=extra ", ifThenElse(isUndefined(Extra), "", Extra))',
        "SINGULARITY_USE_LAUNCHER": True,
    }
    async with starter_bench(**knobs) as bench:
        runs = [in_container(bench, where, "cat /lacking/data; cat /target/data; exit 5") for where in (image, broken)]
        for run in runs:
            assert (await bench.ended(run)).code == 5
            assert bench.output(run) == "shared\n", "no place is made in the image"
            assert "DEBUG" in bench.output(run, "_condor_stderr")
            assert set(bench.shadow.runs[run].outputs) == {"_condor_stdout", "_condor_stderr"}, "no mark is sent"
        ended = await bench.ended(in_container(bench, image, "true", Extra="--no-such-option"))
        assert ended.how == schedd_pb2.RunEnded.NOT_STARTED and "before the job ran" in ended.reason
    plain = {name: knobs[name] for name in ("SINGULARITY", "SINGULARITY_BIND_EXPR", "SINGULARITY_EXTRA_ARGUMENTS")}
    async with starter_bench(SINGULARITY_RUN_TEST_BEFORE_JOB=False, **plain) as bench:
        run = in_container(bench, image, "cat /lacking/data")
        assert (await bench.ended(run)).code == 0 and bench.output(run) == "shared\n"
        assert bench.output(run, "_condor_stderr") == "", "Apptainer says nothing of its own"
        ended = await bench.ended(in_container(bench, image, "true", Extra="--no-such-option"))
        assert ended.how == schedd_pb2.RunEnded.EXITED and ended.code != 0


async def test_a_job_cannot_change_its_container_by_variables(program: str, image: Path, place: Path) -> None:
    (place / "secret").mkdir(exist_ok=True)
    (place / "secret" / "file").write_text("secret\n")
    async with starter_bench(SINGULARITY=program) as bench:
        env = f"APPTAINER_BIND={place}/secret:/mnt SINGULARITY_BINDPATH={place}/secret:/mnt APPTAINERENV_OWN=1"
        run = in_container(bench, image, "cat /mnt/file || echo none; echo $OWN", Environment=env)
        await bench.ended(run)
        assert bench.output(run) == "none\n1\n"


async def test_a_soft_kill_reaches_the_job_in_its_container(program: str, image: Path) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
        run = in_container(bench, image, script, WhenToTransferOutput="ON_EXIT_OR_EVICT")
        await bench.running(run)
        await ready(bench)
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": False, "reason": "test", "vacate_s": 20})
        await bench.ended(run)
        assert bench.output(run) == "ready\ntold\n"
        await bench.clean()


async def test_memory_is_limited_in_a_container_as_outside(program: str, image: Path, memory_cgroup: object) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        script = "x=0123456789abcdef; while :; do x=$x$x; done"
        run = in_container(bench, image, script, slot={"Memory": 48})
        ended = await bench.ended(run)
        assert (ended.reason_code, ended.reason_subcode) == (34, 102)


async def test_a_running_container_is_found_again_after_a_crash(program: str, image: Path) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        run = in_container(bench, image, "echo ready; while [ ! -e go ]; do sleep 0.1; done; cat /etc/image")
        await bench.running(run)
        await ready(bench)
        await bench.kill_9()
        await bench.start()
        (next(bench.execute.glob("dir_*/scratch")) / "go").touch()
        await bench.ended(run)
        assert bench.output(run) == "ready\nmade by the test\n"


async def test_nothing_is_left_of_a_container_whose_keeper_is_killed(program: str, image: Path) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        run = in_container(bench, image, "echo ready; sleep 600")
        started = await bench.running(run)
        assert started
        await ready(bench)
        pid = int(bench.startd.of(run, "running")[-1].pid) if bench.startd else 0
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, 9)
        await bench.ended(run)
        await bench.clean()
        assert not processes_below(bench.root) and not groups_of(bench.execute)


def visit_words(bench: StarterBench, pid: int, script: str, cwd: str) -> list[str]:
    """The words of a visit to process ``pid`` as one of the one run's."""
    (directory,) = bench.execute.glob("dir_*")
    name = f"{directory.name}/{launch.SPEC}"
    (spec,) = [*Path("/dev/shm").glob(f"*/*/{name}"), *bench.execute.glob(f".starter/**/{name}")]
    words = [*bench.as_account(), sys.executable, "-I", "-S", launch.__file__, str(spec), str(pid), "0", "", "sh"]
    return [*words, "1", cwd, script]


async def test_a_visitor_enters_the_container(program: str, image: Path, as_user: int | None) -> None:
    if os.geteuid() == 0 and as_user is None:
        host.need(host.process_namespaces)
    async with starter_bench(as_user, SINGULARITY=program) as bench:
        run = in_container(bench, image, "echo ready; while [ ! -e go ]; do sleep 0.1; done", Environment="COLOR=red")
        started = await bench.running(run)
        await ready(bench)
        job = innermost(started.pid)
        assert job
        (directory,) = bench.execute.glob("dir_*")
        script = "cat /etc/image; echo $COLOR; pwd; id -u; touch go"
        visit = visit_words(bench, job, script, str(Path(f"/proc/{job}/cwd").readlink()))
        said = subprocess.run(visit, capture_output=True, text=True, check=False)
        expected = ["made by the test", "red", f"{directory}/scratch", str(os.geteuid() or 65534)]
        assert said.stdout.splitlines() == expected, said.stderr
        await bench.ended(run)


def _bounds(status: str) -> list[str]:
    return [line for line in status.splitlines() if line.startswith(("CapBnd:", "NoNewPrivs:"))]


async def test_a_visitor_gains_no_rights_by_programs_of_the_container(
    program: str, image: Path, as_user: int | None
) -> None:
    """A container has the passwords and the setuid programs that its user chose."""
    if os.geteuid() == 0 and as_user is None:
        host.need(host.process_namespaces)
    async with starter_bench(as_user, SINGULARITY=program) as bench:
        run = in_container(bench, image, "echo ready; while [ ! -e go ]; do sleep 0.1; done")
        started = await bench.running(run)
        await ready(bench)
        job = innermost(started.pid)
        visit = visit_words(bench, job, "cat /proc/self/status; touch go", str(Path(f"/proc/{job}/cwd").readlink()))
        theirs = Path(f"/proc/{job}/status").read_text()
        said = subprocess.run(visit, capture_output=True, text=True, check=False)
        assert _bounds(said.stdout) == _bounds(theirs), said.stderr
        assert "NoNewPrivs:\t1" in said.stdout
        await bench.ended(run)


@host.needs(host.root)
@pytest.mark.parametrize("whose", ["another user", "root", "nobody's any more"])
async def test_a_visit_to_a_process_that_is_not_the_jobs_is_refused(program: str, image: Path, whose: str) -> None:
    """A job chooses when its processes end, and the kernel gives their ids to those of others."""
    uid = {"another user": 64321, "root": 0}.get(whose, 65534)
    words = ["setpriv", "--reuid", str(uid), "--clear-groups", "sleep", "600"]
    async with starter_bench(None, SINGULARITY=program) as bench:
        run = in_container(bench, image, "echo ready; while [ ! -e go ]; do sleep 0.1; done")
        await bench.running(run)
        await ready(bench)
        (directory,) = bench.execute.glob("dir_*")
        with subprocess.Popen(words, env={"PATH": os.environ["PATH"], "PASSWORD": "secret"}) as other:
            try:
                await bench.eventually(
                    lambda: f"Uid:\t{uid}\t" in Path(f"/proc/{other.pid}/status").read_text(), "it has its account"
                )
                if whose == "nobody's any more":
                    other.kill()
                    other.wait()
                visit = visit_words(bench, other.pid, "echo entered; env", "/")
                said = subprocess.run(visit, capture_output=True, text=True, check=False)
            finally:
                other.kill()
        assert (said.returncode, said.stdout) == (255, ""), said.stderr
        (directory / "scratch/go").touch()
        await bench.ended(run)


@host.needs(host.image_pulls)
async def test_jobs_of_one_image_pull_it_once(program: str, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPTAINER_NOHTTPS", "1")
    registry = Registry(tree_of(image))
    ad = {"WantSandboxImage": False, "WantDockerImage": True}
    try:
        async with starter_bench(SINGULARITY=program) as bench:
            name = f"docker://{registry.address}/image:1"
            runs = [in_container(bench, name, "cat /etc/image", **ad) for _ in range(20)]
            for run in runs:
                await bench.ended(run, limit_s=2 * LIMIT_S)
                assert bench.output(run) == "made by the test\n", bench.output(run, "_condor_stderr")
            assert registry.asked["layer"] == 1
            assert {path.stat().st_uid for path in bench.execute.glob(".images/*.sif")} == {os.geteuid()}
            absent = in_container(bench, f"docker://{registry.address}/absent:1", "true", **ad)
            ended = await bench.ended(absent)
            assert (ended.reason_code, ended.reason_subcode) == (45, 0) and "manifest unknown" in ended.reason
            assert not pulls(bench)
    finally:
        registry.close()


def accounts_of(word: str) -> set[int]:
    """The accounts of processes that have an argument with this word."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (process / "cmdline").read_bytes():
                found.add((process / "status").stat().st_uid)
    return found


def pulls(bench: StarterBench) -> list[Path]:
    return list(bench.execute.glob(".images/pull.*"))


@host.needs(host.image_pulls)
async def test_nothing_is_left_of_a_pull_that_is_given_up(
    program: str, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is killed while its image is pulled, and then the starter is while another's is."""
    monkeypatch.setenv("APPTAINER_NOHTTPS", "1")
    registry = Registry(tree_of(image))
    registry.open.clear()
    ad = {"WantSandboxImage": False, "WantDockerImage": True}
    try:
        async with starter_bench(SINGULARITY=program) as bench:
            run = in_container(bench, f"docker://{registry.address}/image:1", "true", **ad)
            await bench.eventually(lambda: registry.asked, "the registry is asked")
            assert accounts_of(f"{registry.address}/image:1") == {os.geteuid() or 65534}, "as the job's account"
            assert bench.startd is not None
            bench.startd.command(run, kill={"fast": True, "reason": "test"})
            await bench.gone(run)
            await bench.eventually(lambda: not pulls(bench), "nothing is left of the pull")
            in_container(bench, f"docker://{registry.address}/image:2", "true", **ad)
            await bench.eventually(lambda: registry.asked["image:2"] and pulls(bench), "the registry is asked again")
            await bench.kill_9()
            await bench.start()
            await bench.eventually(lambda: not pulls(bench), "nothing is left of the other pull")
            assert not processes_below(bench.root)
    finally:
        registry.close()
