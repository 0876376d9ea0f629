"""Which part of a history is meant, as callers of these modules say it."""

from __future__ import annotations

from classad2 import ClassAdException, ExprTree

from htcondor2._expressions import as_read


def constraint_text(constraint: str | ExprTree | None) -> str:
    """The text of a constraint; empty for none.

    :raises ValueError: it is not an expression.
    """
    if constraint is None:
        return ""
    try:
        ExprTree(str(constraint))
    except ClassAdException:
        raise ValueError("invalid constraint") from None
    return as_read(constraint)


def since_text(since: object) -> str:
    """What a history ends at, as text; empty for nothing.

    :raises TypeError: for a value that names neither a job nor a condition.
    """
    if since is None:
        return ""
    if not isinstance(since, int | str | ExprTree):
        raise TypeError("since must be an int, string, or ExprTree")
    return as_read(since)
