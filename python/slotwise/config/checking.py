"""Looks for what is wrong with a configuration: names, types, ranges, expressions, macro loops.

Nothing here refuses a configuration; :func:`require_sound` does, for the policy that a daemon is about to use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from slotwise.config import debug
from slotwise.config.table import Knob, find_knob, similar_knobs
from slotwise.config.view import Config, Origin
from slotwise.errors import ConfigError

#: Severities, the worst first.
ERROR, WARNING, NOTE = "error", "warning", "note"
_REFERENCE = re.compile(r"\$[A-Za-z_]*\(\s*([A-Za-z0-9_./]+)")
_OWN_SOURCES = frozenset({"<Detected>"})
#: Names that appear in names the administrator makes up: `X` in ``JOB_TRANSFORM_NAMES = X`` makes ``JOB_TRANSFORM_X``.
_NAME_LISTS = re.compile(r"_(NAMES|JOBLIST|LIST|ATTRS)$|^STARTD_(SLOT_|JOB_)?EXPRS$")

#: Lists of hosts and users in the reference. One who sets these relies on them: that they are unused is no mere note.
_DENIALS = re.compile(r"(HOST)?DENY_[A-Z_]+", re.IGNORECASE)

#: What people take for a comment behind a value.
_COMMENT = re.compile(r"\s#(\s|$)")
#: Knobs whose value is one of a few words.
_WORDS = {
    "CGROUP_MEMORY_LIMIT_POLICY": ("hard", "soft", "custom", "none"),
    "DEFRAG_DRAINING_SCHEDULE": ("graceful", "quick", "fast"),
    "SLOTWISE_SCHEDD_SYNCHRONOUS": ("NORMAL", "FULL", "OFF"),
    "BACKFILL_SYSTEM": ("BOINC",),
    "SLOT_CONFIG_FAILURE_MODE": ("CONTINUE", "CLEAR", "ABORT"),
    "SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES": ("YES", "NO", "IF_NEEDED"),
}


@dataclass(frozen=True)
class Problem:
    """Something wrong or doubtful. ``code`` is stable; ``hint`` is the remedy or empty."""

    severity: str
    code: str
    name: str
    message: str
    origin: Origin | None = None
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.origin.file}:{self.origin.line}: " if self.origin and self.origin.line else ""
        if self.origin and not self.origin.line:
            place = f"{self.origin.file}: "
        hint = f" ({self.hint})" if self.hint else ""
        what, newline, excerpt = self.message.partition("\n")
        return f"{place}{self.severity}: {what}{hint}{newline}{excerpt}"

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "Severity": self.severity,
            "Code": self.code,
            "Name": self.name,
            "Message": self.message,
            "File": self.origin.file if self.origin else None,
            "Line": self.origin.line if self.origin else None,
            "Hint": self.hint or None,
        }


def check(config: Config, *, notes: bool = False) -> list[Problem]:
    """All problems, in the order of the settings.

    :param notes: also tell which knobs of the reference Slotwise does not use.
    """
    settings = [entry for entry in config.settings() if entry[2].file not in _OWN_SOURCES]
    mentioned = _mentioned(config)
    problems = [Problem(WARNING, "config-warning", "", text, origin) for origin, text in config.warnings]
    for name, _, origin in settings:
        problem = _name_problem(name, origin, mentioned, notes=notes) or _value_problem(config, name, origin)
        if problem is not None:
            problems.append(problem)
    return problems


def _mentioned(config: Config) -> set[str]:
    """Names (lower case) that some value refers to, or that a list of names makes."""
    found: set[str] = set()
    for name, raw, _ in config.settings():
        found.update(word.lower() for word in _REFERENCE.findall(raw))
        if _NAME_LISTS.search(name.upper()):
            found.update(word.lower() for word in re.findall(r"[A-Za-z0-9_.]+", raw))
    return found


def _name_problem(name: str, origin: Origin, mentioned: set[str], *, notes: bool) -> Problem | None:
    bare = name.split(".", 1)[-1]
    if _DENIALS.fullmatch(bare):
        message = f"{name} denies nobody anything here"
        hint = "tokens and their scopes decide who may do what: see the guide on security"
        return Problem(WARNING, "config-not-used", name, message, origin, hint)
    knob = find_knob(name)
    if knob is not None:
        if notes and not knob.used and bare.lower() not in mentioned and origin.template is None:
            return Problem(NOTE, "config-not-used", name, f"Slotwise does not use {name}", origin)
        return None
    lower = bare.lower()
    if lower in mentioned or name.lower() in mentioned or origin.template is not None:
        return None
    if _made_from(lower, mentioned):
        return None
    near = similar_knobs(bare)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
        return Problem(WARNING, "config-unknown-name", name, f"there is no knob {name}", origin, hint)
    message = f"there is no knob {name}, and nothing refers to it"
    return Problem(NOTE, "config-unknown-name", name, message, origin) if notes else None


def _made_from(name: str, mentioned: set[str]) -> bool:
    """Whether a part of the name is a name that some list mentions: JOB_TRANSFORM_<part>, STARTD_CRON_<part>_PERIOD."""
    words = re.split(r"([_.])", name)
    spans = ("".join(words[i:j]) for i in range(0, len(words), 2) for j in range(i + 1, len(words) + 1, 2))
    return any(len(span) > 2 and span in mentioned for span in spans)


def _value_problem(config: Config, name: str, origin: Origin) -> Problem | None:
    try:
        text = config.data.seen_by(None, None).text(name)
    except ValueError:
        try:
            config.get(name)
        except ConfigError as error:
            return Problem(ERROR, error.code, name, error.message.split(": ", 1)[-1], origin, error.hint or "")
        return None
    knob = find_knob(name)
    if text is None or knob is None:
        return None
    problem = _debug_problem(name, text, origin) or _type_problem(knob, name, text, origin)
    if not _COMMENT.search(text):
        return problem
    hint = "a comment has a line of its own: behind a value it is part of it"
    if problem is not None:
        return replace(problem, hint=hint)
    message = f"{name} ends in what looks like a comment"
    return Problem(WARNING, "config-comment-in-value", name, message, origin, hint)


def _type_problem(knob: Knob, name: str, text: str, origin: Origin) -> Problem | None:
    import slotwise._native as _native

    if knob.type == "expression":
        complaint = _native.expression_complaint(text)
        if complaint is not None:
            what, at, excerpt = complaint
            message = f"{name} is no expression: {what} at character {at + 1}\n{excerpt}"
            return Problem(ERROR, "config-bad-expression", name, message, origin, _bracket_hint(text))
        return None
    words = _WORDS.get(knob.name.upper())
    if words is not None and text.strip().strip('"').lower() not in {word.lower() for word in words}:
        message = f"{name} = {text} is no word that it knows"
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
    """What a ``<SUBSYS>_DEBUG`` asks for that no log has."""
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


def _bracket_hint(text: str) -> str:
    difference = text.count("(") - text.count(")")
    if difference > 0:
        return f"{difference} closing parenthes{'is' if difference == 1 else 'es'} missing"
    if difference < 0:
        return f"{-difference} opening parenthes{'is' if difference == -1 else 'es'} missing"
    return "correct the expression"


def require_sound(config: Config) -> list[Problem]:
    """Refuse a configuration whose policy cannot work; give back what is merely doubtful.

    :raises ConfigError: at the place of the first broken expression, type, range or loop of a knob Slotwise reads.
    """
    problems = check(config)
    for problem in problems:
        knob = find_knob(problem.name) if problem.name else None
        if problem.severity == ERROR and (knob is None or knob.used):
            origin = f"{problem.origin.file}:{problem.origin.line}" if problem.origin else ""
            error = ConfigError(problem.message, hint=problem.hint or None, origin=origin, key=problem.name)
            error.code = problem.code
            raise error
    return problems
