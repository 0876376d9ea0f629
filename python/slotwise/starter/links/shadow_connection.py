"""A run's connection to its shadow, over whatever stream there is at the time."""

from __future__ import annotations

from typing import Protocol

from slotwise.starter.messages import Output, StreamPiece, ToShadow


class Link(Protocol):
    """A stream that a run shares with others; fetched work has one that ends in the starter."""

    @property
    def private(self) -> bool:
        """No third party can read it."""
        ...

    def report(self, run_id: str, report: ToShadow) -> None:
        """Send a run's report."""
        ...

    async def report_piece(self, run_id: str, piece: Output | StreamPiece) -> bool:
        """Send a part of a file once there is room for it; False when the stream broke."""
        ...

    def drop(self, run_id: str) -> None:
        """A run is over, as far as its shadow is concerned."""
        ...


class ShadowConnection:
    """Reports of one run to its shadow. What is reported while the stream is broken is dropped: a run
    reports its state when the shadow has accepted it again.

    :param now: when the run began to be without a shadow, on the monotonic clock.
    """

    def __init__(self, run_id: str, now: float) -> None:
        self._run_id = run_id
        self.link: Link | None = None
        #: The shadow knows the run on the present stream.
        self.accepted = False
        #: Since when no shadow knows of the run; None while one does.
        self.lost_at: float | None = now

    def accept(self) -> None:
        """The shadow has accepted the run."""
        self.accepted, self.lost_at = True, None

    def greet(self) -> None:
        """A new stream: the shadow has yet to accept the run there."""
        self.accepted = False

    def lose(self, now: float) -> None:
        """The stream broke, or could not be opened: the lease runs from the first break, not from the last attempt."""
        self.accepted = False
        if self.lost_at is None:
            self.lost_at = now

    def lease_expired(self, lease_s: float, now: float) -> bool:
        """Whether the run has been without a shadow for longer than its lease (0: for ever)."""
        return self.lost_at is not None and lease_s > 0 and now - self.lost_at > lease_s

    @property
    def private(self) -> bool:
        """No third party can read it."""
        return self.link is None or self.link.private

    def report(self, report: ToShadow) -> None:
        """Report something to the shadow."""
        if self.link is not None and self.accepted:
            self.link.report(self._run_id, report)

    async def send_piece(self, piece: Output | StreamPiece) -> bool:
        """Send a part of a file; False when the stream broke."""
        return self.link is not None and self.accepted and await self.link.report_piece(self._run_id, piece)

    def drop(self) -> None:
        """The run is over."""
        if self.link is not None:
            self.link.drop(self._run_id)
