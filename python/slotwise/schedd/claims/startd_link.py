"""One stream to one startd, over which all claims there are asked for, used and given back.

It says with ``hello`` which claims it believes to hold; requests go out once the startd has answered which it knows.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Protocol

import grpc

from slotwise.daemon.containment import contained
from slotwise.errors import SlotwiseError
from slotwise.wire.claim_text import log_message
from slotwise.wire.credential import Credential
from slotwise.wire.gen import startd_pb2, startd_pb2_grpc
from slotwise.wire.stream import BundledStream

_log = logging.getLogger(__name__)


class LinkOwner(Protocol):
    """Who takes what a link brings."""

    def hello(self, startd: str) -> startd_pb2.ScheddHello:
        """What to say first on a new stream."""
        ...

    def on_event(self, startd: str, event: startd_pb2.ClaimEvent) -> None:
        """The startd said something."""
        ...

    def on_failure(self, startd: str, event: startd_pb2.ClaimEvent, error: Exception) -> None:
        """:meth:`on_event` has raised: end what the event is about."""
        ...

    def on_break(self, startd: str) -> None:
        """The stream broke; requests without an answer are lost."""
        ...


class StartdLink(BundledStream[startd_pb2.ClaimRequest, startd_pb2.ClaimEvent]):
    """The stream to the startd at ``address``."""

    def __init__(self, address: str, owner: LinkOwner, credential: Credential) -> None:
        super().__init__(f"the startd at {address}")
        self.address = address
        self._owner = owner
        self._credential = credential
        #: The stream that broke last had got as far as the startd's answer to hello.
        self.heard = False

    def send(self, message: startd_pb2.ClaimRequest) -> None:
        """Say something; it is lost if the stream breaks before."""
        super().send(message)
        log_message("to the startd at %s: %s", self.address, message)

    # ---- the stream

    async def target(self) -> str:
        """Where the startd answers."""
        return self.address

    def call(self, opened: grpc.aio.Channel, target: str) -> Any:
        """Claims."""
        return startd_pb2_grpc.StartdStub(opened).Claims(metadata=self._credential.metadata(target))

    def greeting(self) -> list[startd_pb2.ClaimRequest]:
        """Which claims this schedd believes to hold."""
        return [startd_pb2.ClaimRequest(hello=self._owner.hello(self.address))]

    def take(self, messages: list[startd_pb2.ClaimEvent]) -> None:
        """Hand events to the owner.

        :raises SlotwiseError: when the list of known claims cannot be compared: only a new stream brings another one.
        """
        for event in messages:
            what = event.WhichOneof("what")
            if what == "known":
                self.established()
            log_message("from the startd at %s: %s", self.address, event)
            recover = partial(self._owner.on_failure, self.address, event)
            with contained(_log, f"processing {what!r} of {self.peer}", recover) as attempt:
                self._owner.on_event(self.address, event)
            if attempt.failed and what == "known":
                raise SlotwiseError("the claims that the startd knows could not be compared with those held")

    def lost(self, *, was_connected: bool) -> None:
        """Requests without an answer are lost."""
        self.heard = was_connected
        self._owner.on_break(self.address)
