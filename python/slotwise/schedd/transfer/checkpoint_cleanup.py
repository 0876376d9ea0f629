"""Deletes the checkpoints that jobs have kept at a ``checkpoint_destination`` and that nobody needs any more.

CHECKPOINT_DESTINATION_MAPFILE says by which program: it is called once for each file, with the arguments of its line
and ``-from URL -delete FILE -jobad PATH``; the file is the URL, a slash and its name. It runs as the account that the
job's files belong to, and never as root: what it deletes is where a user wanted it. What cannot be deleted is tried
again, less and less often, and given up after a month. HTCondor manual, "Self-Checkpointing Jobs".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from slotwise._native import MapFile
from slotwise.accounts import Account
from slotwise.backoff import Backoff
from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.daemon.containment import contained
from slotwise.daemon.privileges import root_files
from slotwise.daemon.program_trust import fault
from slotwise.daemon.spawn import program
from slotwise.errors import SlotwiseError, UsageError
from slotwise.execution import child_programs
from slotwise.execution.environment import without_tokens
from slotwise.execution.keeper_spec import Identity
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.transfer.checkpoint_folders import CheckpointFolder, Record, Unwanted, with_work
from slotwise.schedd.user_files.owner_rights import account
from slotwise.transfer import checkpoint_manifest
from slotwise.transfer.checkpoint_map import KNOB, call_for, read, words_for
from slotwise.wire import map_file

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: How often what is to be tried again is looked for, and the least time between two looks, seconds.
_LOOK_S, _PAUSE_S = 60.0, 1.0
_AGAIN = Backoff(60.0, 4.0, 86400.0)
#: How long files that cannot be deleted are tried, seconds since the job's last checkpoint.
_PATIENCE_S = 30 * 86400.0


class CleanupSettings(Struct, frozen=True):
    """The map of destinations, where the programs are that it names without a directory, and bounds: seconds for a file
    and for a job at a time, and jobs at once."""

    map_file: str = ""
    programs: str = ""
    file_s: float = 20.0
    job_s: float = 300.0
    most: int = 100

    @classmethod
    def of(cls, config: Config) -> CleanupSettings:
        """The knobs."""
        return cls(
            config.get(KNOB) or "",
            config.get("LIBEXEC") or "",
            float(config.get_int("CHECKPOINT_CLEANUP_TIMEOUT")),
            float(config.get_int("SCHEDD_CHECKPOINT_CLEANUP_TIMEOUT")),
            max(1, config.get_int("MAX_CHECKPOINT_CLEANUP_PROCS")),
        )


class _Failure(SlotwiseError):
    """Files of a checkpoint cannot be deleted now."""

    code = "checkpoint_cleanup"


class CheckpointCleanup:
    """Looks for unwanted checkpoints below ``root`` and has them deleted."""

    def __init__(
        self,
        root: Path,
        ads: Path,
        clock: Clock,
        threads: Executor,
        fallback_account: str,
        knows: Callable[[str, str], bool],
    ) -> None:
        """
        :param ads: a directory whose files their owners can reach, for the ads that programs are given.
        :param knows: whether a job (cluster and proc) is in the queue.
        """
        self.settings = CleanupSettings()
        self._root = root
        self._ads = ads
        self._clock = clock
        self._threads = threads
        self._fallback = fallback_account
        self._knows = knows
        self._wake = asyncio.Event()
        #: Procs by cluster that are to be looked at; None: all that have a directory, since what an earlier schedd
        #: left to delete is not known.
        self._asked: dict[str, set[str]] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        #: Of jobs whose files could not be deleted: how often in a row, and when it is tried again.
        self._failed: dict[str, tuple[int, float]] = {}

    def soon(self, jobs: Iterable[Job]) -> None:
        """These jobs have left the queue, or written checkpoints."""
        for job in jobs:
            self._ask(str(job.cluster.number), str(job.proc))
        self._wake.set()

    def _ask(self, cluster: str, proc: str) -> None:
        if self._asked is not None:
            self._asked.setdefault(cluster, set()).add(proc)

    async def run(self) -> None:
        """Delete unwanted checkpoints, for as long as the daemon lives."""
        try:
            while True:
                self._wake.clear()
                with contained(_log, "looking for checkpoints to delete"):
                    await self._look()
                await asyncio.sleep(_PAUSE_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._wake.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _look(self) -> None:
        asked, self._asked = self._asked, {}
        if asked == {}:
            return
        try:
            found = await self._in_thread(partial(with_work, self._root, self._knows, asked))
        except Exception:
            self._asked = None  # what was asked for is not known any more
            raise
        now = self._clock.monotonic()
        for folder, has_left in found:
            waits = self._failed.get(folder.key, (0, 0.0))[1] > now
            if waits or folder.key in self._tasks or len(self._tasks) >= self.settings.most:
                self._ask(folder.path.parent.name, folder.path.name)
            else:
                task = asyncio.get_running_loop().create_task(self._contained(folder, has_left))
                self._tasks[folder.key] = task
                task.add_done_callback(partial(self._over, folder.key))

    def _over(self, key: str, _task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        if len(self._tasks) == self.settings.most - 1:
            self._wake.set()  # there may be others

    async def _contained(self, folder: CheckpointFolder, has_left: bool) -> None:
        with contained(_log, f"{folder.key}: deleting its checkpoints", partial(self._not_done, folder)):
            try:
                async with asyncio.timeout(self.settings.job_s):
                    await self._clean(folder, has_left)
            except TimeoutError:
                self._not_done(folder, _Failure(f"not done after {self.settings.job_s:.0f} s"))
            except (SlotwiseError, OSError) as error:
                await self._in_thread(partial(self._give_up_old, folder, has_left))
                self._not_done(folder, error)
            else:
                self._failed.pop(folder.key, None)

    def _not_done(self, folder: CheckpointFolder, error: Exception) -> None:
        times = self._failed.get(folder.key, (0, 0.0))[0] + 1
        wait_s = _AGAIN.delay_s(times)
        self._failed[folder.key] = (times, self._clock.monotonic() + wait_s)
        self._ask(folder.path.parent.name, folder.path.name)
        _log.warning("%s: its checkpoints are not deleted, next try in %.0f s: %s", folder.key, wait_s, error)

    def _give_up_old(self, folder: CheckpointFolder, has_left: bool) -> None:
        """Forget the checkpoints of a job that left long ago."""
        with contextlib.suppress(OSError):
            age = self._clock.now() - (folder.path / "record.json").stat().st_mtime
            if has_left and age > _PATIENCE_S:
                record = folder.record()
                places = ", ".join(record.places.values()) if record is not None else "places that are not known"
                _log.error("%s: given up, its checkpoints stay where they are: %s", folder.key, places)
                folder.remove()

    async def _clean(self, folder: CheckpointFolder, has_left: bool) -> None:
        """
        :raises SlotwiseError: when something cannot be deleted; what could be is not tried again.
        :raises OSError: when what is known of the checkpoints cannot be read.
        """
        unwanted = await self._in_thread(partial(folder.unwanted, has_left=has_left))
        record = await self._in_thread(folder.record) if unwanted else None
        if unwanted and record is None:
            raise _Failure(f"{folder.path} does not say whose they are")
        if record is not None:
            identity = await self._identity(record)
            lines = await self._in_thread(self._lines)
            ad = await self._in_thread(partial(self._write_ad, folder, identity))
            try:
                for checkpoint in unwanted:
                    place = record.places.get(checkpoint.number, "")
                    words = words_for(lines, place, self.settings.programs)
                    await self._delete(folder, checkpoint, place, words, ad, identity)
                    _log.info("%s: deleted the files of its checkpoint %s", folder.key, place)
            finally:
                await self._in_thread(partial(_remove_ad, ad))
        if has_left:
            await self._in_thread(folder.remove)

    def _lines(self) -> MapFile:
        """The map of destinations.

        :raises ConfigError: for one that cannot be read, or that others may write.
        """
        return read(map_file.trusted(Path(self.settings.map_file), KNOB))

    async def _identity(self, record: Record) -> Identity:
        """What programs run as; the schedd's own account where it is not root. Jobs of root have run as nobody."""
        if os.geteuid() != 0:
            return Identity()
        who: Account = await self._in_thread(partial(account, record.account, self._fallback))
        if who.uid == 0:
            who = await self._in_thread(partial(account, "", self._fallback))
        return Identity(who.uid, who.gid, tuple(who.groups), who.name, who.home)

    async def _delete(
        self,
        folder: CheckpointFolder,
        checkpoint: Unwanted,
        place: str,
        words: list[str],
        ad: Path,
        identity: Identity,
    ) -> None:
        if wrong := fault(words[0], identity.uid, {identity.gid, *identity.groups}):
            raise _Failure(f"{KNOB} names {words[0]}, which {wrong}: it is not used")
        text = await self._in_thread(checkpoint.path.read_bytes)
        try:
            names = [name for _, name in checkpoint_manifest.files_in(text)]
        except UsageError as error:  # as whoever wrote it wanted; the others are not worse for it
            _log.error("%s: nothing below %s is deleted: %s", folder.key, place, error.message)
            names = []
        for name in names:
            await self._call(folder, call_for(words, place, name, str(ad), is_whole=checkpoint.is_whole), identity)
        await self._in_thread(partial(checkpoint.path.unlink, missing_ok=True))

    async def _call(self, folder: CheckpointFolder, call: list[str], identity: Identity) -> None:
        began = self._clock.monotonic()
        try:
            answer = await child_programs.call(
                [*child_programs.as_user(identity), *program(call)],
                folder.path,
                cwd="/",
                env={**without_tokens(os.environ), **({"HOME": identity.home} if identity.home else {})},
                limit_s=self.settings.file_s,
            )
        except OSError as error:
            raise _Failure(f"failed to execute {call[0]}: {error.strerror}") from None
        if why := child_programs.unstarted(answer):
            raise _Failure(f"failed to execute {call[0]}: {why}")
        if answer.status != 0:
            late = self._clock.monotonic() - began >= self.settings.file_s
            how = f"took longer than {self.settings.file_s:.0f} s" if late else f"ended with {answer.status}"
            said = (answer.errors or answer.output).strip().rpartition("\n")[2]
            raise _Failure(f"{' '.join(call)} {how}" + (f": {said}" if said else ""))

    def _write_ad(self, folder: CheckpointFolder, identity: Identity) -> Path:
        """A file with the job's ad that programs can read.

        :raises OSError: when it cannot be written.
        """
        path = self._ads / f".checkpoints-{folder.key}.ad"
        if not self._ads.is_dir():
            self._ads.mkdir()
            self._ads.chmod(0o711)
        path.unlink(missing_ok=True)
        text = folder.ad()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            if identity.uid is not None:
                with root_files():
                    os.fchown(descriptor, identity.uid, -1 if identity.gid is None else identity.gid)
        return path


def _remove_ad(path: Path) -> None:
    path.unlink(missing_ok=True)
