"""Jobs in containers of the real Apptainer, under starters with and without root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.images import apptainer, image_directory, image_file
from tests.support.starter_bench import StarterBench, groups_of, processes_below, starter_bench

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def program() -> str:
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
    return image_file(program, image, place / "image.sif")


def in_container(bench: StarterBench, image: object, script: str, **ad: object) -> str:
    wants = {"WantContainer": True, "WantSandboxImage": True, "ContainerImage": str(image)}
    return bench.submit("/bin/sh", "-c", script, **{**wants, **ad})


@pytest.fixture(params=["root", "user"])
def as_user(request: pytest.FixtureRequest) -> int | None:
    """The account of the starter; None: root."""
    if os.geteuid() != 0:
        if request.param == "root":
            pytest.skip("needs root")
        return None
    return 65533 if request.param == "user" else None


async def test_a_job_runs_in_its_image_with_its_files(program: str, image: Path, as_user: int | None) -> None:
    async with starter_bench(as_user, SINGULARITY=program) as bench:
        facts = await bench.facts()
        assert facts.get("HasSingularity") is True, bench.log()
        assert facts["HasContainer"] is True and facts["HasSandboxImage"] is True
        assert "apptainer" in str(facts["SingularityVersion"])
        script = "cat /etc/image in; pwd; echo $COLOR $_CONDOR_SCRATCH_DIR $HOME; ls $_CONDOR_JOB_AD; echo done > made; exit 7"
        run = in_container(bench, image, script, inputs={"in": b"input\n"}, Environment="COLOR=red")
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


async def test_a_missing_image_holds_the_job_with_the_words_of_the_runtime(program: str) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        run = in_container(bench, "/nowhere/image", "true")
        ended = await bench.ended(run)
        assert (ended.reason_code, ended.reason_subcode) == (45, -1000)
        assert "Singularity test failed:" in ended.reason and "/nowhere/image" in ended.reason


async def test_the_administrator_puts_jobs_into_containers(program: str, image: Path, place: Path) -> None:
    (place / "shared").mkdir(exist_ok=True)
    (place / "shared" / "data").write_text("shared\n")
    knobs = {
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
        out = lambda: list(bench.execute.glob("dir_*/scratch/_condor_stdout"))  # noqa: E731
        await bench.eventually(lambda: out() and "ready" in out()[0].read_text(), "the job has begun")
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": False, "reason": "test", "vacate_s": 20})
        await bench.ended(run)
        assert bench.output(run) == "ready\ntold\n"
        await bench.clean()


async def test_memory_is_limited_in_a_container_as_outside(program: str, image: Path, memory_cgroup: object) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        script = "x=0123456789abcdef; while :; do x=$x$x; done"
        run = in_container(bench, image, script, slot={"Memory": 48})
        ended = await bench.ended(run, 60)
        assert (ended.reason_code, ended.reason_subcode) == (34, 102)


async def test_a_running_container_is_found_again_after_a_crash(program: str, image: Path) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        run = in_container(bench, image, "echo ready; while [ ! -e go ]; do sleep 0.1; done; cat /etc/image")
        await bench.running(run)
        out = lambda: list(bench.execute.glob("dir_*/scratch/_condor_stdout"))  # noqa: E731
        await bench.eventually(lambda: out() and "ready" in out()[0].read_text(), "the job has begun")
        await bench.kill_9()
        await bench.start()
        (out()[0].parent / "go").touch()
        await bench.ended(run)
        assert bench.output(run) == "ready\nmade by the test\n"


async def test_nothing_is_left_of_a_container_whose_keeper_is_killed(program: str, image: Path) -> None:
    async with starter_bench(SINGULARITY=program) as bench:
        run = in_container(bench, image, "echo ready; sleep 600")
        started = await bench.running(run)
        assert started
        out = lambda: list(bench.execute.glob("dir_*/scratch/_condor_stdout"))  # noqa: E731
        await bench.eventually(lambda: out() and "ready" in out()[0].read_text(), "the job has begun")
        pid = int(bench.startd.of(run, "running")[-1].pid) if bench.startd else 0
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, 9)
        await bench.ended(run)
        await bench.clean()
        assert not processes_below(bench.root) and not groups_of(bench.execute)
