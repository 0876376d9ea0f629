"""Runs the backfill client (BOINC_Executable): one for the whole startd, as long as some slot wants it.

Source: manual, "Configuring HTCondor for Running Backfill Jobs". The client gets a session of its own; its process
group is killed when the last slot needs it no more, and by the next startd if this one was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pwd
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from slotwise.backoff import Backoff
from slotwise.config import Config
from slotwise.daemon import children, tasks
from slotwise.daemon.file_rights import file_rights
from slotwise.daemon.spawn import as_account, program
from slotwise.startd.journal import Journal
from slotwise.startd.slot import events as ev
from slotwise.transfer import safe_open

_log = logging.getLogger(__name__)

#: When a client that exits too soon (within so many seconds) is started again.
_BACKOFF, _SOON_S = Backoff(first_s=1.0, factor=2.0, most_s=300.0), 10.0

#: The knobs that name the files for what the client says.
_STREAMS = ("BOINC_Output", "BOINC_Error")

Report = Callable[[str, ev.SlotEvent], None]


class Client:
    """The client and the slots that want it. All calls come from the event loop's thread.

    :param report: called for a slot when the client runs or has exited.
    """

    def __init__(self, knobs: Callable[[], Config], journal: Journal, report: Report) -> None:
        self._knobs = knobs
        self._journal = journal
        self._report = report
        self._wanted: set[str] = set()
        self._leaving: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._told = False

    def want(self, slot: str, what: str) -> None:
        """A slot wants the client (``start``), or needs it no more (``stop``)."""
        loop = asyncio.get_running_loop()
        if what == "start":
            self._wanted.add(slot)
            if self._process is not None:
                loop.call_soon(self._report, slot, ev.BackfillStarted())
            elif self._task is None or self._task.done():
                self._task = tasks.keep("running the backfill client", self._keep)
            return
        self._wanted.discard(slot)
        if self._process is None or self._wanted:
            loop.call_soon(self._report, slot, ev.BackfillEnded())
            return
        self._leaving.add(slot)
        self._signal(signal.SIGKILL if self._told else signal.SIGTERM)
        self._told = True

    async def close(self) -> None:
        """End the client for good."""
        self._wanted.clear()
        await tasks.end(self._task)
        self._signal(signal.SIGKILL)

    def end_former(self) -> None:
        """End the client of a startd that was killed."""
        match self._journal.recall("filler"):
            case [int(pid), began] if started_at(pid) == began:
                _log.info("killing the backfill client of the previous startd: %s", pid)
                children.signal_group(pid, signal.SIGKILL)

    async def _keep(self) -> None:
        """Run the client, and again when it exits while a slot wants it."""
        failures = 0
        clock = asyncio.get_running_loop().time
        while self._wanted:
            began = clock()
            try:
                self._process = await self._spawn()
            except (OSError, ValueError, KeyError) as error:
                _log.error("could not start the backfill client: %s", error)
                failures += 1
                await asyncio.sleep(_BACKOFF.delay_s(failures))
                continue
            self._told = False
            self._journal.remember("filler", [self._process.pid, started_at(self._process.pid)])
            for slot in list(self._wanted):
                self._report(slot, ev.BackfillStarted())
            if not self._wanted:  # stopped in the moment of its start
                self._signal(signal.SIGTERM)
            status = await self._process.wait()
            self._signal(signal.SIGKILL)  # what it left of its group
            self._process = None
            gone, self._leaving = self._wanted | self._leaving, set()
            _log.info("the backfill client exited: %s", status)
            for slot in gone:
                self._report(slot, ev.BackfillEnded())
            failures = failures + 1 if clock() - began < _SOON_S else 0
            if self._wanted:
                await asyncio.sleep(_BACKOFF.delay_s(failures + 1))

    async def _spawn(self) -> asyncio.subprocess.Process:
        config = self._knobs()
        executable = config.get_text("BOINC_Executable")
        directory = Path(config.get_text("BOINC_InitialDir"))
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(directory)}
        words = program([executable, *shlex.split(config.get_text("BOINC_Arguments"))], env["PATH"])
        rights: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if os.geteuid() == 0:
            account = pwd.getpwnam(config.get_text("BOINC_Owner"))
            words = [*as_account(account.pw_uid, account.pw_gid), *words]
            rights = file_rights(account.pw_uid, account.pw_gid, ())
        for word in shlex.split(config.get_text("BOINC_Environment").replace(";", " ")):
            name, equals, value = word.partition("=")
            if equals:
                env[name] = value
        with contextlib.ExitStack() as files:
            # As the client could itself: the directory is its account's, which may lay links there.
            with rights:
                output, error = (_appended(files, directory, config.get_text(knob)) for knob in _STREAMS)
            return await asyncio.create_subprocess_exec(
                *words, cwd=directory, env=env,
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=error, start_new_session=True,
            )  # fmt: skip

    def _signal(self, number: int) -> None:
        if self._process is not None:
            children.signal_group(self._process.pid, number)


def _appended(files: contextlib.ExitStack, directory: Path, name: str) -> BinaryIO | int:
    """A file below the client's directory, to append to; nothing where no name is configured.

    :raises OSError: it cannot be written, or is no plain file.
    """
    if not name or directory / name == Path(os.devnull):
        return asyncio.subprocess.DEVNULL
    descriptor = safe_open.regular(str(directory / name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    return files.enter_context(open(descriptor, "ab"))


def started_at(pid: int) -> int:
    """When a process began, in the kernel's ticks: with the pid, it identifies a process. 0 when it has exited."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
