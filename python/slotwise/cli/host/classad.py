"""``slotwise classad``: evaluate, format, match and convert ClassAds."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable

from slotwise.classad import (
    ERROR,
    UNDEFINED,
    ClassAd,
    ExprTree,
    Match,
    Side,
    conformance,
    definition_in,
    match,
    parse_ads,
    quote,
)
from slotwise.classad.machine import keep_debug_lines, take_debug_lines
from slotwise.cli.common.invocation import Invocation
from slotwise.errors import SlotwiseError, UsageError

USAGE = """usage: slotwise classad eval [--my FILE] [--target FILE] [--strict] [--json] [--debug] EXPR...
       slotwise classad fmt [EXPR...]
       slotwise classad match A B [--json]
       slotwise classad ads [--from FORMAT] [--to FORMAT] [FILE]
       slotwise classad eval|fmt|ads --jsonl [--strict] < cases.jsonl

eval   evaluate expressions, their names looked up in the ad of --my and then in that of --target; --debug shows what
       debug() tells; userMap() answers as the configuration says (TOOL_CLASSAD_USER_MAP_NAMES)
fmt    write expressions in canonical form, one a line; from standard input if none is given
match  do the ads in the files A and B accept each other, and which clause fails (exit status 1: no match)
ads    write ads in another format: old, new, json or xml

FILE may be - for standard input; its format is found out. With --jsonl, each line of standard input is a case as a
JSON object, and each line written its answer: eval reads "my", "target" and "expr" and gives "type" and "value", fmt
reads "expr" and gives "value", ads reads "format" and "text" and gives "ads"."""

_FLAGS = {"--strict", "--json", "--jsonl", "--lenient", "--debug"}
_WITH_VALUE = {"--my", "--target", "--from", "--to"}


def main(args: list[str], inv: Invocation) -> int:
    """Run ``slotwise classad``."""
    if not args or args[0] in ("help", "--help", "-h", "-help"):
        inv.out(USAGE)
        return 0 if args else 2
    verbs: dict[str, Callable[[list[str], dict[str, str], Invocation], int]] = {
        "eval": _eval,
        "fmt": _fmt,
        "match": _match,
        "ads": _ads,
    }
    verb = verbs.get(args[0])
    if verb is None:
        raise UsageError(f"there is no `classad {args[0]}`", hint="use eval, fmt, match or ads")
    words, options = _split(args[1:])
    if "--help" in options:
        inv.out(USAGE)
        return 0
    return verb(words, options, inv)


def _split(args: list[str]) -> tuple[list[str], dict[str, str]]:
    """Tell words from options; what follows ``--`` is words."""
    words: list[str] = []
    options: dict[str, str] = {}
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if arg == "--":
            words.extend(rest)
        elif arg in _FLAGS or arg in ("--help", "-h"):
            options["--help" if arg == "-h" else arg] = ""
        elif name in _WITH_VALUE:
            options[name] = value if equals else next(rest, "")
            if not options[name]:
                raise UsageError(f"{name} needs a value")
        elif arg.startswith("--") and not arg.startswith("---") and name[2:].replace("-", "").isalpha():
            raise UsageError(f"there is no option {arg}", hint="an expression that begins with -- goes after a lone --")
        else:
            words.append(arg)
    return words, options


def _text(name: str, inv: Invocation) -> str:
    if name == "-":
        return inv.stdin.read()
    try:
        return inv.path(name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise SlotwiseError(f"cannot read {name}: {error.strerror}", hint="name a file that holds an ad") from error


def _ad(name: str, inv: Invocation) -> ClassAd:
    return _first(_text(name, inv), name)


def _first(text: str, name: str) -> ClassAd:
    for ad in parse_ads(text):
        return ad
    raise SlotwiseError(f"{name} holds no ad", hint="write one attribute a line, or [ name = value; ... ]")


def _shown(value: object) -> str:
    """A value as canonical ClassAd text."""
    return quote(value) if isinstance(value, str) else str(ExprTree(value))


Case = dict[str, object]


def _plain(value: object) -> object:
    """A value as JSON has it."""
    if value is UNDEFINED:
        return None
    if value is ERROR or isinstance(value, ExprTree):
        return {"expr": str(ExprTree(value))}
    if isinstance(value, ClassAd):
        return json.loads(value.print_json())
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else str(ExprTree(value))


def _jsonl(answer: Callable[[Case], dict[str, object]], inv: Invocation) -> int:
    """Answer each line; one that is not a case is reported on standard error, and the rest is answered."""
    status = 0
    for number, line in enumerate(inv.stdin, 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            if not isinstance(case, dict):
                raise TypeError("it is not an object")
            told = answer(case)
        except KeyError as missing:
            inv.err(f"line {number} is not a case: it has no {missing.args[0]!r}")
        except (TypeError, ValueError) as error:
            inv.err(f"line {number} is not a case: {error}")
        else:
            inv.out(json.dumps(told))
            continue
        status = 1
    return status


def _eval(words: list[str], options: dict[str, str], inv: Invocation) -> int:
    strict = "--strict" in options
    if "--jsonl" in options:
        return _jsonl(lambda case: conformance.eval_case(case, strict), inv)
    if not words:
        raise UsageError("eval needs an expression", hint="slotwise classad eval 'strcat(\"a\", 1 + 2)'")
    my = _ad(options["--my"], inv) if "--my" in options else ClassAd()
    target = _ad(options["--target"], inv) if "--target" in options else None
    keep_debug_lines("--debug" in options)
    try:
        for word in words:
            value = ExprTree(word, strict=strict).eval(my, target, strict=strict)
            for line in take_debug_lines():
                inv.err(line)
            inv.out(json.dumps(_plain(value)) if "--json" in options else _shown(value))
    finally:
        keep_debug_lines(False)
    return 0


def _fmt(words: list[str], options: dict[str, str], inv: Invocation) -> int:
    if "--jsonl" in options:
        return _jsonl(lambda case: conformance.fmt_case(case, "--strict" in options), inv)
    for text in words or (line for line in inv.stdin if line.strip()):
        if _is_file(text, inv):
            raise UsageError(f"{text} is a file", hint=f"fmt takes expressions: slotwise classad fmt < {text}")
        inv.out(str(ExprTree(text, strict="--strict" in options)))
    return 0


def _is_file(word: str, inv: Invocation) -> bool:
    """Whether somebody may have meant a file; a plain name is that of an attribute."""
    try:
        return not word.isidentifier() and inv.path(word).is_file()
    except OSError:  # too long a name
        return False


def _match(words: list[str], options: dict[str, str], inv: Invocation) -> int:
    if len(words) != 2:
        raise UsageError("match needs two files", hint="slotwise classad match job.ad machine.ad")
    texts = [_text(name, inv) for name in words]
    left, right = (_first(text, name) for text, name in zip(texts, words, strict=True))
    found = match(left, right)
    places = [_places(text, side) for text, side in zip(texts, (found.left, found.right), strict=True)]
    if "--json" in options:
        sides = {
            name: _side_json(side, place)
            for name, side, place in zip(("left", "right"), (found.left, found.right), places, strict=True)
        }
        inv.out(json.dumps({"matches": bool(found), **sides}))
    else:
        _show_match(found, words, places, inv)
    return 0 if found else 1


def _places(text: str, side: Side) -> list[ExprTree | None]:
    """The clauses of a side as they stand in the text of its ad; None for formats that have no such text."""
    written = definition_in(text, "Requirements")
    clauses = written.conjuncts() if written is not None else []
    if [str(clause) for clause in clauses] != [str(clause.expr) for clause in side.clauses]:
        return [None] * len(side.clauses)
    return list(clauses)


def _side_json(side: Side, places: list[ExprTree | None]) -> dict[str, object]:
    clauses = []
    for clause, written in zip(side.clauses, places, strict=True):
        row: dict[str, object] = {"clause": str(clause.expr), "value": _shown(clause.value), "passes": clause.passes}
        if written is not None and written.line_column is not None:
            row["line"], row["column"] = written.line_column
        clauses.append(row)
    return {"accepts": side.accepts, "value": _shown(side.value), "clauses": clauses}


def _show_match(found: Match, names: list[str], places: list[list[ExprTree | None]], inv: Invocation) -> None:
    inv.out("match" if found else "no match")
    sides = ((found.left, names[0], names[1], places[0]), (found.right, names[1], names[0], places[1]))
    for side, name, other, written in sides:
        if not side.clauses:
            inv.out(f"{name} has no Requirements, and so accepts nothing")
            continue
        inv.out(f"{name} {'accepts' if side.accepts else 'refuses'} {other}")
        for clause, place in zip(side.clauses, written, strict=True):
            mark = "  ok    " if clause.passes else "  FAILS "
            inv.out(f"{mark}{clause.expr}  is {_shown(clause.value)}")
            if not clause.passes and place is not None and place.line_column is not None:
                line, column = place.line_column
                inv.out(f"        {name}, line {line}, column {column}:")
                inv.out(textwrap.indent(place.excerpt(), " " * 8))


def _ads(words: list[str], options: dict[str, str], inv: Invocation) -> int:
    if "--jsonl" in options:
        return _jsonl(lambda case: conformance.ads_case(case, "--strict" in options), inv)
    if len(words) > 1:
        raise UsageError("ads reads one file")
    source, target = options.get("--from", "auto"), options.get("--to", "new")
    if source not in ("auto", "old", "new", "json", "xml"):
        raise UsageError(f"{source!r} is not a format", hint="use old, new, json or xml")
    writers: dict[str, Callable[[ClassAd], str]] = {
        "old": lambda ad: ad.print_old(),
        "new": repr,
        "json": lambda ad: ad.print_json(),
        "xml": lambda ad: ad.print_xml().rstrip("\n"),
    }
    if target not in writers:
        raise UsageError(f"{target!r} is not a format", hint="use old, new, json or xml")
    text = _text(words[0] if words else "-", inv)
    ads = parse_ads(text, format=source, lenient="--lenient" in options)  # type: ignore[arg-type]
    before, between, after = {"json": ("[", ",", "]"), "xml": ("<classads>", "", "</classads>")}.get(
        target, ("", "", "")
    )
    if before:
        inv.out(before)
    for number, ad in enumerate(ads):
        if number and between:
            inv.out(between)
        inv.out(writers[target](ad))
    if after:
        inv.out(after)
    return 0
