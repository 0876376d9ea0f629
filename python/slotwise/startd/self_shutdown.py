"""How the startd ends by its own wish and stays ended: a master would start it again, so it is asked not to.

Source: manual, "condor_drain" (-exit-on-completion) and STARTD_NOCLAIM_SHUTDOWN.
"""

from __future__ import annotations

import logging

import grpc

from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import PeerUnavailableError
from slotwise.wire import address
from slotwise.wire.channel import open_async
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

_log = logging.getLogger(__name__)


async def for_good(context: DaemonContext, *, with_host: bool) -> None:
    """End, and stay ended; ``with_host``: the master and all it keeps end, too."""
    try:
        target = address.lookup(context.home, "master").local
        shown = context.credential.family(target)
        async with open_async(target) as channel:
            if with_host:
                shutdown = daemon_pb2.ShutdownRequest(mode=daemon_pb2.ShutdownRequest.GRACEFUL)
                await daemon_pb2_grpc.DaemonStub(channel).Shutdown(shutdown, metadata=shown, timeout=10)
            else:
                stop = daemon_pb2.StopRequest(names=["startd"], mode=daemon_pb2.ShutdownRequest.GRACEFUL, at_once=True)
                await daemon_pb2_grpc.MasterStub(channel).StopDaemons(stop, metadata=shown, timeout=10)
    except (PeerUnavailableError, grpc.RpcError) as error:
        _log.info("cannot reach the master to request shutdown: %s", error)
        context.request_stop("graceful")
