"""The listener for chirp clients of this host's jobs: one local port, a secret for each job.

The job finds address and secret in the file that ``_CONDOR_CHIRP_CONFIG`` names. Jobs with WantIOProxy may do all that
ENABLE_CHIRP_IO and ENABLE_CHIRP_UPDATES allow; delayed updates (ENABLE_CHIRP_DELAYED) are every job's.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase

from slotwise import ids
from slotwise.classad import ExprTree
from slotwise.errors import AdSyntaxError
from slotwise.execution.launcher import write_files
from slotwise.starter.io_proxy.rules import ChirpRules
from slotwise.starter.io_proxy.session import Asker, Session, same
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.messages import RemoteIo, RemoteIoDone

_log = logging.getLogger(__name__)

#: How long a job waits for its access point, seconds.
_PATIENCE_S = 300.0
#: The longest text of a delayed attribute.
_LONGEST = 993
_FILE = ".chirp.config"


class JobIoProxy:
    """The io proxy of one job.

    :param request: sends a request to the access point, if there is a stream to it.
    """

    def __init__(self, job: RunJob, rules: ChirpRules, request: Callable[[RemoteIo], None]) -> None:
        self._job = job
        self._rules = rules
        self._request = request
        wants = _wants(job)
        self.may_use_files = rules.files and wants
        self.may_change = rules.updates and wants
        self.may_delay = rules.delayed
        self.secret = ids.secret(128)
        #: Attributes that go with every update from now on.
        self.attributes: dict[str, ExprTree] = {}
        self._serial = itertools.count(1)
        self._open: dict[int, tuple[RemoteIo, asyncio.Future[RemoteIoDone]]] = {}

    async def ask(self, request: RemoteIo) -> RemoteIoDone:
        """Have something done at the access point; asked again after a break of the stream."""
        number = next(self._serial)
        request = replace(request, id=number)
        answer: asyncio.Future[RemoteIoDone] = asyncio.get_running_loop().create_future()
        self._open[number] = (request, answer)
        self._request(request)
        try:
            return await asyncio.wait_for(answer, _PATIENCE_S)
        except TimeoutError:
            return RemoteIoDone(error=errno.ETIMEDOUT)
        finally:
            self._open.pop(number, None)

    def ask_again(self) -> None:
        """The shadow is back: it may not have heard what is open."""
        for request, _answer in list(self._open.values()):
            self._request(request)

    def hear(self, done: RemoteIoDone) -> None:
        """The access point has answered."""
        _request, answer = self._open.get(done.id, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(done)

    def delay(self, name: str, text: str) -> int:
        """Take an attribute along with the next update; 0 or an errno."""
        if not (name.isascii() and name.isidentifier()):
            return errno.EINVAL  # a pattern is content with blanks and line ends, an ad is not
        if not any(fnmatchcase(name.lower(), pattern.lower()) for pattern in self._rules.prefixes):
            return errno.EACCES
        if len(text) > _LONGEST:
            return errno.ENAMETOOLONG
        name = self._known(name)
        if name not in self.attributes and len(self.attributes) >= self._rules.most:
            return errno.ENOSPC
        try:
            self.attributes[name] = ExprTree(text, old=True)
        except AdSyntaxError:
            return errno.EINVAL
        return 0

    def _known(self, name: str) -> str:
        """``name`` as it was written when it first came: the names of attributes know no case."""
        return next((known for known in self.attributes if known.lower() == name.lower()), name)

    def delayed(self, name: str) -> str | None:
        """An attribute: as it waits for the next update, else as the job's ad has it."""
        if (known := self._known(name)) in self.attributes:
            return str(self.attributes[known])
        ad = self._job.ad
        return str(ad.lookup(name)) if name in ad else None


def _wants(job: RunJob) -> bool:
    return job.value("WantIOProxy") is True


class IoProxyListener:
    """The port of this host, opened for the first job."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobIoProxy] = {}
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()

    async def admit(
        self, assignment: Assignment, job: RunJob, rules: ChirpRules, request: Callable[[RemoteIo], None]
    ) -> JobIoProxy | None:
        """Let a job speak: write down for it where and with which secret. None when it may not.

        :param request: sends a request of the job to its access point.
        :raises OSError: when its directory refuses the file.
        """
        if not (rules.delayed or _wants(job)):
            return None
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1024 * 1024)
        proxy = self._jobs[assignment.run_id] = JobIoProxy(job, rules, request)
        port = self._server.sockets[0].getsockname()[1]
        text = f"127.0.0.1 {port} {proxy.secret}\n"
        who = job.identity
        owner = None if who.uid is None or who.gid is None else (who.uid, who.gid)
        write_files([(str(assignment.directory.ours / _FILE), 0o600, owner, text.encode())])
        return proxy

    def dismiss(self, run_id: str) -> None:
        """The job is gone."""
        self._jobs.pop(run_id, None)

    def _find(self, cookie: str) -> Asker | None:
        found = None
        for proxy in self._jobs.values():
            if same(cookie, proxy.secret):
                found = proxy
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sessions.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                await Session(self._find, reader, writer).serve()
        finally:
            self._sessions.discard(task)
            writer.close()

    async def close(self) -> None:
        """Hang up."""
        if self._server is not None:
            self._server.close()
        for task in list(self._sessions):
            task.cancel()
