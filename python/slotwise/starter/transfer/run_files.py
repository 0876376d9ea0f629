"""The files of one run: what has come, what was there before the job began, and what was sent."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.execution.keeper_spec import Identity
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.transfer.transfer import Inbox, Listing
from slotwise.starter.transfer.transfer_stats import OWN, Traffic


class RunFiles(Struct):
    """Where the transfers of a run stand."""

    #: Input files come only when they are asked for: a hook may have to run before.
    asks_for_inputs: bool = False
    #: Takes the input files; None until they may come.
    inbox: Inbox | None = None
    #: What was in the scratch directory before the job began: no output, unless it changes.
    before: Listing = field(default_factory=dict)
    #: Bytes of outputs that the access point was sent, those of live streams included.
    bytes_sent: int = 0
    #: Files in and out, by what means.
    received: Traffic = field(default_factory=Traffic)
    sent: Traffic = field(default_factory=Traffic)

    @property
    def bytes_received(self) -> int:
        """Bytes of input files that the access point has sent."""
        return self.inbox.received if self.inbox is not None else 0

    def open_inbox(self, directory: RunDirectory, identity: Identity) -> None:
        """Take input files from the first on."""
        self.close_inbox()
        self.inbox = Inbox(directory.scratch, identity)

    def close_inbox(self) -> None:
        """Close what a transfer has open: a file that stays open keeps its blocks, and a mount busy."""
        if self.inbox is not None:
            self.inbox.close()

    def inputs_complete(self) -> None:
        """All input files have come."""
        if self.inbox is not None:
            self.inbox.close()
            self.received.clear(OWN)
            self.received.add(OWN, self.inbox.files, self.inbox.received)
