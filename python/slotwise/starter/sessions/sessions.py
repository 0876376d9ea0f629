"""The visits to one run. Messages come from the access point, which has authorized the visitor."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Protocol

from slotwise.classad import ExprTree
from slotwise.errors import SlotwiseError
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.messages import BytesTaken, OpenShell, Peek, Terminal, Visit, VisitData, VisitEnd, VisitMessage
from slotwise.starter.runtimes.runtime import Entrance
from slotwise.starter.sessions.peek import look
from slotwise.starter.sessions.shell import Shell

#: Shells that may be open beside one job.
_MOST = 16


class VisitedRun(Protocol):
    """What visits need of a run."""

    assignment: Assignment
    job: RunJob
    shadow: ShadowConnection

    @property
    def pid(self) -> int:
        """The job's process; 0 when it does not execute."""
        ...

    def entrance(self) -> Entrance | None:
        """How a visitor enters the job's view; None: nobody can."""
        ...

    @property
    def executing(self) -> bool:
        """The job executes, or is suspended."""
        ...

    @property
    def allows_visits(self) -> ExprTree | None:
        """ENABLE_SSH_TO_JOB, as an expression over machine and job; None: all may visit."""
        ...

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work of the run go on by itself."""
        ...


class Sessions:
    """The visits to one run."""

    def __init__(self, run: VisitedRun) -> None:
        self._run = run
        self._shells: dict[int, Shell] = {}

    def hear(self, visit: Visit) -> None:
        """Process a message of a visitor."""
        try:
            if not self._run.executing:
                raise SlotwiseError("the job does not execute any more")
            if isinstance(visit.what, Peek):
                found = look(self._run.assignment.directory, self._run.job.identity, visit.what)
                self._say(visit.id, found)
            elif isinstance(visit.what, OpenShell):
                self._open(visit.id, visit.what)
            elif (shell := self._shells.get(visit.id)) is not None:
                _pass_on(shell, visit.what)
        except (OSError, SlotwiseError) as error:
            self._say(visit.id, VisitEnd(status=255, error=str(error)))

    def leave(self) -> None:
        """The stream broke or the run ends: hang up on all visitors."""
        for shell in list(self._shells.values()):
            shell.hang_up()

    def _open(self, number: int, request: OpenShell) -> None:
        run = self._run
        allowed = run.allows_visits
        if allowed is not None and allowed.eval(run.assignment.machine_ad, run.job.ad) is not True:
            raise SlotwiseError("this machine allows no shells beside jobs", hint="ENABLE_SSH_TO_JOB")
        if len(self._shells) >= _MOST:
            raise SlotwiseError(f"{_MOST} shells are open beside this job already")
        entrance = run.entrance()
        if entrance is None:
            raise SlotwiseError(f"nobody can enter a job in {run.job.choice.runtime}")
        shell = Shell(lambda what: self._say(number, what))
        shell.open(run.assignment.directory.control, entrance, request)
        self._shells[number] = shell
        run.begin(self._attend(number, shell))

    async def _attend(self, number: int, shell: Shell) -> None:
        try:
            status = await shell.wait()
            self._say(number, VisitEnd(status=status))
        finally:
            self._shells.pop(number, None)

    def _say(self, number: int, what: VisitMessage) -> None:
        self._run.shadow.report(Visit(number, what))


def _pass_on(shell: Shell, what: VisitMessage | None) -> None:
    match what:
        case VisitData():
            shell.write(what)
        case BytesTaken(count):
            shell.taken(count)
        case Terminal():
            shell.resize(what)
        case VisitEnd():
            shell.hang_up()
