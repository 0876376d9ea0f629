"""Keeps the certificate of this host fresh: the master asks the collector for another when a third of its life is left.

The key stays, so that daemons which have given up root can take the new certificate: they read it when the next
connection is made (:mod:`slotwise.wire.tls`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import grpc

from slotwise.daemon.host_tls import HostTls
from slotwise.daemon.locate import collector_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.wire import authority, channel
from slotwise.wire.gen import node_pb2, node_pb2_grpc
from slotwise.wire.status import to_error

_log = logging.getLogger(__name__)
#: The longest time between two looks, and the shortest, in seconds; hosts hear of further authorities in the former.
_SELDOM_S, _OFTEN_S = 3600.0, 1.0
#: How long after a failure the collector is asked again, in seconds.
_AGAIN_S = 60.0
_CALL_S = 20.0


class CertificateRenewal:
    """Renews the certificate of this host, where the pool's own authority issued it.

    :param renewed: called when the host has a new one.
    """

    def __init__(self, context: DaemonContext, renewed: Callable[[], Awaitable[None]]) -> None:
        self._context = context
        self._renewed = renewed
        self._files = HostTls(context.home)
        self._said = ""

    async def run(self) -> None:
        """Look again and again, for ever."""
        now, wait_s = self._context.clock.now, _OFTEN_S
        while True:
            await asyncio.sleep(wait_s)
            due_at = self._files.renewal_due_at()
            wait_s = _SELDOM_S
            if due_at is None:
                continue
            try:
                await self._ask(renew=now() >= due_at)
            except (grpc.RpcError, SlotwiseError, OSError) as failure:
                rpc = isinstance(failure, grpc.RpcError)
                self._say(str(to_error(failure, peer="the collector") if rpc else failure))
                wait_s = _AGAIN_S
                continue
            self._said = ""
            due_at = self._files.renewal_due_at()
            wait_s = _OFTEN_S if due_at is None else max(_OFTEN_S, min(_SELDOM_S, due_at - now()))

    def _say(self, why: str) -> None:
        if why != self._said:
            _log.warning("the certificate of this host: %s", why)
            self._said = why

    async def _ask(self, *, renew: bool) -> None:
        request = node_pb2.RenewRequest()
        if renew:
            request.csr = authority.request_for(authority.host_key(self._files.key), self._context.address.name.lower())
        target = collector_target(self._context)
        shown = self._context.credential.metadata(target)
        async with channel.open_async(target) as opened:
            reply = await node_pb2_grpc.NodesStub(opened).Renew(request, metadata=shown, timeout=_CALL_S)
        if reply.authorities and self._files.write(self._files.authorities, reply.authorities):
            _log.info("the authorities that the pool trusts have changed")
        if reply.certificate and self._files.write(self._files.certificate, reply.certificate):
            ends = time.strftime("%Y-%m-%d %H:%M", time.localtime(authority.ends_at(reply.certificate)))
            _log.info("the certificate of this host is renewed, until %s", ends)
            await self._renewed()
