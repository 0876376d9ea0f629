"""Spooled files: received before their jobs may run, and sent when their submitter fetches the output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from slotwise.classad.values import whole
from slotwise.clock import Clock
from slotwise.daemon.questions import Questions
from slotwise.errors import DeniedError, HostError, NotFoundError, UsageError
from slotwise.model import job_events
from slotwise.model.job_id import JobId
from slotwise.model.ownership import same_user
from slotwise.model.reason_codes import Hold
from slotwise.observe.log import listed
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.from_ad import log_of
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.selection import JobSelection, constraint_of
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.transfer.results import present_files
from slotwise.schedd.transfer.spool_directories import Result, Sandbox, inputs_of, relocated
from slotwise.schedd.user_files import proxies
from slotwise.schedd.user_files.owner_rights import SCHEDD
from slotwise.table import pack_ads
from slotwise.transfer.pieces import Piece
from slotwise.wire import audit
from slotwise.wire.token import Identity

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: How often directories of jobs that have left are removed, and how old these must be, in seconds.
_SWEEP_S = 60.0


class SpooledPart(Struct, frozen=True):
    """A part of the files of jobs, by their ids. ``commit``: all files of these jobs have been sent."""

    jobs: tuple[str, ...]
    file: Piece | None = None
    commit: bool = False


class SandboxPart(Struct, frozen=True):
    """A part of what a job left: its ad (a pack), the directory that is shown, or a piece of a file."""

    job: str
    ad: bytes = b""
    directory: str = ""
    file: Piece | None = None


class Spooling:
    """The sandboxes under ``root``: ``root/CLUSTER/PROC``."""

    #: The permissions of new ones (JOB_SPOOL_PERMISSIONS).
    mode = 0o700

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        threads: Executor,
        root: Path,
        fallback_account: str,
        host: str,
        questions: Questions,
        *,
        evicted: Path,
    ) -> None:
        """``evicted``: the directory with files of evicted runs by cluster and proc, to be tidied up as well."""
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._threads = threads
        self._root = root
        self._fallback = fallback_account
        self._host = host
        self._questions = questions
        self._evicted = evicted

    def sandbox(self, job: Job) -> Sandbox:
        """The directory of a job: for its spooled files, and for what the nodes of a parallel job leave each other."""
        path = self._root / str(job.cluster.number) / str(job.proc)
        return Sandbox(str(path), job.account, self._fallback, self.mode)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _named(self, names: Iterable[str], caller: Identity, superuser: bool) -> list[Job]:
        """The jobs with these ids.

        :raises NotFoundError: for one that is not in the queue, DeniedError for somebody else's.
        """
        found = []
        for name in names:
            jobs = self._queue.named(*JobId.parse(name))
            if not jobs:
                raise NotFoundError(f"there is no job {name} in the queue")
            for job in jobs:
                if not superuser and not same_user(job.cluster.user, caller.name):
                    raise DeniedError(f"job {job.key} is {job.cluster.user}'s")
            found += jobs
        return found

    # ---- receiving

    async def receive(
        self, caller: Identity, parts: AsyncIterator[SpooledPart], is_superuser: Callable[[], bool]
    ) -> int:
        """Receive files; the commit releases the jobs. Returns the number of released jobs.

        :param is_superuser: whether the caller is a queue superuser; evaluated for each part.
        """
        made: dict[str, Sandbox] = {}
        released = 0
        async for part in parts:
            jobs = self._named(part.jobs, caller, is_superuser())
            for job in jobs:
                if not self._waits(job):
                    raise UsageError(f"job {job.key} does not wait for spooled files", hint="submit it with -spool")
                if job.key not in made:
                    made[job.key] = self.sandbox(job)
                    await self._in_thread(made[job.key].make)
            if (file := part.file) is not None:
                for job in jobs:
                    write = partial(
                        made[job.key].write,
                        file.name,
                        file.mode,
                        file.data,
                        file.offset,
                        directory=file.directory,
                    )
                    await self._in_thread(write)
            if part.commit:
                await self._release(jobs)
                released += len(jobs)
        audit.note("files of %s", listed(sorted(made)))
        return released

    @staticmethod
    def _waits(job: Job) -> bool:
        return job.status == Status.HELD and job.number("HoldReasonCode") == Hold.SPOOLING_INPUT

    async def _release(self, jobs: list[Job]) -> None:
        told: dict[str, Changes] = {}
        for job in jobs:
            if isinstance(proxy := self._ads.ad(job).get("x509userproxy"), str):
                path = os.path.join(self.sandbox(job).path, os.path.basename(proxy))
                told[job.key] = await self._in_thread(partial(proxies.read, path, job.account, self._fallback))
        decision = Decision(self._clock.now())
        for job in jobs:
            if not self._waits(job):
                continue
            changes = relocated(self._ads.ad(job), self.sandbox(job).path, int(decision.now))
            changes |= told.get(job.key, {})
            decision.set(job, changes)
            self._ads.set(job.key, changes)
            self._ads.forget_edit(job.cluster.number)
            job.cluster.varied |= {name.lower() for name in changes}
            job.log = log_of(self._ads.ad(job))
            # The event log starts now: the job's directory did not exist when it was submitted.
            decision.log(job, job_events.submitted(self._queue.frame(job, decision.now), self._host))
            self._queue.release(job, "Data files spooled", decision)
        if decision.changed:
            await self._committer.durable(self._committer.commit(decision))

    # ---- sending

    async def fetch(
        self, caller: Identity, selection: JobSelection, superuser: bool, only: str = "", *, keep: bool = False
    ) -> AsyncIterator[SandboxPart]:
        """The sandboxes of the selected jobs: for each its ad, then its files.

        :param only: of the files this one alone.
        :param keep: whether jobs stay in the queue that wait for their files to be fetched.
        """
        jobs = await self._selected(caller, selection, superuser)
        audit.note("files of %s", listed([job.key for job in jobs]))
        for job in jobs:
            ad = self._ads.ad(job)
            if "StageInFinish" not in ad:
                if selection.ids:
                    raise UsageError(f"job {job.key} has no spooled files", hint="only jobs of submit -spool have")
                continue
            since = whole(ad["StageInFinish"]) + 1
            yield SandboxPart(job.key, ad=pack_ads([ad]))
            sandbox = self.sandbox(job)
            for result in await self._in_thread(partial(sandbox.results, inputs_of(ad), since)):
                if not only or result.name == only:
                    async for part in self._pieces(job, sandbox, result):
                        yield part
            if not keep:
                await self._fetched(job)

    async def _pieces(self, job: Job, sandbox: Sandbox, result: Result) -> AsyncIterator[SandboxPart]:
        """One file or directory of a job's, in as many parts as it takes."""
        if result.directory:
            piece = Piece(result.name, result.mode, b"", offset=0, last=True, directory=True)
            yield SandboxPart(job.key, file=piece)
            return
        offset, last = 0, False
        while not last:
            data = await self._in_thread(partial(sandbox.read, result, offset))
            last = not data or offset + len(data) >= result.size
            yield SandboxPart(job.key, file=Piece(result.name, result.mode, data, offset, last))
            offset += len(data)

    async def fetch_evicted(
        self, caller: Identity, job_id: str, superuser: bool, *, names_only: bool
    ) -> AsyncIterator[SandboxPart]:
        """What evicted runs of a job have left for its next: where, then its names or its files.

        :raises UsageError: for what is not a job's id, NotFoundError for a job that is not in the queue, DeniedError
            for somebody else's.
        :raises HostError: when the files cannot be read, as when others replace them now.
        """
        if JobId.parse(job_id)[1] is None:
            raise UsageError(f"{job_id} is a cluster", hint="name one job, as CLUSTER.PROC")
        (job,) = self._named([job_id], caller, superuser)
        audit.note("files of evicted runs of %s", job.key)
        directory = present_files(self._evicted / str(job.cluster.number) / str(job.proc))
        sandbox = Sandbox(str(directory), SCHEDD)
        exists = directory.is_dir()
        try:
            found = await self._in_thread(partial(sandbox.results, (), 0)) if exists else []
        except OSError as error:
            raise HostError(f"cannot read {directory}: {error.strerror}", hint="try again") from None
        yield SandboxPart(job.key, directory=str(directory) if exists else "")
        for result in found:
            if names_only:
                name = Piece(result.name, result.mode, b"", offset=0, last=True, directory=result.directory)
                yield SandboxPart(job.key, file=name)
                continue
            async for part in self._pieces(job, sandbox, result):
                yield part

    async def _fetched(self, job: Job) -> None:
        """Note that the output was fetched: a completed job need not stay for it any longer."""
        decision = Decision(self._clock.now())
        changes: Changes = {"StageOutFinish": int(decision.now)}
        decision.set(job, changes)
        if job.status == Status.COMPLETED and not self._ads.stays(job, decision.now):
            self._queue.leave(job, decision)
        await self._committer.durable(self._committer.commit(decision))

    async def _selected(self, caller: Identity, selection: JobSelection, superuser: bool) -> list[Job]:
        if selection.ids:
            return self._named(selection.ids, caller, superuser)
        constraint = constraint_of([], selection.owners, selection.constraint)
        keys = await self._questions.keys(self._ads.table, constraint)
        jobs = [job for key in keys if (job := self._queue.by_key(key)) is not None]
        return [job for job in jobs if superuser or same_user(job.cluster.user, caller.name)]

    # ---- after a restore

    def take_restored(self, mark: Path) -> None:
        """Give the files of a backup that root has restored to the owners of their jobs in the queue; what could not be
        given stays the daemons'.

        :param mark: the file that says that they are to be given.
        """
        if os.geteuid() != 0 or not mark.exists():
            return
        given = 0
        for cluster in _entries(self._root) if self._root.is_dir() else ():
            for proc in _entries(cluster) if cluster.is_dir(follow_symlinks=False) else ():
                whole = cluster.name.isdigit() and proc.name.isdigit()
                job = self._queue.job(int(cluster.name), int(proc.name)) if whole else None
                if job is None:
                    continue
                try:
                    self.sandbox(job).give_restored()
                    given += 1
                except HostError as error:
                    _log.error("%s", error)
        mark.unlink()
        _log.info("the files of %d jobs that were restored belong to the jobs' owners now", given)

    # ---- cleaning up

    async def run(self) -> None:
        """Remove sandboxes and files of evicted runs of jobs that have left the queue, every minute."""
        while True:
            for root in (self._root, self._evicted):
                await self._in_thread(partial(_sweep, root, self._knows))
            await asyncio.sleep(_SWEEP_S)

    def _knows(self, cluster: str, proc: str) -> bool:
        job = JobId.of_directory(cluster, proc)
        return job is not None and job.proc is not None and self._queue.job(job.cluster, job.proc) is not None


def _entries(directory: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as found:
        return list(found)


def _sweep(root: Path, knows: Callable[[str, str], bool]) -> None:
    if not root.is_dir():
        return
    for cluster in _entries(root):
        for proc in _entries(cluster) if cluster.is_dir(follow_symlinks=False) else ():
            if not knows(cluster.name, proc.name):
                Sandbox(proc.path, "").remove()
        # A recent one may still be waiting for its first job.
        if cluster.is_dir(follow_symlinks=False) and cluster.stat().st_mtime < time.time() - _SWEEP_S:
            with contextlib.suppress(OSError):
                os.rmdir(cluster.path)
