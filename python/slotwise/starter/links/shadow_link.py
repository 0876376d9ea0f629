"""The starter's streams to shadows: one per schedd, many runs on each, opened again after a break.

The first message of a stream lists all runs for that schedd; then each run says hello. While a stream is broken, runs
go on; what they have to report is part of their state, and is reported when the shadow accepts them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import grpc

from slotwise.daemon.containment import contained
from slotwise.errors import DeniedError
from slotwise.ids import doing_for_run
from slotwise.starter.convert import shadow_message, shadow_report
from slotwise.starter.messages import FromShadow, Hello, Output, StreamPiece, ToShadow
from slotwise.wire.channel import uses_tls
from slotwise.wire.contact import key_of
from slotwise.wire.credential import Metadata, TokenCredential, places
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.run_tokens import for_stream
from slotwise.wire.stream import BundledStream
from slotwise.wire.tls import is_loopback

_log = logging.getLogger(__name__)

#: A stream without runs is closed after this long, seconds.
_IDLE_S = 120.0


class LinkedRun(Protocol):
    """What the link needs of a run."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        ...

    @property
    def token(self) -> str:
        """Proves to the shadow that the run was assigned by its startd."""
        ...

    def hello(self) -> Hello:
        """The greeting on a new stream."""
        ...

    def hear(self, message: FromShadow) -> None:
        """Process a message of the shadow about this run."""
        ...

    def link_lost(self) -> None:
        """The stream broke."""
        ...

    def fail(self, error: BaseException) -> None:
        """Something about this run could not be processed: it ends."""
        ...


class ShadowLink(BundledStream[schedd_pb2.StarterMessage, schedd_pb2.ShadowMessage]):
    """The stream to the shadows of one schedd."""

    def __init__(
        self,
        address: str,
        own_address: str,
        on_idle: Callable[[ShadowLink], None],
    ) -> None:
        super().__init__(f"the shadow at {address}", weigh=_weight)
        self.address = address
        places.name(address)  # the startd has it from the schedd that holds the claim
        self._own_address = own_address
        self._streams = 0
        self._on_idle = on_idle
        self._idle: asyncio.TimerHandle | None = None
        self.runs: dict[str, LinkedRun] = {}
        self.start()

    @property
    def private(self) -> bool:
        """No third party can read it: it is encrypted, or does not leave this machine."""
        if self.address.startswith("unix:") or key_of(self.address):
            return True
        return uses_tls() or is_loopback(self.address.rpartition(":")[0])

    # ---- for runs

    def add(self, run: LinkedRun) -> None:
        """A run joins; it says hello at once if the stream is open."""
        self._end_idling()
        self.runs[run.run_id] = run
        if self.connected:
            self._greet(run)

    def report(self, run_id: str, report: ToShadow) -> None:
        """Send a run's report."""
        self.send(shadow_report(run_id, report))

    async def report_piece(self, run_id: str, piece: Output | StreamPiece) -> bool:
        """Send a part of a file once there is room for it; False when the stream broke."""
        return await self.send_piece(shadow_report(run_id, piece))

    def drop(self, run_id: str) -> None:
        """A run is over, as far as the shadow is concerned."""
        self.runs.pop(run_id, None)
        if not self.runs and self._idle is None:
            self._idle = asyncio.get_running_loop().call_later(_IDLE_S, self.hang_up)

    async def close(self) -> None:
        """Close the stream without a word to the runs."""
        self._end_idling()
        await super().close()

    def _end_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    # ---- the stream

    async def target(self) -> str:
        """Where the shadows answer."""
        return self.address

    def call(self, opened: grpc.aio.Channel, target: str) -> object:
        """Shadow."""
        return schedd_pb2_grpc.ScheddStub(opened).Shadow(metadata=self._shown())

    def _shown(self) -> Metadata:
        """The token of one of the runs, each time another one's: all are of the same schedd, if it says the truth."""
        runs = list(self.runs.values())
        if not runs:
            return ()
        self._streams += 1
        try:
            return TokenCredential(for_stream(runs[self._streams % len(runs)].token)).metadata(self.address)
        except DeniedError as error:
            _log.warning("%s", error)
            return ()

    def greeting(self) -> list[schedd_pb2.StarterMessage]:
        """All runs for this schedd; then each says hello."""
        self.established()
        mine = schedd_pb2.RunList(run_ids=list(self.runs), starter_address=self._own_address)
        for run in list(self.runs.values()):
            self._greet(run)
        return [schedd_pb2.StarterMessage(runs=mine)]

    def _greet(self, run: LinkedRun) -> None:
        def end(error: Exception) -> None:
            run.fail(error)
            self._hello(run)  # its end is still to be reported

        with contained(_log, doing_for_run(run.run_id, "greeting its shadow"), end):
            self._hello(run)

    def _hello(self, run: LinkedRun) -> None:
        message = shadow_report(run.run_id, run.hello())
        message.hello.starter_address = self._own_address
        self.send(message)

    def take(self, messages: list[schedd_pb2.ShadowMessage]) -> None:
        """Hand messages to the runs they are for."""
        for message in messages:
            run = self.runs.get(message.run_id)
            if run is not None:
                with contained(_log, doing_for_run(run.run_id, "processing a message of the shadow"), run.fail):
                    if (known := shadow_message(message)) is not None:
                        run.hear(known)

    def lost(self, *, was_connected: bool) -> None:
        """Report the break to the runs."""
        for run in list(self.runs.values()) if was_connected else ():
            with contained(_log, doing_for_run(run.run_id, "the break of its stream"), run.fail):
                run.link_lost()

    def wanted(self) -> bool:
        """Reconnect as long as there are runs."""
        return bool(self.runs)

    def given_up(self) -> None:
        """The stream is over: no run is left."""
        self._end_idling()
        self._on_idle(self)


def _weight(message: schedd_pb2.StarterMessage) -> int:
    """About how many bytes a message has; pieces of files are not encoded to find out."""
    data = len(message.output.data) + len(message.stream.data) + len(message.io.data)
    return data or message.ByteSize()
