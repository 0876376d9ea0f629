"""Expressions as callers of these modules write them."""

from __future__ import annotations

from classad2 import ExprTree
from slotwise.classad import new_syntax


def as_read(expression: str | ExprTree | int | None) -> str:
    """The text that means to our daemons what HTCondor's make of ``expression``; empty for None.

    HTCondor's read all that its modules send in the old syntax of ClassAds, in which a backslash in a string is itself:
    an ExprTree, too, whose text is in the new.
    """
    return "" if expression is None else new_syntax(str(expression))
