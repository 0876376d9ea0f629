"""Every function and operator of the ClassAd language over 100,000 slots, and which cost more than 20 comparisons.

``python bench/bench_expressions.py [SLOTS]``. Each function and operator is part of a condition on attributes with few
values (machine classes), with one value a machine, and with one value a slot; the yardstick is ``Memory >=
TARGET.RequestMemory`` over a column with as many distinct values. What stays dear is listed with its reason: a
condition is evaluated once for each distinct combination of the values it reads, so what is left is the price of one.
Before anything is timed each condition's rows are compared with those that the plain evaluator finds in a sample.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness import Report, short
from pool_generator import NOW, Scenario, slot_table
from slotwise.classad import ClassAd, ExprTree
from slotwise.table import AdTable

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
BUILTINS = HERE.parent / "rust" / "classad" / "src" / "builtins" / "mod.rs"
#: Times the yardstick from which on a condition is listed.
DEAR = 20
SAMPLE = 60


@dataclass(frozen=True)
class Width:
    """How many distinct values there are: an integer, a text and a list attribute of that kind."""

    name: str
    integer: str
    text: str


WIDTHS = [
    Width("few values", "Memory", "CondorVersion"),
    Width("a value a machine", "TotalDisk", "Machine"),
    Width("a value a slot", "Serial", "Name"),
]

#: Conditions by the function in them; ``I`` is an integer attribute, ``S`` a text.
CALLS = {
    "isUndefined": "isUndefined(I)",
    "isError": "isError(I)",
    "isString": "isString(S)",
    "isInteger": "isInteger(I)",
    "isReal": "isReal(I)",
    "isList": "isList(I)",
    "isClassAd": "isClassAd(I)",
    "isBoolean": "isBoolean(I)",
    "isAbsTime": "isAbsTime(I)",
    "isRelTime": "isRelTime(I)",
    "int": "int(I) > 4000",
    "real": "real(I) > 4000",
    "string": 'string(I) == "4096"',
    "bool": "bool(I)",
    "member": 'member(S, {"a", "slot1@node000001.cluster.example.org", "b"})',
    "identicalMember": 'identicalMember(I, {1, 4096, "x"})',
    "size": "size(S) > 30",
    "sum": "sum({I, 5}) > 4000",
    "avg": "avg({I, 5}) > 4000",
    "min": "min({I, 5000}) > 4000",
    "max": "max({I, 5}) > 4000",
    "anyCompare": 'anyCompare("<", {1, 5, 4096}, I)',
    "allCompare": 'allCompare("<", {1, 5, 4096}, I)',
    "splitUserName": 'splitUserName(S)[0] == "slot1"',
    "splitSlotName": 'splitSlotName(S)[1] == "node000001.cluster.example.org"',
    "split": 'split(S, ".@")[1] == "node000001"',
    "time": "time() - I > 100",
    "currentTime": "int(currentTime()) - I > 100",
    "timeZoneOffset": "int(timeZoneOffset()) < I",
    "dayTime": "int(dayTime()) < I",
    "getYear": "getYear(absTime(I)) > 1970",
    "getMonth": "getMonth(absTime(I)) > 3",
    "getDayOfYear": "getDayOfYear(absTime(I)) > 30",
    "getDayOfMonth": "getDayOfMonth(absTime(I)) > 3",
    "getDayOfWeek": "getDayOfWeek(absTime(I)) > 3",
    "getDays": "getDays(relTime(I)) > 3",
    "getHours": "getHours(relTime(I)) > 3",
    "getMinutes": "getMinutes(relTime(I)) > 3",
    "getSeconds": "getSeconds(relTime(I)) > 3",
    "splitTime": "splitTime(absTime(I)).Year > 1970",
    "formatTime": 'formatTime(I, "%H") > "03"',
    "absTime": "absTime(I) > absTime(5000)",
    "relTime": "relTime(I) > relTime(5000)",
    "strcat": 'strcat(S, "x") == "slot1@node000001.cluster.example.orgx"',
    "join": 'join(",", S, I) == "a,1"',
    "toUpper": 'toUpper(S) =?= "A"',
    "toLower": 'toLower(S) =?= "a"',
    "substr": 'substr(S, 0, 5) == "slot1"',
    "strcmp": 'strcmp(S, "node") > 0',
    "stricmp": 'stricmp(S, "node") > 0',
    "versioncmp": 'versioncmp(S, "25.12") > 0',
    "versionLE": 'versionLE(S, "25.12")',
    "versionLT": 'versionLT(S, "25.12")',
    "versionGE": 'versionGE(S, "25.12")',
    "versionGT": 'versionGT(S, "25.12")',
    "versionEQ": 'versionEQ(S, "25.12")',
    "version_in_range": 'version_in_range(S, "25.4", "25.12")',
    "interval": 'interval(I) > "1:00"',
    "regexp": 'regexp("node00001[0-9]", S)',
    "regexpMember": 'regexpMember("node00001[0-9]", {S, "x"})',
    "regexps": 'regexps("node0*([0-9]+)", S, "\\\\1") == "17"',
    "replace": 'replace("node", S, "n") == "x"',
    "replaceAll": 'replaceAll("o", S, "0") == "x"',
    "floor": "floor(I / 3.0) > 1000",
    "ceil": "ceil(I / 3.0) > 1000",
    "ceiling": "ceiling(I / 3.0) > 1000",
    "round": "round(I / 3.0) > 1000",
    "pow": "pow(I, 2) > 4000",
    "quantize": "quantize(I, 1024) > 4096",
    "random": "random(I) > 2000",
    "ifThenElse": "ifThenElse(I > 4000, I > 5000, I < 1000)",
    "eval": 'eval("I > 4000")',
    "debug": "debug(I) > 4000",
    "unparse": 'unparse(I) == "4096"',
    "unresolved": 'unresolved(Requirements) == "x" || I > 4000',
    "evalInEachContext": "sum(evalInEachContext(Size, {[Size = I]})) > 4000",
    "countMatches": "countMatches(Size > 4000, {[Size = I]}) > 0",
    "stringListsIntersect": 'stringListsIntersect(S, "slot1@node000001.cluster.example.org,b")',
    "stringListSize": "stringListSize(S) > 1",
    "stringListSum": "stringListSum(string(I)) > 4000",
    "stringListAvg": "stringListAvg(string(I)) > 4000",
    "stringListMin": "stringListMin(string(I)) > 4000",
    "stringListMax": "stringListMax(string(I)) > 4000",
    "stringListMember": 'stringListMember(S, "a,slot1@node000001.cluster.example.org,b")',
    "stringListIMember": 'stringListIMember(S, "a,SLOT1@node000001.cluster.example.org,b")',
    "stringListSubsetMatch": 'stringListSubsetMatch(S, "a,slot1@node000001.cluster.example.org,b")',
    "stringListISubsetMatch": 'stringListISubsetMatch(S, "a,slot1@node000001.cluster.example.org,b")',
    "stringList_regexpMember": 'stringList_regexpMember("slot1@.*", S)',
    "userMap": 'userMap("m", S) =?= undefined',
    "userHome": 'userHome(S, "x") == "x"',
    "argsToList": 'argsToList(S)[0] == "slot1@node000001.cluster.example.org"',
    "listToArgs": 'listToArgs({"a", "b"}) == S',
    "envV1ToV2": 'envV1ToV2(strcat("A=", S)) == "x"',
    "mergeEnvironment": 'mergeEnvironment(strcat("A=", S), "B=2") == "x"',
}

#: Conditions by the operator or form in them.
FORMS = {
    **{op: f"I {op} 4096" for op in ("<", "<=", "==", "!=", ">=", ">", "=?=", "=!=")},
    **{f"text {op}": f'S {op} "slot1@node000001.cluster.example.org"' for op in ("==", "<", "=?=")},
    **{op: f"(I {op} 3) > 1000" for op in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>")},
    "-x": "-I < -4000",
    "~x": "~I < -4000",
    "!x": "!(I > 4000)",
    "&&": "I > 2000 && I < 5000",
    "||": "I < 2000 || I > 5000",
    "?:": "(I > 4000 ? I > 5000 : I < 1000)",
    "elvis": "(NoSuch ?: I) > 4000",
    "list[i]": "{1, 2, 3}[I % 3] == 2",
    "{...}": "size({I, 1}) == 2",
    "[...].x": "[x = I + 1].x > 4000",
    "MY.x": "MY.I > 4000",
    "TARGET.x": "TARGET.RequestMemory <= I",
    ".x": ".I > 4000",
    'TARGET["x"]': 'MY["I"] > 4000',
    "CurrentTime": "CurrentTime - I > 100",
    "definition": "SlotWeight > 1",
    "two columns": "I > 1000 && LoadAvg < 0.1",
    "two columns, one comparison": "I > LoadAvg * 10000",
    "function of a few beside many": 'versionGE(split(CondorVersion)[1], "25.13") ? I > 4000 : I > 2000',
    "WithinResourceLimits": "WithinResourceLimits",
    "eval of computed text": 'eval(strcat("I", " > 4000"))',
    "eval of text that varies": 'eval(strcat("Mem", substr("ory", 0, SlotID * 3))) > 4000',
}

#: Why a condition stays dear however it is asked.
REASONS = {
    "random": "draws anew in each evaluation: the plain evaluator takes the whole",
    "evalInEachContext": "a nested ad made for each value: the plain evaluator takes that part",
    "countMatches": "a nested ad made for each value: the plain evaluator takes that part",
    "debug": "meant to be watched: the plain evaluator takes that part",
    "unparse": "looks at the definition: the plain evaluator takes that part",
    "unresolved": "may read any attribute: asked row by row, with the whole ad",
    "userHome": "the host's list of users is asked for each value",
    "splitTime": "a nested ad made for each value: the plain evaluator takes that part",
    "[...].x": "a nested ad made for each value: the plain evaluator takes that part",
    ".x": "looked up from the outermost ad: the plain evaluator takes that part",
}
ONE_CALL = "one call of the function for each distinct value"
ONE_OPERATION = "one operation for each distinct value"


def functions() -> list[str]:
    """The functions of the language."""
    text = BUILTINS.read_text()
    table = text[text.index("static TABLE") : text.index("static BY_NAME")]
    return re.findall(r'\w+\("(\w+)",', table)


def pool(slots: int) -> AdTable:
    """Slots of HTCondor with an attribute more: a number of its own for each."""
    table = slot_table(Scenario("expressions", slots, 1, 1, 1, ads="htcondor-25.14"))
    for number, key in enumerate(table.keys()):
        table.update(key, {"Serial": number})
    return table


def written(form: str, width: Width) -> str:
    """The condition with the attributes of a width."""
    text = re.sub(r"\bI\b", width.integer, form)
    return re.sub(r"\bS\b", width.text, text)


def check(table: AdTable, condition: str, job: ClassAd) -> None:
    """The rows are those of the plain evaluator, as far as a sample shows.

    :raises AssertionError: naming condition and slot.
    """
    found = set(table.query_keys(condition, target=job, now=NOW))
    keys = table.keys()
    expr = ExprTree(condition)
    for key in keys[:: max(1, len(keys) // SAMPLE)]:
        ad = table.get(key)
        assert ad is not None
        value = expr.eval(ad, job, now=NOW)
        expected = isinstance(value, (bool, int, float)) and bool(value)
        assert (key in found) == expected, f"{condition} on {key}: plain evaluator {value!r}"


def seconds(table: AdTable, condition: str, job: ClassAd) -> float:
    """The least time of a few tries: other work on the machine only ever adds to it."""
    best = float("inf")
    spent = 0.0
    for _ in range(5):
        start = time.perf_counter()
        table.count(condition, target=job, now=NOW)
        taken = time.perf_counter() - start
        best, spent = min(best, taken), spent + taken
        if spent > 1.0:
            break
    return best


def main(args: list[str]) -> int:
    """Time all conditions at all widths, and list the dear ones."""
    slots = int(args[0]) if args else 100_000
    names = functions()
    missing = sorted(set(names) - set(CALLS))
    assert not missing, f"no condition for {', '.join(missing)}"
    table = pool(slots)
    job = ClassAd("[RequestMemory = 4096; RequestCpus = 1; RequestDisk = 1024]")
    report = Report("Expressions")
    dear: list[tuple[float, str, str, str]] = []
    for width in WIDTHS:
        yardstick = seconds(table, written("I >= TARGET.RequestMemory", width), job)
        report.add(f"{width.name}: Memory >= RequestMemory", "ms", yardstick * 1e3)
        factors = []
        for name, form in (CALLS | FORMS).items():
            condition = written(form, width)
            if name != "random":
                check(table, condition, job)
            factor = seconds(table, condition, job) / yardstick
            factors.append(factor)
            if factor > DEAR:
                reason = REASONS.get(name) or (ONE_CALL if name in CALLS else ONE_OPERATION)
                dear.append((factor, width.name, condition, reason))
        within = sum(factor <= DEAR for factor in factors)
        note = f"median {short(sorted(factors)[len(factors) // 2])} times"
        report.add(f"{width.name}: conditions within {DEAR} times", f"of {len(factors)}", within, note=note)
    print(f"\n{'times':>6}  {'distinct values':18} {'condition':70} why")
    for factor, width_name, condition, reason in sorted(dear, reverse=True):
        print(f"{factor:6.0f}  {width_name:18} {condition:70} {reason}")
    report.save(OUT)
    listed = [dict(zip(("times", "width", "condition", "reason"), row, strict=True)) for row in dear]
    (OUT / "expressions-dear.json").write_text(json.dumps(listed, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
