"""A verb of a noun, and what it may touch: the caller's streams at a level of detail, and the pool's daemons."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from slotwise.cli.common.invocation import Invocation
    from slotwise.client import Collector, Schedd


class Call(Struct, frozen=True):
    """One call of the command. Messages go to standard error, as those of HTCondor's command; contents to the output.

    :param level: messages below it are not printed (levels of :mod:`logging`).
    """

    inv: Invocation
    level: int = logging.INFO

    def info(self, text: str = "") -> None:
        """Print a line of the answer."""
        self._say(logging.INFO, text)

    def error(self, text: str) -> None:
        """Print what went wrong."""
        self._say(logging.ERROR, text)

    def debug(self, text: str) -> None:
        """Print what ``-v`` shows."""
        self._say(logging.DEBUG, text)

    def _say(self, level: int, text: str) -> None:
        if level >= self.level:
            self.inv.err(text)

    def schedd(self) -> Schedd:
        """A client of this host's access point, or of the first that the pool has."""
        from slotwise.client import Schedd

        return Schedd(env=self.inv.env)

    def collector(self) -> Collector:
        """A client of the pool's collector."""
        from slotwise.client import Collector

        return Collector(env=self.inv.env)


class Verb(Struct, frozen=True):
    """What can be done to a noun.

    :param run: does it. Errors that it raises are printed, and end the command with status 1.
    :param arguments: adds its options to a parser; None: any words do, and are in ``words``.
    """

    help: str
    run: Callable[[Namespace, Call], None]
    arguments: Callable[[ArgumentParser], object] | None = lambda _: None


class Noun(Struct, frozen=True):
    """A kind of thing, and its verbs by name."""

    help: str
    verbs: dict[str, Verb]


def plural(count: float) -> str:
    """The ending of a noun that ``count`` stands before."""
    return "" if count == 1 else "s"


def time_span(seconds: float) -> str:
    """A time as ``2 seconds``, ``13 minutes``, ``5 hours`` or ``1 day 6 hours``."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} second{plural(max(seconds, 1))}"
    if seconds < 3600:
        minutes = round(seconds / 60)
        return f"{minutes} minute{plural(minutes)}"
    if seconds < 86400:
        hours = round(seconds / 3600)
        return f"{hours} hour{plural(hours)}"
    days, hours = round(seconds / 86400), round(seconds % 86400 / 3600)
    return f"{days} day{plural(days)} {hours} hour{plural(max(hours, 1))}"


def size(amount: float) -> str:
    """A number of bytes as ``256 B``, ``1.456 MB`` or ``34.983 GB``."""
    if amount < 1 << 10:
        return f"{amount:g} B"
    for power, unit in enumerate(("KB", "MB", "GB", "TB"), start=1):
        if amount < 1 << 10 * (power + 1) or unit == "TB":
            break
    return f"{amount / (1 << 10 * power):.3f} {unit}"
