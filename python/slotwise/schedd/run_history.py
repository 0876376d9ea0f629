"""One ad for each run of a job: JOB_EPOCH_HISTORY, rotated by size, and a file for each job in JOB_EPOCH_HISTORY_DIR.

`slotwise history -epochs` and the reference's reader read them: the ad in long form, then a line of three stars that
names the run. Written as the daemon once the end of the run is durable, without more promise: a kill at the wrong
moment may cost a record here, and never repeats one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from slotwise.daemon import history_file
from slotwise.table import unpack_ads

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunHistorySettings:
    """Where records go ("" for nowhere), how large the file may grow (bytes), how many older ones are kept."""

    path: str = ""
    directory: str = ""
    size_most: int = 20 * 1024 * 1024
    rotations: int = 2


@dataclass(frozen=True)
class RunRecord:
    """A run that is over: its job's ad as a pack, which of the job's runs it was (from 0), and when it ended."""

    cluster: int
    proc: int
    instance: int
    owner: str
    at: int
    ad: bytes

    def text(self) -> str:
        """The record as it stands in a file."""
        ad = unpack_ads(self.ad)[0]
        ad.update({"RunInstanceId": self.instance, "EpochAdType": "EPOCH"})
        body = ad.print_old()
        end = "" if body.endswith("\n") else "\n"
        return (
            f"{body}{end}EpochWriteDate = {self.at}\n"
            f"*** EPOCH ClusterId={self.cluster} ProcId={self.proc} RunInstanceId={self.instance}"
            f' Owner="{self.owner}" CurrentTime={self.at}\n'
        )


class RunHistory:
    """Gathers records and has a worker thread write them, those of a moment together."""

    def __init__(self, threads: Executor) -> None:
        self.settings = RunHistorySettings()
        self._threads = threads
        self._waiting: list[RunRecord] = []
        self._writing: asyncio.Task[None] | None = None

    @property
    def is_kept(self) -> bool:
        """Whether records go anywhere."""
        return bool(self.settings.path or self.settings.directory)

    def add(self, record: RunRecord) -> None:
        """A run is over, durably."""
        self._waiting.append(record)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def close(self) -> None:
        """Write what waits."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        while self._waiting:
            records, self._waiting = self._waiting, []
            work = partial(write, self.settings, records)
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, work)
            except OSError as error:
                _log.warning("the history of runs cannot be written: %s", error)


def write(settings: RunHistorySettings, records: list[RunRecord]) -> None:
    """Append records to the files that ``settings`` name.

    :raises OSError: when that is not possible.
    """
    texts = [record.text() for record in records]
    if settings.directory:
        for record, text in zip(records, texts, strict=True):
            with open(os.path.join(settings.directory, f"job.runs.{record.cluster}.{record.proc}.ads"), "a") as stream:
                stream.write(text)
    if settings.path:
        history_file.append(settings.path, "".join(texts), size_most=settings.size_most, rotations=settings.rotations)
