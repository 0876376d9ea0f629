"""``slotwise ssh-to-job JOB [COMMAND]``: a shell beside a running job (manual page of condor_ssh_to_job).

No ssh takes part: the terminal travels over the pool's own connections.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, is_option, parse
from slotwise.cli.host import condor_names
from slotwise.cli.jobs import ssh_clients
from slotwise.cli.jobs.act import rm
from slotwise.cli.jobs.session import PIECE, PLACE, Visit, carry, job_named, tried_again
from slotwise.errors import HostError, SlotwiseError, UsageError
from slotwise.wire.gen import schedd_pb2

OPTIONS = [
    Option("help", 1),
    Option("auto-retry", 1),
    Option("remove-on-interrupt", 1),
    Option("shells", 1, 1),
    Option("ssh", 3, 1),
    Option("keygen-options", 1, 1),  # of HTCondor's tool, for keys that no session has here
    Option("x"),
    *PLACE,
]
USAGE = """usage: slotwise ssh-to-job [options] CLUSTER[.PROC[.NODE]] [COMMAND ...]
A shell, or a command, in the directory and with the user, environment and limits of a running job; it ends with the job
  -auto-retry           wait for the job to run; -remove-on-interrupt: remove it when that is interrupted
  -shells A,B           the first of these that is there
  -ssh CLIENT           scp, sftp or rsync in place of a shell; `remote:FILE` is the job's: -ssh scp JOB remote:out .
  -X                    windows of its programs open on the display of this terminal (DISPLAY); -x: they do not
  NODE                  of a parallel job, the number of the node in its proc
  -name SCHEDD, -pool HOST:PORT        another access point"""


def main(args: list[str], inv: Invocation) -> int:
    """Visit the job: the exit status is the shell's, 255 when there was none."""
    if ssh_clients.is_call_of_ssh(args):
        job, command = ssh_clients.as_visit(args)
        return visit_job(job_named(job), command, Parsed(), inv)
    place = _job_place(args)
    x11 = [word for word in args[:place] if word in ("-X", "-x")][-1:] == ["-X"]
    parsed = parse(args[: place + 1], OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if not parsed.words:
        if inv.called:
            inv.err("ERROR: You must specify a job!\n")
            return 2
        raise UsageError("which job?", hint="slotwise ssh-to-job 12.0")
    if x11 and inv.called and not inv.env.get("DISPLAY"):  # ssh, which HTCondor's tool hands it to, goes on without
        inv.err("WARNING: -X: DISPLAY is not set, so there is no display to forward")
        x11 = False
    job = job_named(parsed.words[0])
    client = parsed.value("ssh")
    if client is not None and client.strip() != "ssh":
        if x11:
            raise UsageError("-X goes with a shell or a command, not with -ssh")
        if parsed.has("name") or parsed.has("pool"):
            raise UsageError("-ssh goes with jobs of this access point", hint="run it there, without -name and -pool")
        return _run_client(client, job, args[place + 1 :], inv)
    return visit_job(job, args[place + 1 :], parsed, inv, x11=x11)


def _run_client(client: str, job: str, words: list[str], inv: Invocation) -> int:
    """Run a client of ssh with this command in place of ssh."""
    inv.stdout.flush()
    # A link of its own: the installation is root's where an ordinary user runs this, and need not have such links.
    with tempfile.TemporaryDirectory(prefix="slotwise-ssh-") as directory:
        transport = Path(directory) / "condor_ssh_to_job"
        transport.symlink_to(condor_names.launcher())
        words = ssh_clients.command_line(client, job, words, transport)
        try:
            return subprocess.run(words, cwd=inv.cwd, env=dict(inv.env), check=False).returncode
        except FileNotFoundError:
            raise HostError(f"{words[0]} is not installed", hint="files: `ssh-to-job JOB cat FILE`") from None


def visit_job(job: str, command: list[str], parsed: Parsed, inv: Invocation, *, x11: bool = False) -> int:
    """A shell, or ``command``, beside the job; with ``x11`` its windows open on the display of the invocation."""
    inv.stdout.flush()  # the job's own words go past it, and behind what was said so far
    try:
        return tried_again(parsed, inv, lambda: _visit(job, command, parsed, inv, x11))
    except KeyboardInterrupt:
        if parsed.has("remove-on-interrupt"):
            rm([".".join(job.split(".")[:2])], inv)
        raise
    except SlotwiseError as error:
        if inv.called:
            inv.err(htcondor_words.failure(error, inv))
            return 1
        inv.err(f"ERROR: {error}")
        return 255


def _job_place(args: list[str]) -> int:
    """The position of the job: the words after it are the command, even those that begin with a dash."""
    place = 0
    while place < len(args):
        if not is_option(args[place]):
            return place
        given = parse([args[place], "", ""], OPTIONS).options[0]
        place += 1 + len(given.values)
    return place


def _visit(job: str, command: list[str], parsed: Parsed, inv: Invocation, x11: bool) -> int:
    shells = (parsed.value("shells") or "").replace(",", " ").split()
    terminal = os.isatty(0) and os.isatty(1)
    with contextlib.ExitStack() as stack:
        if x11:
            from slotwise.cli.jobs.x11.forwarding import forwarded  # loaded by sessions with a display only

            command = stack.enter_context(forwarded(job, parsed, inv)).command(command, shells, terminal)
        request = schedd_pb2.OpenShell(command=command, shells=shells)
        if terminal:
            request.terminal.CopyFrom(_window(inv))
        visit = stack.enter_context(Visit(job, parsed, inv))
        stack.enter_context(_raw(terminal))
        stack.enter_context(_window_changes(terminal, visit, inv))
        return carry(visit, request, _read_input, lambda data, error: _write(2 if error else 1, data))


def _read_input() -> bytes:
    try:
        return os.read(0, PIECE)
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _window(inv: Invocation) -> schedd_pb2.Terminal:
    size = shutil.get_terminal_size()
    return schedd_pb2.Terminal(rows=size.lines, columns=size.columns, kind=inv.env.get("TERM", "dumb"))


@contextlib.contextmanager
def _raw(terminal: bool) -> Iterator[None]:
    """Send every key to the job's machine, interrupts included."""
    if not terminal:
        yield
        return
    former = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is kept
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, former)
        sys.stdout.flush()


@contextlib.contextmanager
def _window_changes(terminal: bool, visit: Visit, inv: Invocation) -> Iterator[None]:
    if not terminal:
        yield
        return
    former = signal.signal(signal.SIGWINCH, lambda *_: visit.say(schedd_pb2.JobVisit(resize=_window(inv))))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, former)
