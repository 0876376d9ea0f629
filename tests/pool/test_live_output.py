"""``stream_output`` in a real pool: what arrives while jobs run, and after daemons were killed meanwhile."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pool import Pool
from tests.support.starter_bench import job_python
from tests.support.waiting import LIMIT_S

#: Numbered lines, as many as the argument says, then it waits until a file is there.
COUNT = """import os, sys, time
for i in range(int(sys.argv[1])):
    print(i, flush=True)
    time.sleep(0.02)
while not os.path.exists(sys.argv[2]): time.sleep(0.05)
print("end")
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        made = Pool(Path(directory) / "p", "NUM_CPUS = 4\n")
        made.up()
        try:
            made.until("the slot is advertised", lambda: made.json("status"))
            yield made
        finally:
            made.destroy()


@pytest.fixture
def where(pool: Pool, request: pytest.FixtureRequest) -> Path:
    """A directory that jobs, which are other users in a pool of root's, can look into."""
    made = pool.root / re.sub(r"\W", "_", request.node.name)
    made.mkdir()
    made.chmod(0o777)
    return made


def submitted(pool: Pool, where: Path, lines: int, *more: str) -> str:
    """Submit a job that writes lines to ``out`` until the file ``go`` is in its scratch directory; returns its id."""
    (where / "count.py").write_text(COUNT)
    text = f"executable = {job_python()}\ntransfer_executable = false\narguments = count.py {lines} go\n"
    text += "transfer_input_files = count.py\noutput = out\nstream_output = true\nerror = err\nlog = log\n"
    text += "should_transfer_files = yes\n"
    (where / "j.sub").write_text(text + "".join(f"{line}\n" for line in more) + "queue\n")
    done = pool.run("submit", "-terse", "j.sub", cwd=where)
    assert "WARNING" not in done.stderr
    return done.stdout.split()[0]


def arrives(pool: Pool, file: Path, line: str) -> None:
    pool.until(f"{line} is in {file}", lambda: file.exists() and line in file.read_text().splitlines())


def finish(pool: Pool) -> None:
    """Let the running job come to its end."""
    for scratch in pool.until("it runs", lambda: list(pool.home.execute.glob("dir_*/scratch"))):
        (scratch / "go").touch()


def whole(lines: int) -> str:
    return "".join(f"{i}\n" for i in range(lines)) + "end\n"


def test_output_is_complete_whatever_is_killed_meanwhile(pool: Pool, where: Path) -> None:
    submitted(pool, where, 300)
    arrives(pool, where / "out", "3")
    pool.kill("schedd")
    pool.until("the schedd answers", lambda: pool.answers("schedd"))
    arrives(pool, where / "out", "100")
    pool.kill("starter")
    arrives(pool, where / "out", "200")
    pool.kill("schedd")
    pool.kill("starter")
    arrives(pool, where / "out", "299")
    finish(pool)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=where)
    assert (where / "out").read_text() == whole(300)


@pytest.mark.parametrize("kept", [False, True])
def test_a_job_that_starts_again_begins_anew_unless_it_appends(kept: bool, pool: Pool, where: Path) -> None:
    more = ["erase_output_and_error_on_restart = false"] if kept else []
    job = submitted(pool, where, 5, *more)
    arrives(pool, where / "out", "4")
    pool.run("hold", job)
    pool.until("it is held", lambda: pool.run("q", job, "-af", "JobStatus").stdout == "5\n")
    pool.until("its directory is gone", lambda: not list(pool.home.execute.glob("dir_*")))
    pool.run("release", job)
    finish(pool)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=where)
    assert (where / "out").read_text() == ("0\n1\n2\n3\n4\n" if kept else "") + whole(5)


def test_streams_follow_remaps_and_leave_other_outputs_alone(pool: Pool, where: Path) -> None:
    submitted(pool, where, 3, 'transfer_output_remaps = "out = moved"', "stream_error = true")
    arrives(pool, where / "moved", "2")
    finish(pool)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "log", cwd=where)
    assert (where / "moved").read_text() == whole(3) and (where / "err").read_text() == ""
    assert not (where / "out").exists()


def test_a_spooled_job_streams_into_its_sandbox(pool: Pool, where: Path) -> None:
    (where / "count.py").write_text(COUNT)
    text = f"executable = {job_python()}\ntransfer_executable = false\narguments = count.py 3 go\n"
    (where / "j.sub").write_text(text + "transfer_input_files = count.py\noutput = o\nstream_output = true\nqueue\n")
    job = pool.run("submit", "-spool", "-terse", "j.sub", cwd=where).stdout.split()[0]
    found = pool.until("the output is there", lambda: list((pool.home.execute.parent / "sandboxes").glob("*/*/o")))
    pool.until("it has all lines", lambda: found[0].read_text() == "0\n1\n2\n")
    finish(pool)
    pool.until("it is completed", lambda: pool.run("q", job, "-af", "JobStatus").stdout == "4\n")
    pool.run("transfer-data", job)
    assert (where / "o").read_text() == whole(3)


def test_an_output_file_that_cannot_be_written_holds_the_job(pool: Pool, where: Path) -> None:
    (where / "out").mkdir()
    job = submitted(pool, where, 1)
    asked = ("q", job, "-af", "HoldReasonCode", "HoldReasonSubCode", "HoldReason")
    pool.until("it is held", lambda: pool.run(*asked).stdout.startswith("7 21 "))
    assert f"standard output to {where}/out: Is a directory" in pool.run(*asked).stdout
    pool.run("rm", job)
