"""What evicted runs have left, as FetchEvicted sends it."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from slotwise.schedd.users.superusers import SuperUsers
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint


async def left(schedd: RunningAccessPoint, data: bytes, suffix: str = "") -> Path:
    """A job, and a file of its evicted run."""
    cluster = await schedd.submit()
    directory = schedd.home.spool / "jobs" / str(cluster) / f"0{suffix}"
    directory.mkdir(parents=True)
    (directory / "state").write_bytes(data)
    return directory


async def test_files_are_found_after_an_interrupted_replacement(schedd: RunningAccessPoint) -> None:
    """Between two renames the former directory is put aside, and a schedd that dies then leaves it so."""
    directory = await left(schedd, b"half", ".old")
    query = schedd_pb2.EvictedQuery(id="1.0")
    pieces = [piece async for piece in schedd.stub.FetchEvicted(query, metadata=schedd.user)]
    assert pieces[0].directory == str(directory)
    assert [(piece.file.name, piece.file.data) for piece in pieces[1:]] == [(b"state", b"half")]


async def test_who_is_a_superuser_no_more_gets_no_further_part(schedd: RunningAccessPoint) -> None:
    await left(schedd, b"x" * 64_000_000)
    schedd.point.servicer.superusers = SuperUsers(("bob@here",))
    call = schedd.stub.FetchEvicted(schedd_pb2.EvictedQuery(id="1.0"), metadata=schedd.as_user("bob"))
    await call.read()
    schedd.point.servicer.superusers = SuperUsers()
    with pytest.raises(grpc.aio.AioRpcError, match="not a queue superuser any more"):
        while await call.read() is not grpc.aio.EOF:
            pass
