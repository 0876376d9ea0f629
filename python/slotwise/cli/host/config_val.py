"""``condor_config_val``: values of the configuration, in the words of HTCondor's tool.

``slotwise config`` shows more; this is what scripts call. Texts are expanded and not evaluated: ``2 * 60`` stays that.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.host import daemon_config
from slotwise.cli.host.config_options import DAEMONS
from slotwise.errors import SlotwiseError, UsageError
from slotwise.release import CONDOR_VERSION

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config
    from slotwise.config.view import Origin

#: How each change is asked for: whether something is set, and whether only until the daemon starts again.
_CHANGES = {"set": (True, False), "unset": (False, False), "rset": (True, True), "runset": (False, True)}
_OPTIONS = [
    *(Option(name, least, 1) for name, least in (
        ("name", 1), ("address", 1), ("pool", 1), ("local-name", 2), ("subsystem", 3), ("root-config", 4),
        ("writeconfig", 3), ("check-if", 0),
    )),
    *(Option(name, least) for name, least in (
        ("owner", 1), ("tilde", 1), ("master", 2), ("schedd", 2), ("startd", 2), ("collector", 3), ("negotiator", 3),
        ("set", 2), ("unset", 3), ("rset", 3), ("runset", 5), ("mixedcase", 2), ("raw", 3), ("default", 3),
        ("config", 2), ("verbose", 1), ("dump", 1), ("expanded", 2), ("macro", 3), ("evaluate", 2), ("unused", 4),
        ("used", 2), ("summary", 3), ("debug", 2), ("help", 2), ("version", 3), ("diagnostic", 3),
        ("trace", 2),
    )),
]  # fmt: skip
USAGE = """usage: condor_config_val [options] NAME ...
       condor_config_val use CATEGORY[:TEMPLATE]
Values
  -raw, -default        before macros are expanded; the built-in default
  -verbose              with file and line, raw text, and default
  -trace                first each value that another has replaced, with file and line
  -evaluate             of a daemon: evaluated
  -macro[:path]         the words are texts, and macros in them are expanded
Many values
  -dump [PATTERN ...]   all whose names match; raw, or -expanded, -default, -verbose
  -summary[:detected]   what configuration files changed, file by file
  -writeconfig FILE     the same into a file (-: the screen)
  -used, -unused        of -dump: those that the daemon (-subsystem; a command) reads, or does not
  -config               the files
Whose
  -subsystem NAME, -local-name NAME, -root-config FILE
  -master, -schedd, -startd, -collector, -negotiator, -name NAME, -pool HOST:PORT: a running daemon's
Changes of a running daemon
  -set 'NAME = value', -unset NAME, -rset 'NAME = value', -runset NAME
Others
  -check-if CONDITION, -tilde, -owner, -version"""


def main(args: list[str], inv: Invocation) -> int:
    """Print values; exit status 1 when one is not defined."""
    words = _with_templates(args, inv)
    parsed = parse(words, _OPTIONS)
    if parsed.has("help") or (not parsed.options and not parsed.words):
        (inv.out if parsed.has("help") else inv.err)(USAGE)
        return 1
    if parsed.has("verbose") and parsed.has("default"):
        later = next(one.name for one in reversed(parsed.options) if one.name in ("verbose", "default"))
        inv.err(f"-{later} cannot be used with -{'default' if later == 'verbose' else 'verbose'}")
        htcondor_words.usage(inv)
        return 1
    if parsed.has("version"):
        from slotwise.cli.host.condor_names import version

        return version([], inv)
    if parsed.has("owner") or parsed.has("tilde"):
        return _account(parsed, inv)
    if parsed.value("pool") and not parsed.value("name"):
        inv.err("Error: you must specify -name with -pool")
        return 1
    return _answer(parsed, inv)


#: A daemon's address, in HTCondor's angle brackets or as ours are written.
_ADDRESS = re.compile(r"<(?!:)[^<>\s]*:\d[^<>\s]*>|(?!:)[^<>\s]*:\d+|unix:\S+")
#: Marks the words of ``use CATEGORY:TEMPLATE``.
_TEMPLATE = "^"


def _with_templates(args: list[str], inv: Invocation) -> list[str]:
    """The words with ``use X`` as one word, marked."""
    words, rest = [], list(args)
    while rest:
        word = rest.pop(0)
        if word.lower() != "use":
            words.append(word)
            option = word.lstrip("-").lower() if word.startswith("-") else ""
            if rest and option and any(known.values == 1 and known.means(option) for known in _OPTIONS):
                words.append(rest.pop(0))
            continue
        if rest and not rest[0].startswith("-"):
            words.append(_TEMPLATE + rest.pop(0))
        else:
            inv.err("use should be followed by a category or category:option argument")
            words.append(_TEMPLATE)
    return words


def _account(parsed: Parsed, inv: Invocation) -> int:
    """``-owner``: the account that daemons of root work as; ``-tilde``: the home directory of the account condor."""
    if parsed.has("owner"):
        inv.out(inv.account)
        return 0
    try:
        inv.out(pwd.getpwnam("condor").pw_dir)
    except KeyError:
        inv.err("Error: Specified -tilde but can't find condor's home directory")
        return 1
    return 0


class _NoRootError(UsageError):
    """A first file that does not exist, in the words of HTCondor's tool."""

    bare = True


def _load(parsed: Parsed, inv: Invocation, subsystem: str) -> Config:
    from slotwise.config import load

    root = parsed.value("root-config")
    if root and inv.called and not inv.path(root).exists():
        raise _NoRootError(f"ERROR: Can't read global config source {root}")
    named = root or inv.env.get("CONDOR_CONFIG")
    config = load(
        inv.path(root) if root else None,
        subsystem=subsystem,
        local_name=parsed.value("local-name"),
        env=inv.env,
        home=inv.home if inv.env.get("SLOTWISE_HOME") or not named else None,
        cwd=inv.cwd,
    )
    inv.pass_on_warnings(config)
    return config


def _answer(parsed: Parsed, inv: Invocation) -> int:
    daemon = next((one.name for one in parsed.options if one.name in DAEMONS), None)
    change = next((one.name for one in parsed.options if one.name in _CHANGES), None)
    if not parsed.words and (change or (daemon and not parsed.has("dump"))):
        htcondor_words.usage(inv)
        return 1
    if (address := parsed.value("address")) is not None and _ADDRESS.fullmatch(address) is None:
        inv.err(
            f'condor_config_val: invalid address {address}\nAddress must be of the form "<111.222.333.444:555>\n'
            "   where 111.222.333.444 is the ip address and 555 is the port\n"
            "   you wish to connect to (the punctuation is important).\n"
            f"Can't find address for {daemon or 'master'} '{parsed.value('name') or 'default'}' in local pool\n"
            "Perhaps you need to query another pool."
        )
        return 1
    if change or parsed.has("name") or parsed.has("address"):
        daemon = daemon or "master"
    config = _load(parsed, inv, parsed.value("subsystem") or (daemon or "TOOL").upper())
    if parsed.has("trace") and parsed.words:
        _trace(parsed, config, inv)
    if parsed.has("config"):
        _sources(config, inv)
    if (condition := parsed.value("check-if")) is not None:
        return _check_if(config, condition, inv)
    if change:
        return _change(parsed, inv, daemon or "master", change)
    if parsed.has("summary") or parsed.has("writeconfig"):
        _write(parsed, config, inv)
        if not parsed.words:
            return 0
    if daemon is not None:
        return _of_daemon(parsed, config, inv, daemon)
    if parsed.has("dump"):
        return _dump(parsed, config, inv)
    if not parsed.words and not parsed.has("config"):
        inv.err(USAGE)
        return 1
    status = 0
    for word in parsed.words:
        if word.startswith(_TEMPLATE):
            _template(parsed, word.removeprefix(_TEMPLATE), config, inv)
        elif parsed.has("macro"):
            _macro(parsed, word, config, inv)
        elif not _value(parsed, word, config, inv):
            status = 1
    return status


def _trace(parsed: Parsed, config: Config, inv: Invocation) -> None:
    """``-trace``: what was set before, of names as they stand, and with ``-dump`` of those that match."""
    names = {word.lower() for word in parsed.words}
    patterns = []
    for word in parsed.words if parsed.has("dump") else []:
        with contextlib.suppress(re.error):  # -dump says so
            patterns.append(re.compile(word, re.IGNORECASE))
    for name, raw, origin in config.replaced():
        if name.lower() in names or any(pattern.search(name) for pattern in patterns):
            inv.out(traced(name, raw, origin))


def traced(name: str, raw: str, origin: Origin) -> str:
    """A value that another has replaced, in the words of HTCondor's tool."""
    return f" # trace: {name}\n  # was: {raw}\n  # set at: {_place(origin)}"


def _value(parsed: Parsed, word: str, config: Config, inv: Invocation) -> bool:
    """Print one value; False when there is none."""
    name = config.entry_name(word) or word.upper()
    if parsed.has("default"):
        text = config.default(word)
    else:
        text = config.raw(word) if parsed.has("raw") else config.get(word)
    defined = bool(text)
    if not defined:
        inv.err(f"Not defined: {name}")
    elif parsed.has("verbose"):
        inv.out(f"{name} = {text}")
    else:
        inv.out(text or "")
    if parsed.has("verbose"):
        origin, raw = config.origin(word), config.raw(word)
        if origin is not None:
            inv.out(f" # at: {_place(origin)}")
            if not parsed.has("raw"):
                inv.out(f" # raw: {name} = {raw or ''}")
        inv.out()
    return defined


def _place(origin: Origin) -> str:
    return str(origin)


def _macro(parsed: Parsed, word: str, config: Config, inv: Invocation) -> None:
    text = config.expand(word)
    if any("path".startswith(one.letters) and one.letters for one in parsed.all("macro")):
        text = os.path.normpath(text)
    if parsed.has("verbose"):
        inv.out(f"{word} expands to: {text}\n # exist: 0x{int('$' in word):X}")
    else:
        inv.out(text)


def _names(config: Config) -> list[str]:
    """All names: those of the table of knobs, and those that are set."""
    from slotwise.config import knobs

    # HTCondor lists what is in its table; what its code alone knows is listed when it is set.
    listed = (knob for knob in knobs() if "<" not in knob.name and (knob.in_table or not knob.in_reference))
    table = {knob.name.lower(): knob.name for knob in listed}
    table |= {name.lower(): name for name, _, _ in config.settings()}
    return [table[key] for key in sorted(table)]


def _is_used(name: str, subsystem: str) -> bool:
    """Whether a daemon, or a command (TOOL), reads a knob: by the table of knobs, whatever it has read so far."""
    from slotwise.config import find_knob

    knob = find_knob(name)
    readers = {word.strip() for word in knob.daemons.split(",")} if knob is not None and knob.used else set()
    return ("tools" if subsystem == "TOOL" else subsystem.lower()) in readers or (
        subsystem != "TOOL" and "all" in readers
    )


def _matching(parsed: Parsed, config: Config, inv: Invocation) -> Iterator[tuple[str, list[str]]]:
    """Each pattern with the names that it matches."""
    every = _names(config)
    if parsed.has("used") != parsed.has("unused"):
        every = [name for name in every if _is_used(name, config.subsystem or "TOOL") == parsed.has("used")]
    for word in parsed.words or [""]:
        try:
            pattern = re.compile(word, re.IGNORECASE)
        except re.error as error:
            raise UsageError(f"{word!r} is not a regular expression: {error}") from None
        if word:
            inv.out(f"\n# Parameters with names that match {word}:")
        yield word, [name for name in every if pattern.search(name)]


def _dump(parsed: Parsed, config: Config, inv: Invocation) -> int:
    """``-dump``: all values, or those with names that match."""
    inv.out(f"# Configuration from machine: {config.get_str('FULL_HOSTNAME')}")
    for _, names in _matching(parsed, config, inv):
        for name in names:
            if parsed.has("default"):
                inv.out(f"{name} = {config.default(name) or ''}")
                continue
            raw, text = config.raw(name) or "", _expanded(config, name)
            inv.out(f"{name} = {text if parsed.has('expanded') else raw}")
            if parsed.has("verbose"):
                inv.out(f" # at: {_place(origin)}" if (origin := config.origin(name)) else " # at: <Default>")
                inv.out(f" # raw: {raw}" if parsed.has("expanded") else f" # expanded: {text}")
                if default := config.default(name):
                    inv.out(f" # default: {default}")
    if not parsed.has("verbose"):
        _contributing(config, inv)
    return 0


def _contributing(config: Config, inv: Invocation) -> None:
    inv.out("# Contributing configuration file(s):")
    for source in config.sources:
        inv.out(f"#\t{source}")


def _expanded(config: Config, name: str) -> str:
    try:
        return config.get(name) or ""
    except SlotwiseError as error:
        return f"<{error.message}>"


def _sources(config: Config, inv: Invocation) -> None:
    """``-config``: the files on standard output, what they are on standard error."""
    first, *others = config.sources or ["<none>"]
    inv.err("Configuration source:")
    inv.out(f"\t{first}")
    if others:
        inv.err("Local configuration source:" if len(others) == 1 else "Local configuration sources:")
        for source in others:
            inv.out(f"\t{source}")
        inv.err("")


def _write(parsed: Parsed, config: Config, inv: Invocation) -> None:
    """``-summary``, ``-writeconfig``: what is set to other than the default, in the order of the files."""
    from slotwise.config import knobs

    defaults = {knob.name.lower() for knob in knobs()}
    detected = any(one.letters.startswith("det") for one in parsed.all("summary"))
    found: dict[str, list[tuple[int, str]]] = {}
    for name, raw, origin in config.settings():
        if origin.file == "<Detected>" and not detected:
            continue
        if raw == (config.default(name) or "") and (raw or name.lower() in defaults):
            continue
        found.setdefault(origin.file, []).append((origin.line, f"{name} = {raw}"))
    lines = [f"# condor_config_val {CONDOR_VERSION}"] if parsed.has("summary") else []
    order = ["<Detected>", *config.sources]
    for file in sorted(found, key=lambda file: order.index(file) if file in order else len(order)):
        lines += ["", "#", f"# from {file}", "#", *(text for _, text in sorted(found[file], key=lambda row: row[0]))]
    text = "\n".join([*lines, "", ""])
    target = "-" if parsed.has("summary") else parsed.value("writeconfig") or "-"
    if target == "-":
        inv.out(text, end="")
    else:
        Path(inv.path(target)).write_text(text, encoding="utf-8", errors="surrogateescape")


def _template(parsed: Parsed, word: str, config: Config, inv: Invocation) -> None:
    """``use CATEGORY``: its templates; ``use CATEGORY:TEMPLATE``: the statements of one."""
    from slotwise.config import templates

    category, separator, rest = word.partition(":" if ":" in word else "=")
    name = re.split(r"[\s,(]", rest.strip(), maxsplit=1)[0]
    rows = [row for row in templates() if row[0].lower() == category.strip().lower()]
    if rows and not separator:
        inv.out(f"use {rows[0][0].upper()} accepts")
        for row in sorted(rows, key=lambda row: row[1].lower()):
            inv.out(f"  {row[1]}")
        return
    chosen = next((row for row in rows if row[1].lower() == name.lower()), None)
    if chosen is None:
        inv.out(f"Not defined: use {(f'{category}:{rest}' if rows else category).upper()}")
    elif parsed.has("expanded"):
        inv.out(f"use {chosen[0].upper()}:{rest} expands to\n{chosen[2].rstrip()}\n")
    else:
        arguments = re.fullmatch(r"[^(]*\((.*)\)\s*", rest, re.DOTALL)
        shown = f"{chosen[1]}({arguments[1]})" if arguments else chosen[1]
        statements = _with_arguments(chosen[2], arguments[1]) if arguments else chosen[2]
        inv.out(f"use {chosen[0].upper()}:{shown} is\n{statements.rstrip()}")


def _with_arguments(text: str, arguments: str) -> str:
    """The statements of a template with its arguments: ``$(2)``, ``$(2:default)``, ``$(2?)`` (1 if it is there, else
    0), ``$(2+)`` (from there on), ``$(0)`` (all), ``$(0#)`` (how many)."""
    given = [word.strip() for word in arguments.split(",")] if arguments.strip() else []

    def value(found: re.Match[str]) -> str:
        place, kind, default = int(found[1]), found[2], found[3]
        mine = given[place - 1 : place] if place else given
        if kind == "?":
            return str(int(bool(mine and mine[0])))
        if kind == "#":
            return str(len(given[max(place - 1, 0) :]))
        chosen = given[place - 1 :] if kind == "+" and place else mine
        return ",".join(chosen) or (default or "")

    return re.sub(r"\$\((\d+)([?+#]?)(?::([^()]*))?\)", value, text)


def _check_if(config: Config, condition: str, inv: Invocation) -> int:
    """Whether ``if`` takes the condition, and what it gives."""
    import tempfile

    from slotwise.config import load

    with tempfile.NamedTemporaryFile("w", suffix=".config") as file:
        file.writelines(f"include : {source}\n" for source in config.sources if Path(source).is_file())
        file.write(f"if {condition}\nCHECKED = true\nelse\nCHECKED = false\nendif\n")
        file.flush()
        try:
            found = load(Path(file.name), subsystem=config.subsystem, local_name=config.local_name, env=inv.env)
        except SlotwiseError as error:
            inv.out(f'# not supported: "{condition}" {error.message.rpartition(" because ")[2]}')
            return 0
    inv.out(f'# ok: "{condition}" \n{found.get("CHECKED")}')
    return 0


# ------------------------------------------------------------------------------------------------- running daemons


def _aimed(parsed: Parsed, inv: Invocation) -> Invocation:
    """The call for the daemon that is named, or that answers at ``-address``."""
    aimed = inv.aimed(parsed.value("pool"), parsed.value("name"))
    address = parsed.value("address")
    return aimed if address is None else aimed.at(address)


def _whose(parsed: Parsed, inv: Invocation, daemon: str, between: str) -> str:
    """A daemon's kind, name and address."""
    import grpc

    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    try:
        reply = inv.stub(daemon_pb2_grpc.DaemonStub, daemon).Ping(daemon_pb2.PingRequest(), timeout=20)
    except grpc.RpcError as failure:
        raise to_error(failure, peer=f"the {daemon}") from None
    return f"{daemon}{between}{reply.name} <{inv.target(daemon)}>"


def _of_daemon(parsed: Parsed, config: Config, inv: Invocation, daemon: str) -> int:
    """The values that a running daemon has."""
    aimed = _aimed(parsed, inv)
    if parsed.has("dump"):
        inv.out(f"# Configuration from {_whose(parsed, aimed, daemon, ' on ')}")
        found = False
        for _, names in _matching(parsed, config, inv):
            there = daemon_config.values(aimed, daemon, names)
            for name in names:
                if name in there:
                    found = True
                    inv.out(f"{name} = {there[name]}")
        local = not any(parsed.has(option) for option in ("name", "pool", "address"))
        if inv.called and found and local:  # the files of this host are those of its daemons
            _contributing(config, inv)
        return 0
    if template := next((word for word in parsed.words if word.startswith(_TEMPLATE)), ""):
        inv.err(f"remote query not supported for use {template.removeprefix(_TEMPLATE)}")
        return 1
    there = daemon_config.values(aimed, daemon, parsed.words)
    status = 0
    for word in parsed.words:
        text = there.get(word)
        name = config.entry_name(word) or word.upper()
        if text is None and parsed.has("raw"):
            inv.err(f"Not defined: {name}")
            status = 1
            continue
        if text is None and not parsed.has("default"):
            inv.out("undefined" if parsed.has("evaluate") else "Not defined")
            continue
        if parsed.has("default") and not config.default(word):
            inv.err(f"Not defined: {name}")
            status = 1
            continue
        if parsed.has("raw") or parsed.has("default"):
            text = (config.default(word) if parsed.has("default") else config.raw(word)) or text
        elif parsed.has("evaluate"):
            text = _evaluated(text or "", inv)
        inv.out(f"{name} = {text}" if parsed.has("verbose") else text or "")
        if parsed.has("verbose"):
            if origin := config.origin(word):
                inv.out(f" # at: {_place(origin)}\n # raw: {name} = {config.raw(word) or ''}")
            if default := config.default(word):
                inv.out(f" # default: {default}")
            inv.out()
    return status


def _evaluated(text: str, inv: Invocation) -> str:
    from slotwise.classad import ClassAd, ExprTree

    try:
        return ExprTree(ExprTree(text, old=True).eval(ClassAd())).print_old()
    except (ValueError, SlotwiseError):
        inv.err(f"Warning: Failed to evaluate '{text}', returning it as config value")
        return text


def _change(parsed: Parsed, inv: Invocation, daemon: str, change: str) -> int:
    """``-set`` and its kin: a daemon accepts a knob that its SETTABLE_ATTRS lists have."""
    from slotwise.config import persistent

    sets, runtime = _CHANGES[change]
    aimed = _aimed(parsed, inv)
    where = _whose(parsed, aimed, daemon, " ")  # that there is no such daemon is not said of each knob
    for word in parsed.words:
        if sets and "=" not in word and not word.startswith(_TEMPLATE):
            inv.err(
                f'condor_config_val: Can\'t set configuration value ("{word}")\n'
                'You must specify "macro_name = value" or "use category:option"'
            )
            return 1
        name, value = persistent.parse_assignment(word) if sets else (word.strip(), None)
        try:
            daemon_config.change(aimed, daemon, name, value, runtime=runtime)
        except SlotwiseError as failure:
            inv.err(f'Attempt to {"set" if sets else "unset"} configuration "{word}" on {where} failed.')
            inv.err(str(failure))
            return 1
        inv.out(f'Successfully {"set" if sets else "unset"} configuration "{word}" on {where}.')
    return 0
