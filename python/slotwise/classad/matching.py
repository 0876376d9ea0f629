"""Why two ads match or do not."""

from __future__ import annotations

from msgspec import Struct

from slotwise._native import ClassAd, ExprTree


class Clause(Struct, frozen=True):
    """One clause of a Requirements and what it evaluates to."""

    expr: ExprTree
    value: object

    @property
    def passes(self) -> bool:
        """Whether the clause lets the match through: it is true, or a number other than 0."""
        return isinstance(self.value, bool | int | float) and bool(self.value)


class Side(Struct, frozen=True):
    """One ad's judgement of the other; ``value`` is UNDEFINED if it has no Requirements."""

    value: object
    clauses: tuple[Clause, ...]

    @property
    def accepts(self) -> bool:
        """Whether the Requirements are met."""
        return isinstance(self.value, bool | int | float) and bool(self.value)

    @property
    def failed(self) -> tuple[Clause, ...]:
        """The clauses that do not let the match through."""
        return tuple(clause for clause in self.clauses if not clause.passes)


class Match(Struct, frozen=True):
    """The judgements of both ads. True if both accept."""

    left: Side
    right: Side

    def __bool__(self) -> bool:
        return self.left.accepts and self.right.accepts


def match(a: ClassAd, b: ClassAd, *, now: int | None = None) -> Match:
    """Judge each of the two ads by the other's Requirements, clause by clause.

    The result is true if they match. ``a.symmetric_match(b)`` answers only that, and faster.
    """
    return Match(_side(a, b, now), _side(b, a, now))


def _side(my: ClassAd, target: ClassAd, now: int | None) -> Side:
    value, clauses = my.verdict(target, now=now)
    return Side(value, tuple(Clause(expr, result) for expr, result in clauses))
