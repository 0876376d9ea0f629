"""Limits what a failure costs: an exception while a message is processed ends what that message is about, no more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType


class contained:
    """A context that logs an exception with its traceback, hands it to ``recover`` and goes on behind the block.

    What was done half must not stay behind, so ``recover`` releases what the failed work held: the run, the claim, the
    slot. Should that fail as well it is logged, too. Cancellation and the end of the process pass through.

    :param log: where to log.
    :param doing: what is being done, for the log: ``"run 12.0#1: ended"``.
    :param recover: called with the exception.
    """

    __slots__ = ("_doing", "_log", "_recover", "failed")

    def __init__(self, log: logging.Logger, doing: str, recover: Callable[[Exception], object] | None = None) -> None:
        self._log = log
        self._doing = doing
        self._recover = recover
        #: Whether the block raised.
        self.failed = False

    def __enter__(self) -> contained:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed = True
        self._log.error("%s failed: %s", self._doing, cause(error), exc_info=error)
        if self._recover is not None:
            try:
                self._recover(error)
            except Exception:
                self._log.exception("%s: the recovery failed, too", self._doing)
        return True


def cause(error: BaseException) -> str:
    """An exception in one line: its kind and what it says."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
