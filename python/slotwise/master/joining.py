"""How a host becomes part of a pool, and stays part of it: its master asks the central manager.

A host that has no token yet asks for one, bound to the key that the host made for itself, and waits for an
administrator's approval; nothing that is sent either way is worth anything to others. With a token, the master asks
the collector twice a minute, and at each reconfig, for the pool's public keys and for what is revoked, and has the
token renewed in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import Iterable

import grpc

from slotwise import ids
from slotwise.daemon.locate import collector_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.wire import channel, keys
from slotwise.wire.credential import require_safe
from slotwise.wire.gen import common_pb2, token_pb2, token_pb2_grpc
from slotwise.wire.keys import PoolSecrets, PoolTrust
from slotwise.wire.status import to_error
from slotwise.wire.token import levels_of, write_secret

_log = logging.getLogger(__name__)
#: How often the collector is asked what to trust, and how often for the answer to a request, in seconds.
SYNC_S, ASK_S = 30.0, 2.0
_CALL_S = 10.0
#: In `run/`: the request that waits for approval.
JOIN_FILE = "join.request"


class Membership:
    """Keeps this host in its pool."""

    def __init__(self, context: DaemonContext, daemons: Iterable[str]) -> None:
        self._context = context
        self._levels = levels_of(daemons)
        self._secrets = PoolSecrets(context.home)
        self._said = ""
        self._asked = asyncio.Event()

    def ask_now(self) -> None:
        """Ask the central manager at once, so that a revocation there takes effect."""
        self._asked.set()

    async def run(self) -> None:
        """Ask the central manager again and again, for ever."""
        while True:
            try:
                if self._secrets.has_word:
                    await self._sync()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(SYNC_S):
                            await self._asked.wait()
                    self._asked.clear()
                else:
                    await self._join()
            except grpc.RpcError as failure:
                self._say(str(to_error(failure, peer="the collector")))
                await asyncio.sleep(ASK_S)
            except SlotwiseError as error:
                self._say(str(error))
                await asyncio.sleep(ASK_S)

    def _say(self, why: str) -> None:
        if why != self._said:
            _log.warning("this host's place in the pool: %s", why)
            self._said = why

    async def _sync(self) -> None:
        target = collector_target(self._context)
        async with channel.open_async(target) as opened:
            shown = self._context.credential.metadata(target)
            reply = await token_pb2_grpc.TokensStub(opened).Sync(common_pb2.Empty(), metadata=shown, timeout=_CALL_S)
        self._said = ""
        self._trust(reply.trust)
        if reply.token:
            write_secret(self._secrets.token_file, reply.token + "\n")
            _log.info("the pool renewed the token of this host")

    def _note(self, asked: dict[str, str] | None) -> None:
        """Let `slotwise up` show what is requested."""
        path = self._context.home.run / JOIN_FILE
        if asked is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(json.dumps(asked) + "\n")

    def _trust(self, text: str) -> None:
        fresh = PoolTrust.of_text(text)
        if fresh.text() != self._secrets.trust().text():
            self._secrets.write_trust(fresh)
            _log.info("the pool's keys or revocations have changed")

    async def _join(self) -> None:
        self._note(None)
        target, host = collector_target(self._context), self._context.address.name
        require_safe(target)
        secret = ids.secret(256)
        request = token_pb2.TokenRequest(
            identity=f"condor@{host}",
            scopes=self._levels,
            client_id=host,
            secret_digest=hashlib.sha256(secret.encode()).hexdigest(),
            public_key=keys.public_text(self._secrets.host_key().public),
        )
        async with channel.open_async(target) as opened:
            stub = token_pb2_grpc.TokensStub(opened)
            reply = await stub.Request(request, timeout=_CALL_S)
            _log.warning(
                "this host asks to join the pool: request %s, code %s; an administrator approves it on the central "
                "manager with `slotwise token approve %s`",
                reply.request_id,
                reply.code,
                reply.request_id,
            )
            self._note({"request": reply.request_id, "code": reply.code, "collector": target})
            asked = token_pb2.CollectTokenRequest(request_id=reply.request_id, secret=secret)
            while not self._secrets.token_file.exists():  # an administrator may bring one by hand
                await asyncio.sleep(ASK_S)
                try:
                    answer = await stub.Collect(asked, timeout=_CALL_S)
                except grpc.RpcError as failure:
                    error = to_error(failure, peer="the collector")
                    if isinstance(error, NotFoundError):
                        return  # the collector is a new one, or an hour has passed: ask again
                    raise
                if answer.token:
                    self._trust(answer.trust)
                    write_secret(self._secrets.token_file, answer.token + "\n")
                    _log.info("this host has joined the pool %s", self._secrets.trust().pool)
                    self._note(None)
                    return
