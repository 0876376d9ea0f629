"""A job names what the schedd has open, by a link of /proc: as its input, its log, its output, or through chirp."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from slotwise.schedd.shadow.chirp import on_files
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint


@pytest.fixture
def open_secret(tmp_path: Path) -> int:
    """The descriptor of a file of the schedd's process."""
    path = tmp_path / "secret"
    path.write_text("secret")
    return os.open(path, os.O_RDWR)


@pytest.mark.parametrize("attribute", ["TransferInput", "In", "Cmd"])
async def test_as_an_input(attribute: str, open_secret: int, schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    ad: dict[str, Any] = {attribute: f"/proc/self/fd/{open_secret}"}
    if attribute == "Cmd":
        ad["TransferExecutable"] = True
    await schedd.submit(**ad)
    await schedd.negotiate(point.address)

    async def held() -> bool:
        return [ad["JobStatus"] for ad in await schedd.jobs()] == [5]

    await schedd.until(held)
    (ad,) = await schedd.jobs()
    assert ad["HoldReasonCode"] == 13 and "Too many levels of symbolic links" in ad["HoldReason"]
    assert all(b"secret" not in data for run in point.runs.values() for data in run.inputs.values())
    os.close(open_secret)


async def test_as_an_event_log(open_secret: int, schedd: RunningAccessPoint, tmp_path: Path) -> None:
    await schedd.submit(UserLog=f"/proc/self/fd/{open_secret}")

    async def held() -> bool:
        return [ad["JobStatus"] for ad in await schedd.jobs()] == [5]

    await schedd.until(held)
    assert (tmp_path / "secret").read_text() == "secret"
    os.close(open_secret)


@pytest.mark.parametrize("op", ["read", "write", "stat", "getdir", "unlink", "rename", "mkdir", "rmdir"])
def test_through_chirp(op: str, open_secret: int, tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    inside = op in ("unlink", "rename", "mkdir", "rmdir", "getdir")
    name = (
        f"/proc/self/fd/{directory}/{'.' if op == 'getdir' else 'secret'}" if inside else f"/proc/self/fd/{open_secret}"
    )
    before = sorted(tmp_path.iterdir())
    io = schedd_pb2.RemoteIo(id=1, op=op, name=name, text=str(tmp_path / "new"), data=b"forged", length=100)
    done = on_files(io, str(tmp_path), "nobody-at-all", "nobody")
    assert done.error != 0 and done.data == b""
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "secret").read_text() == "secret"
    os.close(directory)
    os.close(open_secret)


async def test_databases_are_the_daemons_alone(schedd: RunningAccessPoint) -> None:
    await schedd.submit()
    found = [path for path in schedd.home.spool.iterdir() if path.is_file()]
    assert {path.name for path in found} >= {"schedd.sqlite", "schedd.sqlite-wal"}
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in found} == {path.name: "0o0" for path in found}
