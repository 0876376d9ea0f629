"""Standard output and error that go to the access point while the job runs (``stream_output``, ``stream_error``).

The job writes to files in its scratch directory, and never waits for the network; what is new in them is sent in
pieces, one of each stream under way at a time. Where the access point has got to is kept in the control directory, so
that a starter that is started again goes on there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import stat
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from slotwise import whole_file
from slotwise.clock import Clock
from slotwise.execution.exit_status import UNABLE_TO_OPEN_OUTPUT, End, held
from slotwise.execution.job_view import STDERR_NAME
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.messages import StreamKept, StreamPiece
from slotwise.starter.transfer.run_files import RunFiles

_log = logging.getLogger(__name__)

#: Bytes of a piece.
_PIECE = 256 * 1024
#: How often the files are looked at, and how long to wait behind a piece that was not full, seconds.
_LOOK_S = 0.25
#: How often progress is written down while much is written, seconds.
_NOTE_S = 1.0
_FILE = "streams"


class StreamingRun(Protocol):
    """What live streams need of a run."""

    assignment: Assignment
    job: RunJob
    shadow: ShadowConnection
    files: RunFiles

    @property
    def executing(self) -> bool:
        """The job executes, or is suspended."""
        ...

    @property
    def may_send(self) -> bool:
        """Whether files of the job may go over the link as it is now."""
        ...

    def cannot_go_on(self, end: End) -> None:
        """The run ends: a stream cannot be written at the access point."""
        ...


class _BrokenStream(Exception):
    """The stream to the shadow broke before a piece was answered."""


class Progress(Struct):
    """Of one stream: where it begins in the file at the access point (None: not begun), and how much is there."""

    base: int | None = None
    sent: int = 0

    def take(self, kept: StreamKept) -> None:
        """The access point has reported how far it is."""
        self.base, self.sent = kept.base, kept.end

    def shrunk(self, size: int) -> None:
        """The job has cut its file off: what it writes from now on goes behind what was sent."""
        if self.base is not None and size < self.sent:
            self.base, self.sent = self.base + self.sent - size, size


class LiveOutput:
    """The streams of one run. All methods are for the event loop's thread."""

    def __init__(self, run: StreamingRun, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._progress: dict[str, Progress] | None = None
        self._answers: dict[bool, asyncio.Future[StreamKept | None]] = {}
        self._following: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._finishing = False
        self._noted_at = 0.0

    # ---- what happens to the run

    def follow(self) -> None:
        """The job runs: send what it writes from now on, or from where a former starter got to."""
        if self._following is None and self._run.job.transfers and self._streams():
            self._finishing = False
            self._following = asyncio.get_running_loop().create_task(self._follow())
            self._following.add_done_callback(self._ended)

    def hear(self, kept: StreamKept) -> None:
        """The access point has answered."""
        answer = self._answers.get(kept.error)
        if answer is not None and not answer.done():
            answer.set_result(kept)

    def link_lost(self) -> None:
        """The stream broke: pieces under way get no answer."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)

    def link_back(self) -> None:
        """The shadow has accepted the run again."""
        self._wake.set()

    async def finish(self, problems: list[End]) -> bool:
        """The job is over: send the rest; False when the stream broke. ``problems``: why some cannot be written."""
        if not self._streams() or not self._run.job.transfers:
            return True
        self._finishing = True
        self._wake.set()
        if self._following is not None:
            await asyncio.wait({self._following})
        if not self._run.shadow.accepted:
            return False
        try:
            for name in self._streams():
                if (end := await self._send_all(name)) is not None:
                    problems.append(end)
        except _BrokenStream:
            return False
        finally:
            self._note()
        return True

    def stop(self) -> None:
        """The run is discarded."""
        if self._following is not None:
            self._following.cancel()

    # ---- what is sent

    def _streams(self) -> dict[str, Progress]:
        """The live streams by file name, with where they are."""
        if self._progress is None and self._run.job.view is not None:
            self._progress = {name: Progress() for name in self._run.job.view.live_streams()}
            if self._progress:
                self._recall()
        return self._progress or {}

    async def _follow(self) -> None:
        while not self._finishing:
            self._wake.clear()
            with contextlib.suppress(_BrokenStream):
                for name in self._streams():
                    end = await self._send_all(name)
                    if end is not None and self._run.executing:
                        self._run.cannot_go_on(end)
                        return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S if self._run.shadow.accepted else None):
                    await self._wake.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._following = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("run %s: streaming stopped: %s", self._run.assignment.run_id, error, exc_info=error)

    async def _send_all(self, name: str) -> End | None:
        """Send what is new of a stream: until a piece is not full, or at the job's end to the end of the file.

        :raises _BrokenStream: all is sent when it is back.
        """
        progress = self._streams()[name]
        while True:
            data = self._read(name, progress)
            if not data and progress.base is not None:
                return None
            kept = await self._send(name, progress, data)
            if kept.problem:
                return held(kept.problem, kept.hold_code or UNABLE_TO_OPEN_OUTPUT, kept.hold_subcode)
            news = progress.base is None or kept.base != progress.base
            progress.take(kept)
            if news or self._clock.monotonic() - self._noted_at > _NOTE_S:
                self._note()
            if len(data) < _PIECE and not self._finishing:
                return None

    def _read(self, name: str, progress: Progress) -> bytes:
        """The next piece of a stream; empty when there is none, or when the job has put something else in its place."""
        path = self._run.assignment.directory.scratch / name
        try:
            if progress.base is not None and path.lstat().st_size == progress.sent:
                return b""
            with rights_of(self._run.job.identity):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
                try:
                    state = os.fstat(descriptor)
                    if not stat.S_ISREG(state.st_mode):
                        return b""
                    progress.shrunk(state.st_size)
                    return os.pread(descriptor, _PIECE, progress.sent)
                finally:
                    os.close(descriptor)
        except OSError:
            return b""

    async def _send(self, name: str, progress: Progress, data: bytes) -> StreamKept:
        """Send a piece and wait for its answer.

        :raises _BrokenStream: when there is none.
        """
        run = self._run
        if not run.shadow.accepted or run.job.view is None:
            raise _BrokenStream
        if not run.may_send:
            return StreamKept(problem="It is to be encrypted, and the connection to the access point is not")
        begin, append = progress.base is None, run.job.view.appends
        if begin and append:
            data = b""  # should it have to be sent again, the file would have it twice
        piece = StreamPiece(
            error=name == STDERR_NAME,
            begin=begin,
            append=begin and append,
            base=progress.base or 0,
            offset=progress.sent,
            data=data,
        )
        answer: asyncio.Future[StreamKept | None] = asyncio.get_running_loop().create_future()
        self._answers[piece.error] = answer
        if not await run.shadow.send_piece(piece):
            raise _BrokenStream
        run.files.bytes_sent += len(data)
        if (kept := await answer) is None:
            raise _BrokenStream
        return kept

    # ---- what a starter that is started again knows

    def _path(self) -> Path:
        return self._run.assignment.directory.control / _FILE

    def _note(self) -> None:
        """Write down where the streams are."""
        self._noted_at = self._clock.monotonic()
        kept = {name: [p.base, p.sent] for name, p in self._streams().items() if p.base is not None}
        with contextlib.suppress(OSError):
            whole_file.write(self._path(), json.dumps(kept), lasts=False)

    def _recall(self) -> None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            for name, (base, sent) in json.loads(self._path().read_text()).items():
                if name in self._streams():
                    self._streams()[name] = Progress(int(base), int(sent))
