"""How a Requirements is taken apart into clauses, for everything that explains matches. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.classad import ClassAd, ExprTree

#: How deep attributes that stand for conditions are followed (``START`` of a slot's Requirements).
_DEPTH = 4


def clauses_of(ad: ClassAd, name: str = "Requirements", depth: int = _DEPTH) -> list[ExprTree]:
    """The clauses of an expression, each once. A clause that is an attribute of the ad gives way to those behind it."""
    if name not in ad:
        return []
    found: list[ExprTree] = []
    for clause in ad.lookup(name).conjuncts():
        plain = bare(clause).removeprefix("MY.")
        if depth and plain.isidentifier() and plain in ad and isinstance(ad.get(plain), ExprTree):
            found += clauses_of(ad, plain, depth - 1)
        else:
            found.append(clause)
    return distinct(found)


def distinct(clauses: Iterable[ExprTree]) -> list[ExprTree]:
    """The clauses in order, without those that repeat an earlier one but for case and parentheses."""
    found: dict[int, ExprTree] = {}
    for clause in clauses:
        found.setdefault(clause.canonical_hash, clause)
    return list(found.values())


def bare(clause: ExprTree) -> str:
    """The text of a clause without parentheses around all of it."""
    text = str(clause).strip()
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    """Where the parenthesis that a text begins with is closed; those inside strings do not count."""
    depth, quoted, escaped = 0, False, False
    for place, letter in enumerate(text):
        if quoted:
            quoted, escaped = escaped or letter != '"', letter == "\\" and not escaped
        elif letter == '"':
            quoted = True
        else:
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                return place
    return -1
