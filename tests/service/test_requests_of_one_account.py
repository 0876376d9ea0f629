"""Requests for tokens count by who makes them: no account of the collector's host takes all places of the host."""

from __future__ import annotations

import hashlib
from pathlib import Path

import grpc
import pytest
from slotwise.clock import ManualClock
from slotwise.collector.tokens import TokenServicer
from slotwise.collector.waiting_room import MOST_OF_ADDRESS
from slotwise.home import PoolHome
from slotwise.wire.gen import token_pb2, token_pb2_grpc
from slotwise.wire.keys import PoolSecrets

from tests.support.serving import metadata, serving


def asked(n: int) -> token_pb2.TokenRequest:
    digest = hashlib.sha256(str(n).encode()).hexdigest()
    return token_pb2.TokenRequest(identity="ann@test", scopes=["READ"], secret_digest=digest)


async def test_twenty_requests_of_one_account_shut_no_other_account_out(tmp_path: Path) -> None:
    home = PoolHome(tmp_path)
    home.create()
    secrets = PoolSecrets(home)
    secrets.create("test")
    servicer = TokenServicer(secrets, ManualClock(1000.0), lambda: "")
    eve, ann = metadata("READ", identity="eve@test"), metadata("READ", identity="ann@test")
    async with serving(lambda s: token_pb2_grpc.add_TokensServicer_to_server(servicer, s)) as opened:
        stub = token_pb2_grpc.TokensStub(opened)
        for shown, first in ((eve, 0), (None, 1000), ((("authorization", "Bearer forged"),), 2000)):
            for n in range(MOST_OF_ADDRESS if shown is not None and first < 2000 else MOST_OF_ADDRESS // 2):
                await stub.Request(asked(first + n), metadata=shown)
        for shown in (eve, None):
            with pytest.raises(grpc.RpcError) as refused:
                await stub.Request(asked(5000), metadata=shown)
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        for n in range(MOST_OF_ADDRESS):
            await stub.Request(asked(6000 + n), metadata=ann)
