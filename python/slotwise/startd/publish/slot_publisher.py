"""Advertises the slots of this host, and the startd itself.

The first change after a quiet time goes at once; those that follow within :data:`GATHER_S` go together. Claim
capabilities travel as private ads of the same keys. Every UPDATE_INTERVAL all slots are sampled anew and sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import grpc

from slotwise.classad.evaluate import Expr, tree_of
from slotwise.daemon.publish import AdUpdate, Publisher
from slotwise.errors import PeerUnavailableError
from slotwise.model.slot import SlotKind
from slotwise.startd.dispatcher import Driver
from slotwise.startd.host import drain
from slotwise.startd.publish.daemon_ad import daemon_attributes
from slotwise.startd.records.slot_record import Holding
from slotwise.table import PackBuilder, split_pack
from slotwise.wire.channel import open_async
from slotwise.wire.credential import Credential
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.sizes import PIECE

_log = logging.getLogger(__name__)

#: Changes within this time travel together (seconds).
GATHER_S = 0.1
#: Kinds of ads.
_SLOTS, _DAEMON = "Machine", "StartDaemon"


class SlotPublisher(Publisher):
    """Keeps the collector's picture of this host up to date.

    :param sample: measures the host, before all slots are sent.
    """

    def __init__(
        self,
        driver: Driver,
        target: Callable[[], str],
        credential: Credential,
        *,
        sample: Callable[[], None] = lambda: None,
    ) -> None:
        self._driver = driver
        self._slots = SlotSource(driver, sample)
        super().__init__(
            self._slots,
            target,
            credential,
            interval_s=lambda: driver.point.settings.timers.update_s,
            gather_s=GATHER_S,
        )
        driver.ads_changed = self.publish

    async def pause(self) -> None:
        """Say nothing until :meth:`start`, which sends whole ads again; the collector keeps what it has."""
        await self.close()
        self._slots.sent.clear()

    async def tell_offline(self, timeout_s: float) -> bool:
        """Have the collector keep the ads of all slots as offline; whether it has acknowledged each of them."""
        slots = len(self._driver.point.holdings)
        packs = [update.pack for update in self._slots.whole_slots() if not update.private]
        self._slots.sent.clear()
        pieces = [piece for pack in packs for piece in split_pack(pack, PIECE)]
        requests = [
            collector_pb2.AdvertiseRequest(kind=_SLOTS, pack=piece, serial=serial, goes_offline=True)
            for serial, piece in enumerate(pieces)
        ]
        accepted = 0
        try:
            target = await self.target()
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


class SlotSource:
    """The ads of slots and of the startd, and what the collector has of them."""

    def __init__(self, driver: Driver, sample: Callable[[], None]) -> None:
        self._driver = driver
        self._sample = sample
        #: Slots that the collector has from this stream, and the capability it was told for each.
        self.sent: dict[str, str] = {}
        self._updates: dict[str, int] = {}

    def whole(self) -> Iterable[AdUpdate]:
        """All slots, and the startd."""
        return [*self.whole_slots(), self._daemon()]

    def changes(self) -> Iterable[AdUpdate]:
        """Slots that changed, and the startd if its own ad is to be sent with them."""
        updates = self._changed_slots()
        if self._driver.own_ad:
            self._driver.own_ad = False
            updates.append(self._daemon())
        return updates

    def confirmation(self) -> Iterable[AdUpdate]:
        """All slots as they are measured now."""
        self._sample()
        daemon = self._daemon()
        self._driver.touch_all()
        self._driver.flush()
        return [daemon, *self.changes()]

    def missing(self, keys: Iterable[str]) -> None:
        """Send these slots whole."""
        for key in keys:
            if key in self._driver.point.holdings:
                self.sent.pop(key, None)
                self._driver.unsent[key] = None

    def advertised(self) -> Iterable[tuple[str, list[str]]]:
        """What the collector has; the startd's own ad is with its slots."""
        return [(_SLOTS, list(self.sent)), (_DAEMON, [self._driver.point.settings.name])] if self.sent else []

    # --------------------------------------------------------------------------------------------------------- packs

    def whole_slots(self) -> list[AdUpdate]:
        """All slots, whole, and the end of those that went while there was no stream, or no startd."""
        driver = self._driver
        self.sent.clear()
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
        return _slot_updates(public, private)

    def _changed_slots(self) -> list[AdUpdate]:
        """What changed since the last time: removals, new slots whole, else changed attributes."""
        driver = self._driver
        unsent, gone = list(driver.unsent), list(driver.gone)
        driver.unsent.clear()
        driver.gone.clear()
        public, private = PackBuilder(), PackBuilder()
        drain.publish(driver.point, driver.clock.now())
        for name in gone:
            if self.sent.pop(name, None) is not None:
                self._updates.pop(name, None)
                public.remove(name)
                private.remove(name)
        holdings = driver.point.holdings
        waiting = sorted((holdings[name] for name in unsent if name in holdings), key=_after_its_children)
        for h in waiting:
            name = h.name
            if name not in self.sent:
                self._upsert(h, public, private)
                continue
            self._update(h, public)
            if self.sent[name] != h.capability:
                self._private(h, private)
        # What is new of a dynamic slot is also in the lists of the slot that it was carved from.
        shown = {h.name for h in waiting}
        for name in {h.parent: None for h in waiting if h.parent is not None and h.parent not in shown}:
            parent = holdings.get(name)
            if parent is not None and name in self.sent and driver.point.show_children(parent):
                self._delta(parent, public)
        return _slot_updates(public, private)

    def _daemon(self) -> AdUpdate:
        """The startd's own ad, whole; nothing when ENABLE_STARTD_DAEMON_AD says no."""
        point = self._driver.point
        wanted = point.settings.config.get_text("ENABLE_STARTD_DAEMON_AD").lower()
        if wanted in ("false", "no", "0"):
            return AdUpdate(_DAEMON, b"")
        builder = PackBuilder()
        builder.upsert(point.settings.name, daemon_attributes(point, self._driver.clock.now()))
        return AdUpdate(_DAEMON, builder.finish())

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
        self.sent[h.name] = h.capability

    def _next_number(self, h: Holding) -> int:
        self._updates[h.name] = self._updates.get(h.name, 0) + 1
        return self._updates[h.name]


def _slot_updates(public: PackBuilder, private: PackBuilder) -> list[AdUpdate]:
    """What the collector is sent of slots."""
    updates = []
    if len(public):
        updates.append(AdUpdate(_SLOTS, public.finish()))
    if len(private):
        updates.append(AdUpdate(_SLOTS, private.finish(), private=True))
    return updates


def _after_its_children(h: Holding) -> bool:
    """Sorts slots so that one that lists others comes after them."""
    return h.kind is SlotKind.PARTITIONABLE
