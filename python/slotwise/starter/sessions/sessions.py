"""Who visits one run at the moment. Messages come from the access point, which has made sure of the visitor's right."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from slotwise.errors import SlotwiseError
from slotwise.starter.run.states import Phase
from slotwise.starter.sessions.peek import look
from slotwise.starter.sessions.shell import Shell
from slotwise.wire.gen import schedd_pb2

if TYPE_CHECKING:
    from slotwise.starter.run.run import Run

_log = logging.getLogger(__name__)

#: Shells that may be open beside one job.
_MOST = 16


class Sessions:
    """The visits to one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._shells: dict[int, Shell] = {}

    def hear(self, visit: schedd_pb2.JobVisit) -> None:
        """A visitor has said something."""
        what = visit.WhichOneof("what")
        shell = self._shells.get(visit.id)
        try:
            if self._run.state.phase is not Phase.RUNNING:
                raise SlotwiseError("the job does not execute any more")
            if what == "peek":
                self._say(visit.id, peeked=look(self._run, visit.peek))
            elif what == "open":
                self._open(visit.id, visit.open)
            elif shell is None:
                return
            elif what == "data":
                shell.write(visit.data)
            elif what == "taken":
                shell.taken(visit.taken)
            elif what == "resize":
                shell.resize(visit.resize)
            elif what == "end":
                shell.hang_up()
        except (OSError, SlotwiseError) as error:
            self._say(visit.id, end=schedd_pb2.VisitEnd(status=255, error=str(error)))

    def leave(self) -> None:
        """Nobody can be heard any more: hang up on all."""
        for shell in list(self._shells.values()):
            shell.hang_up()

    def _open(self, number: int, wish: schedd_pb2.OpenShell) -> None:
        allowed = self._run.host.settings.visits
        if allowed is not None and allowed.eval(self._run.machine_ad, self._run.job_ad) is not True:
            raise SlotwiseError("this machine allows no shells beside jobs", hint="ENABLE_SSH_TO_JOB")
        if len(self._shells) >= _MOST:
            raise SlotwiseError(f"{_MOST} shells are open beside this job already")
        shell = Shell(lambda **what: self._say(number, **what))
        shell.open(self._run, wish)
        self._shells[number] = shell
        self._run.begin(self._attend(number, shell))

    async def _attend(self, number: int, shell: Shell) -> None:
        try:
            status = await shell.wait()
            self._say(number, end=schedd_pb2.VisitEnd(status=status))
        finally:
            self._shells.pop(number, None)

    def _say(self, number: int, **what: object) -> None:
        self._run.say(visit=schedd_pb2.JobVisit(id=number, **what))  # type: ignore[arg-type]
