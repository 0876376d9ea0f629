"""Ads in long form for readers that go by lines: history files, `.job.ad`, the input of hooks."""

from __future__ import annotations

import re

from slotwise.classad import ClassAd

#: Characters that end a line for some reader or move a terminal's cursor. A tab does neither.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def long_form(ad: ClassAd) -> str:
    """``Name = value`` lines, one for each attribute, whatever its name and value contain.

    HTCondor's form leaves line ends in strings as they are, so that a job's text could pass for another attribute, or
    for the end of the record. Here such characters are written as escapes, which old readers read as a backslash and
    letters.
    """
    text: str = ad.print_old()
    if text and not text.endswith("\n"):
        text += "\n"
    joined = text.replace("\n", "")
    # Most ads are printable throughout, and checking that takes a twentieth of the pattern's time.
    if text.count("\n") == len(ad) and (joined.isprintable() or _CONTROL.search(joined) is None):
        return text
    lines = (ClassAd({name: ad.lookup(name)}).print_old().removesuffix("\n") for name in ad)
    return "".join(f"{on_one_line(line)}\n" for line in lines)


def sorted_form(ad: ClassAd) -> str:
    """The lines of :func:`long_form` in the order of their names, as hooks of HTCondor are given an ad."""
    lines = long_form(ad).splitlines()
    return "".join(f"{line}\n" for line in sorted(lines, key=lambda line: line.partition(" ")[0].upper()))


def on_one_line(text: str) -> str:
    """``text`` with its control characters, tabs excepted, as escapes."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
