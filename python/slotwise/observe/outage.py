"""Logs a failure that lasts, such as a full disk: its begin, now and then that it goes on, and its end."""

from __future__ import annotations

import logging

#: A failure that goes on is logged again after this many seconds.
AGAIN_S = 60.0


class Outage:
    """One thing that may fail again and again; times are of a monotonic clock."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._began: float | None = None
        self._told = 0.0

    def failed(self, now: float, text: str, *args: object) -> None:
        """It has failed; the words are logged if it is the first time or they were last logged a while ago."""
        if self._began is None:
            self._began = now
        elif now - self._told < AGAIN_S:
            return
        self._told = now
        self._log.error(text, *args)

    def over(self, now: float, what: str) -> None:
        """It has worked; ``what`` works again is logged if it had failed."""
        if self._began is not None:
            self._log.warning("%s again, after %.1f s", what, now - self._began)
            self._began = None
