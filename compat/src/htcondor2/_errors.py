"""The exception of htcondor2, and how errors of Slotwise become it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slotwise.errors import SlotwiseError


class HTCondorException(Exception):
    """A daemon could not be reached, or refused what was asked of it."""


@contextmanager
def as_htcondor() -> Iterator[None]:
    """Raise errors of Slotwise as :class:`HTCondorException`, with their texts and the original as the cause."""
    try:
        yield
    except SlotwiseError as error:
        raise HTCondorException(str(error)) from error
