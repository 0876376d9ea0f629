"""Looks for what is wrong with a configuration: names, types, ranges, expressions, macro loops.

Nothing here refuses a configuration; :func:`require_sound` does, for the policy that a daemon is about to use.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from slotwise.authorization import entries as authorization
from slotwise.config import coherence, debug, log_limits, slot_accounts, slot_names
from slotwise.config.problem import ERROR, NOTE, WARNING, Problem
from slotwise.config.table import Knob, find_knob, knobs, similar_knobs
from slotwise.config.unsupported import Effect, Rule, promises, rule_of
from slotwise.config.view import Config, Origin
from slotwise.errors import ConfigError

_REFERENCE = re.compile(r"\$[A-Za-z_]*\(\s*([A-Za-z0-9_./]+)")
_OWN_SOURCES = frozenset({"<Detected>"})
#: Knobs that apply a template by default (AUTO_USE_FEATURE_PelicanRetryPolicy).
_AUTOMATIC = "AUTO_USE_"
#: Lists of names of attributes or expressions, whose values are in knobs of these names.
_NAME_LISTS = re.compile(r"_(NAMES|JOBLIST|ATTRS|EXPRS|CLAUSES)$|^APPEND_RANK$", re.IGNORECASE)
_SLOT_FORM = re.compile(r"SLOT(?:_TYPE_)?\d+_(\w+)", re.IGNORECASE)
_ONE_SLOT = re.compile(r"SLOT(\d+_\w+)", re.IGNORECASE)
#: Lists of those who have a level that is not every user's.
_ALLOWS = re.compile(
    "ALLOW_(DAEMON|NEGOTIATOR|ADVERTISE_(?:STARTD|SCHEDD|MASTER)|CONFIG|ADMINISTRATOR|DEFAULT)(?:_[A-Z]+)?",
    re.IGNORECASE,
)
#: A family of knobs with a name in the middle.
_MEMBER = re.compile(r"([A-Z_]+_)<[A-Z]+>_([A-Z_]+)")
_RESOURCES = ("cpus", "cpu", "memory", "ram", "disk", "swap", "gpus", "gpu")
_DAEMON_LISTS = ("DAEMON_LIST", "DC_DAEMON_LIST")
#: Daemons that Slotwise has, and those of HTCondor that it does not need.
_DAEMONS = frozenset(
    {
        "MASTER",
        "COLLECTOR",
        "NEGOTIATOR",
        "SCHEDD",
        "STARTD",
        "DEFRAG",
        "ROOSTER",
        "LIBRARIAN",
        "WEB",
        "SHARED_PORT",
        "PROCD",
        "KBDD",
        "CREDD",
        "CREDMON_OAUTH",
    }
)
#: Daemons that are added to those that serve jobs, and those of a personal pool, which run where DAEMON_LIST is unset.
_ADDITIONS = frozenset({"DEFRAG", "ROOSTER", "LIBRARIAN", "WEB", "SHARED_PORT"})
_EVERY_DAEMON = "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD"
#: The knob that lets the pool start in spite of the knobs that it names.
IGNORED = "SLOTWISE_IGNORE_UNSUPPORTED"
NOT_HONOURED = "config-not-honoured"
#: Knobs that are an expression or a list of paths.
_LISTS_OR_EXPRESSIONS = frozenset({"MOUNT_UNDER_SCRATCH"})
#: Lists of names, each of which has a knob of its own that begins so and ends as the second column says.
_MEMBER_LISTS = (
    (re.compile("(SYSTEM_PERIODIC_(?:HOLD|RELEASE|REMOVE|VACATE))_NAMES", re.IGNORECASE), ""),
    (re.compile("(JOB_TRANSFORM)_NAMES", re.IGNORECASE), ""),
    (re.compile("(SUBMIT_REQUIREMENT)_NAMES", re.IGNORECASE), ""),
    (re.compile("((?:STARTD|SCHEDD)_CRON|BENCHMARKS)_JOBLIST", re.IGNORECASE), "_EXECUTABLE"),
)

#: Knobs that name the ad of a daemon.
_DAEMON_NAMES = frozenset(("MASTER_NAME", "SCHEDD_NAME", "STARTD_NAME"))
#: Text behind a value that people mistake for a comment.
_COMMENT = re.compile(r"\s#(\s|$)")
#: Knobs whose value is one of some words.
_WORDS = {
    "CGROUP_MEMORY_LIMIT_POLICY": ("hard", "soft", "custom", "none"),
    "DEFRAG_DRAINING_SCHEDULE": ("graceful", "quick", "fast"),
    "SLOTWISE_SCHEDD_SYNCHRONOUS": ("NORMAL", "FULL", "OFF"),
    "BACKFILL_SYSTEM": ("BOINC",),
    "SLOT_CONFIG_FAILURE_MODE": ("CONTINUE", "CLEAR", "ABORT"),
    "SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES": ("YES", "NO", "IF_NEEDED"),
}


def check(config: Config, *, notes: bool = False) -> list[Problem]:
    """All problems, in the order of the settings.

    :param notes: also report knobs without effect, and names that nothing refers to.
    """
    settings = [entry for entry in config.settings() if not _is_own(entry[2])]
    names = _Names.of(config)
    prefixes = slot_names.prefixes(config)
    problems = [Problem(WARNING, "config-warning", "", text, origin) for origin, text in config.warnings]
    for written, _, origin in settings:
        name = slot_names.usual_form(written, prefixes)
        if name == written and (problem := _slot_form_problem(name, origin, prefixes)) is not None:
            problems.append(problem)
            continue
        found = [_name_problem(config, name, origin, names), _value_problem(config, written, origin, name)]
        problems += [problem for problem in found if problem is not None and (notes or problem.severity != NOTE)]
    faulty = {problem.name.lower() for problem in problems if problem.severity == ERROR}
    doubts = [*coherence.doubts(config, names.mentioned), *slot_accounts.problems(config)]
    return [*problems, *(problem for problem in doubts if problem.name.lower() not in faulty)]


def _slot_form_problem(name: str, origin: Origin, prefixes: frozenset[str]) -> Problem | None:
    """A knob of one slot by a name that no slot has."""
    if slot_names.USUAL in prefixes or (form := _ONE_SLOT.fullmatch(name)) is None:
        return None
    (prefix, *_) = sorted(prefixes)
    hint = f"write {prefix.upper()}{form[1]}"
    message = f"{name} has no effect: slots are not called slot<N>, but {' or '.join(sorted(prefixes))}<N>"
    return Problem(WARNING, "config-slot-name", name, message, origin, hint)


def _is_own(origin: Origin) -> bool:
    """Whether a setting is not the administrator's: detected, or of a template that a default applies."""
    return origin.file in _OWN_SOURCES or origin.file.startswith(_AUTOMATIC)


class _Names(Struct, frozen=True):
    """The names that a configuration defines, in lower case."""

    #: Names that values refer to, or that lists of attributes and expressions contain.
    mentioned: frozenset[str]
    #: The administrator's own daemons in DAEMON_LIST.
    daemons: tuple[str, ...]
    #: Patterns of :data:`IGNORED`.
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, config: Config) -> _Names:
        found: set[str] = set()
        daemons: set[str] = set()
        for name, raw, _ in config.settings():
            found.update(word.lower() for word in _REFERENCE.findall(raw))
            bare = name.rpartition(".")[2].upper()
            if bare in _DAEMON_LISTS:
                daemons.update(re.findall(r"\b[A-Z_][A-Z0-9_]*", raw.upper()))
            elif _NAME_LISTS.search(bare):
                found.update(word.lower() for word in re.findall(r"[A-Za-z0-9_.]+", raw))
        own = tuple(sorted(word.lower() for word in daemons - _DAEMONS - set(_DAEMON_LISTS)))
        return cls(frozenset(found), own, tuple(word.lower() for word in config.get_list(IGNORED)))

    def has(self, name: str) -> bool:
        """Whether the configuration itself gives a name a meaning."""
        form = _SLOT_FORM.fullmatch(name)
        of_slot = form is not None and form[1] in self.mentioned
        return name in self.mentioned or of_slot or any(name == d or name.startswith(f"{d}_") for d in self.daemons)


def _name_problem(config: Config, name: str, origin: Origin, names: _Names) -> Problem | None:
    knob = find_knob(name)
    if knob is not None and knob.used:
        return _misspelt_list(knob, name, origin)
    bare = name if knob is not None and "." not in knob.name and "." not in name else name.split(".", 1)[-1]
    rule = rule_of(bare)
    if rule is not None and rule.effect is not Effect.NONE:
        return _not_honoured(config, name, bare, origin, rule, names)
    if names.has(bare.lower()) or names.has(name.lower()) or origin.template is not None:
        return None
    near = _near(bare) if knob is None else _near_promise(knob, bare)
    near = [like for like in near if like.upper() != bare.upper()]
    if near:
        hint = f"did you mean {' or '.join(near)}?"
        return Problem(WARNING, "config-unknown-name", name, f"there is no knob {name}", origin, hint)
    if rule is not None:
        return _not_honoured(config, name, bare, origin, rule, names)
    if of_slot := _SLOT_FORM.fullmatch(bare):
        return _no_slot_form(name, bare, of_slot[1], origin)
    message = f"there is no knob {name}, and nothing refers to it"
    return Problem(NOTE, "config-unknown-name", name, message, origin)


def _misspelt_list(knob: Knob, name: str, origin: Origin) -> Problem | None:
    """A setting that looks like a member of a family, but is the misspelt list of its members."""
    # What ends as members of the family do (BENCHMARKS_<JOB>_EXECUTABLE) is one. Categories are given, not chosen.
    is_open = knob.name.endswith(">") or "<CATEGORY>" in knob.name
    near = _near_promise(knob, name) if is_open and origin.template is None else []
    if not near:
        return None
    hint = f"did you mean {near[0]}?"
    return Problem(WARNING, "config-unknown-name", name, f"there is no knob {name}", origin, hint)


def _near(name: str) -> list[str]:
    """The names that one without a meaning may be a misspelling of."""
    return (
        [like for like in similar_knobs(name) if _matters(like)]
        or _similar_family(name)
        or _similar_form(name)
        or get_close_matches(name.upper(), promises(), n=2, cutoff=0.9)
    )


def _near_promise(knob: Knob, name: str) -> list[str]:
    """Names that one may be a misspelling of if it looks like a member of a family, such as JOB_TRANSFORM_<NAME>."""
    family, part, _ = knob.name.partition("<")
    if not part:
        return []
    lists = [each.name for each in knobs() if each.used and "<" not in each.name and each.name.startswith(family)]
    parts = [each.removeprefix(family) for each in lists]
    found = get_close_matches(name.upper().removeprefix(family), parts, n=1, cutoff=0.8)
    return [family + part for part in found] or get_close_matches(name.upper(), promises(), n=1, cutoff=0.9)


def _no_slot_form(name: str, bare: str, attribute: str, origin: Origin) -> Problem:
    """A setting of one slot or slot type that is neither a knob nor an attribute of slots."""
    message = f"there is no knob {name}, and STARTD_ATTRS does not name {attribute}"
    hint = ""
    if attribute.lower() in _RESOURCES:
        slot_type = bare[: -len(attribute) - 1] if bare.upper().startswith("SLOT_TYPE_") else "SLOT_TYPE_<N>"
        hint = f"resources are part of {slot_type}, such as {slot_type} = {attribute.lower()}=2"
    return Problem(WARNING, "config-unknown-name", name, message, origin, hint)


def _matters(name: str) -> bool:
    """Whether a known name is that of a knob that somebody may have meant, not of a macro."""
    knob, rule = find_knob(name), rule_of(name)
    return (knob is not None and knob.used) or (rule is not None and rule.effect is not Effect.NONE)


_SEVERITY = {Effect.ISOLATION: ERROR, Effect.REFUSAL: ERROR, Effect.POLICY: WARNING, Effect.SERVICE: WARNING}


def _not_honoured(config: Config, name: str, bare: str, origin: Origin, rule: Rule, names: _Names) -> Problem | None:
    try:
        text = config.data.seen_by(None, None).text(name) or ""
    except ValueError:
        return None  # the value has a problem of its own
    default = config.default(bare)
    if rule.asks_for_nothing(text, None if default is None else config.expand(default)):
        return None
    if rule.effect is Effect.REFUSAL and (origin.template or "").upper().startswith("SECURITY:"):
        return None  # its lists name the pool's own identities, for which tokens stand here
    severity = _SEVERITY.get(rule.effect, NOTE)
    hint = rule.hint
    if severity == ERROR:
        if any(fnmatchcase(bare.lower(), pattern) for pattern in names.ignored):
            severity = WARNING
        else:
            hint = f"{hint}{'; ' if hint else ''}{IGNORED} = {bare} starts the pool all the same"
    message = f"{name} {rule.text}"
    return Problem(severity, NOT_HONOURED, name, message, origin, hint)


def _similar_family(name: str) -> list[str]:
    """Members of numbered families, such as ``NUM_SLOTS_TYPE_1``, that a name may stand for."""
    numbers = re.findall(r"\d+", name)
    families = [knob.name for knob in knobs() if knob.name.count("<") == knob.name.count("<N>") == len(numbers) > 0]
    near = get_close_matches(re.sub(r"\d+", "<N>", name.upper()), families, n=2, cutoff=0.9)
    for number in numbers:
        near = [family.replace("<N>", number, 1) for family in near]
    return near or _similar_member(name)


def _similar_member(name: str) -> list[str]:
    """Members of families such as ``STARTD_CRON_<JOB>_PERIOD`` whose last part is misspelt."""
    endings: dict[str, list[str]] = {}
    for knob in knobs():
        if knob.used and (family := _MEMBER.fullmatch(knob.name)):
            endings.setdefault(family[1], []).append(family[2])
    found: list[str] = []
    for first, last in endings.items():
        rest = name[len(first) :] if name.upper().startswith(first) else ""
        for at in (at for at, letter in enumerate(rest) if letter == "_" and at):
            near = get_close_matches(rest[at + 1 :].upper(), last, n=2, cutoff=0.8)
            found += [f"{first}{rest[: at + 1]}{like}" for like in near]
    return found[:2]


def _similar_form(name: str) -> list[str]:
    """Forms of knobs for one slot, slot type or universe, such as ``SLOT_TYPE_1_STRT`` and ``START_VANILA``."""
    of_slot = _SLOT_FORM.fullmatch(name)
    if of_slot is None:
        return get_close_matches(name.upper(), _universe_forms(), n=2, cutoff=0.9)
    forms = [name[: of_slot.start(1)].upper() + like for like in similar_knobs(of_slot[1])]
    return [form for form in forms if (knob := find_knob(form)) is not None and knob.used]


@lru_cache(maxsize=1)
def _universe_forms() -> tuple[str, ...]:
    forms = (f"{knob.name}_VANILLA".upper() for knob in knobs() if knob.used and not knob.name.endswith("_VANILLA"))
    return tuple(form for form in forms if (knob := find_knob(form)) is not None and knob.used)


def _value_problem(config: Config, name: str, origin: Origin, usual: str) -> Problem | None:
    """``usual``: the name as it would be where slots have their usual names."""
    try:
        text = config.data.seen_by(None, None).text(name)
    except ValueError:
        try:
            config.get(name)
        except ConfigError as error:
            return Problem(ERROR, error.code, name, error.message.split(": ", 1)[-1], origin, error.hint or "")
        return None
    knob = find_knob(usual)
    if text is None or knob is None:
        return None
    if not knob.used:
        return _debug_problem(name, text, origin)
    problem = _debug_problem(name, text, origin) or _daemon_problem(name, text, origin)
    problem = problem or _ignored_problem(name, text, origin) or _member_problem(config, name, origin)
    problem = problem or _extended_problem(config, name, text, origin) or _foreign_problem(config, name, text, origin)
    problem = problem or _type_problem(knob, name, text, origin) or _list_problem(knob, name, text, origin)
    problem = problem or _log_limit_problem(knob, name, text, origin)
    if not _COMMENT.search(text):
        return problem
    hint = "a comment has a line of its own: behind a value it is part of it"
    if problem is not None:
        return replace(problem, hint=hint)
    message = f"{name} ends in what looks like a comment"
    return Problem(WARNING, "config-comment-in-value", name, message, origin, hint)


def _log_limit_problem(knob: Knob, name: str, text: str, origin: Origin) -> Problem | None:
    if knob.type != "string" or knob.unit != "bytes" or not re.fullmatch("MAX_.*_LOG", knob.name):
        return None
    try:
        log_limits.limit_of(text)
    except ValueError as error:
        return Problem(ERROR, "config-log-limit", name, f"{name}: {error}", origin, log_limits.HINT)
    return None


def _list_problem(knob: Knob, name: str, text: str, origin: Origin) -> Problem | None:
    """The problem of the first bad entry in a list of users and hosts."""
    if not knob.name.startswith(("ALLOW_", "DENY_")) or knob.type != "list":
        return None
    for entry in authorization.words(text):
        if entry.startswith("+"):
            message, hint = (
                f"{name}: the netgroup {entry} cannot be asked about",
                "write the users and hosts themselves",
            )
            return Problem(ERROR, "config-netgroup", name, message, origin, hint)
    for entry in authorization.words(text):
        if (complaint := authorization.doubt(authorization.parse_entry(entry))) is not None:
            return Problem(WARNING, "config-doubtful-entry", name, f"{name}: {complaint}", origin)
    return _host_entry_problem(name, text, origin)


def _host_entry_problem(name: str, text: str, origin: Origin) -> Problem | None:
    """Entries that give a level of daemons to a host, whoever calls from there: see
    :data:`slotwise.authorization.policy.OF_HOSTS`."""
    found = _ALLOWS.fullmatch(name.rpartition(".")[2])
    if found is None:
        return None
    hosts = [word for word in authorization.words(text) if not authorization.parse_entry(word).names_users]
    if not hosts:
        return None
    shown = hosts[0].rpartition("/")[2] if hosts[0].startswith("*/") else hosts[0]
    given = "nothing but READ and WRITE" if found[1].upper() == "DEFAULT" else f"no {found[1].upper()}"
    message = f"{name}: `{hosts[0]}` names no user; the accounts of this host get {given} by it"
    hint = f"name who may: condor@*/{shown} for the pool's daemons, or user@domain"
    return Problem(WARNING, "config-host-entry", name, message, origin, hint)


def _type_problem(knob: Knob, name: str, text: str, origin: Origin) -> Problem | None:
    import slotwise._native as _native

    if knob.type == "expression":
        if knob.name in _LISTS_OR_EXPRESSIONS and text.lstrip().startswith("/"):
            return None
        complaint = _native.expression_complaint(text)
        if complaint is not None:
            what, at, excerpt = complaint
            message = f"{name} is not an expression: {what} at character {at + 1}\n{excerpt}"
            return Problem(ERROR, "config-bad-expression", name, message, origin, _bracket_hint(text))
        return None
    words = _WORDS.get(knob.name.upper())
    if words is not None and text.strip().strip('"').lower() not in {word.lower() for word in words}:
        message = f"{name} = {text} is not a word that it knows"
        return Problem(WARNING, "config-unknown-word", name, message, origin, f"write {' or '.join(words)}")
    value = _native.typed_text(knob.type, text, name)
    if value is None and knob.type in ("int", "long", "double", "bool"):
        kind = {"int": "an integer", "long": "an integer", "double": "a number", "bool": "true or false"}[knob.type]
        message = f"{name} must be {kind}, and `{text}` does not give one"
        default = f"its default is {knob.default}" if knob.default else "correct it"
        return Problem(ERROR, "config-bad-type", name, message, origin, default)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = knob.lowest, knob.highest
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"from {low:g}" if low is not None else ""
            bounds += f" to {high:g}" if high is not None else ""
            message = f"{name} = {value:g} is out of range"
            return Problem(ERROR, "config-out-of-range", name, message, origin, f"write a number {bounds.strip()}")
    return None


def _debug_problem(name: str, text: str, origin: Origin) -> Problem | None:
    """Words of a ``<SUBSYS>_DEBUG`` for which there is no log."""
    bare = name.split(".", 1)[-1].upper()
    if not bare.endswith("_DEBUG") or not re.search(r"\bD_", text, re.IGNORECASE):
        return None
    if bare == "SHADOW_DEBUG":
        message = f"{name} selects nothing: the shadow is a part of the schedd and has no log"
        return Problem(WARNING, "config-debug-category", name, message, origin, "write SCHEDD_DEBUG")
    found = debug.complaints(text)
    if not found:
        return None
    words = ", ".join(word for word, _ in found)
    message = f"{words} in {name} select{'s' if len(found) == 1 else ''} nothing: {found[0][1]}"
    hint = f"categories are {' '.join(debug.CATEGORIES)}"
    return Problem(WARNING, "config-debug-category", name, message, origin, hint)


def _daemon_problem(name: str, text: str, origin: Origin) -> Problem | None:
    """Names in DAEMON_LIST that no master starts, and lists that leave all but additions out."""
    if name.rpartition(".")[2].upper() != "DAEMON_LIST":
        return None
    words = [word for word in re.split(r"[\s,]+", _COMMENT.split(text.upper())[0]) if word]
    lacking = [word for word in words if word not in _DAEMONS]
    if {"MASTER"} < set(words) <= {"MASTER", *_ADDITIONS}:
        message = f"{name} is {' '.join(words)}: the pool's other daemons do not run here"
        hint = f"where no line before sets it, $(DAEMON_LIST) is MASTER: write out all, as {_EVERY_DAEMON}, {words[-1]}"
        return Problem(WARNING, "config-daemon-list", name, message, origin, hint)
    if not lacking:
        return None
    message = f"{name} names {', '.join(lacking)}, which Slotwise does not have"
    return Problem(WARNING, "config-no-such-daemon", name, message, origin, "take it out: nothing is started for it")


def _extended_problem(config: Config, name: str, text: str, origin: Origin) -> Problem | None:
    """Lines of EXTENDED_SUBMIT_COMMANDS that add no command."""
    if name.rpartition(".")[2].upper() != "EXTENDED_SUBMIT_COMMANDS":
        return None
    import slotwise._native as _native

    known = {command.lower() for command, _ in _native.extended_commands(config.data)}
    for line in filter(None, map(str.strip, text.splitlines())):
        command, _, example = (part.strip() for part in line.partition("="))
        if command.lower() not in known and example.lower() != "undefined" and not line.startswith("#"):
            message = f"{name}: the line `{line}` adds no command"
            hint = "write a line for each between @=end and @end: a name, =, and a value of the type that it takes"
            return Problem(WARNING, "config-extended-command", name, message, origin, hint)
    return None


def _foreign_problem(config: Config, name: str, text: str, origin: Origin) -> Problem | None:
    """Names of daemons that end with another host: collectors take the ads of a host's daemons under its name alone."""
    own, host = text.strip().rpartition("@")[::2]
    here = str(config.get("FULL_HOSTNAME") or "")
    if (
        name.rpartition(".")[2].upper() not in _DAEMON_NAMES
        or not own
        or not here
        or host.lower() in ("", here.lower())
    ):
        return None
    message = f"{name} = {text.strip()} names the host {host}; collectors refuse such ads of a daemon of {here}"
    hint = f"write {own}, {own}@{here}, or {own}@ for a name without a host"
    return Problem(WARNING, "config-foreign-name", name, message, origin, hint)


def _ignored_problem(name: str, text: str, origin: Origin) -> Problem | None:
    """Names in :data:`IGNORED` that have no effect."""
    if name.rpartition(".")[2].upper() != IGNORED:
        return None
    words = [word for word in re.split(r"[\s,]+", text) if word and not set(word) & set("*?[")]
    rules = [(word, rule_of(word)) for word in words]
    idle = [word for word, rule in rules if rule is None or _SEVERITY.get(rule.effect) != ERROR]
    if not idle:
        return None
    message = f"{name} names {', '.join(idle)}, which stop{'s' if len(idle) == 1 else ''} no start"
    return Problem(WARNING, "config-ignored-in-vain", name, message, origin, "correct it or take it out")


def _member_problem(config: Config, name: str, origin: Origin) -> Problem | None:
    """Names in a list of policy expressions, transforms or programs that nothing defines."""
    bare = name.rpartition(".")[2]
    found = next(((form[1], end) for rule, end in _MEMBER_LISTS if (form := rule.fullmatch(bare))), None)
    if found is None:
        return None
    begin, end = found
    members = [f"{begin}_{word}{end}" for word in config.get_list(name)]
    lacking = [member for member in members if config.get(member) is None]
    if not lacking:
        return None
    message = f"{name} has no effect for what is not defined: {', '.join(lacking)}"
    return Problem(WARNING, "config-no-such-expression", name, message, origin, "define them, or take them out")


def _bracket_hint(text: str) -> str:
    difference = text.count("(") - text.count(")")
    if difference > 0:
        return f"{difference} closing parenthes{'is' if difference == 1 else 'es'} missing"
    if difference < 0:
        return f"{-difference} opening parenthes{'is' if difference == -1 else 'es'} missing"
    return "correct the expression"


def require_sound(config: Config) -> list[Problem]:
    """Reject a configuration whose policy cannot work, or that makes a promise that is not kept; return what is merely
    doubtful, with all notes as the last one.

    :raises ConfigError: at the first broken expression, type, range or loop of a knob that Slotwise reads, or at the
        knobs that promise isolation or refusal and are not honoured.
    """
    problems = check(config, notes=True)
    for problem in problems:
        knob = find_knob(problem.name) if problem.name else None
        if problem.severity == ERROR and problem.code != NOT_HONOURED and (knob is None or knob.used):
            raise _refusal_of(problem)
    promises = [problem for problem in problems if problem.severity == ERROR and problem.code == NOT_HONOURED]
    if promises:
        error = _refusal_of(promises[0])
        error.message = "\n".join([error.message, *map(str, promises[1:])])
        names = " ".join(problem.name.split(".", 1)[-1] for problem in promises)
        error.hint = f"take {'it' if len(promises) == 1 else 'them'} out, or set {IGNORED} = {names}"
        raise error
    doubts = [problem for problem in problems if problem.severity == WARNING]
    without_effect = [problem.name for problem in problems if problem.code == NOT_HONOURED and problem.severity == NOTE]
    if without_effect:
        shown = ", ".join(without_effect[:_SHOWN]) + (", ..." if len(without_effect) > _SHOWN else "")
        message = f"{len(without_effect)} knob{'s' if len(without_effect) > 1 else ''} without effect: {shown}"
        doubts.append(Problem(NOTE, NOT_HONOURED, "", message, None, "`slotwise config check` tells why"))
    return doubts


#: The most names in the note about knobs without effect.
_SHOWN = 6


def _refusal_of(problem: Problem) -> ConfigError:
    origin = f"{problem.origin.file}:{problem.origin.line}" if problem.origin else ""
    error = ConfigError(problem.message, hint=problem.hint or None, origin=origin, key=problem.name)
    error.code = problem.code
    return error
