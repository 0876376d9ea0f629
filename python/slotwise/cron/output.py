"""The output of cron jobs as ads.

Lines ``name = expression`` make an ad; a line that begins with ``-`` ends it. A name may follow the dash, so that one
job has several ads, and ``update:true`` or ``update:false``.
"""

from __future__ import annotations

import logging
import re

from msgspec import Struct

from slotwise.classad.evaluate import Expr, literal_or_expression
from slotwise.cron.jobs import CronJob
from slotwise.errors import AdSyntaxError
from slotwise.model.words import truth

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Output(Struct, frozen=True):
    """An ad that a job printed. ``tag``: the name behind the dash; ``update``: whether the job wants it sent."""

    attributes: dict[str, bool | int | float | str | Expr | None]
    tag: str = ""
    update: bool | None = None


class Reader:
    """Assembles a job's lines into ads."""

    def __init__(self, job: CronJob) -> None:
        self._job = job
        self._lines: dict[str, bool | int | float | str | Expr | None] = {}

    def line(self, text: str) -> Output | None:
        """Add a line; returns the ad that it ends, if any."""
        text = text.strip()
        if text.startswith("-"):
            return self.end(text[1:])
        name, equals, value = text.partition("=")
        if not equals or text.startswith("#"):
            if text and not text.startswith("#"):
                _log.warning("cron job %s: %r is not an attribute", self._job.name, text)
            return None
        name = self._job.prefix + name.strip()
        if not _NAME.fullmatch(name):
            _log.warning("cron job %s: %r is not a valid attribute name", self._job.name, name)
            return None
        try:
            self._lines[name] = literal_or_expression(value)
        except (AdSyntaxError, ValueError) as error:
            _log.warning("cron job %s: %s: %s", self._job.name, name, error)
        return None

    def end(self, words: str = "") -> Output | None:
        """The ad so far; None if nothing was printed."""
        found, self._lines = self._lines, {}
        if not found:
            return None
        tag, update = "", None
        for number, word in enumerate(words.split()):
            key, colon, value = word.partition(":")
            if number == 0 and not colon:
                tag = word
            elif key.lower() == "update":
                update = truth(value) is not False
        return Output(found, tag, update)
