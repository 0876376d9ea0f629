"""Random expressions and ads for differential tests: well-typed, ill-typed, and broken ones."""

from __future__ import annotations

import random
import re

OPERATORS = ["<", "<=", "==", "!=", ">=", ">", "=?=", "=!=", "is", "isnt", "+", "-", "*", "/", "%", "?:"]
OPERATORS += ["&&", "||", "&", "|", "^", "<<", ">>", ">>>"]
ATTRIBUTES = ["I", "R", "S", "B", "L", "A", "AL", "U", "E", "T", "D", "a", "x", "y", "Memory", "Arch"]
ATTRIBUTES += ["sub", "lst", "ads", "cyc", "nosuch", "expr"]
SCOPED = ["MY.{}", "TARGET.{}", "my.{}", "other.{}", "sub.{}", "ads.{}", ".{}", "A.{}", "parent.{}", "{}", "{}", "{}"]
#: Functions with the numbers of arguments they take.
FUNCTIONS = {
    "isUndefined isError isString isInteger isReal isList isClassAd isBoolean isAbsTime isRelTime": (1, 1),
    "int real string bool floor ceiling round size sum avg min max interval eval debug": (1, 1),
    "toUpper toLower splitUserName splitSlotName envV1ToV2 unparse": (1, 1),
    "getYear getMonth getDayOfYear getDayOfMonth getDayOfWeek getDays getHours getMinutes getSeconds": (1, 1),
    "pow quantize strcmp stricmp member identicalMember versioncmp versionLE versionLT versionGE": (2, 2),
    "versionGT versionEQ countMatches evalInEachContext": (2, 2),
    "split stringListSize stringListSum stringListAvg stringListMin stringListMax unresolved": (1, 2),
    "argsToList listToArgs": (1, 2),
    "regexp regexpMember stringListMember stringListIMember stringListSubsetMatch substr": (2, 3),
    "stringListISubsetMatch stringList_regexpMember stringListsIntersect": (2, 3),
    "regexps replace replaceAll": (3, 4),
    "ifThenElse anyCompare allCompare version_in_range": (3, 3),
    "strcat join mergeEnvironment": (0, 4),
}
CALLS = [(name, low, high) for names, (low, high) in FUNCTIONS.items() for name in names.split()]
STRINGS = [
    "", "abc", "ABC", "5", "-1.5e2x", "a,b c", "a,,b", " a , b;c ", "A=1 B='x y'", "A=1;B=x y", "a 'b c'", "user@host",
    "1.2.3", "8.9.10", "01.1", "(a)(b)?", "a*", "b", "(", "\\1x\\2", "<\\0>", "i", "fg", "==", "is", "true", "I + 1",
    "a +", "0x1F", " 12abc", "caf\u00e9", "x\ty", 'say "hi"', "back\\slash",
]  # fmt: skip
NUMBERS = [
    "0", "1", "-1", "2", "3", "-7", "17", "100", "9223372036854775807", "-9223372036854775808", "4294967297",
    "0.0", "-0.0", "1.5", "-2.5", "2.5", "1e300", "3e9", "1e-3", ".5", "123456.789",
]  # fmt: skip
TIMES = [
    'absTime("2020-02-29T23:59:58+05:30")', "absTime(10)", "relTime(10)", "relTime(-93784.75)", 'relTime("1+02:03:04")',
]  # fmt: skip
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d+\.\d+|\d+|\s+|.', re.S)


def quoted(text: str) -> str:
    """A string as a literal of the language."""
    escapes = {'"': '\\"', "\\": "\\\\", "\t": "\\t"}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


class Generator:
    """Makes cases from a random source."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def leaf(self) -> str:
        """A literal or a reference."""
        r = self.random
        kind = r.random()
        if kind < 0.25:
            return r.choice(NUMBERS)
        if kind < 0.42:
            return quoted(r.choice(STRINGS))
        if kind < 0.52:
            return r.choice(["true", "false", "undefined", "error"])
        if kind < 0.57:
            return r.choice(TIMES)
        return r.choice(SCOPED).format(r.choice(ATTRIBUTES))

    def expr(self, depth: int = 3) -> str:
        """An expression of at most ``depth`` levels."""
        r = self.random
        kind = r.random()
        if depth == 0 or kind < 0.2:
            return self.leaf()

        def inner() -> str:
            return self.expr(depth - 1)

        if kind < 0.5:
            name, low, high = r.choice(CALLS)
            count = r.randint(low, high) if r.random() < 0.95 else r.randint(0, 4)
            return f"{name}({','.join(inner() for _ in range(count))})"
        if kind < 0.68:
            return f"({inner()}) {r.choice(OPERATORS)} ({inner()})"
        if kind < 0.74:
            return f"{inner()} {r.choice(OPERATORS)} {inner()}"
        if kind < 0.78:
            return r.choice(["-", "!", "~", "+"]) + self.leaf()
        if kind < 0.82:
            return f"({inner()}) ? ({inner()}) : ({inner()})"
        if kind < 0.88:
            return "{ " + ", ".join(inner() for _ in range(r.randint(0, 3))) + " }"
        if kind < 0.93:
            return self.ad(depth - 1)
        if kind < 0.96:
            return f"({inner()})[{inner()}]"
        return f"({inner()}).{r.choice(ATTRIBUTES)}"

    def ad(self, depth: int) -> str:
        """A nested ad."""
        r = self.random
        pairs = (f"{r.choice(ATTRIBUTES)} = {self.expr(depth)}" for _ in range(r.randint(0, 3)))
        return "[ " + "; ".join(pairs) + " ]"

    def context(self) -> str:
        """An ad to evaluate in."""
        names = self.random.sample(ATTRIBUTES[:-2], self.random.randint(3, 9))
        pairs = [f"{name} = {self.expr(2)}" for name in names]
        pairs.append("sub = [ a = 7; b = a; x = x ]; ads = { [ a = 1; I = 100 ], [ a = 2; x = I ] }; cyc = cyc + 1")
        return "[ " + "; ".join(pairs) + " ]"

    def broken(self, text: str) -> str:
        """A text with a few tokens lost, doubled or swapped."""
        tokens = _TOKEN.findall(text)
        for _ in range(self.random.randint(1, 2)):
            at = self.random.randrange(len(tokens))
            if self.random.random() < 0.5:
                del tokens[at]
            else:
                tokens.insert(at, self.random.choice(tokens))
            if not tokens:
                return "x"
        return "".join(tokens)

    def cases(self, count: int) -> list[dict[str, str | None]]:
        """``count`` cases; a handful share each pair of ads."""
        out: list[dict[str, str | None]] = []
        while len(out) < count:
            my, target = self.context(), self.context() if self.random.random() < 0.6 else None
            for _ in range(10):
                text = self.expr()
                out.append(
                    {"my": my, "target": target, "expr": self.broken(text) if self.random.random() < 0.1 else text}
                )
        return out[:count]
