"""Whether a transfer still gets on. Pure."""

from __future__ import annotations

#: Seconds without a byte, and between two looks at the rate.
PERIOD_S = 30.0


class Progress:
    """Watches one transfer: it fails when nothing has come after 30 seconds, or less than a byte a second in any 30
    seconds after that (HTCondor's ``xferInfo``).
    """

    def __init__(self) -> None:
        self._looked_s = 0.0
        self._received = self._sent = 0

    def is_stalled(self, elapsed_s: float, received: int, sent: int) -> bool:
        """Whether to give up, ``elapsed_s`` after the beginning with so many bytes moved so far."""
        if elapsed_s <= PERIOD_S:
            return False
        span = elapsed_s - self._looked_s
        if span > PERIOD_S:
            if received > 0 and received - self._received < span:
                return True
            if sent > 0 and sent - self._sent < span:
                return True
            self._looked_s, self._received, self._sent = elapsed_s, received, sent
        return received <= 0 and sent <= 0
