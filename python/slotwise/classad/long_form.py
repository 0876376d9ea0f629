"""Ads in long form for readers that go by lines: history files, `.job.ad`, what hooks are given."""

from __future__ import annotations

import re

from slotwise.classad import ClassAd

#: What ends a line for some reader or moves the cursor of a terminal. A tab is neither.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def long_form(ad: ClassAd) -> str:
    """``Name = value`` lines, one for each attribute whatever its name and value hold.

    HTCondor's form has line ends in strings as they are, so that a text of a job could stand for an attribute of
    its own, or for the end of the record. Here such characters are written as escapes, which old readers give back
    as a backslash and letters.
    """
    text: str = ad.print_old()
    if text and not text.endswith("\n"):
        text += "\n"
    joined = text.replace("\n", "")
    # Most ads are printable throughout, which is found out in a twentieth of the time that the pattern takes.
    if text.count("\n") == len(ad) and (joined.isprintable() or _CONTROL.search(joined) is None):
        return text
    lines = (ClassAd({name: ad.lookup(name)}).print_old().removesuffix("\n") for name in ad)
    return "".join(f"{on_one_line(line)}\n" for line in lines)


def on_one_line(text: str) -> str:
    """``text`` with its control characters, tabs excepted, as escapes."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
