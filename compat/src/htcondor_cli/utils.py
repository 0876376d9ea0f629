"""Times and sizes for people."""

from __future__ import annotations

from slotwise.cli.htcondor.verb import plural, size, time_span

#: A number of seconds as ``2 seconds`` or ``1 day 6 hours``.
readable_time = time_span
#: A number of bytes as ``1.456 MB``.
readable_size = size
#: The ending of a noun that a number stands before.
s = plural

__all__ = ["readable_size", "readable_time", "s"]
