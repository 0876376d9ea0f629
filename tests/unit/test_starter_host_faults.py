"""What is the host's fault does not hold the job; who connects to the io proxy in silence makes room."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from slotwise.execution.exit_status import How
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.starter.io_proxy.crowd import Crowd, FullError
from slotwise.starter.io_proxy.listener import _OF_ACCOUNT as of_account
from slotwise.starter.io_proxy.listener import _OF_JOB as of_job
from slotwise.starter.io_proxy.listener import IoProxyListener, JobIoProxy
from slotwise.starter.io_proxy.rules import ChirpRules
from slotwise.starter.job.failures import failure, scratch_failure
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.messages import RemoteIo

from tests.support.waiting import until

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[IoProxyListener, Connect]]:
    """A listener, and what connects to it."""
    listener = IoProxyListener()
    listener._listen()
    assert listener._socket is not None
    port = listener._socket.getsockname()[1]
    made: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        made.append(writer)
        return reader, writer

    try:
        yield listener, connect
    finally:
        for writer in made:
            writer.close()
        await listener.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EROFS, errno.ESTALE])
def test_errors_of_the_host_send_the_job_back(number: int) -> None:
    end = failure(OSError(number, os.strerror(number), "/execute/dir_1/it"))
    assert (end.how, end.reason_code, end.reason_subcode) == (How.EVICTED, Vacate.STARTER_ERROR, number)
    assert "/execute/dir_1/it" in end.reason


def test_of_a_link_that_cannot_be_made_the_link_is_named() -> None:
    end = failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/dev/shm/control", None, "/execute/dir_1/control"))
    assert "Cannot write to /execute/dir_1/control" in end.reason


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR])
def test_what_a_job_has_made_in_its_scratch_directory_holds_it(number: int) -> None:
    end = scratch_failure(OSError(number, os.strerror(number), "/execute/dir_1/it"))
    assert (end.how, end.reason_code, end.reason_subcode) == (How.HELD, Hold.IWD_ERROR, number)


@pytest.mark.parametrize("number", [errno.ENOTDIR, errno.ENOENT, errno.EACCES, errno.ENOSPC])
def test_a_scratch_directory_that_cannot_be_made_is_not_the_jobs_fault(number: int) -> None:
    end = scratch_failure(OSError(number, os.strerror(number), "/execute"), at_start=True)
    assert (end.how, end.reason_code) == (How.EVICTED, Vacate.STARTER_ERROR)


async def test_connections_that_say_nothing_make_room_for_those_that_ask() -> None:
    async with listening() as (listener, connect):
        silent = [await connect() for _ in range(3 * of_account)]
        await until(lambda: len(listener._tasks) <= of_account)
        reader, writer = await connect()
        writer.write(b"cookie wrong\n")
        assert await reader.readline() == b"-1\n"  # it is served
        assert await silent[0][0].read() == b""  # the oldest was closed


async def test_who_has_said_no_secret_has_a_kilobyte() -> None:
    async with listening() as (listener, connect):
        for said in (b"x" * 4096, b"x " * 2048, b"cookie wrong\n" * 300, b"cookie " + b"0" * 4096 + b"\n"):
            reader, writer = await connect()
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                heard = await reader.read()
                assert len(heard) <= 3 * 1024 // len(b"cookie wrong\n") + 8
            writer.close()
        await until(lambda: not listener._tasks)


async def test_who_says_no_secret_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotwise.starter.io_proxy.listener._INTRODUCTION_S", 0.2)
    async with listening() as (listener, connect):
        reader, writer = await connect()
        writer.write(b"get_job_attr Owner\n")
        assert await reader.readline() == b"-1\n"
        assert await reader.read() == b""
        await until(lambda: not listener._tasks)


async def test_a_job_has_its_share_of_connections_and_loses_them_with_its_end() -> None:
    async with listening() as (listener, connect):
        for name in ("1.0#1", "2.0#1"):
            listener._jobs[name] = JobIoProxy(RunJob(), ChirpRules(), lambda _: None)
        first, second = (b"cookie %s\n" % proxy.secret.encode() for proxy in listener._jobs.values())

        async def known(cookie: bytes) -> asyncio.StreamReader | None:
            reader, writer = await connect()
            writer.write(cookie)
            answer = await reader.readline()
            assert answer in (b"0\n", b"")
            return reader if answer else None

        made = [await known(first) for _ in range(of_job + 5)]
        assert made[of_job - 1] is not None and made[of_job:] == [None] * 5
        other = await known(second)
        assert other is not None
        listener.dismiss("1.0#1")
        for reader in made[:of_job]:
            assert reader is not None and await reader.read() == b""
        await until(lambda: len(listener._tasks) == 1)
        assert not other.at_eof()


async def test_what_is_sent_behind_the_secret_is_answered() -> None:
    async with listening() as (listener, connect):
        proxy = listener._jobs["1.0#1"] = JobIoProxy(RunJob(), ChirpRules(), lambda _: None)
        reader, writer = await connect()
        writer.write(b"cookie %s\nset_job_attr_delayed ChirpX 1\nget_job_attr_delayed ChirpX\n" % proxy.secret.encode())
        assert [await reader.readline() for _ in range(3)] == [b"0\n", b"0\n", b"1\n"]
        assert await reader.readexactly(1) == b"1"


async def test_of_a_job_that_stalls_few_requests_hold_data() -> None:
    async with listening() as (listener, connect):
        asked: list[RemoteIo] = []
        proxy = listener._jobs["1.0#1"] = JobIoProxy(RunJob(), ChirpRules(), asked.append)
        proxy.may_use_files = True
        for _ in range(6):
            reader, writer = await connect()
            writer.write(b"cookie %s\nputfile f 420 4000000\n" % proxy.secret.encode())
            assert await reader.readline() == b"0\n"
        await until(lambda: len(asked) == 2)
        reader, writer = await connect()
        writer.write(b"cookie %s\nstat f\n" % proxy.secret.encode())  # a small one is not kept waiting
        await until(lambda: len(asked) == 3)
        assert [request.op for request in asked] == ["write", "write", "stat"]


def test_a_crowd_of_one_owner_stands_in_nobody_elses_way() -> None:
    crowd: Crowd[str, int] = Crowd(3, 5, displaces=True)
    assert [crowd.add("mallory", one) for one in range(4)] == [None, None, None, 0]
    assert [crowd.add("bob", one) for one in (10, 11)] == [None, None]
    assert crowd.add("ann", 20) == 1  # of the one who has the most
    crowd.remove(10)
    crowd.remove(10)
    assert len(crowd) == 4 and crowd.of("bob") == [11]
    least: Crowd[str, int] = Crowd(2, 3, displaces=False)
    for owner, one in (("a", 1), ("b", 2), ("c", 3)):
        least.add(owner, one)
    with pytest.raises(FullError):
        least.add("d", 4)
    least.remove(1)
    least.add("b", 5)
    with pytest.raises(FullError):
        least.add("b", 6)
