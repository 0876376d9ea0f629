"""The stream on which the starter of a run speaks to this schedd, as claims and files see it."""

from __future__ import annotations

from typing import Protocol

from slotwise.wire.gen import schedd_pb2


class StarterLink(Protocol):
    """The stream to a run's starter, which serves all runs there."""

    #: Ids of the runs that have said hello on it.
    runs: set[str]
    #: Nobody reads along: files that are to be encrypted may go over it.
    private: bool

    @property
    def closed(self) -> bool:
        """The stream is over: nothing that is sent arrives."""
        ...

    def send(self, message: schedd_pb2.ShadowMessage) -> None:
        """Send a message, in order."""
        ...

    async def send_piece(self, message: schedd_pb2.ShadowMessage) -> None:
        """Send something large; waits while much is on its way."""
        ...
