"""The negotiator's own copy of the pool's ads, kept by a subscription at the collector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from slotwise.daemon.locate import collector_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.table import AdTable
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.stream import WARN_AFTER, ReconnectingStream

_KINDS = ("Machine", "Scheduler")
_SLOTS, _CAPABILITIES, _SCHEDDS = ("Machine", False), ("Machine", True), ("Scheduler", False)


class Mirror(ReconnectingStream[collector_pb2.SubscribeReply]):
    """Slots, their capabilities, and access points. Changes are held back until the end of :meth:`held`.

    :param changed: called after slots have changed.
    :param joined: called when an access point has come up, for the first time or again.
    """

    def __init__(
        self, context: DaemonContext, changed: Callable[[], None], joined: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__("the collector", warn_after=WARN_AFTER)
        self._context = context
        self._changed = changed
        self._joined = joined
        self._lives: set[tuple[str, str]] = set()
        self._tables: dict[tuple[str, bool], AdTable] = {}
        self._arriving: dict[tuple[str, bool], AdTable] = {}
        self._waiting: list[collector_pb2.SubscribeReply] | None = None
        #: How often slots have changed.
        self.changes = 0
        #: Set once the initial ads have arrived.
        self.complete = asyncio.Event()
        self.start()

    @property
    def slots(self) -> AdTable:
        """Slot ads by name."""
        return self._tables.setdefault(_SLOTS, AdTable())

    @property
    def capabilities(self) -> AdTable:
        """Claim ids by slot name."""
        return self._tables.setdefault(_CAPABILITIES, AdTable())

    @property
    def schedds(self) -> AdTable:
        """Ads of access points by name."""
        return self._tables.setdefault(_SCHEDDS, AdTable())

    @contextmanager
    def held(self) -> Iterator[AdTable]:
        """The slots for a cycle to work on; changes of all tables that arrive meanwhile are applied at the end."""
        self._waiting = []
        try:
            yield self.slots
        finally:
            waiting, self._waiting = self._waiting or [], None
            for reply in waiting:
                self._take(reply)

    # ---- the subscription

    async def target(self) -> str:
        """Where the collector answers."""
        return collector_target(self._context)

    def call(self, opened: grpc.aio.Channel, target: str) -> grpc.aio.UnaryStreamCall:
        """Subscribe. The initial ads replace the present ones only once they are complete."""
        self._arriving = {which: AdTable() for which in (_SLOTS, _CAPABILITIES, _SCHEDDS)}
        if self._waiting is not None:
            self._waiting = []
        request = collector_pb2.SubscribeRequest(kinds=_KINDS, include_private=True)
        shown = self._context.credential.metadata(target)
        return collector_pb2_grpc.CollectorStub(opened).Subscribe(request, metadata=shown)

    def received(self, frame: collector_pb2.SubscribeReply) -> None:
        """Apply changes, or hold them back until the end of :meth:`held`."""
        if self._waiting is None:
            self._take(frame)
        else:
            self._waiting.append(frame)

    def _take(self, reply: collector_pb2.SubscribeReply) -> None:
        which = (reply.kind, reply.private)
        table = self._arriving.get(which)
        if table is None:
            table = self._tables.setdefault(which, AdTable())
        if reply.pack:
            table.apply(reply.pack)
        if reply.complete:
            self._tables[which] = table
            self._arriving.pop(which, None)
            if which == _SCHEDDS:
                self.complete.set()
        if which == _SLOTS and which not in self._arriving:
            self.changes += 1
            self._changed()
        if which == _SCHEDDS and which not in self._arriving:
            self._see_schedds()

    def _see_schedds(self) -> None:
        names, starts = self.schedds.values(["Name", "DaemonStartTime"])
        lives = {(str(name), str(start)) for name, start in zip(names, starts, strict=True)}
        new, self._lives = lives - self._lives, lives
        if new:
            self._joined()
