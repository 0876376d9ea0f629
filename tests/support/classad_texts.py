"""Random texts of ads in every format, whole ones and odd ones."""

from __future__ import annotations

import random

from tests.support.classad_cases import Generator

NAMES = ["MyType", "Requirements", "Rank", "Foo", "_x", "A_b1", "Name", "Owner", "a", "b", "X"]
QUOTED = ["'x y'", "'is'", "'a.b'", "''", "'\\''", "'\u00e9'", "'A\\tB'", "'true'"]
VALUES = [
    *("5 6", "", "/* c */ 1", "1 // c", '"say \\"hi\\""', '"a\\b"', '"trail\\\\"', '"\\"', '"it\'s"', '"x" y', "(1"),
    *("{ 1, 2", "[ a = 1; b = 2 ]", "[ a = 1", "true ? 1 : 2 x", "a?b:c ]", "a?b:c;", "1;", "017", "0x1F", "'q w'"),
    *(".5", "1.", "1e400", '"\u00e9"', '"\\351"', '"tab\there"', '"a" "b"', "1 = 2", "{}", "[]", "UNDEFINED", "TRUE"),
    *('absTime("2020-01-01T00:00:00Z")', 'relTime("1+02:03:04")', 'absTime("x")', "a[0]['x']", "- -5", "a ?: b", "is"),
]
LINES = [
    *("", "   ", "# comment", "// c", "***", "-----", "= 5", "A", "A B = 1", "a.b = 1", "'odd name' = 1", "A == 1"),
    *(
        "A := 1",
        "\tA\t=\t1",
        "A = 1\r",
        "is = 1",
        "MY.a = 1",
        "a-b = 1",
        "\u00e9 = 1",
        "[ a = 1 ]",
        "A =",
        "{",
        "x = [",
    ),
]
JSON_VALUES = [
    *("1", "-5", "1.5", "1e5", "-0", "1e400", "10000000000000000000", "01", ".5", "1.", "true", "False", "null", "nil"),
    *("[]", "{}", "[1,]", '{"a" 1}', '{"a":}', "x", '"\\u00e9"', '"\\/"', '"\\n\\t"', '"\u65e5"', '"\\ud83d\\ude00"'),
]
XML_VALUES = [
    *("<i>5</i>", "<i> 8 </i>", "<i>x</i>", "<i/>", "<r>1.5</r>", "<r>1e400</r>", "<r>INF</r>", "<r></r>", "<un/>"),
    *('<b v="t"/>', "<b v='f'/>", '<b v="T"/>', "<b/>", "<un></un>", "<er/>", "<s></s>", "<s>sp  ace</s>", "<er />"),
    *("<s>&lt;b&gt; &amp;amp;</s>", "<s>&#65;&unknown;&</s>", "<s>back\\n</s>", "<s>\u00e9</s>", "<rt>1+02:03:04</rt>"),
    *("<at>2020-01-02T03:04:05-0600</at>", "<at>x</at>", "<rt>-5</rt>", "<rt></rt>", "<at></at>", "<l></l>", "<c></c>"),
]

#: What a list may hold: at anything else in one, HTCondor reads on for ever.
XML_ITEMS = [
    *("<i>5</i>", "<r>1.5</r>", "<s></s>", "<s>sp  ace</s>", '<b v="t"/>', "<un/>", "<er/>", "<e>x + 1</e>", "<l></l>"),
    *("<e>{ 1, x }</e>", "<rt>30</rt>", "<at>2020-01-02T03:04:05-0600</at>", "<c></c>", "<s>&lt;b&gt;</s>"),
]


class Writer:
    """Writes texts from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._expressions = Generator(seed)

    def _some(self, most: int) -> range:
        return range(self.random.randint(0, most))

    def _value(self) -> str:
        return self.random.choice(VALUES) if self.random.random() < 0.5 else self._expressions.expr(2)

    def _name(self) -> str:
        name = self.random.choice(NAMES)
        return self.random.choice([name, name, name, name.upper(), name.lower(), self.random.choice(QUOTED)])

    def new(self) -> str:
        """One ad in the new syntax."""
        pick = self.random.choice
        pairs = [f"{self._name()}{pick([' = ', '=', ' =', ' '])}{self._value()}" for _ in self._some(4)]
        return pick(["[ ", "[", "[;"]) + pick(["; ", ";", ";; ", "; // c\n"]).join(pairs) + pick([" ]", "]", "; ]"])

    def old(self) -> str:
        """Ads of one attribute a line."""
        pick = self.random.choice
        lines = [
            pick(LINES) if self.random.random() < 0.3 else f"{pick(NAMES)}{pick([' = ', '='])}{self._value()}"
            for _ in self._some(9)
        ]
        return "\n".join(lines) + pick(["", "\n", "\n\n"])

    def _json(self, depth: int) -> str:
        pick = self.random.choice
        kind = self.random.random()
        if kind < 0.15 and depth < 3:
            return "[" + ", ".join(self._json(depth + 1) for _ in self._some(3)) + "]"
        if kind < 0.3 and depth < 3:
            return self._object(depth + 1)
        if kind < 0.55:
            text = self._value().replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
            return f'"\\/Expr({text})\\/"'
        return pick(JSON_VALUES)

    def _object(self, depth: int) -> str:
        pairs = (f'"{self.random.choice(NAMES)}": {self._json(depth)}' for _ in self._some(3))
        return "{" + self.random.choice([", ", ",\n"]).join(pairs) + "}"

    def json(self) -> str:
        """Objects, bare or in a list."""
        ads = [self._object(0) for _ in self._some(3)]
        return self.random.choice(["{}", "[\n{}\n]\n"]).replace("{}", self.random.choice([",\n", "\n"]).join(ads))

    def _xml(self, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.15 and depth < 3:
            return "<l>" + "".join(self.random.choice(XML_ITEMS) for _ in self._some(3)) + "</l>"
        if kind < 0.3 and depth < 3:
            return "<c>" + "".join(self._attribute(depth + 1) for _ in self._some(3)) + "</c>"
        if kind < 0.5:
            return "<e>" + self._value().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") + "</e>"
        return self.random.choice(XML_VALUES)

    def _attribute(self, depth: int) -> str:
        return f'<a n="{self.random.choice(NAMES)}">{self._xml(depth)}</a>'

    def xml(self) -> str:
        """Ads between tags."""
        blank = self.random.choice(["", "\n", "\n    "])
        ads = ["<c>" + blank + blank.join(self._attribute(0) for _ in self._some(4)) + blank + "</c>" for _ in range(2)]
        head = self.random.choice(['<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n', ""])
        return f"{head}<classads>\n{self.random.choice(['', blank]).join(ads)}\n</classads>\n"

    def case(self) -> dict[str, str]:
        """A format and a text in it, sometimes with a character lost."""
        form = self.random.choice(["new1", "new", "old", "auto", "json", "xml"])
        write = {"new1": self.new, "new": self.new, "json": self.json, "xml": self.xml}.get(form, self.old)
        text = write()
        if form != "xml" and text and self.random.random() < 0.1:
            at = self.random.randrange(len(text))
            text = text[:at] + text[at + 1 :]
        return {"format": form, "text": text}
