"""Submit descriptions that come over HTTP.

They are read in the service, not where their sender is: no file and no variable of its host is looked at, and
statements that would be about them are refused, by a list of what is taken. Paths in the others mean the access point,
and are used there with the rights of the jobs' owner.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

from slotwise.errors import SubmitError, UsageError

#: Commands of the submit language that are taken, in lower case; besides them those that begin with a prefix below.
_TAKEN = frozenset((
    "universe", "executable", "arguments", "environment", "initialdir", "input", "output", "error", "log",
    "transfer_input_files", "transfer_output_files", "transfer_output_remaps", "should_transfer_files",
    "when_to_transfer_output", "transfer_executable", "preserve_relative_paths", "requirements", "rank", "priority",
    "nice_user", "accounting_group", "accounting_group_user", "batch_name", "job_batch_name", "description",
    "notification", "notify_user", "hold", "leave_in_queue", "max_retries", "success_exit_code", "retry_until",
    "deferral_time", "on_exit_hold", "on_exit_hold_reason", "on_exit_remove", "kill_sig", "max_materialize", "max_idle",
    "docker_image", "container_image", "container_target_dir", "docker_network_type", "concurrency_limits",
    "keep_claim_idle", "job_lease_duration", "job_max_vacate_time", "allowed_job_duration",
    "allowed_execute_duration", "stream_output", "stream_error", "want_graceful_removal", "gpus_minimum_memory",
    "gpus_minimum_capability", "gpus_minimum_runtime", "require_gpus",
))  # fmt: skip
_PREFIXES = ("request_", "periodic_", "+", "my.")
#: The name of a command or an attribute. Statements travel as lines of text: nothing else may begin one.
_NAME = re.compile(r"(?:\+|my\.)?[a-z_][a-z0-9_.]*", re.IGNORECASE | re.ASCII)
#: Macros and macro functions, and of these what is taken: numbers of the job, and what the match fills in. Any other
#: would be the service's own environment or configuration, or could be put together to that.
#: No text is gone through again for another place to begin or to end: users send long ones.
_MACRO = re.compile(r"(?<!\$)(\$++)\s*+(\w*+)\s*+\((?:\s*+(\w++)\s*+\))?")
_NUMBERS = frozenset(("cluster", "clusterid", "process", "procid", "step", "row"))
_JOBS_MOST = 100_000
#: Bytes of the text of a description, and its lines.
_TEXT_MOST = 64 * 1024
_STATEMENT = re.compile(r"\s*((?:\+|my\.)?[a-z_][a-z0-9_.]*)\s*=(?!=)\s*(.*?)\s*", re.IGNORECASE | re.ASCII)
_QUEUE = re.compile(
    r"\s*queue(?:\s+(?P<count>[0-9]{1,9}))?(?:\s+(?:(?P<name>[a-z_][a-z0-9_]*)\s+)?in\s*\((?P<items>[^()]*)\))?\s*",
    re.IGNORECASE | re.ASCII,
)
_ITEM = re.compile(r"[\w./:@%+=~-]+", re.ASCII)


def submission(body: Mapping[str, object], *, spool: bool = False) -> tuple[str | dict[str, object], int | None]:
    """What a request submits: ``{"description": {...}, "count": 3}``, or ``{"text": "executable = ...\\nqueue 3"}``.

    :param spool: the jobs' files are sent later, to directories of their own: none of the access point is named.
    :returns: a description and the number of its jobs; None: the text says it.
    :raises UsageError: when the request is not of that form.
    :raises SubmitError: when a statement is not taken here.
    """
    text = body.get("text")
    if text is None:
        return statements(body, spool=spool)
    if not isinstance(text, str) or len(text) > _TEXT_MOST:
        raise UsageError(f"the text is not a string of at most {_TEXT_MOST} characters")
    return _checked(text, spool=spool), None


def _checked(text: str, *, spool: bool) -> str:
    """The text of a description whose statements are all taken, line by line as it was."""
    kept: list[str] = []
    seen: dict[str, object] = {}
    names: tuple[str, ...] = ()
    queued = False
    for number, line in enumerate(text.splitlines(), 1):
        place = f"line {number}"
        if not line.strip() or line.lstrip().startswith("#"):
            kept.append("")
            continue
        if queued:
            raise SubmitError("nothing may follow the queue statement", hint="submit twice", origin=place)
        if queue := _QUEUE.fullmatch(line):
            names, queued = _queued(queue, place), True
            kept.append(line)
        elif statement := _STATEMENT.fullmatch(line):
            name, value = statement.groups()
            if name.lower() in seen:
                raise SubmitError(f"{name} is given twice", hint="take one out", origin=place, key=name)
            seen[name.lower()] = value
            kept.append(f"{name} = {value}")
        else:
            raise SubmitError(
                f"{line.strip()[:60]!r} is not taken over HTTP",
                hint="lines are `name = value`, and at the end `queue`, `queue 10` or `queue x in (a, b)`",
                origin=place,
            )
    for number, line in enumerate(kept, 1):
        name, is_statement, value = line.partition(" = ")
        if is_statement and not _QUEUE.fullmatch(line):
            _check(name, value, names, origin=f"line {number}")
    if not queued:
        raise SubmitError("there is no queue statement", hint="end with `queue`, or `queue 10` for ten jobs")
    _check_directory(seen, spool=spool)
    return ("initialdir = /\n" if spool else "") + "\n".join(kept) + "\n"


def _queued(queue: re.Match[str], place: str) -> tuple[str, ...]:
    """The macros that a queue statement makes.

    :raises SubmitError: when it queues too much, or an item could be more than a word.
    """
    items = (queue["items"] or "").replace(",", " ").split()
    wrong = next((item for item in items if not _ITEM.fullmatch(item)), None)
    if wrong is not None:
        raise SubmitError(f"the item {wrong[:60]!r} is not a plain word", hint="leave it out", origin=place)
    if not 0 < int(queue["count"] or 1) * max(1, len(items)) <= _JOBS_MOST:
        raise SubmitError(f"not from 1 to {_JOBS_MOST} jobs are queued", hint="submit several times", origin=place)
    name = (queue["name"] or "item").lower()
    if name in _TAKEN or name.startswith(_PREFIXES):
        raise SubmitError(f"{name} is a command, too", hint="choose another name for the items", origin=place)
    return (name, "item", "itemindex") if items else ()


def statements(body: Mapping[str, object], *, spool: bool = False) -> tuple[dict[str, object], int]:
    """The statements and the number of jobs of a request: ``{"description": {...}, "count": 3}``.

    :raises UsageError: when the request is not of that form.
    :raises SubmitError: when a statement is not taken here.
    """
    given, count = body.get("description"), body.get("count", 1)
    if not isinstance(given, dict) or not given:
        raise UsageError(
            "no description is given", hint='send {"description": {"executable": "/bin/true"}, "count": 1}'
        )
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= _JOBS_MOST:
        raise UsageError(f"count is not a number from 1 to {_JOBS_MOST}")
    found: dict[str, object] = {}
    for name, value in given.items():
        _check(str(name), value)
        found[str(name)] = value
    lower = {name.lower(): str(value) for name, value in found.items()}
    if len(lower) < len(found):
        raise SubmitError("a command is given twice", hint="case does not count in their names")
    _check_directory(lower, spool=spool)
    return ({**found, "initialdir": "/"} if spool else found), count


def _check_directory(lower: Mapping[str, object], *, spool: bool) -> None:
    if spool:
        if "initialdir" in lower:
            raise SubmitError(
                "initialdir is given, and spooled jobs have directories of their own",
                hint="leave it out",
                key="initialdir",
            )
        return
    if not str(lower.get("initialdir", "")).startswith("/"):
        raise SubmitError(
            "initialdir is not an absolute path", hint="name a directory of the access point", key="initialdir"
        )


def _check(name: str, value: object, macros: Collection[str] = (), origin: str = "") -> None:
    lower = name.lower()
    if not _NAME.fullmatch(name) or (lower not in _TAKEN and not lower.startswith(_PREFIXES)):
        close = difflib.get_close_matches(lower[:60], _TAKEN, 1, 0.8)
        hint = f"did you mean {close[0]}?" if close else "use `slotwise submit` for it"
        raise SubmitError(f"{name[:60]!r} is not taken over HTTP", hint=hint, origin=origin, key=name[:60])
    if not isinstance(value, str | int | float | bool):
        raise SubmitError(f"{name}: its value is neither text nor a number", origin=origin, key=name)
    text = str(value)
    if any(character in text for character in "\n\r\0") or text.rstrip().endswith("\\"):
        raise SubmitError(f"{name}: its value has more than one line", origin=origin, key=name)
    for macro in _MACRO.finditer(text):
        dollars, function, inside = macro.groups(default="")
        if function or not (dollars == "$$" or (dollars == "$" and inside.lower() in (*_NUMBERS, *macros))):
            raise SubmitError(
                f"{name}: {macro[0]} would be the service's own", hint="write the value", origin=origin, key=name
            )
