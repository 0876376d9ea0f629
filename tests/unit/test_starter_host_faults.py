"""What is the host's fault does not hold the job; who connects to the io proxy in silence makes room."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest
from slotwise.execution.exit_status import How
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.starter.io_proxy.listener import IoProxyListener
from slotwise.starter.job.failures import failure, scratch_failure

from tests.support.waiting import until


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EROFS, errno.ESTALE])
def test_errors_of_the_host_send_the_job_back(number: int) -> None:
    end = failure(OSError(number, os.strerror(number), "/execute/dir_1/it"))
    assert (end.how, end.reason_code, end.reason_subcode) == (How.EVICTED, Vacate.STARTER_ERROR, number)
    assert "/execute/dir_1/it" in end.reason


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR])
def test_what_a_job_has_made_in_its_scratch_directory_holds_it(number: int) -> None:
    end = scratch_failure(OSError(number, os.strerror(number), "/execute/dir_1/it"))
    assert (end.how, end.reason_code, end.reason_subcode) == (How.HELD, Hold.IWD_ERROR, number)


@pytest.mark.parametrize("number", [errno.ENOTDIR, errno.ENOENT, errno.EACCES, errno.ENOSPC])
def test_a_scratch_directory_that_cannot_be_made_is_not_the_jobs_fault(number: int) -> None:
    end = scratch_failure(OSError(number, os.strerror(number), "/execute"), at_start=True)
    assert (end.how, end.reason_code) == (How.EVICTED, Vacate.STARTER_ERROR)


async def test_connections_that_say_nothing_make_room_for_those_that_ask() -> None:
    listener = IoProxyListener()
    listener._listen()
    assert listener._socket is not None
    port = listener._socket.getsockname()[1]
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
    await until(lambda: len(listener._sessions) <= 16)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"cookie wrong\n")
    assert await reader.readline() == b"-1\n"  # it is served
    assert await silent[0][0].read() == b""  # the oldest was closed
    for _, each in [*silent, (reader, writer)]:
        each.close()
    await listener.close()
