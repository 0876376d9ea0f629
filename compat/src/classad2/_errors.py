"""The last error, as HTCondor's library keeps it for `lastError`."""

from __future__ import annotations

_last = ""


def remember(raised: Exception, cause: Exception) -> Exception:
    """Note ``cause`` for :func:`last` and give back the exception to raise."""
    global _last
    _last = str(cause)
    return raised


def last() -> str:
    """What was wrong with the last text that could not be parsed; empty when none was."""
    return _last
