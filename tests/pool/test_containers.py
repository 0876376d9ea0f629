"""The container universe from the submit description to the job's end, in a pool whose slots have Apptainer."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.images import apptainer, image_directory, image_file, tree_of
from tests.support.pool import Pool
from tests.support.registry import Registry
from tests.support.waiting import LIMIT_S


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    host.need(host.image_directories)
    program = apptainer()
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        top = Path(directory)
        top.chmod(0o755)
        image_directory(top / "image")
        # As the manual has it ("Apptainer and Singularity Support"): the job may name an image.
        image = "TARGET.SingularityImage"
        chosen = f"SINGULARITY_JOB = !isUndefined({image})\nSINGULARITY_IMAGE_EXPR = {image}\n"
        made = Pool(top / "p", f"NUM_CPUS = 4\nSINGULARITY = {program}\n{chosen}")
        made.env["APPTAINER_NOHTTPS"] = "1"
        made.up()
        try:
            yield made
        finally:
            made.destroy()


@pytest.fixture(scope="module")
def sif(pool: Pool) -> Path:
    host.need(host.image_files)
    return image_file(apptainer(), pool.root.parent / "image", pool.root.parent / "image.sif")


def submitted(pool: Pool, directory: Path, *lines: str) -> str:
    """A job of the container universe that prints what only its image has."""
    program = ["executable = /bin/cat", "arguments = /etc/image", "transfer_executable = false", "output = out"]
    text = [
        "universe = container",
        *program,
        "error = err",
        "log = log",
        "request_memory = 32M",
        "should_transfer_files = yes",
        *lines,
        "queue",
    ]
    (directory / "c.sub").write_text("\n".join(text) + "\n")
    return pool.run("submit", "-terse", "c.sub", cwd=directory).stdout.split()[0]


def test_an_image_file_goes_with_the_job(pool: Pool, sif: Path, tmp_path: Path) -> None:
    shutil.copy(sif, tmp_path)
    submitted(pool, tmp_path, "container_image = image.sif")
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "made by the test\n", (tmp_path / "err").read_text()


def test_the_manuals_job_that_brings_its_image_with_its_files(pool: Pool, sif: Path, tmp_path: Path) -> None:
    shutil.copy(sif, tmp_path / "image")
    (tmp_path / "c.sub").write_text(
        'executable = /bin/cat\ntransfer_executable = false\narguments = /etc/image\n+SingularityImage = "image"\n'
        "Requirements = HasSingularity\nRequest_Disk = 1024\nRequest_Memory = 1024\nRequest_cpus = 1\n"
        "should_transfer_files = yes\ntransfer_input_files = image\nwhen_to_transfer_output = on_exit\n"
        "log = log\noutput = out.$(PROCESS)\nerror = err.$(PROCESS)\nqueue 1\n"
    )
    pool.run("submit", "c.sub", cwd=tmp_path)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=tmp_path)
    assert (tmp_path / "out.0").read_text() == "made by the test\n", (tmp_path / "err.0").read_text()


@pytest.mark.parametrize("name", ["unpacked/", "./unpacked/", "unpacked//", "{}/unpacked/", "link", "link/"])
def test_an_unpacked_image_comes_whole_whatever_it_is_called(pool: Pool, tmp_path: Path, name: str) -> None:
    """With a slash at the end HTCondor transfers what is in it, and never starts the job; a link it does not follow."""
    shutil.copytree(pool.root.parent / "image", tmp_path / "unpacked", symlinks=True)
    (tmp_path / "link").symlink_to("unpacked")
    submitted(pool, tmp_path, f"container_image = {name.format(tmp_path)}")
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "made by the test\n", (tmp_path / "err").read_text()


@host.needs(host.image_pulls)
def test_a_pull_is_told_in_the_ad_and_the_event_log(pool: Pool, tmp_path: Path) -> None:
    registry = Registry(tree_of(pool.root.parent / "image"))
    try:
        name = f"docker://{registry.address}/image:1"
        job = submitted(pool, tmp_path, f"container_image = {name}", "leave_in_queue = true")
        pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=tmp_path)
        assert (tmp_path / "out").read_text() == "made by the test\n", (tmp_path / "err").read_text()
        log = (tmp_path / "log").read_text()
        assert f"pulling {name} on slot1_1@" in log and f"pulled {name}, " in log
        status = pool.run("q", job, "-af", "ContainerImageStatus").stdout
        assert status.startswith(f"pulled {name}, ")
        pool.run("rm", job)
    finally:
        registry.close()


def test_an_image_file_of_a_registry_with_the_jobs_directory_where_the_job_says(
    pool: Pool, sif: Path, tmp_path: Path
) -> None:
    registry = Registry(b"", sif=sif.read_bytes())
    try:
        image = f"container_image = oras://{registry.address}/sif:1"
        submitted(pool, tmp_path, image, "container_target_dir = /target", "executable = /bin/sh", _WHERE)
        pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=tmp_path)
        assert (tmp_path / "out").read_text() == "made by the test\n/target/scratch\n", (tmp_path / "err").read_text()
    finally:
        registry.close()


#: Says where it is; what the last lines say counts.
_WHERE = "arguments = \"-c 'cat /etc/image; pwd'\""
_SHARED = "/dev/shm/slotwise-test"
#: Has something in the shared memory of its own, and waits.
_WAITS = f"arguments = \"-c 'echo out; echo mine > {_SHARED}; while [ ! -e over ]; do sleep 0.1; done; cat {_SHARED}'\""


def test_a_visit_inside_and_shared_memory_of_its_own(pool: Pool, tmp_path: Path) -> None:
    image = f"container_image = {pool.root.parent}/image"
    job = submitted(pool, tmp_path, image, "executable = /bin/sh", _WAITS)
    pool.until("the job printed", lambda: "out" in pool.run("tail", "-auto-retry", job).stdout)
    assert not Path(_SHARED).exists()
    other = submitted(
        pool, tmp_path, image, "executable = /bin/ls", "arguments = /dev/shm", "log = other", "output = o"
    )
    assert other
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "other", cwd=tmp_path)
    assert (tmp_path / "o").read_text() == ""
    inside = subprocess.run(
        [sys.executable, "-m", "slotwise", "ssh-to-job", job, f"cat /etc/image {_SHARED}; pwd; touch over"],
        env=pool.env, cwd=tmp_path, input="", capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip
    said = inside.stdout.splitlines()
    assert said[:2] == ["made by the test", "mine"] and said[2].endswith("/scratch"), inside.stderr
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "out\nmine\n", (tmp_path / "err").read_text()


def test_an_analysis_names_the_runtime_that_no_slot_has(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "d.sub").write_text("universe = docker\ndocker_image = debian\nexecutable = /bin/true\nqueue\n")
    job = pool.run("submit", "-terse", "d.sub", cwd=tmp_path).stdout.split()[0]
    assert "no slot has Docker" in pool.run("analyze", job).stdout
    pool.run("rm", job)
