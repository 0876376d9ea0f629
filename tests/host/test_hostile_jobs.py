"""Jobs that leave traps in their directories for the starter, which is root: links to its files, and pipes."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.host.test_plugins import with_shelf
from tests.support.starter_bench import StarterBench, starter_bench

pytestmark = pytest.mark.host
EXITED = schedd_pb2.RunEnded.EXITED
WORDS = "only root knows"


def secret_of(bench: StarterBench) -> Path:
    """A file that no job may read or write."""
    path = bench.root / "precious"
    path.write_text(WORDS)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("trap", ["ln -s {secret}", "mkfifo"])
async def test_the_words_of_a_wrapper_are_read_as_the_job_could(root: None, trap: str) -> None:
    async with starter_bench() as bench:
        wrapper = bench.root / "wrapper"
        wrapper.write_text('#!/bin/sh\nexec "$@"\n')
        wrapper.chmod(0o755)
        bench.configure(USER_JOB_WRAPPER=wrapper)
        await bench.kill_9()
        await bench.start()
        script = trap.format(secret=secret_of(bench))
        run = bench.submit("/bin/sh", "-c", f"{script} .job_wrapper_failure; echo done")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended.reason
        assert bench.output(run) == "done\n"


@pytest.mark.parametrize("trap", ["ln -s {secret}", "mkfifo"])
async def test_the_words_of_a_plugin_are_its_own(root: None, trap: str) -> None:
    async with starter_bench() as bench:
        await with_shelf(bench)
        script = trap.format(secret=secret_of(bench))
        run = bench.submit(
            "/bin/sh", "-c", f"{script} .plugin.out; echo new > made", TransferOutputRemaps="made=shelf://kept"
        )
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended.reason
        assert (bench.root / "shelf" / "kept").read_text() == "new\n"


async def test_ads_written_beside_the_jobs_files_follow_no_link(root: None) -> None:
    async with starter_bench(STARTER_NESTED_SCRATCH=False) as bench:
        secret = secret_of(bench)
        script = f"ln -s {secret} .update.ad.tmp; while [ ! -f .update.ad ]; do sleep 0.1; done; cat .update.ad"
        run = bench.submit("/bin/sh", "-c", script)
        await bench.running(run)
        scratch = Path(bench.shadow.runs[run].started.scratch_dir)  # type: ignore[union-attr]
        await bench.eventually((scratch / ".update.ad.tmp").is_symlink, "the trap is laid")
        assert bench.startd is not None
        bench.startd.command(run, suspend={"resume": False})
        bench.startd.command(run, suspend={"resume": True})
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended.reason
        assert "ScratchDirFileCount" in bench.output(run)
        assert secret.read_text() == WORDS and secret.stat().st_mode & 0o777 == 0o600
