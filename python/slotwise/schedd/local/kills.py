"""Sends kills to the keepers of runs on the access point."""

from __future__ import annotations

import logging

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Kill
from slotwise.schedd.local import ending
from slotwise.schedd.local.job_views import read_view
from slotwise.schedd.local.run import LocalRun

_log = logging.getLogger(__name__)
#: The time that a local universe job has to exit before it is killed, in seconds, unless it sets its own.
_VACATE_S = 30
#: The same for a scheduler universe job, which may have much to clean up: practically unlimited.
_SCHEDULER_VACATE_S = 86_400


class Kills:
    """Says to keepers how their jobs are to end."""

    def __init__(self, ads: JobAds) -> None:
        self._ads = ads

    def request(self, run: LocalRun, kill: Kill) -> None:
        """Have a run killed, as soon as it has a keeper."""
        run.kill = kill
        self.send(run)

    def send(self, run: LocalRun) -> None:
        """Send the kill that was requested, if there is one, to the keeper, once there is one."""
        kill = run.kill
        if kill is None or run.keeper is None:
            return
        if kill.fast:
            run.kill_sent = run.keeper.kill()
            return
        if not run.executing_at:
            return  # a process that has not executed the job's program yet would not get the signal
        run.kill_sent = run.keeper.ask_to_exit(*self._soft(run))

    def part(self, run: LocalRun, kill: Kill, seconds: int) -> None:
        """End a run with the schedd; one that is not killed at once has ``seconds`` to exit."""
        run.kill = run.kill or kill
        if run.keeper is None:
            return
        if kill.fast:
            run.keeper.kill()
        else:
            run.keeper.ask_to_exit(self._soft(run)[0], seconds)

    def _soft(self, run: LocalRun) -> tuple[int, int]:
        """The signal that asks a run to exit, and the seconds until it is killed."""
        if run.view is None and self._ads.has(run.job):
            with contained(_log, doing_for_run(run.id, "reading its signals")):
                run.view = read_view(self._ads, run.job)
        default_s = _SCHEDULER_VACATE_S if run.is_scheduler else _VACATE_S
        return ending.soft_kill(run.view, run.job.status, default_s=default_s)
