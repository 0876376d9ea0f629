"""`slotwise config`: values and where they come from, the whole configuration, what is wrong with it, policies."""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import TYPE_CHECKING, TypedDict

from slotwise.cli.common import verbs
from slotwise.cli.host import config_changes, daemon_config
from slotwise.cli.host.config_options import add_daemons, daemon_of, load_for, verb_parser
from slotwise.errors import ConfigError, SlotwiseError, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config

#: How long a daemon may take for ``val -verbose``, in seconds.
_GLANCE_S = 2.0


def main(args: list[str], inv: Invocation) -> int:
    """Run one verb. A refused configuration gives its reason on standard error and exit status 2."""
    known = {
        "val": val,
        "dump": dump,
        "check": check,
        "explain": explain,
        "set": config_changes.set_,
        "unset": config_changes.unset,
        "templates": templates,
    }
    try:
        return verbs.run("config", known, args, inv)
    except ConfigError as error:
        inv.err(f"slotwise config: {error}")
        return 2


def _text(value: str | int | bool | float | None) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def val(args: list[str], inv: Invocation) -> int:
    """Print values; exit status 1 when a knob is undefined."""
    parser = verb_parser(inv, "val", "Print the values of knobs, and where they come from.")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("-default", "--default", action="store_true", help="the built-in default instead")
    parser.add_argument("-raw", "--raw", action="store_true", help="the text before macros are expanded")
    parser.add_argument("-verbose", "-v", "--verbose", action="store_true", help="origin, raw text, default, readers")
    parser.add_argument("-trace", "--trace", action="store_true", help="first each value that another has replaced")
    add_daemons(parser)
    options = parser.take(args)
    if options is None:
        return 0
    if (daemon := daemon_of(options)) is not None:
        return _values_there(options, inv.aimed(options.pool, options.name), daemon)
    config = load_for(options, inv)

    def value(name: str) -> str | None:
        if options.default:
            return config.default(name)
        return config.raw(name) if options.raw else _text(config.typed(name))

    found = {name: value(name) or None for name in options.names}
    if options.json:
        long = options.verbose or options.trace
        details = {name: _details(config, name, inv) for name in options.names} if long else found
        inv.out(json.dumps(details, indent=2 if long else None))
    else:
        if options.trace:
            _print_replaced(config, options.names, inv)
        for name, text in found.items():
            if options.verbose:
                _print_details(_details(config, name, inv), inv)
            elif text is not None:
                inv.out(text)
            else:
                inv.err(f"Not defined: {name}")
    return 0 if all(text is not None for text in found.values()) else 1


def _values_there(options: Namespace, inv: Invocation, daemon: str) -> int:
    """The values that a running daemon has."""
    if options.default or options.raw or options.verbose or options.trace:
        raise UsageError("a running daemon gives only values", hint="leave out -default, -raw, -verbose and -trace")
    there = daemon_config.values(inv, daemon, options.names)
    found = {name: there.get(name) for name in options.names}
    if options.json:
        inv.out(json.dumps(found))
    else:
        for name, text in found.items():
            (inv.err if text is None else inv.out)(f"Not defined: {name}" if text is None else text)
    return 0 if all(text is not None for text in found.values()) else 1


def _print_replaced(config: Config, names: list[str], inv: Invocation) -> None:
    """In the order and the words of ``condor_config_val -trace``."""
    from slotwise.cli.host.config_val import traced

    wanted = {name.lower() for name in names}
    for name, raw, origin in config.replaced():
        if name.lower() in wanted:
            inv.out(traced(name, raw, origin))


class Replaced(TypedDict):
    """A value that another has replaced, before macros are expanded, and where it was set."""

    Raw: str
    Origin: str


class Details(TypedDict, total=False):
    """Facts about a knob, under the names that programs read."""

    Name: str
    Value: str | None
    Raw: str | None
    Origin: str | None
    Default: str | None
    Replaced: list[Replaced]
    Known: bool
    Similar: list[str]
    Type: str
    Used: bool
    Unit: str
    Description: str
    ReadBy: str
    Applies: str
    InDaemons: dict[str, str | None]


def _details(config: Config, name: str, inv: Invocation) -> Details:
    from slotwise.config import find_knob, similar_knobs

    knob = find_knob(name)
    origin = config.origin(name)
    details: Details = {
        "Name": config.entry_name(name) or name,
        "Value": _text(config.typed(name)),
        "Raw": config.raw(name),
        "Origin": str(origin) if origin else None,
        "Default": config.default(name),
        "Replaced": [
            {"Raw": raw, "Origin": str(where)} for one, raw, where in config.replaced() if one.lower() == name.lower()
        ],
    }
    if knob is None:
        return details | {"Known": False, "Similar": similar_knobs(name)}
    details |= {"Known": True, "Type": knob.type, "Used": knob.used}
    if knob.used:
        details |= {"Description": knob.description, "Unit": knob.unit, "ReadBy": knob.daemons, "Applies": knob.applies}
        details["InDaemons"] = _in_daemons(name, knob.daemons, inv)
    return details


def _in_daemons(name: str, daemons: str, inv: Invocation) -> dict[str, str | None]:
    """The value in each running daemon that reads the knob."""
    from slotwise.wire import address

    running: dict[str, str | None] = {}
    readers = {word.strip().lower() for word in daemons.split(",")}
    try:
        published = [daemon for daemon in address.published(inv.home) if daemon in readers or "all" in readers]
    except (SlotwiseError, OSError):
        return running
    for daemon in published:
        with contextlib.suppress(SlotwiseError):  # one that does not answer is not shown
            running[daemon] = daemon_config.values(inv, daemon, [name], _GLANCE_S).get(name)
    return running


def _print_details(details: Details, inv: Invocation) -> None:
    inv.out(f"{details['Name']} = {details['Value'] if details['Value'] is not None else ''}")
    rows = [("raw", details["Raw"]), ("default", details["Default"]), ("set in", details["Origin"])]
    if details["Known"]:
        rows.append(("type", details["Type"] + (f", {details['Unit']}" if details.get("Unit") else "")))
        if details["Used"]:
            rows += [
                ("meaning", details["Description"]),
                ("read by", details["ReadBy"]),
                ("applies", details["Applies"]),
            ]
        else:
            rows.append(("note", "known to HTCondor, not used by Slotwise"))
    elif details["Similar"]:
        rows.append(("note", f"no known knob; did you mean {' or '.join(details['Similar'])}?"))
    for label, text in rows:
        inv.out(f" # {label}: {'(none)' if text is None else text}")
    for daemon, value in details.get("InDaemons", {}).items():
        inv.out(f" # running {daemon}: {state_in_daemon(value, details['Value'], details['Applies'])}")


def state_in_daemon(has: str | None, wants: str | None, applies: str) -> str:
    """What a running daemon has for a knob, and what it takes for it to have what the configuration ``wants``: what the
    next job sees (``applies``) is read again by a reconfig, too."""
    if (has or None) == wants:
        return "has it"
    return f"has {has or '(none)'}, needs a {'restart' if applies == 'restart' else 'reconfig'}"


def dump(args: list[str], inv: Invocation) -> int:
    """Print all knobs."""
    parser = verb_parser(inv, "dump", "Print all knobs with their values, by name.")
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="only names that match this regular expression")
    parser.add_argument("-changed", "--changed", action="store_true", help="only those that differ from the default")
    parser.add_argument("-raw", "--raw", action="store_true", help="the text before macros are expanded")
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.config import knobs

    config = load_for(options, inv)
    set_names = {name: origin for name, _, origin in config.settings()}
    names = {name.lower(): name for name in [*set_names, *([] if options.changed else [k.name for k in knobs()])]}
    pattern = re.compile(options.pattern, re.IGNORECASE) if options.pattern else None
    rows = {}
    for name in sorted(names.values(), key=str.lower):
        if (pattern and not pattern.search(name)) or "<" in name:
            continue
        origin = set_names.get(name)
        if options.changed and (
            origin is None or origin.file == "<Detected>" or config.raw(name) == config.default(name)
        ):
            continue
        rows[name] = (config.raw(name) if options.raw else _safe(config, name)) or ""
    if options.json:
        inv.out(json.dumps(rows, indent=2))
    else:
        for name, text in rows.items():
            inv.out(f"{name} = {text}")
    return 0


def _safe(config: Config, name: str) -> str | None:
    try:
        return _text(config.typed(name))
    except ConfigError as error:
        return f"<{error.message}>"


def check(args: list[str], inv: Invocation) -> int:
    """Exit status 0 when nothing is wrong, 1 for errors in values, 2 when the configuration is refused."""
    parser = verb_parser(
        inv, "check", "Look for mistakes: names, types, ranges, expressions, loops, and what daemons refuse."
    )
    parser.add_argument("-notes", "--notes", action="store_true", help="also unknown names that nothing refers to")
    parser.add_argument("-strict", "--strict", action="store_true", help="warnings count as errors")
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.config import check as check_config
    from slotwise.config import home_of
    from slotwise.daemon import preflight

    config = load_for(options, inv)
    home = home_of(inv.env)
    problems = check_config(config, notes=True)
    refused = list(preflight.problems(config, home, inv.env, time.time()))
    problems += refused
    if not options.notes:
        problems = [
            problem for problem in problems if problem.code != "config-unknown-name" or problem.severity != "note"
        ]
    if options.json:
        inv.out(json.dumps([problem.as_dict() for problem in problems], indent=2))
    else:
        for problem in problems:
            inv.out(str(problem))
        count = sum(problem.severity == "error" for problem in problems)
        inv.out(f"{count} error(s), {sum(problem.severity == 'warning' for problem in problems)} warning(s)")
        named = config.get("CONDOR_IDS") or inv.env.get("CONDOR_IDS")
        if (named or options.notes) and not any(problem.name == "CONDOR_IDS" for problem in refused):
            inv.out(f"Daemons that root starts work as {preflight.work_as(config, home, inv.env)}.")
    bad = {"error", "warning"} if options.strict else {"error"}
    return 1 if any(problem.severity in bad for problem in problems) else 0


def explain(args: list[str], inv: Invocation) -> int:
    """Print what knobs are for, and their values after expansion with the macros that made them."""
    parser = verb_parser(inv, "explain", "Show what knobs are for and how their values come about, macro by macro.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="knobs, or POLICY for all policy expressions (default)"
    )
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.config.explaining import POLICY, Meaning
    from slotwise.config.explaining import explain as explain_one
    from slotwise.config.explaining import lines as explanation_lines

    config = load_for(options, inv)
    wanted: list[str] = []
    for name in options.names or ["POLICY"]:
        wanted += POLICY if name.upper() == "POLICY" and config.raw(name) is None else [name]
    explanations = [explain_one(config, name) for name in wanted if options.names or config.raw(name)]
    if options.json:
        shown = [one.as_dict() | {"Meaning": Meaning.of(one.name).as_dict()} for one in explanations]
        inv.out(json.dumps(shown, indent=2))
        return 0
    for explanation in explanations:
        inv.out(f"{explanation.name} = {explanation.value if explanation.value is not None else '(undefined)'}")
        for line in Meaning.of(explanation.name).lines(is_set=explanation.raw is not None):
            inv.out(f"  # {line}")
        for line in explanation_lines(explanation):
            inv.out(f"  | {line}")
        inv.out()
    return 0 if all(explanation.raw is not None for explanation in explanations) else 1


def templates(args: list[str], inv: Invocation) -> int:
    """List configuration templates, or print what one expands to."""
    parser = verb_parser(inv, "templates", "List the templates of `use CATEGORY : NAME`, or print one.")
    parser.add_argument("name", nargs="?", metavar="CATEGORY[:NAME]")
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.config import templates as all_templates

    category, _, name = (options.name or "").partition(":")
    chosen = [
        row
        for row in all_templates()
        if category.strip().lower() in ("", row[0].lower()) and name.strip().lower() in ("", row[1].lower())
    ]
    if options.json:
        inv.out(json.dumps([{"Category": row[0], "Name": row[1], "Text": row[2]} for row in chosen], indent=2))
    else:
        for row in chosen:
            inv.out(row[2].rstrip() if name else f"{row[0]}:{row[1]}")
    return 0 if chosen else 1
