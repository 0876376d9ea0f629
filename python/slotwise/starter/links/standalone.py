"""Stands where the shadow is, for runs of fetched work: nobody has a queue that they came from.

It accepts a run with the ad that the startd has sent, and answers what a job asks of its access point with an error.
The end of the run goes to the startd, which says when it has written it down; until then the run stays.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import TYPE_CHECKING

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.wire.gen import schedd_pb2

if TYPE_CHECKING:
    from slotwise.starter.run.run import Run

_log = logging.getLogger(__name__)


class Standalone:
    """All runs without a shadow. Has the methods of :class:`slotwise.starter.links.shadow_link.ShadowLink`."""

    #: Nobody reads along.
    private = True

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def add(self, run: Run) -> None:
        """A run joins: it is accepted."""
        self._runs[run.run_id] = run
        asyncio.get_running_loop().call_soon(self._accept, run)

    def drop(self, run_id: str) -> None:
        """A run is over."""
        self._runs.pop(run_id, None)

    def _accept(self, run: Run) -> None:
        if self._runs.get(run.run_id) is not run:
            return
        with contained(_log, doing_for_run(run.run_id, "accepting fetched work"), run.fail):
            run.hello()
            accepted = schedd_pb2.RunAccepted(user=run.fetched_for, job_ad=run.fetched_ad)
            run.hear(schedd_pb2.ShadowMessage(run_id=run.run_id, accepted=accepted))

    def send(self, message: schedd_pb2.StarterMessage) -> None:
        """A run says something: only what the job asks of its access point has an answer."""
        run = self._runs.get(message.run_id)
        if run is None or message.WhichOneof("what") != "io":
            return
        done = schedd_pb2.RemoteIoDone(id=message.io.id, error=errno.ENOTCONN)
        answer = schedd_pb2.ShadowMessage(run_id=run.run_id, io=done)
        asyncio.get_running_loop().call_soon(run.hear, answer)

    async def send_piece(self, message: schedd_pb2.StarterMessage) -> bool:
        """Files go nowhere: they are where the job has written them."""
        return True
