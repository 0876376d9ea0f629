"""The last error, as HTCondor's library keeps it for `lastError`."""

from __future__ import annotations

_last = ""


def remember(raised: Exception, cause: Exception) -> Exception:
    """Note ``cause`` for :func:`last` and give back the exception to raise."""
    global _last
    _last = str(cause)
    return raised


def note(fault: str) -> None:
    """Keep why an operator gave an error for :func:`last`; nothing when ``fault`` is empty."""
    global _last
    if fault:
        _last = fault


def last() -> str:
    """What was wrong with the last text that could not be parsed, or why the last expression that compared a text with
    something else is an error; empty when there was neither."""
    return _last
