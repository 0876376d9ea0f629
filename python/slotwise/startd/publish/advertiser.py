"""Sends slot ads to the collector: whole ones first, then what changed, gathered for a moment.

The first change after a quiet time goes at once; those that follow within :data:`GATHER_S` go together. Claim
capabilities travel as private ads of the same keys. Every UPDATE_INTERVAL all slots are sent, so that nothing expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import grpc

from slotwise.classad.evaluate import Expr, tree_of
from slotwise.errors import PeerUnavailableError
from slotwise.model.slot import SlotKind
from slotwise.startd.dispatcher import Driver
from slotwise.startd.host import drain
from slotwise.startd.host.slot_record import Holding
from slotwise.startd.publish.daemon_ad import daemon_attributes
from slotwise.table import PackBuilder, split_pack
from slotwise.wire.channel import open_async
from slotwise.wire.credential import Credential
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.sizes import PIECE

_log = logging.getLogger(__name__)

#: Changes within this time travel together (seconds).
GATHER_S = 0.1


class Advertiser:
    """Keeps the collector's picture of this host up to date."""

    def __init__(
        self,
        driver: Driver,
        target: Callable[[], str],
        credential: Credential,
        *,
        sample: Callable[[], None] = lambda: None,
        retry_s: float = 0.2,
    ) -> None:
        self._driver = driver
        self._target = target
        self._credential = credential
        self._sample = sample
        self._retry_s = retry_s
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Keys that the collector has from this stream, and the capability it was told for each.
        self._sent: dict[str, str] = {}
        self._serial = 0
        self._sequence = 0
        self._updates: dict[str, int] = {}

    def start(self) -> None:
        """Begin to advertise."""
        self._driver.ads_changed = self._changed.set
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def speaks(self) -> bool:
        """Whether it advertises."""
        return self._task is not None

    async def pause(self) -> None:
        """Say nothing until :meth:`start`, which sends whole ads again; the collector keeps what it has."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._task = None
        self._sent.clear()

    async def tell_offline(self, timeout_s: float) -> bool:
        """Have the collector keep the ads of all slots as offline; whether it has acknowledged each of them."""
        slots = len(self._driver.point.holdings)
        pack, _ = self._whole()
        self._sent.clear()
        pieces = split_pack(pack, PIECE) if pack else []
        requests = [
            collector_pb2.AdvertiseRequest(kind="Machine", pack=piece, serial=serial, goes_offline=True)
            for serial, piece in enumerate(pieces)
        ]
        accepted = 0
        try:
            target = self._target()
            async with open_async(target) as channel:
                stub = collector_pb2_grpc.CollectorStub(channel)
                shown = self._credential.metadata(target)
                async for reply in stub.Advertise(iter(requests), metadata=shown, timeout=timeout_s):
                    accepted += reply.accepted
                    for refusal in reply.refused:
                        _log.warning("the collector rejected an offline ad: %s", refusal)
        except (grpc.RpcError, PeerUnavailableError, OSError) as error:
            _log.warning("cannot tell the collector that this machine goes to sleep: %s", error)
            return False
        return accepted >= slots

    async def stop(self) -> None:
        """Stop, and take the ads back."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if not self._sent:
            return
        with contextlib.suppress(grpc.RpcError, PeerUnavailableError, TimeoutError):
            target = self._target()
            async with open_async(target) as channel:
                shown = self._credential.metadata(target)
                stub = collector_pb2_grpc.CollectorStub(channel)
                request = collector_pb2.InvalidateRequest(kind="Machine", keys=list(self._sent))
                await stub.Invalidate(request, metadata=shown, timeout=2)
                own = collector_pb2.InvalidateRequest(kind="StartDaemon", keys=[self._driver.point.settings.name])
                await stub.Invalidate(own, metadata=shown, timeout=2)

    async def _run(self) -> None:
        delay = self._retry_s
        while True:
            try:
                target = self._target()
                async with open_async(target) as channel:
                    await self._serve(channel, target)
                    delay = self._retry_s
            except asyncio.CancelledError:
                raise
            except (grpc.RpcError, PeerUnavailableError, OSError) as error:
                _log.debug("no connection to the collector: %s", error)
            except Exception:
                _log.exception("error in the connection to the collector")
            await asyncio.sleep(delay)
            delay = min(2.0, delay * 1.5)

    async def _serve(self, channel: grpc.aio.Channel, target: str) -> None:
        call = collector_pb2_grpc.CollectorStub(channel).Advertise(metadata=self._credential.metadata(target))
        self._sent.clear()
        reader = asyncio.get_running_loop().create_task(self._read(call))
        try:
            await self._send(call, self._whole())
            await self._put(call, "StartDaemon", self._daemon())
            while not reader.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._driver.point.settings.timers.update_s):
                        await _first(self._changed, reader)
                if reader.done():
                    break
                if self._changed.is_set():
                    self._changed.clear()
                    await self._send(call, self._changes())
                    if self._driver.own_ad:
                        self._driver.own_ad = False
                        await self._put(call, "StartDaemon", self._daemon())
                    await asyncio.sleep(GATHER_S)
                else:
                    self._sample()
                    await self._put(call, "StartDaemon", self._daemon())
                    self._driver.touch_all()
                    self._driver.flush()
            await reader
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.RpcError):
                await reader
            call.cancel()

    async def _read(self, call: Any) -> None:
        while (reply := await call.read()) is not grpc.aio.EOF:
            for key in reply.resend:
                if key in self._driver.point.holdings:
                    self._sent.pop(key, None)
                    self._driver.unsent[key] = None
                    self._changed.set()
            for refusal in reply.refused:
                _log.warning("the collector rejected an ad: %s", refusal)
        raise PeerUnavailableError("the collector ended the stream")

    async def _send(self, call: Any, packs: tuple[bytes, bytes]) -> None:
        public, private = packs
        for pack, is_private in ((public, False), (private, True)):
            await self._put(call, "Machine", pack, private=is_private)

    async def _put(self, call: Any, kind: str, pack: bytes, *, private: bool = False) -> None:
        for piece in split_pack(pack, PIECE) if pack else ():
            self._serial += 1
            said = collector_pb2.AdvertiseRequest(kind=kind, pack=piece, serial=self._serial, private=private)
            await call.write(said)

    # --------------------------------------------------------------------------------------------------------- packs

    def _whole(self) -> tuple[bytes, bytes]:
        """All slots, whole, and the end of those that went while there was no stream, or no startd."""
        driver = self._driver
        gone = [name for name in driver.gone if name not in driver.point.holdings]
        driver.unsent.clear()
        driver.gone.clear()
        public, private = PackBuilder(), PackBuilder()
        for name in gone:
            self._updates.pop(name, None)
            public.remove(name)
            private.remove(name)
        drain.publish(driver.point, driver.clock.now())
        for h in sorted(driver.point.holdings.values(), key=_after_its_children):
            self._upsert(h, public, private)
        return public.finish() if len(public) else b"", private.finish() if len(private) else b""

    def _changes(self) -> tuple[bytes, bytes]:
        """What changed since the last time: removals, new slots whole, else changed attributes."""
        driver = self._driver
        unsent, gone = list(driver.unsent), list(driver.gone)
        driver.unsent.clear()
        driver.gone.clear()
        public, private = PackBuilder(), PackBuilder()
        drain.publish(driver.point, driver.clock.now())
        for name in gone:
            if self._sent.pop(name, None) is not None:
                self._updates.pop(name, None)
                public.remove(name)
                private.remove(name)
        holdings = driver.point.holdings
        waiting = sorted((holdings[name] for name in unsent if name in holdings), key=_after_its_children)
        for h in waiting:
            name = h.name
            if name not in self._sent:
                self._upsert(h, public, private)
                continue
            self._update(h, public)
            if self._sent[name] != h.capability:
                self._private(h, private)
        # What is new of a dynamic slot is also in the lists of the slot that it was carved from.
        shown = {h.name for h in waiting}
        for name in {h.parent: None for h in waiting if h.parent is not None and h.parent not in shown}:
            parent = holdings.get(name)
            if parent is not None and name in self._sent and driver.point.show_children(parent):
                self._delta(parent, public)
        return public.finish() if len(public) else b"", private.finish() if len(private) else b""

    def _daemon(self) -> bytes:
        """The startd's own ad, whole; nothing when ENABLE_STARTD_DAEMON_AD says no."""
        point = self._driver.point
        wanted = point.settings.config.get_text("ENABLE_STARTD_DAEMON_AD").lower()
        if wanted in ("false", "no", "0"):
            return b""
        builder = PackBuilder()
        builder.upsert(point.settings.name, daemon_attributes(point, self._driver.clock.now()))
        return builder.finish()

    def _upsert(self, h: Holding, public: PackBuilder, private: PackBuilder) -> None:
        self._driver.point.show(h, self._driver.clock.now())
        ad = h.ad.copy()
        ad["UpdateSequenceNumber"] = self._next_number(h)
        public.upsert(h.name, ad)
        h.sent = h.shown
        self._private(h, private)

    def _update(self, h: Holding, public: PackBuilder) -> None:
        self._driver.point.show(h, self._driver.clock.now())
        self._delta(h, public)

    def _delta(self, h: Holding, public: PackBuilder) -> None:
        before, now = h.sent, h.shown
        delta = {name: value for name, value in now.items() if name not in before or before[name] != value}
        removed = [name for name in before if name not in now]
        plain = {name: tree_of(value) if isinstance(value, Expr) else value for name, value in delta.items()}
        plain["UpdateSequenceNumber"] = self._next_number(h)
        public.update(h.name, plain, removed)
        h.sent = now

    def _private(self, h: Holding, private: PackBuilder) -> None:
        children = [child.slot.claim.claim_id for child in self._driver.point.children(h) if child.slot.claim]
        private.upsert(
            h.name,
            {
                "MyType": "Machine",
                "Name": h.name,
                "MyAddress": h.shown.get("MyAddress", ""),
                "Capability": h.capability,
                "ClaimId": h.capability,
                "ChildClaimIds": children,
            },
        )
        self._sent[h.name] = h.capability

    def _next_number(self, h: Holding) -> int:
        self._updates[h.name] = self._updates.get(h.name, 0) + 1
        return self._updates[h.name]


def _after_its_children(h: Holding) -> bool:
    """Sorts slots so that one that lists others comes after them."""
    return h.kind is SlotKind.PARTITIONABLE


async def _first(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Until ``event`` is set or ``task`` has ended."""
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiter, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
