"""Every regular expression of ours takes steps in proportion to what it reads, whatever that is.

The patterns are found in the source. Each is given the worst texts that follow from its form
(`tests.support.pattern_work`), and the steps of a matcher that backtracks are counted.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import slotwise
from msgspec import Struct

from tests.support.pattern_work import LINEAR, worst_growth

ROOT = Path(slotwise.__file__).parent
_CALLS = ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
_WAYS = (*_CALLS[1:], "scanner")
_OURS = "reads messages of our own, in the tool of whoever has caused them"
_ADMIN = "the administrator's pattern, for names of accounts and devices"
_CALLER = "the pattern of whoever runs the command, in the command"
#: Patterns that may take more steps, or that are not written down here: why that is nothing to others.
OTHERS = {
    ("cli/common/htcondor_words.py", "ours"): _OURS,
    ("cli/help_text.py", r'r"^( {2,4})(\S.*?)(?: {2,}(\S.*))?$"'): "reads our own help",
    ("cli/host/config.py", "options.pattern"): _CALLER,
    ("cli/host/config_val.py", "word"): _CALLER,
    ("cli/jobs/htcondor_submit.py", "ours"): _OURS,
    (
        "cli/jobs/htcondor_submit.py",
        r'r"(?:.*?:\d+: )?(?P<loop>the queue variable )?`(?P<name>.*)` was not used; (?:is it a typo|did you .*)\?"',
    ): _OURS,
    ("config/slot_shares.py", '"," + _UNQUOTED'): "reads SLOT_TYPE_<N>, which the administrator writes",
    ("config/slot_shares.py", r'r"\s+(?![=/%:])(?<![=/:]\s)" + _UNQUOTED'): "reads SLOT_TYPE_<N>, as above",
    ("config/table.py", '"".join(parts)'): "names of knobs with one part in it, from our own table",
    ("config/unsupported.py", "rule.names"): "names of knobs, from our own table",
    ("execution/environment.py", "pattern"): _ADMIN,
    ("execution/environment.py", '"|".join(wanted)'): "JOB_INHERITS_STARTER_ENVIRONMENT, for the starter's environment",
    ("schedd/users/superusers.py", "impersonated"): _ADMIN,
    ("starter/enforcement/accounts.py", "rules.dedicated"): _ADMIN,
    ("starter/job/java.py", r'rf"(?m)^\s*{re.escape(name)}\s*=\s*(.*?)\s*$"'): "reads what the host's Java says",
}
#: Patterns that are put together where they are used, as they may look.
SAMPLES = {
    ("cli/htcondor/job_set_file.py", r'rf"\$\({re.escape(name)}\)"'): r"\$\(a\)",
    ("cli/jobs/qsub_script.py", "pattern"): r"\d+(\.\d+)?[kKmMgGtT]?[bBwW]?",
    ("config/slot_names.py", r'rf"(?:{words})(\d+(?:_\d+)?_\w+)"'): r"(?:SLOT|SLOT_TYPE_)(\d+(?:_\d+)?_\w+)",
    ("execution/cgroup/plan.py", "re.escape(group_name(str(execute), prefix)) + _SLOT"): r"a\d+(_\d+)?@",
    ("startd/fingerprint/cpu.py", r'rf"^{re.escape(name)}[ \t]*+:[ \t]*+(.+)$"'): r"(?m)^core\ id[ \t]*+:[ \t]*+(.+)$",
    (
        "submit/support.py",
        r'rf"(?im)^[ \t]*[+]?(?:my\.)?({names})[ \t]*(?:=|@=)"',
    ): r"(?im)^[ \t]*[+]?(?:my\.)?(a|b)[ \t]*(?:=|@=)",
    ("submit/support.py", r'rf"(?im)^[ \t]*{rule.commands[0]}[ \t]*=(.*)$"'): r"(?im)^[ \t]*a[ \t]*=(.*)$",
}


class Found(Struct, frozen=True):
    """A pattern in a file: its expression there, and how it is used."""

    file: str
    line: int
    expression: str
    pattern: re.Pattern[str] | re.Pattern[bytes] | None
    ways: frozenset[str]


def _flags(call: ast.Call, names: type[re.RegexFlag] = re.RegexFlag) -> int:
    words = " ".join(ast.unparse(one) for one in [*call.args[1:], *(one.value for one in call.keywords)])
    return sum({flag.value for name, flag in names.__members__.items() if re.search(rf"\bre\.{name}\b", words)})


@cache
def patterns() -> list[Found]:
    """All of them, but for generated modules."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        if "gen" in path.relative_to(ROOT).parts:
            continue
        source = path.read_text()
        if "re." not in source:
            continue
        tree = ast.parse(source)
        used = defaultdict(set)
        for name, way in re.findall(rf"\b(\w+)\.({'|'.join(_WAYS)})\(", source):
            used[name].add(way)
        names = {
            id(inner): target.id
            for node in tree.body
            for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
            if isinstance(target, ast.Name)
            for inner in ast.walk(node)
        }
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) in {f"re.{name}" for name in _CALLS}):
                continue
            name, way = names.get(id(call), ""), ast.unparse(call.func)[3:]
            file, text = (
                str(path.relative_to(ROOT)),
                " ".join((ast.get_source_segment(source, call.args[0]) or "").split()),
            )
            sample = SAMPLES.get((file, text))
            pattern = re.compile(sample) if sample else _read(call, path, name)
            ways = used[name] if way == "compile" else {way}
            found.append(Found(file, call.lineno, text, pattern, frozenset(ways or {"search"})))
    return found


def _read(call: ast.Call, path: Path, name: str) -> re.Pattern[str] | re.Pattern[bytes] | None:
    try:
        return re.compile(ast.literal_eval(call.args[0]), _flags(call))
    except ValueError:
        pass
    if not name:
        return None
    module = ".".join(("slotwise", *path.relative_to(ROOT).with_suffix("").parts))
    value = getattr(importlib.import_module(module.removesuffix(".__init__")), name, None)
    return value if isinstance(value, re.Pattern) else None


def test_patterns_are_found_in_the_source() -> None:
    assert len(patterns()) > 200
    unread = {(one.file, one.expression): one.line for one in patterns() if one.pattern is None}
    assert not {key: line for key, line in unread.items() if key not in OTHERS}, "say in OTHERS what these are"
    known = {(one.file, one.expression) for one in patterns()}
    assert not {*OTHERS, *SAMPLES} - known, "these are gone"


@pytest.mark.parametrize("part", sorted({one.file.partition("/")[0] for one in patterns()}))
def test_the_worst_text_takes_steps_in_proportion(part: str) -> None:
    slow = []
    for one in patterns():
        if one.file.partition("/")[0] != part or one.pattern is None or (one.file, one.expression) in OTHERS:
            continue
        growth, text = worst_growth(one.pattern, set(one.ways))
        if growth > LINEAR:
            slow.append(f"{one.file}:{one.line}: {one.expression}: {growth:.1f} times the steps for 3 times {text}")
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize(
    ("pattern", "way", "linear"),
    [
        (r"\s+$", "search", False),
        (r"(?<!\s)\s+$", "search", True),
        (r"\s*\d*\s*", "fullmatch", False),
        (r"\s*+\d*+\s*+", "fullmatch", True),
        (r"(a+)+b", "match", False),
        (r"<[^>]*>", "search", False),
        (r"<[^<>]*>", "search", True),
        (r"(?m)^\s*x", "search", False),
        (r"(?m)^[ \t]*x", "search", True),
        (r".*,.*,.*", "fullmatch", False),
        (r"[^,]*,[^,]*,[^,]*", "fullmatch", True),
        (r"(a|aa)+$", "match", False),
        (r"\$++\w*+\(", "search", False),
        (r"(?<!\$)\$++\w*+\(", "search", True),
    ],
)
def test_what_is_linear_is_told_from_what_is_not(pattern: str, way: str, linear: bool) -> None:
    growth, text = worst_growth(re.compile(pattern), {way})
    assert (growth <= LINEAR) is linear, (growth, text)
