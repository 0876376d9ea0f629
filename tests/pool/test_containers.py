"""The container universe from the submit description to the job's end, in a pool whose slots have Apptainer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.images import apptainer, image_directory, image_file, tree_of
from tests.support.pool import Pool
from tests.support.registry import Registry


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    program = apptainer()
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        top = Path(directory)
        top.chmod(0o755)
        image_file(program, image_directory(top / "image"), top / "image.sif")
        made = Pool(top / "p", f"NUM_CPUS = 4\nSINGULARITY = {program}\n")
        made.env["APPTAINER_NOHTTPS"] = "1"
        made.up()
        try:
            yield made
        finally:
            made.destroy()


def submitted(pool: Pool, directory: Path, *lines: str) -> str:
    """A job of the container universe that prints what only its image has."""
    program = ["executable = /bin/cat", "arguments = /etc/image", "transfer_executable = false", "output = out"]
    text = ["universe = container", *program, "error = err", "log = log", "request_memory = 32M", *lines, "queue"]
    (directory / "c.sub").write_text("\n".join(text) + "\n")
    return pool.run("submit", "-terse", "c.sub", cwd=directory).stdout.split()[0]


def test_an_image_file_goes_with_the_job(pool: Pool, tmp_path: Path) -> None:
    shutil.copy(pool.root.parent / "image.sif", tmp_path)
    submitted(pool, tmp_path, "container_image = image.sif")
    pool.run("wait", "-wait", "60", "log", cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "made by the test\n", (tmp_path / "err").read_text()


def test_a_pull_is_told_in_the_ad_and_the_event_log(pool: Pool, tmp_path: Path) -> None:
    registry = Registry(tree_of(pool.root.parent / "image"))
    try:
        name = f"docker://{registry.address}/image:1"
        job = submitted(pool, tmp_path, f"container_image = {name}", "leave_in_queue = true")
        pool.run("wait", "-wait", "60", "log", cwd=tmp_path)
        assert (tmp_path / "out").read_text() == "made by the test\n", (tmp_path / "err").read_text()
        log = (tmp_path / "log").read_text()
        assert f"pulling {name} on slot1_1@" in log and f"pulled {name}, " in log
        status = pool.run("q", job, "-af", "ContainerImageStatus").stdout
        assert status.startswith(f"pulled {name}, ")
        pool.run("rm", job)
    finally:
        registry.close()


def test_an_analysis_names_the_runtime_that_no_slot_has(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "d.sub").write_text("universe = docker\ndocker_image = debian\nexecutable = /bin/true\nqueue\n")
    job = pool.run("submit", "-terse", "d.sub", cwd=tmp_path).stdout.split()[0]
    assert "no slot has Docker" in pool.run("analyze", job).stdout
    pool.run("rm", job)
