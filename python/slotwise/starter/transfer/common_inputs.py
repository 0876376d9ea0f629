"""Common input files: a host gets them once for all jobs that name the same.

Sets are told apart by who sends them (the schedd's address, which has its key where it has one), whose jobs they are by
its record, and a digest of all that a transfer would find at the access point, which also bounds them to a cluster or a
DAG. Whatever goes wrong here, the job gets the files as its other inputs.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import Protocol

from slotwise.errors import SlotwiseError, UsageError
from slotwise.execution.keeper_spec import Identity
from slotwise.execution.launcher import remove_tree
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.choice import NONE
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.messages import CommonAnswer, CommonInputsAnswer, CommonOffered, CommonSent, FilePiece
from slotwise.starter.scratch.space import ScratchSpace
from slotwise.starter.transfer import common_store
from slotwise.starter.transfer.sharing import Sharing, Turn
from slotwise.starter.transfer.transfer import Inbox

_log = logging.getLogger(__name__)
#: The longest that a schedd can have a set kept, seconds.
_KEEP_MOST_S = 86400


class SharingRun(Protocol):
    """What a set has to know of a run."""

    assignment: Assignment
    job: RunJob
    shadow: ShadowConnection
    scratch: ScratchSpace

    @property
    def run_id(self) -> str:
        """The run's id."""
        ...


class CommonInputs:
    """The sets of a host, and the runs that have them."""

    def __init__(self, execute: Path) -> None:
        self._execute = execute
        self._sharing = Sharing()
        self._runs: dict[str, RunPart] = {}
        self._places: dict[str, Path] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._serial = itertools.count(1)
        #: FORBID_HARDLINK_MAPPING.
        self.copies_only = False

    def clear(self) -> None:
        """Remove what a former starter kept. Blocks."""
        for problem in common_store.empty(self._execute):
            _log.error("could not remove common input files: %s", problem)

    def ask(self, part: RunPart, key: str, size: int) -> Turn | None:
        """A run names a set; None when it has to get its own."""
        try:
            turn = self._sharing.ask(key, part.run_id, size, common_store.free_bytes(self._execute))
        except OSError:
            return None
        if turn is None:  # what nobody uses makes way, for the next
            for idle in self._sharing.idle():
                self._expire(idle)
            return None
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._runs[part.run_id] = part
        return turn

    def new_place(self) -> Path:
        """A directory to receive a set in.

        :raises OSError: when it cannot be made.
        """
        return common_store.make(self._execute, f"{os.getpid()}_{next(self._serial)}")

    def place_of(self, key: str) -> Path:
        """Where a whole set lies."""
        return self._places[key]

    def arrived(self, key: str, run_id: str, place: Path) -> None:
        """A set is whole: all that wait for it get it."""
        self._places[key] = place
        for waiting in self._sharing.arrived(key, run_id):
            self._runs[waiting].place()

    def leave(self, key: str, run_id: str, keep_s: int) -> None:
        """A run is over, or its transfer has failed."""
        left = self._sharing.leave(key, run_id)
        self._runs.pop(run_id, None)
        if left.next:
            self._runs[left.next].receive()
        elif left.idle:
            wait_s = min(max(0, keep_s), _KEEP_MOST_S)
            self._timers[key] = asyncio.get_running_loop().call_later(wait_s, self._expire, key)

    def _expire(self, key: str) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if self._sharing.drop(key) and (place := self._places.pop(key, None)) is not None:
            _log.info("removing common input files that no job has any more: %s", place)
            self.discard(place)

    def discard(self, place: Path) -> None:
        """Remove a directory of a set, in the background."""
        asyncio.get_running_loop().run_in_executor(None, _discard, place)


def _discard(place: Path) -> None:
    for problem in remove_tree(place):
        _log.error("could not remove common input files: %s", problem)


class RunPart:
    """The common inputs of one run."""

    def __init__(self, run: SharingRun, shared: CommonInputs) -> None:
        self._run = run
        self._shared = shared
        self._key = ""
        self._keep_s = self._size = 0
        self._place: Path | None = None
        self._inbox: Inbox | None = None
        #: What is received is the set, whether or not it can be written.
        self.receiving = False
        self._placing: asyncio.Task[None] | None = None
        #: Set when what is put into the job's directory is not wanted there any more.
        self._stop = threading.Event()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.run_id

    def offered(self, offer: CommonOffered, *, encrypted: bool) -> None:
        """The shadow can send a set. ``encrypted``: the job's files must be, and those that are kept are not."""
        self.leave()
        assignment = self._run.assignment
        who = (assignment.shadow_address, self._run.job.user, offer.digest)
        key = hashlib.sha256(repr(who).encode()).hexdigest()
        turn = None if encrypted else self._shared.ask(self, key, offer.bytes)
        if turn is None:
            self._say("gets its common input files as its own")
            self._answer(CommonAnswer.OWN)
            return
        self._key, self._keep_s, self._size = key, offer.keep_s, offer.bytes
        if turn is Turn.SEND:
            self.receive()
        elif turn is Turn.PLACE:
            self.place()
        else:
            self._say("waits for common input files that another job is sent")
            self._answer(CommonAnswer.WAIT)

    def receive(self) -> None:
        """It is this run that is sent the set."""
        try:
            self._place = self._shared.new_place()
        except OSError as error:
            self._give_up(error)
            return
        self._inbox, self.receiving = Inbox(self._place, Identity()), True
        self._say("is sent common input files, which are kept for other jobs")
        self._answer(CommonAnswer.SEND)

    def take(self, piece: FilePiece) -> None:
        """A piece of the set has come."""
        if self._inbox is None:
            return
        try:
            if self._inbox.received + len(piece.data) > self._size:
                raise UsageError(f"there are more of them than the {self._size} bytes that were offered")
            self._inbox.take(piece)
        except (OSError, SlotwiseError) as error:
            _log.warning("%s: cannot keep common input files (run %s): %s", self._job, self.run_id, error)
            self._inbox.close()
            self._inbox = None

    def sent(self, message: CommonSent) -> None:
        """All of the set has come, if it could be written."""
        if not self.receiving:
            return
        self.receiving = False
        inbox, self._inbox = self._inbox, None
        if inbox is None or self._place is None:
            self._give_up("they could not be written")
            return
        inbox.close()
        if not message.whole:
            self._give_up("they changed while they were sent")
            return
        place, self._place = self._place, None
        self._shared.arrived(self._key, self.run_id, place)
        self.place()

    def place(self) -> None:
        """Put the set, which is whole, into the job's directory."""
        former, source = self._placing, self._shared.place_of(self._key)
        self._stop = threading.Event()
        self._placing = asyncio.get_running_loop().create_task(self._put(source, former))

    async def _put(self, source: Path, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.wait([former])
        key, identity = self._key, self._run.job.identity
        linked = (
            not self._shared.copies_only and self._run.job.choice.runtime == NONE and common_store.may_link(identity)
        )
        scratch, stop = self._run.assignment.directory.scratch, self._stop
        work = partial(common_store.place, source, scratch, identity, linked=linked, stopped=stop.is_set)
        try:
            await asyncio.get_running_loop().run_in_executor(None, work)
        except (OSError, RecursionError) as error:
            if self._key == key:
                self._give_up(error)
            return
        if self._key == key:
            self._say(f"has its common input files as {'links to' if linked else 'copies of'} those that are kept")
            self._answer(CommonAnswer.PLACED)

    def _give_up(self, reason: object) -> None:
        self._say(f"gets its common input files as its own: {reason}")
        self.leave()
        self._answer(CommonAnswer.OWN)

    def leave(self) -> None:
        """The run is over, its stream broke, or its transfer failed: another may be sent the set."""
        self.receiving = False
        self._stop.set()
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None
        if self._place is not None:
            self._shared.discard(self._place)
            self._place = None
        key, self._key = self._key, ""
        if key:
            self._shared.leave(key, self.run_id, self._keep_s)

    @property
    def is_placing(self) -> bool:
        """Whether something is put into the job's directory at the moment."""
        return self._placing is not None and not self._placing.done()

    async def settle(self) -> None:
        """Wait until nothing is put into the job's directory any more."""
        if self._placing is not None:
            await asyncio.wait([self._placing])

    @property
    def _job(self) -> str:
        return self._run.assignment.job_id

    def _say(self, what: str) -> None:
        _log.info("%s: %s (run %s)", self._job, what, self.run_id)

    def _answer(self, answer: CommonAnswer) -> None:
        self._run.shadow.report(CommonInputsAnswer(answer))
