"""Stands in for the shadow of fetched work, which comes from no queue.

It accepts a run with the ad that the startd has sent, and answers what a job asks of its access point with an error.
The end of the run goes to the startd, which says when it has written it down; until then the run stays.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Protocol

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.messages import Accepted, FromShadow, Hello, Output, RemoteIo, RemoteIoDone, StreamPiece, ToShadow

_log = logging.getLogger(__name__)


class FetchedRun(Protocol):
    """What a run of fetched work is to the stand-in of its shadow."""

    assignment: Assignment

    def hello(self) -> Hello:
        """The greeting on a new stream."""
        ...

    def hear(self, message: FromShadow) -> None:
        """Process a message of the shadow about this run."""
        ...

    def fail(self, error: BaseException) -> None:
        """Something about this run could not be processed: it ends."""
        ...


class Standalone:
    """All runs without a shadow. A :class:`slotwise.starter.links.shadow_connection.Link`."""

    #: No third party can read it.
    private = True

    def __init__(self) -> None:
        self._runs: dict[str, FetchedRun] = {}

    def add(self, run: FetchedRun) -> None:
        """A run joins: it is accepted."""
        self._runs[run.assignment.run_id] = run
        asyncio.get_running_loop().call_soon(self._accept, run)

    def drop(self, run_id: str) -> None:
        """A run is over."""
        self._runs.pop(run_id, None)

    def _accept(self, run: FetchedRun) -> None:
        assignment = run.assignment
        if self._runs.get(assignment.run_id) is not run:
            return
        with contained(_log, doing_for_run(assignment.run_id, "accepting fetched work"), run.fail):
            run.hello()
            run.hear(Accepted(job_ad=assignment.fetched_ad, user=assignment.fetched_for))

    def report(self, run_id: str, report: ToShadow) -> None:
        """A run reports something: only what the job asks of its access point has an answer."""
        run = self._runs.get(run_id)
        if run is not None and isinstance(report, RemoteIo):
            asyncio.get_running_loop().call_soon(run.hear, RemoteIoDone(id=report.id, error=errno.ENOTCONN))

    async def report_piece(self, run_id: str, piece: Output | StreamPiece) -> bool:
        """Files go nowhere: they are where the job has written them."""
        return True
