"""Callers without a token cost a daemon no memory, however much they send."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import psutil
import pytest
from slotwise.wire import address

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

MIB = 1024 * 1024


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip], ids=["plain", "gzip"])
@pytest.mark.parametrize("method", ["/slotwise.v1.Collector/Query", "/slotwise.v1.Collector/Invalidate"])
def test_refused_calls_are_not_read(
    method: str, compression: grpc.Compression, make_pool: Callable[[str], Pool]
) -> None:
    pool = make_pool("DAEMON_LIST = COLLECTOR\n")
    pool.up()
    process = psutil.Process(pool.pid("collector"))
    before = process.memory_info().rss
    message = bytes(100 * MIB)

    def call(_: int) -> grpc.StatusCode:
        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(address.lookup(pool.home, "collector").tcp, options=options) as channel:
            try:
                channel.unary_unary(method)(message, compression=compression, timeout=LIMIT_S)
            except grpc.RpcError as error:
                return error.code()
        raise AssertionError("a call without a token was answered")

    with ThreadPoolExecutor(6) as threads:
        codes = set(threads.map(call, range(12)))
    # A compressed message is refused before anybody asks who sent it.
    assert codes <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED}
    assert process.memory_info().rss - before < 60 * MIB
    assert pool.answers("collector")
