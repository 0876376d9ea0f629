"""Random transforms with ads, and what HTCondor's condor_transform_ads made of them (conformance/transforms.jsonl).

``python -m tests.support.transform_cases DIRECTORY COUNT SEED`` writes cases for a pool's tool to answer: N.rules and
N.ad for each, and a script that has them answered into N.out and N.err; with ``record DIRECTORY`` the answers are
printed as lines of JSON.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

ATTRIBUTES = {
    "ClusterId": "7",
    "ProcId": "3",
    "Owner": '"ann"',
    "JobUniverse": "5",
    "Foo": '"a string"',
    "FooBar": "3",
    "FooBaz": "1 + 2",
    "RequestMemory": "512",
    "RequestCpus": "RequestMemory / 256",
    "Requirements": '(TARGET.Memory >= RequestMemory) && (TARGET.Arch == "X86_64")',
    "List": '{ 1, 2, "x" }',
    "Nested": '[ A = 1; B = "two" ]',
    "WantIt": "true",
    "Real": "2.5",
    "Quoted": '"say \\"hi\\""',
    "Path": '"/home/ann/data.tar.gz"',
    "Text": '"a,b;c"',
    "Undef": "undefined",
    "AcctGroup": '"physics"',
}
EXPRESSIONS = (
    "1",
    "RequestMemory * 2",
    '"text"',
    "Owner",
    "undefined",
    "error",
    'strcat(Owner, ".", AcctGroup)',
    "List",
    "Nested",
    "Nested.A",
    "List[2]",
    "size(List)",
    "ifThenElse(WantIt, 1, 2)",
    "$(MY.RequestMemory) + 1",
    '"$(MY.Owner)"',
    "$(MY.Requirements) && TARGET.HasIt",
    "$(m)",
    '"$(m)"',
    "$(MY.Nope:17)",
    "$INT(MY.RequestMemory)",
    "$INT(MY.FooBar,%04d)",
    "$REAL(MY.Real)",
    '"$F(MY.Path)"',
    '"$Fn(MY.Path)"',
    '"$Fnx(MY.Path)"',
    '"$SUBSTR(MY.Owner,1)"',
    '"$CHOICE(1,a,b,c)"',
    "$EVAL(RequestMemory + FooBar)",
    "MY.FooBar",
    "TARGET.X",
    "FooBaz * 2",
    "(((",
    "a b",
    "1.5e3",
    "-3",
    "!WantIt",
    '"$(DOLLAR)(x)"',
    'regexp("^a", Owner)',
    'RequestMemory > 100 ? "big" : "small"',
    "$(MY.Quoted)",
    "$STRING(MY.Foo)",
    '"$BASENAME(MY.Path)"',
    'stringListMember("a", Text, ",")',
    'split(Text, ",;")',
    "Undef ?: 4",
    "isUndefined(Nope)",
    "{ Owner, FooBar }",
    "[ Z = FooBar ]",
)
CONDITIONS = (
    "true",
    "false",
    "1",
    "0",
    "$(MY.RequestMemory) > 500",
    "RequestMemory > 500",
    "defined MY.Foo",
    "defined MY.Nope",
    "defined m",
    "! defined m",
    "$(MY.WantIt)",
    "version >= 8.9",
    'Owner == "ann"',
    "WantIt && FooBar > 5",
    "$(m)",
    "!$(MY.WantIt)",
    "Nope",
    "Nope =?= undefined",
    "$EVAL(FooBar > 2)",
)
PATTERNS = ("/^Foo(.*)/", "/Bar$/", "/^(Re)q(.*)$/", "/o/i", "/^nothing/", "/(a)(b)?/", "/^./", "/Foo.*/U")
NAMES = ("A", "B", "New", "Foo", "FooBar", "RequestMemory", "Owner", "List", "Nope", "my_x")
SUBSTITUTES = ("X\\0", "Y\\1", "Z\\2", "Orig_\\1", "\\1\\1", "P$(m)\\0", "bad name\\1", "W\\9")


def _line(rng: random.Random) -> list[str]:
    name, other, expression = rng.choice(NAMES), rng.choice(NAMES), rng.choice(EXPRESSIONS)
    equals = rng.choice(("", "", "", "= ", ", "))
    match rng.randrange(14):
        case 0 | 1 | 2:
            return [f"SET {name} {equals}{expression}"]
        case 3 | 4:
            return [f"EVALSET {name} {equals}{expression}"]
        case 5:
            return [f"{rng.choice(('DEFAULT', 'default', 'Default'))} {name} {expression}"]
        case 6:
            return [f"COPY {name} {other}"]
        case 7:
            return [f"RENAME {name} {other}"]
        case 8:
            return [f"DELETE {name}"]
        case 9:
            return [f"{rng.choice(('COPY', 'RENAME'))} {rng.choice(PATTERNS)} {rng.choice(SUBSTITUTES)}"]
        case 10:
            return [f"DELETE {rng.choice(PATTERNS)}"]
        case 11:
            return [f"EVALMACRO {rng.choice(('m', 'n'))} {expression}"]
        case 12:
            value = rng.choice(EXPRESSIONS)
            return [
                rng.choice((f"m = {value}", f"n = $(m) {value}", f"m += {value}", f"MY.Y = {value}", f"+Z = {value}"))
            ]
    inner = [line for _ in range(rng.randint(1, 2)) for line in _line(rng)]
    lines = [f"if {rng.choice(CONDITIONS)}", *inner]
    if rng.random() < 0.3:
        lines += [f"elif {rng.choice(CONDITIONS)}", *_line(rng)]
    if rng.random() < 0.5:
        lines += ["else", *_line(rng)]
    return [*lines, "endif"]


def case(rng: random.Random) -> tuple[str, str]:
    """Rules, and the ad that they change in old syntax."""
    lines = []
    if rng.random() < 0.3:
        lines.append(f"NAME {rng.choice(('one', 'two words'))}")
    if rng.random() < 0.3:
        lines.append(f"REQUIREMENTS {rng.choice(('RequestMemory > 100', 'Nope', 'false', 'Owner', '1', 'WantIt'))}")
    for _ in range(rng.randint(1, 7)):
        lines += _line(rng)
    if rng.random() < 0.1:
        lines += ["text @=end", "  one line", "@end", 'SET FromText "$(text)"']
    if rng.random() < 0.15:
        lines.append(
            rng.choice(
                (
                    "TRANSFORM 1",
                    "TRANSFORM",
                    "TRANSFORM 2",
                    "TRANSFORM in (a, b)",
                    "TRANSFORM 2 X,Y from (\n1 2\n3 4\n)",
                )
            )
        )
        if lines[-1] not in ("TRANSFORM 1", "TRANSFORM"):
            lines.insert(
                0, rng.choice(('SET It "$(Item)$(X)$(Y)"', "SET At $(Row) * 10 + $(Step)", "SET N $(XFormId)"))
            )
    chosen = {name: text for name, text in ATTRIBUTES.items() if rng.random() < 0.8}
    return "\n".join(lines) + "\n", "".join(f"{name} = {text}\n" for name, text in chosen.items())


def main(words: list[str]) -> None:
    """Write cases, or record the answers to them."""
    if words[0] == "record":
        for file in sorted(Path(words[1]).glob("*.rules"), key=lambda path: int(path.stem)):
            read = {kind: file.with_suffix(f".{kind}").read_text() for kind in ("rules", "ad", "out", "err")}
            if "status 139" in read["err"] or "status 134" in read["err"]:
                continue  # it crashed
            print(json.dumps({"rules": read["rules"], "ad": read["ad"], "out": read["out"], "errors": read["err"]}))
        return
    directory, rng = Path(words[0]), random.Random(int(words[2]))
    for number in range(int(words[1])):
        rules, ad = case(rng)
        (directory / f"{number}.rules").write_text(rules)
        (directory / f"{number}.ad").write_text(ad)
    (directory / "answer.sh").write_text(
        'cd "$(dirname "$0")" && for r in *.rules; do n=${r%.rules}; '
        'timeout 10 condor_transform_ads -rules $r $n.ad > $n.out 2> $n.err || echo "status $?" >> $n.err; done\n'
    )


if __name__ == "__main__":
    main(sys.argv[1:])
