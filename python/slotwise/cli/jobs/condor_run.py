"""``condor_run``: a shell command line as a job; its output and its exit status become those of the call.

The job lives on files in the current directory (``.condor_run.PID``, ``.condor_out.PID`` ...), as with HTCondor's
script, and is followed by its event log. It is removed when the call is killed first. The status is 1 where the job was
removed or could not be queued, and 128 and the signal's number where the job or the call was killed by a signal, which
HTCondor's script ends with 0 for.
"""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.terminal import as_it_is
from slotwise.cli.jobs import submit
from slotwise.cli.jobs.act import rm
from slotwise.errors import SlotwiseError

if TYPE_CHECKING:
    from slotwise.classad import ClassAd

USAGE = """usage: condor_run [-getenv] [-u UNIVERSE] [-a STATEMENT]... "SHELL COMMAND"
The command is run by $SHELL in a job, in the current directory, which the job's machine has to share. What it prints
comes when it has ended.
  -u UNIVERSE           vanilla, unless another is named
  -a STATEMENT          one more statement of the submit description, such as request_memory=1G
  -getenv               with the variables of this environment
CONDOR_ARCH, CONDOR_OPSYS and CONDOR_REQUIREMENTS in the environment say which machines will do."""
#: What a file of a call holds, with its place in the directory.
_FILES = ("run", "submit", "log", "out", "error")
_ENDS_WITH = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_TERMINATED, _ABORTED, _HELD = 5, 9, 12
#: How long the end of a removed job is waited for.
_LONGEST_END_S = 10.0


class Asked(Struct):
    """What the words of a call say."""

    command: list[str]
    universe: str = "vanilla"
    statements: list[str] = []
    getenv: bool = False


class _Killed(Exception):
    """The call got a signal that ends it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def read(words: Sequence[str]) -> Asked | None:
    """What is asked for; None is the usage. A word that is no option is part of the command, before an option, too."""
    asked = Asked([])
    rest = iter(words)
    for word in rest:
        if word.startswith("-h"):
            return None
        if word.startswith("-getenv"):
            asked.getenv = True
        elif word.startswith(("-u", "-a")):
            attached = word[2:] if word[1] == "u" and word != "-universe" else ""
            value = attached or next(rest, None)
            if value is None:
                return None
            if word[1] == "u":
                asked.universe = value
            else:
                asked.statements.append(value)
        else:
            asked.command.append(word)
    return asked if asked.command else None


def description(asked: Asked, names: dict[str, str], env: dict[str, str]) -> str:
    """The submit description of the job, whose files have these names."""
    lines = [
        f"universe = {asked.universe}",
        f"executable = {names['run']}",
        "notification = NEVER",
        f"log = {names['log']}",
        f"output = {names['out']}",
        f"error = {names['error']}",
    ]
    if asked.getenv:
        lines.append("getenv = True")
    clauses = [env["CONDOR_REQUIREMENTS"]] if env.get("CONDOR_REQUIREMENTS") else []
    clauses += [f'{name} == "{env[knob]}"' for name, knob in _PLATFORM.items() if env.get(knob)]
    if clauses:
        lines.append("requirements = " + " && ".join(clauses))
    return "\n".join([*lines, *asked.statements, "queue"]) + "\n"


_PLATFORM = {"Arch": "CONDOR_ARCH", "OpSys": "CONDOR_OPSYS"}


def main(args: list[str], inv: Invocation) -> int:
    """Run the command as a job, and end as it does."""
    asked = read(args)
    if asked is None:
        inv.out(USAGE)
        return 1
    env = dict(inv.env)
    env["PATH"] = f"{env.get('PATH', os.defpath)}:."
    files = {name: inv.path(f".condor_{name}.{os.getpid()}") for name in _FILES}
    made: list[Path] = []
    cluster: list[str] = []
    with _ended_by_signals():
        try:
            for name, path in files.items():
                text = f"#!{env.get('SHELL') or '/bin/sh'}\n{' '.join(asked.command)}\n" if name == "run" else ""
                if name == "submit":
                    text = description(asked, {kind: place.name for kind, place in files.items()}, env)
                _make(path, text, 0o700 if name == "run" else 0o666, made)
            return _run(files, replace(inv, env=env), cluster)
        except _Killed as killed:
            if len(made) == len(files):
                _remove(cluster, files["log"], inv)
            inv.err(f"Killed by {signal.Signals(killed.number).name}.")
            return 128 + killed.number
        finally:
            for path in made:
                path.unlink(missing_ok=True)


def _make(path: Path, text: str, mode: int, made: list[Path]) -> None:
    """Make a file that was not there: in a directory that others write to it might be a link of theirs."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    made.append(path)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have signals that end a process raise :class:`_Killed` once; what tidies up after it is not disturbed again."""

    def end(number: int, _frame: object) -> None:
        for other in _ENDS_WITH:
            signal.signal(other, signal.SIG_IGN)
        raise _Killed(number)

    before = {number: signal.signal(number, end) for number in _ENDS_WITH}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(files: dict[str, Path], inv: Invocation, cluster: list[str]) -> int:
    """Queue the job, wait for its end and show what it has written; ``cluster`` gets its number once it is queued."""
    said = io.StringIO()
    submitting = replace(inv, called="condor_submit", stdout=said)
    try:
        status = submit.main(["-terse", files["submit"].name], submitting)
    except SlotwiseError as error:
        inv.err(htcondor_words.failure(error, submitting))
        status = 1
    found = re.match(r"(\d+)\.\d+ -", said.getvalue())
    if status or found is None:
        inv.err("Failed to submit Condor job.")
        return 1
    cluster.append(found[1])
    status = _status(_end(files["log"], inv), inv)
    cluster.clear()
    for name, stream in (("out", inv.stdout), ("error", inv.stderr)):
        _show(files[name], stream)
    return status


def _end(log: Path, inv: Invocation) -> ClassAd:
    """The event with which the job ends; what keeps it from that is told meanwhile."""
    from slotwise.client.event_log import EventLog

    with EventLog(log) as events:
        for entry, ad in events.events(None):
            if entry.number in (_TERMINATED, _ABORTED):
                return ad
            if entry.number == _HELD:
                job = f"{entry.cluster}.{entry.proc}"
                inv.err(f"Job {job} is held: {ad.get('HoldReason')} (condor_release or condor_rm it)")
                inv.stderr.flush()
    raise SlotwiseError("the event log has ended before the job")


def _status(end: ClassAd, inv: Invocation) -> int:
    if end.get("MyType") == "JobAbortedEvent":
        inv.err("The job was aborted")
        return 1
    if end.get("TerminatedNormally") is True:
        return int(str(end["ReturnValue"])) & 0xFF
    number = int(str(end["TerminatedBySignal"]))
    inv.err(f"Condor job killed by signal {number}.")
    return (128 + number) & 0xFF


def _show(path: Path, stream: IO[str]) -> None:
    """Write a file of the job's as it is, whatever bytes it holds."""
    stream = as_it_is(stream)
    data = path.read_bytes()
    stream.flush()
    if (raw := getattr(stream, "buffer", None)) is not None:
        raw.write(data)
        raw.flush()
    else:
        stream.write(data.decode(errors="replace"))


def _remove(cluster: list[str], log: Path, inv: Invocation) -> None:
    """Take the job out of the queue. Without its number it may be there all the same: its log is found in its ad."""
    from slotwise.classad import quote

    words = cluster or ["-constraint", f"UserLog == {quote(str(log))}"]
    quiet = replace(inv, called="condor_rm", stdout=io.StringIO(), stderr=io.StringIO())
    try:
        if rm(list(words), quiet) == 0:
            _await_end(log)  # it is written then, and would be there again if it were removed before
    except SlotwiseError as error:
        inv.err(f"Job {cluster[0] if cluster else ''} may be in the queue still: {error}")


def _await_end(log: Path) -> None:
    """Wait until the log has the job's end, but not for ever: its machine may be out of reach."""
    from slotwise.client.event_log import EventLog

    with EventLog(log) as events:
        any(entry.number in (_TERMINATED, _ABORTED) for entry, _ in events.events(_LONGEST_END_S))
