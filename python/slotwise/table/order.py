"""In which order a page of ads is wanted, and where it begins."""

from __future__ import annotations

import re

from msgspec import Struct

from slotwise.errors import UsageError

#: The name of an attribute.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Order(Struct, frozen=True):
    """An order of ads: by the values of an attribute, or by key where that is empty, and the place behind which it
    begins. Numbers come before texts, and ads without either last, in both directions; ads that are alike are in the
    order of their keys."""

    by: str = ""
    descending: bool = False
    after: bytes | None = None

    @classmethod
    def of(cls, by: str, after: str, *, descending: bool) -> Order:
        """The order that a caller asks for; ``after``: where the page before ended, as that page said it.

        :raises UsageError: when it names no attribute, or no place.
        """
        if by and not NAME.fullmatch(by):
            raise UsageError(f"{by[:40]!r} is not the name of an attribute", hint="pages are in the order of one")
        try:
            place = bytes.fromhex(after) if after else None
        except ValueError:
            raise UsageError(
                f"{after[:40]!r} is not where a page ended", hint="give what the page before said"
            ) from None
        return cls(by, descending, place)
