"""The work of a regular expression: a matcher that backtracks as Python's does and counts its steps, and texts that are
the worst for a pattern."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterator
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

#: More is not counted: it is far from linear for the lengths that are tried.
MOST_STEPS = 40_000
#: Three times the text takes three times the steps of a linear pattern, and nine times those of a quadratic one.
LINEAR = 4.5
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    c.CATEGORY_DIGIT: str.isdigit,
    c.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    c.CATEGORY_SPACE: str.isspace,
    c.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    c.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    c.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}
#: Characters that stand for their kinds.
_KINDS = "a0A_ -.:,/\"'\\()\n\t!"

_Then = Callable[[int], int]


class TooManyStepsError(Exception):
    """The matcher has made MOST_STEPS."""


class Counting:
    """Matches one pattern against texts, counting nodes visited and characters compared."""

    def __init__(self, pattern: re.Pattern[str] | re.Pattern[bytes]) -> None:
        text = pattern.pattern
        self.tree = parser.parse(
            text.decode("latin-1") if isinstance(text, bytes) else text, pattern.flags & ~re.UNICODE
        )
        self._flags = pattern.flags
        self._text = ""
        self._groups: dict[int, tuple[int, int]] = {}
        #: Which character fits which node of the tree.
        self._fits: dict[tuple[Any, Any, str], bool] = {}
        self.steps = 0

    def anchored(self, text: str, *, whole: bool) -> int:
        """The steps of ``match``, or of ``fullmatch``."""
        self._begin(text)
        self._match(list(self.tree), 0, (lambda at: at if at == len(text) else -1) if whole else lambda at: at)
        return self.steps

    def everywhere(self, text: str) -> int:
        """The steps of ``finditer``, which ``search``, ``sub`` and ``split`` have at most."""
        self._begin(text)
        nodes, at = list(self.tree), 0
        while at <= len(text):
            end = self._match(nodes, at, lambda end: end)
            at = end if end > at else at + 1
        return self.steps

    def _begin(self, text: str) -> None:
        self._text, self.steps = text, 0
        self._groups.clear()

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooManyStepsError

    def _match(self, nodes: list[Any], at: int, then: _Then) -> int:
        """Where the first match ends that ``then`` takes; -1: none."""
        self._step()
        if not nodes:
            return then(at)
        (kind, value), rest = nodes[0], nodes[1:]
        if kind in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            found = at < len(self._text) and self._is(kind, value, self._text[at])
            return self._match(rest, at + 1, then) if found else -1
        if kind in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            least, most, body = value
            if kind is c.POSSESSIVE_REPEAT:
                end = self._repeat(list(body), at, least, most, True, lambda end: end)
                return self._match(rest, end, then) if end >= 0 else -1
            return self._repeat(
                list(body), at, least, most, kind is c.MAX_REPEAT, lambda end: self._match(rest, end, then)
            )
        if kind is c.SUBPATTERN:
            return self._match(list(value[3]), at, lambda end: self._match(rest, end, then))
        if kind is c.ATOMIC_GROUP:
            end = self._match(list(value), at, lambda end: end)
            return self._match(rest, end, then) if end >= 0 else -1
        if kind is c.BRANCH:
            for branch in value[1]:
                end = self._match(list(branch), at, lambda end: self._match(rest, end, then))
                if end >= 0:
                    return end
            return -1
        if kind in (c.ASSERT, c.ASSERT_NOT):
            direction, body = value
            begin = at if direction > 0 else at - body.getwidth()[0]
            found = begin >= 0 and self._match(list(body), begin, lambda end: end) >= 0
            return self._match(rest, at, then) if found is (kind is c.ASSERT) else -1
        if kind is c.AT:
            return self._match(rest, at, then) if self._is_at(value, at) else -1
        raise NotImplementedError(f"a pattern with {kind}: have the test count it")

    def _repeat(self, body: list[Any], at: int, least: int, most: Any, greedy: bool, then: _Then) -> int:
        self._step()

        def again(end: int) -> int:
            if end == at and least <= 0:
                return -1
            return self._repeat(body, end, least - 1, most if most is c.MAXREPEAT else most - 1, greedy, then)

        more = most is c.MAXREPEAT or most > 0
        if least > 0:
            return self._match(body, at, again)
        if not greedy and (end := then(at)) >= 0:
            return end
        if more and (end := self._match(body, at, again)) >= 0:
            return end
        return then(at) if greedy else -1

    def _is(self, kind: Any, value: Any, char: str) -> bool:
        self._step()
        key = (id(value) if kind is c.IN else value, kind, char)
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._fit(kind, value, char)
        return found

    def _fit(self, kind: Any, value: Any, char: str) -> bool:
        if kind is c.ANY:
            return char != "\n" or bool(self._flags & re.DOTALL)
        if kind in (c.LITERAL, c.NOT_LITERAL):
            return (ord(char) == value or self._folded(char) == self._folded(chr(value))) is (kind is c.LITERAL)
        return any(_has(value, one) for one in {char, self._folded(char), self._folded(char).upper()})

    def _folded(self, char: str) -> str:
        return char.lower() if self._flags & re.IGNORECASE else char

    def _is_at(self, where: Any, at: int) -> bool:
        text, lines = self._text, bool(self._flags & re.MULTILINE)
        if where is c.AT_BEGINNING_STRING:
            return at == 0
        if where is c.AT_BEGINNING:
            return at == 0 or (lines and text[at - 1] == "\n")
        if where is c.AT_END_STRING:
            return at == len(text)
        if where is c.AT_END:
            return at == len(text) or (text[at] == "\n" and (lines or at == len(text) - 1))
        word = _CATEGORIES[c.CATEGORY_WORD]
        beside = (at > 0 and word(text[at - 1])) != (at < len(text) and word(text[at]))
        return beside is (where is c.AT_BOUNDARY)


def _has(items: list[Any], char: str) -> bool:
    found, negated = False, False
    for kind, value in items:
        if kind is c.NEGATE:
            negated = True
        elif kind is c.LITERAL:
            found |= ord(char) == value
        elif kind is c.RANGE:
            found |= value[0] <= ord(char) <= value[1]
        elif kind is c.CATEGORY:
            found |= _CATEGORIES[value](char)
    return found is not negated


def _sample(nodes: Any, seen: list[tuple[str, str]], before: str = "") -> str:
    """A text that the nodes match, as a rule; unbounded repeats are noted with what comes before them."""
    said = ""
    for kind, value in nodes:
        if kind is c.LITERAL:
            said += chr(value)
        elif kind is c.ANY:
            said += "a"
        elif kind is c.NOT_LITERAL:
            said += next(char for char in _KINDS if ord(char) != value)
        elif kind is c.IN:
            said += next((char for char in _KINDS if _has(value, char)), _first(value))
        elif kind in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            least, most, body = value
            inner = _sample(body, seen, before + said)
            if most is c.MAXREPEAT or most > 100:
                seen.append((before + said, inner))
            said += inner * max(least, 1 if most is not c.MAXREPEAT and most == 1 else least)
        elif kind is c.SUBPATTERN:
            said += _sample(value[3], seen, before + said)
        elif kind is c.ATOMIC_GROUP:
            said += _sample(value, seen, before + said)
        elif kind is c.BRANCH:
            samples = [_sample(branch, seen, before + said) for branch in value[1]]  # each notes its repeats
            said += samples[0]
    return said


def _first(items: list[Any]) -> str:
    return next(
        (chr(value if kind is c.LITERAL else value[0]) for kind, value in items if kind in (c.LITERAL, c.RANGE)), "~"
    )


def pumped(pattern: Counting) -> Iterator[tuple[str, str, str]]:
    """What to repeat, with what before and after it: the worst texts for a pattern are among these."""
    seen: list[tuple[str, str]] = []
    whole = _sample(pattern.tree, seen)
    leads = dict.fromkeys(["", *(before for before, _ in seen)])
    chars = dict.fromkeys([*(body for _, body in seen), *whole, *"a0 .\n"])
    if whole:
        chars[whole] = None
    for before in leads:
        for pump in chars:
            for after in ("", "\x00", "\n\n"):
                if pump:
                    yield before, pump, after


def worst_growth(pattern: re.Pattern[str] | re.Pattern[bytes], ways: set[str], size: int = 16) -> tuple[float, str]:
    """How many times the steps grow, at most, when a text is three times as long, and for which text.

    :param ways: how the pattern is used: match, fullmatch or anything else, which looks everywhere.
    """
    with _deep():
        return _worst_growth(Counting(pattern), ways, size)


@contextlib.contextmanager
def _deep() -> Iterator[None]:
    """The counting recurses once a step. Other tests need the limit: with this one, C code would overflow its stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _worst_growth(counting: Counting, ways: set[str], size: int) -> tuple[float, str]:

    def steps(text: str) -> float:
        try:
            return max(
                counting.everywhere(text) if way not in ("match", "fullmatch")
                else counting.anchored(text, whole=way == "fullmatch")
                for way in ways
            )  # fmt: skip
        except TooManyStepsError:
            return math.inf

    worst = (0.0, "")
    for before, pump, after in pumped(counting):
        short, long = (before + pump * (size * times) + after for times in (1, 3))
        growth = steps(long) / steps(short)
        if LINEAR < growth < math.inf:  # what comes before and after counts less in longer ones
            short, long = (before + pump * (size * times) + after for times in (3, 9))
            growth = steps(long) / steps(short)
        if math.isnan(growth):
            growth = math.inf
        worst = max(worst, (growth, f"{before!r} + {pump!r} * n + {after!r}"))
    return worst
