"""Named pipes and devices where a user's files are looked for: an error, and never a thread that waits for ever."""

from __future__ import annotations

import errno
import getpass
import os
import select
import socket
import stat
import threading
from pathlib import Path

import pytest
from slotwise.errors import HostError
from slotwise.schedd.transfer.files import FilePlan, TransferError, input_pieces
from slotwise.schedd.transfer.results import Results
from slotwise.schedd.transfer.spool_directories import Result, Sandbox
from slotwise.schedd.userlog import writer
from slotwise.schedd.userlog.planned_text import PlannedText
from slotwise.schedd.userlog.writer import LogSizes
from slotwise.wire import socket_path

ME = getpass.getuser()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "tree"])
def test_an_input_that_is_no_file_holds_the_job(pipe: Path, name: str) -> None:
    (pipe.parent / "tree").mkdir()
    os.mkfifo(pipe.parent / "tree/inner")
    with pytest.raises(TransferError) as caught:
        list(input_pieces(FilePlan(ME, str(pipe.parent), inputs=(name,))))
    assert (caught.value.hold_code, caught.value.subcode) == (13, errno.EINVAL)
    assert "not a regular file" in str(caught.value)


def test_sockets_in_a_directory_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(socket_path.usable(tmp_path / "tree/socket"))
        names = [piece.name for piece in input_pieces(FilePlan(ME, str(tmp_path), inputs=("tree",)))]
    assert names == ["tree", "tree/file"]


def test_a_result_goes_into_a_pipe_only_if_someone_reads(pipe: Path) -> None:
    data = b"x" * 200_000  # more than a pipe takes at once

    def arrived() -> Results:
        results = Results(FilePlan(ME, str(pipe.parent), stdout="pipe"), "1.0#1")
        results.keep("_condor_stdout", 0o644, data, directory=False)
        return results

    results = arrived()
    with pytest.raises(TransferError) as caught:
        results.place()
    assert caught.value.subcode == errno.ENXIO
    read: list[bytes] = []
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(opened, True)

    def reader() -> None:
        begun = select.poll()
        begun.register(opened, select.POLLIN)
        begun.poll()  # else there is an end before the beginning
        with open(opened, "rb") as stream:
            read.append(stream.read())

    thread = threading.Thread(target=reader)
    thread.start()
    arrived().place()
    thread.join()
    assert read == [data]


def test_a_pipe_where_a_large_result_grows_is_refused(pipe: Path) -> None:
    os.mkfifo(pipe.parent / "made.sw-1.0-1")
    results = Results(FilePlan(ME, str(pipe.parent)), "1.0#1")
    results.write("made", 0o644, b"x" * 300_000, 0)
    with pytest.raises(TransferError):
        results.place()


def test_a_sandbox_is_neither_read_nor_written_through_a_pipe(pipe: Path) -> None:
    sandbox = Sandbox(str(pipe.parent), ME)
    with pytest.raises(HostError, match="not a regular file"):
        sandbox.read(Result(str(pipe), "pipe", 0o644, 5), 0)
    with pytest.raises(HostError):
        sandbox.write("pipe", 0o644, b"x", 0, directory=False)


def test_a_log_that_is_a_pipe_is_a_failure_and_devnull_is_none(pipe: Path) -> None:
    def planned(path: str) -> list[PlannedText]:
        return [PlannedText(1, path, ME, 0, "000 (1.0.0)\n...\n")]

    for write in (writer.append, writer.settle):
        done, (failure,) = write(planned(str(pipe)), LogSizes())
        assert (done, failure.errno) == ([], errno.ENXIO)
        assert write(planned("/dev/null"), LogSizes()) == ([1], [])
    assert writer.settle(planned("/dev/zero"), LogSizes()) == ([1], [])


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_sandbox_is_open_to_whom_job_spool_permissions_says(tmp_path: Path, mode: int) -> None:
    sandbox = Sandbox(str(tmp_path / "spool" / "1" / "0"), ME, mode=mode)
    sandbox.make()
    assert stat.S_IMODE(Path(sandbox.path).stat().st_mode) == mode
