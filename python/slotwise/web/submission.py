"""Submit descriptions that come over HTTP.

They are read in the service, not where their sender is: no file and no variable of its host is looked at, and
statements that would be about them are refused, by a list of what is taken. Paths in the others mean the access point,
and are used there with the rights of the jobs' owner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
_MACRO = re.compile(r"(\$+)\s*(\w*)\s*\((?:\s*(\w+)\s*\))?")
_NUMBERS = frozenset(("cluster", "clusterid", "process", "procid", "step", "row"))
_JOBS_MOST = 100_000


def statements(body: Mapping[str, object]) -> tuple[dict[str, object], int]:
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
    if not lower.get("initialdir", "").startswith("/"):
        raise SubmitError(
            "initialdir is not an absolute path", hint="name a directory of the access point", key="initialdir"
        )
    return found, count


def _check(name: str, value: object) -> None:
    lower = name.lower()
    if not _NAME.fullmatch(name) or (lower not in _TAKEN and not lower.startswith(_PREFIXES)):
        raise SubmitError(f"{name[:60]!r} is not taken over HTTP", hint="use `slotwise submit` for it", key=name[:60])
    if not isinstance(value, str | int | float | bool):
        raise SubmitError(f"{name}: its value is neither text nor a number", key=name)
    text = str(value)
    if any(character in text for character in "\n\r\0") or text.rstrip().endswith("\\"):
        raise SubmitError(f"{name}: its value has more than one line", key=name)
    for macro in _MACRO.finditer(text):
        dollars, function, inside = macro.groups(default="")
        if function or not (dollars == "$$" or (dollars == "$" and inside.lower() in _NUMBERS)):
            raise SubmitError(f"{name}: {macro[0]} would be the service's own", hint="write the value", key=name)
