"""Advertises the slots of this host, and the startd itself.

The first change after a quiet time goes at once; those that follow within :data:`GATHER_S` go together. Claim
capabilities travel as private ads of the same keys. Every UPDATE_INTERVAL all slots are sampled anew and sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import grpc

from slotwise.classad.evaluate import Expr, Value, tree_of
from slotwise.daemon.publish import AdUpdate, Publisher
from slotwise.errors import PeerUnavailableError
from slotwise.model.slot import SlotKind
from slotwise.model.words import truth
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.publish.daemon_ad import advertised
from slotwise.startd.records.slot_record import SlotRecord
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
    """Keeps the ads of this host in the collector up to date.

    :param sample: measures the host, before all slots are sent.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        target: Callable[[], str],
        credential: Credential,
        *,
        sample: Callable[[], None] = lambda: None,
    ) -> None:
        self._dispatcher = dispatcher
        self._slots = SlotSource(dispatcher, sample)
        super().__init__(
            self._slots,
            target,
            credential,
            interval_s=lambda: dispatcher.point.settings.timers.update_s,
            gather_s=GATHER_S,
        )

    async def pause(self) -> None:
        """Advertise nothing until :meth:`start`, which sends whole ads again; the collector keeps what it has."""
        await self.close()
        self._slots.sent.clear()

    async def advertise_offline(self, timeout_s: float) -> bool:
        """Have the collector keep the ads of all slots as offline; whether it has acknowledged each of them."""
        slots = len(self._dispatcher.point.slots)
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
            _log.warning("could not advertise to the collector that this machine goes to sleep: %s", error)
            return False
        return accepted >= slots


class SlotSource:
    """The ads of slots and of the startd, and what the collector has of them."""

    def __init__(self, dispatcher: Dispatcher, sample: Callable[[], None]) -> None:
        self._dispatcher = dispatcher
        self._sample = sample
        #: Slots that the collector has from this stream, and the claim id that was advertised for each.
        self.sent: dict[str, str] = {}
        #: The attributes that were sent last, by slot.
        self._attributes: dict[str, dict[str, Value]] = {}
        self._updates: dict[str, int] = {}

    def whole(self) -> Iterable[AdUpdate]:
        """All slots, and the startd."""
        return [*self.whole_slots(), self._daemon()]

    def changes(self) -> Iterable[AdUpdate]:
        """Slots that changed, and the startd if its own ad is to be sent with them."""
        updates = self._changed_slots()
        if self._dispatcher.own_ad:
            self._dispatcher.own_ad = False
            updates.append(self._daemon())
        return updates

    def confirmation(self) -> Iterable[AdUpdate]:
        """All slots as they are measured now."""
        self._sample()
        daemon = self._daemon()
        self._dispatcher.touch_all()
        self._dispatcher.flush()
        return [daemon, *self.changes()]

    def missing(self, keys: Iterable[str]) -> None:
        """Send these slots whole."""
        for key in keys:
            if key in self._dispatcher.point.slots:
                self.sent.pop(key, None)
                self._dispatcher.unsent[key] = None

    def advertised(self) -> Iterable[tuple[str, list[str]]]:
        """What the collector has; the startd's own ad is with its slots."""
        return [(_SLOTS, list(self.sent)), (_DAEMON, [self._dispatcher.point.settings.name])] if self.sent else []

    # --------------------------------------------------------------------------------------------------------- packs

    def whole_slots(self) -> list[AdUpdate]:
        """All slots, whole, and the end of those that went while there was no stream, or no startd."""
        dispatcher = self._dispatcher
        self.sent.clear()
        gone = [name for name in dispatcher.gone if name not in dispatcher.point.slots]
        dispatcher.unsent.clear()
        dispatcher.gone.clear()
        public, private = PackBuilder(), PackBuilder()
        for name in gone:
            self._updates.pop(name, None)
            self._attributes.pop(name, None)
            public.remove(name)
            private.remove(name)
        dispatcher.point.drain.publish(dispatcher.clock.now())
        for record in sorted(dispatcher.point.slots, key=_after_its_children):
            self._upsert(record, public, private)
        return _slot_updates(public, private)

    def _changed_slots(self) -> list[AdUpdate]:
        """What changed since the last time: removals, new slots whole, else changed attributes."""
        dispatcher = self._dispatcher
        unsent, gone = list(dispatcher.unsent), list(dispatcher.gone)
        dispatcher.unsent.clear()
        dispatcher.gone.clear()
        public, private = PackBuilder(), PackBuilder()
        dispatcher.point.drain.publish(dispatcher.clock.now())
        for name in gone:
            if self.sent.pop(name, None) is not None:
                self._updates.pop(name, None)
                self._attributes.pop(name, None)
                public.remove(name)
                private.remove(name)
        slots = dispatcher.point.slots
        waiting = sorted((slots[name] for name in unsent if name in slots), key=_after_its_children)
        for record in waiting:
            name = record.name
            if name not in self.sent:
                self._upsert(record, public, private)
                continue
            self._update(record, public)
            if self.sent[name] != record.ids.current:
                self._private(record, private)
        # What is new of a dynamic slot is also in the lists of the slot that it was carved from.
        shown = {record.name for record in waiting}
        for of in dict.fromkeys(record.parent for record in waiting):
            parent = slots.get(of) if of not in shown else None
            if parent is not None and parent.name in self.sent and dispatcher.point.ads.show_children(parent):
                self._delta(parent, public)
        return _slot_updates(public, private)

    def _daemon(self) -> AdUpdate:
        """The startd's own ad, whole; nothing when ENABLE_STARTD_DAEMON_AD says no."""
        point = self._dispatcher.point
        if truth(point.settings.config.get_text("ENABLE_STARTD_DAEMON_AD")) is False:
            return AdUpdate(_DAEMON, b"")
        builder = PackBuilder()
        clock = self._dispatcher.clock
        builder.upsert(point.settings.name, advertised(point, clock.now(), clock.monotonic()))
        return AdUpdate(_DAEMON, builder.finish())

    def _upsert(self, record: SlotRecord, public: PackBuilder, private: PackBuilder) -> None:
        self._dispatcher.point.ads.show(record, self._dispatcher.clock.now())
        ad = record.ad.copy()
        ad["UpdateSequenceNumber"] = self._next_number(record)
        public.upsert(record.name, ad)
        self._attributes[record.name] = record.shown
        self._private(record, private)

    def _update(self, record: SlotRecord, public: PackBuilder) -> None:
        self._dispatcher.point.ads.show(record, self._dispatcher.clock.now())
        self._delta(record, public)

    def _delta(self, record: SlotRecord, public: PackBuilder) -> None:
        before, now = self._attributes.get(record.name, {}), record.shown
        delta = {name: value for name, value in now.items() if name not in before or before[name] != value}
        removed = [name for name in before if name not in now]
        plain = {name: tree_of(value) if isinstance(value, Expr) else value for name, value in delta.items()}
        plain["UpdateSequenceNumber"] = self._next_number(record)
        public.update(record.name, plain, removed)
        self._attributes[record.name] = now

    def _private(self, record: SlotRecord, private: PackBuilder) -> None:
        claims = (child.slot.claim for child in self._dispatcher.point.slots.children(record))
        children = [claim.claim_id for claim in claims if claim is not None]
        private.upsert(
            record.name,
            {
                "MyType": "Machine",
                "Name": record.name,
                "MyAddress": record.shown.get("MyAddress", ""),
                "Capability": record.ids.current,
                "ClaimId": record.ids.current,
                "ChildClaimIds": children,
            },
        )
        self.sent[record.name] = record.ids.current

    def _next_number(self, record: SlotRecord) -> int:
        self._updates[record.name] = self._updates.get(record.name, 0) + 1
        return self._updates[record.name]


def _slot_updates(public: PackBuilder, private: PackBuilder) -> list[AdUpdate]:
    """What the collector is sent of slots."""
    updates = []
    if len(public):
        updates.append(AdUpdate(_SLOTS, public.finish()))
    if len(private):
        updates.append(AdUpdate(_SLOTS, private.finish(), private=True))
    return updates


def _after_its_children(record: SlotRecord) -> bool:
    """Sorts slots so that one whose ad lists others follows them."""
    return record.kind is SlotKind.PARTITIONABLE
