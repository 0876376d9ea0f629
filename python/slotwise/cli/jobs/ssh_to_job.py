"""``slotwise ssh-to-job JOB [COMMAND]``: a shell beside a running job (manual page of condor_ssh_to_job).

No ssh takes part: the terminal travels over the pool's own connections.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, is_option, parse
from slotwise.cli.jobs.act import rm
from slotwise.cli.jobs.session import PLACE, Visit, job_named, tried_again
from slotwise.errors import SlotwiseError, UsageError
from slotwise.wire.gen import schedd_pb2

OPTIONS = [
    Option("help", 1),
    Option("auto-retry", 1),
    Option("remove-on-interrupt", 1),
    Option("shells", 1, 1),
    Option("ssh", 3, 1),
    Option("x"),
    *PLACE,
]
USAGE = """usage: slotwise ssh-to-job [options] CLUSTER[.PROC] [COMMAND ...]
A shell, or a command, in the directory and with the user, environment and limits of a running job; it ends with the job
  -auto-retry           wait for the job to run; -remove-on-interrupt: remove it when that is interrupted
  -shells A,B           the first of these that is there
  -name SCHEDD, -pool HOST:PORT        another access point"""
_PIECE = 32 * 1024
#: Input that the job's machine has not taken yet, bytes.
_WINDOW = 256 * 1024


def main(args: list[str], inv: Invocation) -> int:
    """Visit the job: the exit status is the shell's, 255 when there was none."""
    place = _job_place(args)
    parsed = parse(args[: place + 1], OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if not parsed.words:
        if inv.called:
            inv.err("ERROR: You must specify a job!\n")
            return 2
        raise UsageError("which job?", hint="slotwise ssh-to-job 12.0")
    if parsed.has("ssh"):
        raise UsageError("-ssh has no effect here: no ssh is involved", hint="files: `ssh-to-job JOB cat FILE`")
    job = job_named(parsed.words[0])
    return visit_job(job, args[place + 1 :], parsed, inv)


def visit_job(job: str, command: list[str], parsed: Parsed, inv: Invocation) -> int:
    """A shell, or ``command``, beside the job."""
    inv.stdout.flush()  # the job's own words go past it, and behind what was said so far
    try:
        return tried_again(parsed, inv, lambda: _visit(job, command, parsed, inv))
    except KeyboardInterrupt:
        if parsed.has("remove-on-interrupt"):
            rm([job], inv)
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


def _visit(job: str, command: list[str], parsed: Parsed, inv: Invocation) -> int:
    request = schedd_pb2.OpenShell(command=command, shells=(parsed.value("shells") or "").replace(",", " ").split())
    terminal = os.isatty(0) and os.isatty(1)
    if terminal:
        request.terminal.CopyFrom(_window(inv))
    with Visit(job, parsed, inv) as visit, _raw(terminal), _window_changes(terminal, visit, inv):
        visit.say(schedd_pb2.JobVisit(open=request))
        room = _Room()
        sender = threading.Thread(target=_send_input, args=(visit, room), daemon=True)
        for said in visit.heard():
            if not sender.ident:
                sender.start()  # not before there is a shell: a visit that is tried again must not lose input
            what = said.WhichOneof("what")
            if what == "data":
                _write(2 if said.data.error else 1, said.data.bytes)
                visit.say(schedd_pb2.JobVisit(taken=len(said.data.bytes)))
            elif what == "taken":
                room.give(said.taken)
            elif what == "end":
                if said.end.error:
                    raise SlotwiseError(said.end.error)
                return int(said.end.status)
    return 255


class _Room:
    """How much input may be sent before the other side has taken some."""

    def __init__(self) -> None:
        self._left = _WINDOW
        self._changed = threading.Condition()

    def take(self, count: int) -> None:
        """Wait for room."""
        with self._changed:
            self._changed.wait_for(lambda: self._left > 0)
            self._left -= count

    def give(self, count: int) -> None:
        """Some was taken."""
        with self._changed:
            self._left += count
            self._changed.notify_all()


def _send_input(visit: Visit, room: _Room) -> None:
    while True:
        try:
            data = os.read(0, _PIECE)
        except OSError:
            data = b""
        room.take(len(data))
        visit.say(schedd_pb2.JobVisit(data=schedd_pb2.VisitData(bytes=data, last=not data)))
        if not data:
            return


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
