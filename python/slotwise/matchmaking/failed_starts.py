"""What the ad of a waiting job tells of its last start that failed: explanations look here first. Pure."""

from __future__ import annotations

import time

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.values import whole

_IDLE = 1


class FailedStart(Struct, frozen=True):
    """A claim or an activation that was refused, or could not be asked for.

    ``at``: epoch seconds; ``slot``: where; ``count``: how many starts of the job have failed.
    """

    slot: str
    reason: str
    at: int
    count: int

    def words(self) -> str:
        """What happened, in one sentence."""
        times = "" if self.count < 2 else f" ({self.count} starts have failed)"
        return f"its last start, on {self.slot} at {time.ctime(self.at)}, failed: {self.reason.rstrip('.')}{times}."

    def lines(self) -> list[str]:
        """The same as lines of ``q -better-analyze``."""
        return [
            f"Last failed start: {time.ctime(self.at)} on {self.slot} ({self.count} in all)",
            f"Reason for last start failure: {self.reason}",
        ]

    def is_of(self, slot: str) -> bool:
        """Whether it was on this slot, or on one that was carved from it."""
        local, _, host = self.slot.partition("@")
        return slot in (self.slot, f"{local.rpartition('_')[0]}@{host}")


def failed_start(job: ClassAd) -> FailedStart | None:
    """The last start, if it failed and the job waits since."""
    at = whole(job.get("LastFailedStartTime"))
    if not at or whole(job.get("JobStatus"), _IDLE) != _IDLE or at < whole(job.get("LastMatchTime")):
        return None
    slot, reason = str(job.get("LastFailedStartSlot", "")), str(job.get("LastFailedStartReason", ""))
    return FailedStart(slot, reason, at, whole(job.get("NumFailedStarts"), 1))
