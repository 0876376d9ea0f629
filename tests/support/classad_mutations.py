"""Cases made of the conformance sample's own expressions: parts exchanged, wrapped, renamed, broken."""

from __future__ import annotations

import json
import random
import re
from functools import lru_cache
from pathlib import Path

from slotwise.classad import ClassAd, ExprTree

from tests.support.classad_cases import CALLS, OPERATORS

SAMPLE = Path(__file__).parent.parent / "conformance" / "classad-sample.jsonl"
_CALL = re.compile(r"([A-Za-z_]\w*)\(")
_OPERATOR = re.compile(r" (==|!=|<=|>=|<|>|=\?=|=!=|is|isnt|\+|-|\*|/|%|&&|\|\||&|\||\^|<<|>>|>>>|\?:) ")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
NUMBERS = [
    *("9223372036854775807", "9223372036854775808", "2147483648", "1e308", "5e-324", "1e16", "0.1", "1e-5"),
    *("123456789012345678", "253402300800", "99999999999", "0", "0.0", "64", "63"),
]
STRINGS = [
    *('"%a %B %c %D %e %j %p %r %s %U %w %x %y %Z %%"', '"caf\u00e9"', '"\u65e5\u672c"', '"\\n\\t\\"\\\\"', '"gimsxf"'),
    *('"1e400"', '"0x1p3"', '" 12 "', '"nan"', '"-inf"', '"2020-02-29T12:00:00+0530"', '"1+02:03:04.5"'),
    *('"true ? 1 : 2 x"', '"(?i)a"', '"[[:alpha:]]+"', '"\\\\d+"', '"\\\\x*"', '"a{,2}"', '"(?<n>a)"', '"^$"', '""'),
]
BREAKS = [*"()[]{};,.:?!=<>'\"\\/*#@%^&|~$ 0e", "//", "/*", "*/", " is ", "\n"]


def spans(text: str) -> list[tuple[int, int]]:
    """The places of an expression's parts; none when it is not an expression."""
    try:
        nodes = ExprTree(text, spans=True).nodes()
    except ValueError:
        return []
    return [node.span for node in nodes if node.span is not None]


@lru_cache(maxsize=1)
def sample() -> tuple[list[dict[str, str]], list[str]]:
    """The sample's evaluation cases in the normal mode, and the parts of their expressions."""
    found = (json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines())
    cases = [case for case in found if "expr" in case and case.get("mode") != "strict"]
    parts = {case["expr"][first:last]: None for case in cases for first, last in spans(case["expr"])}
    return cases, [part for part in parts if len(part) < 200]


class Mutator:
    """Makes cases from a random source."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._cases, self._parts = sample()

    def _exchanged(self, text: str, pattern: re.Pattern[str], new: str) -> str:
        """One thing that ``pattern`` finds (its group, if it has one) replaced."""
        found = list(pattern.finditer(text))
        if not found:
            return text
        one = self.random.choice(found)
        first, last = one.span(pattern.groups)
        return text[:first] + new + text[last:]

    def _wrapped(self, text: str) -> str:
        pick = self.random.choice
        other, name = pick(self._parts), pick(CALLS)[0]
        forms = (
            *(f"{name}({text})", f"{name}({text}, {other})", f"{name}({other}, {text})"),
            *(f"({text}) {pick(OPERATORS)} ({other})", f"({other}) {pick(OPERATORS)} ({text})"),
            *(f"{{ {text}, {other} }}[{pick('012')}]", f"[ a = {text}; b = a; x = {other} ].{pick('abxc')}"),
            *(f"({other}) ? ({text}) : ({pick(self._parts)})", f"{pick('-!~+')}({text})", f"({text})[{other}]"),
        )
        return pick(forms)

    def _changed(self, text: str) -> str:
        pick = self.random.choice
        kind = self.random.random()
        if kind < 0.35:
            first, last = pick(spans(text) or [(0, 0)])
            return f"{text[:first]}({pick(self._parts)}){text[last:]}"
        if kind < 0.5:
            return self._exchanged(text, _CALL, pick(CALLS)[0])
        if kind < 0.57:
            return self._exchanged(text, _OPERATOR, pick(OPERATORS))
        if kind < 0.7:
            return self._wrapped(text)
        if kind < 0.78:
            return self._exchanged(text, _NUMBER, pick(NUMBERS))
        if kind < 0.88:
            return self._exchanged(text, _STRING, pick(STRINGS))
        if kind < 0.94:
            return self._exchanged(text, _NAME, pick(["MY.x", "TARGET.x", "parent", "x", "Memory", "TARGET"]))
        at = self.random.randrange(len(text) + 1)
        return text[:at] + pick(BREAKS) + text[at + self.random.randint(0, 2) :]

    def case(self) -> dict[str, str | None]:
        """One case."""
        chosen = self.random.choice(self._cases)
        where = chosen if "my" in chosen and self.random.random() < 0.7 else self.random.choice(self._cases)
        text = chosen["expr"]
        for _ in range(self.random.choice([1, 1, 2, 3])):
            longer = self._changed(text)
            text = longer if len(longer) < 600 else text
        return {"my": where.get("my"), "target": where.get("target"), "expr": text}

    def cases(self, count: int) -> list[dict[str, str | None]]:
        """Cases whose ads can be read."""
        out: list[dict[str, str | None]] = []
        while len(out) < count:
            made = self.case()
            if all(_readable(made[side]) for side in ("my", "target")):
                out.append(made)
        return out


@lru_cache(maxsize=8192)
def _readable(ad: str | None) -> bool:
    try:
        return ad is None or ClassAd(ad) is not None
    except ValueError:
        return False
