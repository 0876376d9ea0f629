"""Derives bounds on the history's columns from a constraint, so that an index finds the few rows among millions. Pure.

Bounds are necessary for the constraint to be true, not sufficient: it is still evaluated in the ads of the rows found.
"""

from __future__ import annotations

import math
import re

from msgspec import Struct
from msgspec.structs import replace

from slotwise.classad import ExprTree, SpecialValue

_NAMED = r"(?:MY\.)?(?P<name>Owner|ClusterId|CompletionDate|JobStatus)"
_OPERATOR = r"(?P<operator>==|is|>=|<=|>|<)"
_FORWARD = re.compile(rf"{_NAMED} {_OPERATOR} (?P<rest>.+)", re.IGNORECASE | re.DOTALL)
_BACKWARD = re.compile(rf"(?P<rest>.+) {_OPERATOR} {_NAMED}", re.IGNORECASE | re.DOTALL)
_TURNED = {">=": "<=", "<=": ">=", ">": "<", "<": ">"}


class Bounds(Struct, frozen=True):
    """The bounds that rows must satisfy; None: any value. Times are epoch seconds, inclusive.

    ``completed_until`` is only set together with a ``completed_since``: a job that was removed has no such date,
    and its column is the time at which it left.
    """

    owner: str | None = None
    #: Whether the owner is compared case-sensitively.
    is_exact: bool = False
    cluster: int | None = None
    status: int | None = None
    completed_since: int | None = None
    completed_until: int | None = None


def bounds_of(constraint: str, now: int) -> Bounds:
    """The bounds that follow from ``constraint``; none for text that is not valid, which fails when it is evaluated."""
    found = Bounds()
    try:
        clauses = ExprTree(constraint).conjuncts()
    except ValueError:
        return found
    for clause in clauses:
        found = _with_clause(found, clause, now)
    return found if found.completed_since is not None else replace(found, completed_until=None)


def _with_clause(found: Bounds, clause: ExprTree, now: int) -> Bounds:
    comparison = _comparison(clause, now)
    if comparison is None:
        return found
    name, operator, value = comparison
    is_equal = operator in ("==", "is")
    if name == "owner":
        if is_equal and isinstance(value, str) and value.isascii():
            return replace(found, owner=value, is_exact=operator == "is")
        return found
    if isinstance(value, (str, bool)) or not math.isfinite(value) or abs(value) > 1 << 53:
        return found
    if name == "completiondate":
        if value > 0 and (is_equal or operator in (">", ">=")):
            found = replace(found, completed_since=max(found.completed_since or 0, math.floor(value)))
        if is_equal or operator in ("<", "<="):
            least = math.ceil(value)
            until = found.completed_until
            found = replace(found, completed_until=least if until is None else min(until, least))
        return found
    if is_equal and value == int(value):
        return replace(found, cluster=int(value)) if name == "clusterid" else replace(found, status=int(value))
    return found


def _comparison(clause: ExprTree, now: int) -> tuple[str, str, str | float] | None:
    """(attribute, operator, constant) of a clause that compares a column with a constant; ``is`` stands for ``=?=``."""
    text = str(clause)
    while text.startswith("(") and text.endswith(")") and _same(clause, text[1:-1]):
        text = text[1:-1].strip()
    for is_turned, match in ((False, _FORWARD.fullmatch(text)), (True, _BACKWARD.fullmatch(text))):
        if match is None:
            continue
        name, operator, rest = match["name"], match["operator"], match["rest"]
        sides = f"({rest}) {operator} {name}" if is_turned else f"{name} {operator} ({rest})"
        if not (_same(clause, sides) or _same(clause, sides.replace(name, f"MY.{name}", 1))):
            continue  # the operator is not the outermost
        value = _constant(rest, now)
        if value is not None:
            if is_turned:
                operator = _TURNED.get(operator, operator)
            return name.lower(), operator, value
    return None


def _same(clause: ExprTree, text: str) -> bool:
    try:
        return ExprTree(text).canonical_hash == clause.canonical_hash
    except ValueError:
        return False


def _constant(text: str, now: int) -> str | float | None:
    expression = ExprTree(text)
    read = expression.references()
    if read.bare or read.my or read.target or read.unbounded:
        return None
    value = expression.eval(now=now)
    return value if isinstance(value, (str, int, float)) and not isinstance(value, SpecialValue) else None
