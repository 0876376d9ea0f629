"""What `slotwise glidein` hands to the process that keeps the glide-in, and with which statuses both end."""

from __future__ import annotations

import json

from msgspec import Struct, to_builtins

from slotwise.glidein.plan import Settings

#: Statuses of the command. Scripts use them: see docs/guides/glideins.md.
ENDED, NOT_JOINED, FAILED = 0, 3, 4
#: The home in its directory; short, as paths of sockets are.
HOME = "h"


class Order(Struct, frozen=True):
    """What the command hands to its guard, as a line of JSON.

    :param directory: a directory of this glide-in alone, in which the guard makes its home; it removes it.
    :param reserve_s: kept for jobs that do not say how long they run; None: the default.
    :param notice_s: how long after SIGTERM the batch system kills the job.
    :param join_s: how long the central manager may take to answer.
    """

    directory: str
    token: str
    settings: Settings
    ends_at: float | None
    reserve_s: float | None
    notice_s: float
    join_s: float
    shows_logs: bool

    def text(self) -> str:
        """As a line."""
        return json.dumps(to_builtins(self)) + "\n"

    @classmethod
    def of_text(cls, text: str) -> Order:
        """The order of a line that :meth:`text` made."""
        said = json.loads(text)
        settings = said.pop("settings")
        return cls(settings=Settings(**{**settings, "knobs": tuple(settings["knobs"])}), **said)
