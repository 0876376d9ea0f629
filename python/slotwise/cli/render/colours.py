"""Colours of states in tables on terminals, as numbers of ANSI terminals, and how wide columns are there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, GREY = "31", "32", "33", "34", "35", "36", "90"

#: The colour of a cell by its text; empty: the terminal's own.
Colour = Callable[[str], str]

_SLOTS = {
    "Claimed": GREEN, "Preempting": YELLOW, "Matched": CYAN, "Unclaimed": BLUE, "Owner": GREY, "Drained": MAGENTA,
    "Backfill": CYAN,
}  # fmt: skip
_ACTIVITIES = {"Busy": GREEN, "Suspended": YELLOW, "Vacating": YELLOW, "Killing": RED, "Retiring": YELLOW}
_JOBS = {"R": GREEN, "<": CYAN, ">": CYAN, "I": YELLOW, "H": RED, "S": YELLOW, "X": GREY, "C": GREY}
#: The pairs of letters of compact views: the state of the slot first.
_LETTERS = {"C": GREEN, "P": YELLOW, "M": CYAN, "U": BLUE, "O": GREY, "D": MAGENTA, "B": CYAN}
_HOSTS = {"up": GREEN, "absent": RED, "draining": YELLOW, "removed": GREY}


def none(_text: str) -> str:
    """No colour."""
    return ""


def slot_state(text: str) -> str:
    """Of a slot's State."""
    return _SLOTS.get(text.strip(), "")


def activity(text: str) -> str:
    """Of a slot's Activity."""
    return _ACTIVITIES.get(text.strip(), "")


def slot_letters(text: str) -> str:
    """Of the state and activity of a compact view: ``Ci``."""
    return _LETTERS.get(text.strip()[:1], "")


def job_status(text: str) -> str:
    """Of the letter that stands for a JobStatus."""
    return _JOBS.get(text.strip()[:1], "")


def host_state(text: str) -> str:
    """Of a host that the pool has admitted."""
    return _HOSTS.get(text.strip(), "")


def count_in(colour: str) -> Colour:
    """``colour`` for a number of jobs above 0; ``_`` stands for 0 in tables."""
    return lambda text: colour if text.strip() not in ("", "0", "_", "-") else ""


class Segment(NamedTuple):
    """A part of a line, and its colour. ``whole``: shown in full or not at all; a part of a number is another one."""

    text: str
    colour: str = ""
    whole: bool = False


def joined(segments: Sequence[Segment], width: int, *, coloured: bool) -> str:
    """A line of at most ``width`` characters (0: of any number), without blanks at its end."""
    fitting: list[Segment] = []
    left = width or sum(len(segment.text) for segment in segments)
    for segment in segments:
        if len(segment.text) > left and segment.whole:
            break
        fitting.append(segment._replace(text=segment.text[:left]))
        left -= len(fitting[-1].text)
    while fitting and not fitting[-1].text.rstrip():
        fitting.pop()
    line = ""
    for place, (text, colour, _) in enumerate(fitting):
        bare = text.rstrip()
        blanks = text[len(bare) :] if place < len(fitting) - 1 else ""
        line += (f"\033[{colour}m{bare}\033[0m" if coloured and colour and bare else bare) + blanks
    return line


def fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widths of columns where ``room`` characters are there for them: the widest columns that may shrink give way
    first. ``least``: how narrow each may become (its own width where it may not)."""
    found = list(widths)
    while (excess := sum(found) - room) > 0:
        spare = [width - low for width, low in zip(found, least, strict=True)]
        if max(spare, default=0) <= 0:
            return found  # the end of the line is cut
        place = max(range(len(found)), key=lambda at: (spare[at] > 0, found[at]))
        second = max((width for at, width in enumerate(found) if at != place and spare[at] > 0), default=0)
        found[place] -= min(excess, spare[place], max(1, found[place] - second))
    return found


def shortened(text: str, width: int) -> str:
    """``text`` in ``width`` characters; ``+`` at its end says that there is more."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "+"
