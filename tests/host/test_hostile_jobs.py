"""Jobs that leave traps in their directories for the starter, which is root: links to its files, and pipes."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.host.test_plugins import with_shelf
from tests.support.ads import number_of
from tests.support.starter_bench import StarterBench, job_python, starter_bench

pytestmark = pytest.mark.host
EXITED = schedd_pb2.RunEnded.EXITED
HELD = schedd_pb2.RunEnded.HELD
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


#: Makes a thing that is not a file, named ``out``.
TRAPS = {
    "pipe": "import os; os.mkfifo('out')",
    "pipe-with-writer": "import os; os.mkfifo('out'); os.open('out', os.O_RDWR)",
    "socket": "import socket; socket.socket(socket.AF_UNIX).bind('out')",
    "endless-device": "import os; os.symlink('/dev/zero', 'out')",
    "link-to-itself": "import os; os.symlink('out', 'out')",
}


@pytest.mark.parametrize("trap", TRAPS)
async def test_a_listed_output_that_is_no_file_holds_the_job_and_only_it(trap: str) -> None:
    async with starter_bench() as bench:
        run = bench.submit(job_python(), "-S", "-c", TRAPS[trap], TransferOutput="out")
        other = bench.submit("/bin/sh", "-c", "echo fine")
        ended = await bench.ended(run)
        number = errno.ELOOP if trap == "link-to-itself" else errno.EINVAL
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 12, number), ended.reason
        assert "out" not in bench.shadow.runs[run].outputs
        assert (await bench.ended(other)).how == EXITED
        assert not (await bench.gone(run)).broken
        await bench.clean()


@pytest.mark.parametrize("trap", TRAPS)
async def test_what_is_no_file_does_not_go_back_by_itself(trap: str) -> None:
    async with starter_bench() as bench:
        run = bench.submit(job_python(), "-S", "-c", f"{TRAPS[trap]}; open('made', 'w').write('x')")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended.reason
        assert set(bench.shadow.runs[run].outputs) == {"_condor_stdout", "_condor_stderr", "made"}
        tree = bench.submit(
            "/bin/sh", "-c", "mkdir d; mkfifo d/p; ln -s /dev/zero d/z; echo 1 > d/f", TransferOutput="d"
        )
        assert (await bench.ended(tree)).how == EXITED
        assert {name for name in bench.shadow.runs[tree].outputs if name.startswith("d/")} == {"d/f"}


@pytest.mark.parametrize("trap", ["mkfifo", "ln -s /dev/zero", "ln -s {secret}"])
async def test_standard_output_is_what_the_job_wrote_there(root: None, trap: str) -> None:
    async with starter_bench() as bench:
        making = trap.format(secret=secret_of(bench))
        run = bench.submit("/bin/sh", "-c", f"echo lost; rm _condor_stdout; {making} _condor_stdout")
        ended = await bench.ended(run)
        assert ended.how == EXITED or (ended.how, ended.reason_code) == (HELD, 12), ended
        assert WORDS.encode() not in bench.shadow.runs[run].outputs.get("_condor_stdout", b"")
        await bench.clean()


#: Makes directories within directories, deeper than Python calls itself and than a path may be long.
DEEP = """
import os
os.mkdir("tree"); os.chdir("tree")
open("file", "w").write("x" * 9000)
for _ in range(2500):
    os.mkdir("d"); os.chdir("d")
"""


@pytest.mark.parametrize("knobs", [{}, {"STARTD_ENFORCE_DISK_LIMITS": "true", "SLOTWISE_SCRATCH_VOLUMES": "none"}])
async def test_a_tree_deeper_than_any_path_is_measured_and_removed(knobs: dict[str, Any]) -> None:
    async with starter_bench(CGROUP_POLLING_INTERVAL=0.2, STARTER_INITIAL_UPDATE_INTERVAL=1, **knobs) as bench:
        script = f"{DEEP}\nos.chdir(os.environ['_CONDOR_SCRATCH_DIR'])\nopen('made', 'w')\n"
        script += "import time\nwhile not os.path.exists('stop'): time.sleep(0.05)"
        run = bench.submit(job_python(), "-S", "-c", script, slot={"Disk": 500_000})
        await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/made")), "the tree is made")
        updates = bench.shadow.runs[run].updates
        await bench.eventually(
            lambda: any(number_of(ad, "ScratchDirFileCount") >= 1 for ad in updates), "it is measured"
        )
        next(iter(bench.execute.glob("dir_*/scratch"))).joinpath("stop").touch()
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended.reason
        assert not (await bench.gone(run)).broken
        await bench.clean()


@pytest.mark.parametrize("levels", [300, 2500])
async def test_a_listed_tree_deeper_than_anybody_can_take_holds_the_job(levels: int) -> None:
    async with starter_bench() as bench:
        script = DEEP.replace("2500", str(levels))
        run = bench.submit(job_python(), "-S", "-c", script, TransferOutput="tree")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 12, errno.ENAMETOOLONG), ended.reason
        await bench.clean()
        assert "Traceback" not in bench.log()


@pytest.mark.parametrize("stream", ["Out", "In"])
async def test_a_job_that_waits_for_a_pipe_can_be_told_to_go(stream: str) -> None:
    """Without file transfer a job may name a pipe; it then waits for the other end, and nobody with it."""
    async with starter_bench() as bench:
        place = bench.root / "shared"
        place.mkdir(mode=0o777)
        place.chmod(0o777)
        os.mkfifo(place / "pipe")
        (place / "pipe").chmod(0o666)
        ad: dict[str, Any] = {"Out": "/dev/null", "Err": "/dev/null", stream: "pipe"}
        waits = bench.submit("/bin/sh", "-c", "true", ShouldTransferFiles="NO", Iwd=str(place), **ad)
        await bench.eventually(lambda: bench.shadow.runs[waits].accepted, "it is taken on")
        other = bench.submit("/bin/sh", "-c", "echo fine")
        assert (await bench.ended(other)).how == EXITED
        assert bench.startd is not None
        bench.startd.command(waits, kill={"fast": True, "reason_code": 1010})
        assert (await bench.ended(waits)).how == schedd_pb2.RunEnded.EVICTED
        await bench.clean()
