"""The event log of fetched work at the execution point (StarterUserLog), where no shadow writes one.

Events 1, 4, 5, 10, 11 and 21, in the form that HTCondor's starter gives them. A program that runs as the job's user
appends each: the starter opens nothing that an ad names, and a file system that does not answer delays only this run.
An entry stands there once: after a restart, or when that program was killed, the end of the file is looked at before.

Source: manual, "Work Fetching Hooks Invoked by HTCondor"; HTCondor's ``LocalUserLog``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Protocol

from slotwise.execution import child_programs
from slotwise.execution.exit_status import STARTER_ERROR, End, How
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.model import job_events
from slotwise.model.job_events import DateForm, Frame, Usage, stamp
from slotwise.model.job_id import JobId
from slotwise.starter.hooks.run_programs import ChildPrograms
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.job.run_job import RunJob

_log = logging.getLogger(__name__)

#: Appends standard input. A named pipe without a reader is an error instead of a wait.
_APPEND = 'umask 022; exec dd "of=$1" oflag=append,nonblock conv=notrunc iflag=fullblock bs=1M status=none'
#: The end of the file that is searched for an entry: more than one run writes. A named pipe is never opened for it.
_TAIL = 'test -f "$1" || exit 0; exec tail -c 262144 -- "$1"'
#: How long one access may take, seconds, and how often it is tried when its program is killed.
_LIMIT_S, _TRIES = 30.0, 3


class LoggedRun(Protocol):
    """What the log needs of a run of fetched work."""

    assignment: Assignment
    job: RunJob
    programs: ChildPrograms

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work of the run go on by itself."""
        ...


class UserLog:
    """The log of one run. Entries are written one after the other in the background, in the order of the calls.

    :param date_form: how times are written (DEFAULT_USERLOG_FORMAT_OPTIONS).
    """

    def __init__(self, run: LoggedRun, path: str, date_form: DateForm) -> None:
        self._run = run
        self.path = path
        self._date_form = date_form
        self._turn = asyncio.Lock()
        self._may_be_there = True

    async def create(self) -> None:
        """Make the file before the job starts.

        :raises LaunchRefusedError: when the job's user cannot write it, as in HTCondor.
        """
        problem = await self._append("")
        if problem:
            who = self._run.job.identity.name or "the job"
            raise _refused(self._run, f"StarterUserLog: {who} cannot write {problem}")
        self._may_be_there = False

    def executing(self, address: str) -> None:
        """The job executes since ``started_at``; ``address``: where the starter is reached."""
        self._add(job_events.executing(self._frame(self._run.job.started_at), address, "", {}))

    def suspended(self, now: float, *, resumed: bool, processes: int) -> None:
        """The job was suspended, or goes on."""
        frame = self._frame(now)
        self._add(job_events.unsuspended(frame) if resumed else job_events.suspended(frame, processes))

    def message(self, text: str, now: float) -> None:
        """The starter has something to tell that is no error."""
        self._add(job_events.starter_message(self._frame(now), self._run.assignment.slot.name, text))

    def ended(self, end: End, result: KeeperResult | None, now: float, *, executed: bool) -> None:
        """The run is over. A job that ran to its own end has terminated; what a starter cannot run is its error."""
        frame = self._frame(result.ended_at if result is not None and result.ended_at else now)
        used = result.usage if result is not None else None
        usage = Usage(local_user_s=used.user_s, local_system_s=used.system_s) if used is not None else Usage()
        entry = ""
        if end.how in (How.HELD, How.NOT_STARTED):
            codes = (end.reason_code, end.reason_subcode)
            entry = job_events.remote_error(frame, self._run.assignment.slot.name, end.reason, *codes)
        if end.by_itself:
            entry = job_events.terminated(frame, normal=end.how is How.EXITED, code=end.code, usage=usage)
        elif executed:
            entry += job_events.evicted(frame, usage=usage)
        if entry:
            self._add(entry)

    async def settle(self) -> None:
        """Wait until all entries are written, or have failed."""
        async with self._turn:
            pass

    def _frame(self, at: float) -> Frame:
        cluster, proc = JobId.parse(self._run.assignment.job_id).first
        return Frame(cluster, proc or 0, stamp(at, self._date_form))

    def _add(self, entry: str) -> None:
        self._run.begin(self._write(entry))

    async def _write(self, entry: str) -> None:
        async with self._turn:
            if self._may_be_there and entry in await self._tail():
                return
            problem = await self._append(entry)
        if problem:
            _log.error("%s: cannot write StarterUserLog %s", self._run.assignment.job_id, problem)

    async def _append(self, entry: str) -> str:
        """Append an entry; returns what keeps it from being written, empty when it is."""
        status, said = -1, ""
        for _ in range(_TRIES):
            try:
                answer = await self._call(_APPEND, entry)
            except OSError as error:
                return f"{self.path}: {error.strerror}"
            status, said = answer.status, answer.errors.strip()
            if status >= 0:
                break
            self._may_be_there = True
            if entry and entry in await self._tail():
                return ""
        if status == 0:
            return ""
        return f"{self.path}: {said.rpartition(': ')[2] or f'status {status}'}"

    async def _tail(self) -> str:
        try:
            return (await self._call(_TAIL, "")).output
        except OSError:
            return ""

    async def _call(self, script: str, given: str) -> child_programs.Answer:
        words = ["sh", "-c", script, "sh", self.path]
        text = given.encode("utf-8", "surrogateescape")
        return await self._run.programs.call(words, env={"LC_ALL": "C.UTF-8"}, limit_s=_LIMIT_S, given=text)


def of(run: LoggedRun, date_form: DateForm) -> UserLog | None:
    """The log that the job's ad names, below Iwd unless its path is absolute; None when it names none.

    :raises LaunchRefusedError: when the ad asks for what cannot be written.
    """
    path, xml = run.job.value("StarterUserLog"), run.job.value("StarterUserLogUseXML")
    if path is None or run.job.view is None:
        return None
    if not isinstance(path, str) or not path or "\0" in path:
        raise _refused(run, "StarterUserLog of the job is not the name of a file")
    if xml:
        raise _refused(run, "StarterUserLogUseXML: event logs are written as text; take it out of the job's ad")
    return UserLog(run, str(Path(run.job.view.iwd) / path), date_form)


def _refused(run: LoggedRun, reason: str) -> LaunchRefusedError:
    _log.error("%s: %s", run.assignment.job_id, reason)
    return LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=STARTER_ERROR))
