"""What running jobs ask of their access point (chirp): their attributes, their log, and their owner's files.

Only jobs that said so at submission (``want_io_proxy``) are answered. Files are used with the owner's rights; relative
names are of the job's directory. Answers carry an errno; 0 is success.
"""

from __future__ import annotations

import errno
import logging
import os
from functools import partial

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.daemon.user_paths import open_path, parent_of
from slotwise.errors import SlotwiseError
from slotwise.ids import doing_for_run
from slotwise.model import job_events
from slotwise.schedd.claims.records import Run
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.log_lines import slot_of
from slotwise.schedd.jobs.protected_attrs import AttributeLocks
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.transfer.transfers import Transfers
from slotwise.schedd.user_files.owner_rights import FileOwner, as_owner
from slotwise.wire.gen import schedd_pb2

_log = logging.getLogger(__name__)
#: Operations on files; all others are about the job.
FILE_OPERATIONS = frozenset({"read", "write", "stat", "unlink", "rename", "mkdir", "rmdir", "getdir"})
#: Most bytes of one answer.
_MOST = 1024 * 1024


class RemoteRequests:
    """Answers requests of this schedd's jobs."""

    def __init__(self, queue: Queue, ads: JobAds, committer: Committer, transfers: Transfers, clock: Clock) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._transfers = transfers
        self._clock = clock
        self.locks = AttributeLocks()

    async def answer(self, run: Run, io: schedd_pb2.RemoteIo) -> None:
        """Do what the job asks, if it said at submission that it would ask, and say what came of it."""
        done = schedd_pb2.RemoteIoDone(id=io.id)
        # Into the event log the starter writes, too: how far an image is, and what hooks say.
        if run.over or not (io.op in ("ulog", "message") or self._ads.truth(run.job, "WantIOProxy")):
            done.error = errno.EPERM
        else:
            with contained(_log, doing_for_run(run.id, f"answering {io.op!r} of the job")) as attempt:
                if io.op in FILE_OPERATIONS:
                    plan = self._transfers.of(run).plan
                    work = partial(on_files, io, plan.iwd, plan.owner, plan.fallback_account)
                    done = await self._transfers.in_thread(work)
                else:
                    await self._about_job(run, io, done)
            if attempt.failed:  # the job waits for an answer
                done = schedd_pb2.RemoteIoDone(id=io.id, error=errno.EIO)
        if run.stream is not None:
            run.stream.send(schedd_pb2.ShadowMessage(run_id=run.id, io=done))

    async def _about_job(self, run: Run, io: schedd_pb2.RemoteIo, done: schedd_pb2.RemoteIoDone) -> None:
        decision = Decision(self._clock.now())
        if io.op == "get_attr":
            ad = self._ads.ad(run.job)
            done.data = str(ad.lookup(io.name)).encode("utf-8", "surrogateescape") if io.name in ad else b""
            done.error = 0 if io.name in ad else errno.ENOENT
        elif io.op == "ulog":
            decision.log(run.job, job_events.generic(self._queue.frame(run.job, decision.now), io.text))
            await self._committer.commit(decision)
        elif io.op == "message":
            frame = self._queue.frame(run.job, decision.now)
            decision.log(run.job, job_events.starter_message(frame, slot_of(run.job), io.text))
            await self._committer.commit(decision)
        elif io.op == "set_attr":
            try:
                changes = self.locks.checked({io.name: io.text}, superuser=False)
                self._queue.usage(run.job, changes, decision)
                await self._committer.commit(decision)
            except SlotwiseError:
                done.error = errno.EACCES
        else:
            done.error = errno.EINVAL


def on_files(io: schedd_pb2.RemoteIo, iwd: str, owner: FileOwner, fallback: str) -> schedd_pb2.RemoteIoDone:
    """Do one operation on a file (worker thread)."""
    done = schedd_pb2.RemoteIoDone(id=io.id)
    try:
        with as_owner(owner, fallback):
            done.data = _act(io, iwd)
    except OSError as error:
        done.error = error.errno or errno.EIO
    except ValueError:
        done.error = errno.EINVAL
    return done


def _act(io: schedd_pb2.RemoteIo, iwd: str) -> bytes:
    path = os.path.join(iwd, io.name)
    match io.op:
        case "read":
            return _read(path, io.offset, io.length)
        case "write":
            _write(path, io)
        case "stat":
            return _status(path)
        case "getdir":
            return _entries(path)
        case "unlink" | "mkdir" | "rmdir":
            with parent_of(path) as (directory, name):
                if io.op == "unlink":
                    os.unlink(name, dir_fd=directory)
                elif io.op == "mkdir":
                    os.mkdir(name, io.mode or 0o755, dir_fd=directory)
                else:
                    os.rmdir(name, dir_fd=directory)
        case "rename":
            with parent_of(path) as (directory, name), parent_of(os.path.join(iwd, io.text)) as (there, new_name):
                os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=there)
        case _:
            raise ValueError(io.op)
    return b""


def _entries(path: str) -> bytes:
    descriptor = open_path(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return b"".join(os.fsencode(name) + b"\n" for name in sorted(os.listdir(descriptor)))
    finally:
        os.close(descriptor)


def _read(path: str, offset: int, length: int) -> bytes:
    fd = open_path(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.pread(fd, max(0, min(length, _MOST)), offset)
    finally:
        os.close(fd)


def _write(path: str, io: schedd_pb2.RemoteIo) -> None:
    flags = os.O_WRONLY | os.O_NONBLOCK
    flags |= (os.O_TRUNC if io.length & 1 else 0) | (os.O_EXCL if io.length & 2 else 0)
    flags |= (os.O_CREAT if io.mode else 0) | (os.O_APPEND if io.offset < 0 else 0)
    fd = open_path(path, flags, io.mode)
    try:
        data = memoryview(io.data)
        at = io.offset
        while data:
            written = os.write(fd, data) if at < 0 else os.pwrite(fd, data, at)
            data = data[written:]
            at += written if at >= 0 else 0
    finally:
        os.close(fd)


def _status(path: str) -> bytes:
    """Numbers in the order of the protocol: device, inode, mode, links, user, group, its device, size, block size,
    blocks, and three times."""
    fd = open_path(path, os.O_PATH)
    try:
        s = os.fstat(fd)
    finally:
        os.close(fd)
    numbers = (s.st_dev, s.st_ino, s.st_mode, s.st_nlink, s.st_uid, s.st_gid, s.st_rdev, s.st_size, s.st_blksize,
               s.st_blocks, int(s.st_atime), int(s.st_mtime), int(s.st_ctime))  # fmt: skip
    return (" ".join(map(str, numbers)) + "\n").encode()
