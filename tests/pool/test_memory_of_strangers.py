"""Callers without a token cost a daemon no memory, however much they send."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest
from slotwise.wire import address

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

MIB = 1024 * 1024


def _peak(pid: int) -> int:
    """The most memory that a process ever had (bytes)."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip], ids=["plain", "gzip"])
@pytest.mark.parametrize("method", ["/slotwise.v1.Collector/Query", "/slotwise.v1.Collector/Invalidate"])
def test_refused_calls_are_not_read(
    method: str, compression: grpc.Compression, make_pool: Callable[[str], Pool]
) -> None:
    pool = make_pool("DAEMON_LIST = COLLECTOR\n")
    pool.up()
    process = psutil.Process(pool.pid("collector"))
    before = _peak(process.pid)
    message = bytes(200 * MIB)

    def call(_: int) -> grpc.StatusCode:
        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(address.lookup(pool.home, "collector").tcp, options=options) as channel:
            try:
                channel.unary_unary(method)(message, compression=compression, timeout=LIMIT_S)
            except grpc.RpcError as error:
                return error.code()
        raise AssertionError("a call without a token was answered")

    with ThreadPoolExecutor(3) as threads:
        codes = set(threads.map(call, range(6)))
    # A compressed message is refused before anybody asks who sent it.
    assert codes <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED}
    # Not one of them was held at any time, as it came or unpacked.
    assert _peak(process.pid) - before < len(message)
    assert process.is_running()
    assert pool.answers("collector")
