"""Programs beside a job: hooks and file transfer plugins. They run as the job's user and end with their run.

Each has an entry in its environment that names its run (at a starter its control directory). By that it is found with
all that it has started: when the run is killed, when it is over, and by the next starter when this one was killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from slotwise.daemon import children
from slotwise.daemon.spawn import as_account
from slotwise.execution.keeper_spec import Identity

_log = logging.getLogger(__name__)

_ENTRY = "_SLOTWISE_HELPER"
#: How setpriv says that a program could not be started, and what becomes the account with an environment of the job's.
_UNSTARTED = "setpriv: failed to execute"
#: Becomes the account first, and takes the environment from its standard input then.
_BECOME = f"""import json, os, sys
uid, gid, groups, *words = sys.argv[1:]
env = json.load(sys.stdin)
env[{_ENTRY!r}] = os.environ[{_ENTRY!r}]
os.setgroups([int(group) for group in groups.split()])
os.setresgid(*[int(gid)] * 3)
os.setresuid(*[int(uid)] * 3)
try:
    os.execve(words[0], words, env)
except OSError as error:
    sys.exit(f"{_UNSTARTED} {{words[0]}}: {{error.strerror}}")"""
#: How long a killed program may take to be gone, seconds.
_PATIENCE_S = 5.0
#: Most lines of standard error that go into the log, and characters of one.
_MOST_LINES, _LONGEST = 100, 1000


class Answer(NamedTuple):
    """How a program ended (below 0: by a signal), and the beginnings of its standard output and error."""

    status: int
    output: str
    errors: str


def as_user(identity: Identity) -> list[str]:
    """Words before a command that make it run as the job's user."""
    if identity.uid is None:
        return []
    gid = identity.uid if identity.gid is None else identity.gid
    return as_account(identity.uid, gid, identity.groups)


async def call_with_jobs_environment(
    identity: Identity, words: list[str], control: Path, *, cwd: str, env: Mapping[str, str], limit_s: float
) -> Answer:
    """As :func:`call`, as the job's user and with variables that the user has chosen: they could name a library or a
    directory of programs (LD_PRELOAD, PATH), so nothing runs with them that still has the starter's rights.

    :raises OSError: when the program cannot be started.
    """
    if identity.uid is None:
        return await call(words, control, cwd=cwd, env=env, limit_s=limit_s)
    gid = identity.uid if identity.gid is None else identity.gid
    account = [str(identity.uid), str(gid), " ".join(map(str, identity.groups))]
    become = [sys.executable, "-I", "-S", "-c", _BECOME, *account, *words]
    return await call(become, control, cwd=cwd, env={}, limit_s=limit_s, given=json.dumps(dict(env)).encode())


async def call(
    words: list[str], control: Path, *, cwd: str, env: Mapping[str, str], limit_s: float, given: bytes = b""
) -> Answer:
    """Run a program to its end, at most ``limit_s`` seconds. What it leaves running ends with it.

    :param control: what it is found by: the control directory of its run.
    :param given: its standard input.
    :raises OSError: when it cannot be started.
    """
    ended = await children.run(words, limit_s=limit_s, given=given, cwd=cwd, env={**env, _ENTRY: str(control)})
    return Answer(ended.status, ended.output.decode(errors="replace"), ended.errors.decode(errors="replace"))


def unstarted(answer: Answer) -> str:
    """Why a program that was called as the job's user did not start; empty when it did."""
    start, _, why = answer.errors.strip().rpartition(": ")
    return why if answer.status in (1, 126, 127) and start.startswith(_UNSTARTED) else ""


def log_errors(who: str, answer: Answer) -> None:
    """Put a program's standard error into the log, line by line; ``who`` is the run and the program."""
    level = logging.INFO if answer.status == 0 else logging.ERROR
    lines = [line.rstrip("\r") for line in answer.errors.split("\n")]
    lines = [line for line in lines if line]
    for line in lines[:_MOST_LINES]:
        _log.log(level, "%s: %s", who, line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ...")
    if len(lines) > _MOST_LINES or len(answer.errors) >= children.MAX_ERRORS:
        _log.log(level, "%s: ... and more on standard error", who)


def end(control: Path) -> None:
    """End the programs of one run. Blocks."""
    _end(lambda place: place == os.fsencode(control))


def end_all(root: Path) -> None:
    """End the programs of all runs whose control directories are below ``root``, and of a starter there. Blocks."""
    start = os.fsencode(root)
    _end(lambda place: place == start or place.startswith(start + b"/"))


def _end(is_ours: Callable[[bytes], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while (found := _bearing(is_ours)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _bearing(is_ours: Callable[[bytes], bool]) -> list[int]:
    name = f"{_ENTRY}=".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            entries = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # gone, or somebody else's
        if any(one.startswith(name) and is_ours(one[len(name) :]) for one in entries):
            found.append(int(process.name))
    return found
