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
import socket
from collections.abc import Callable
from fnmatch import fnmatchcase

from msgspec.structs import replace

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
#: Connections at a time, and those of them that have not said a job's secret.
_SESSIONS_MOST, _STRANGERS_MOST = 512, 16
#: The wait after the system had no descriptor for another connection, and how often that is logged at most, seconds.
_BREATH_S, _TELL_S = 1.0, 60.0


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
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._sessions: set[asyncio.Task[None]] = set()
        #: Those of them that have not said a secret, the oldest first: any process of the host may connect.
        self._strangers: dict[asyncio.Task[None], None] = {}

    async def admit(
        self, assignment: Assignment, job: RunJob, rules: ChirpRules, request: Callable[[RemoteIo], None]
    ) -> JobIoProxy | None:
        """Let a job speak: write down for it where and with which secret. None when it may not.

        :param request: sends a request of the job to its access point.
        :raises OSError: when its directory refuses the file.
        """
        if not (rules.delayed or _wants(job)):
            return None
        if self._socket is None:
            self._listen()
        assert self._socket is not None
        proxy = self._jobs[assignment.run_id] = JobIoProxy(job, rules, request)
        port = self._socket.getsockname()[1]
        text = f"127.0.0.1 {port} {proxy.secret}\n"
        write_files([(str(assignment.directory.ours / _FILE), 0o600, job.identity.owner, text.encode())])
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

    def _listen(self) -> None:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
        self._socket = listening
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listening))

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections for ever, no more than there may be.

        asyncio's own servers write a hundred lines to the log each second while the process is out of descriptors.
        """
        loop = asyncio.get_running_loop()
        tell_at = loop.time()
        while True:
            try:
                taken, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno not in (errno.ECONNABORTED, errno.EPROTO):
                    if loop.time() >= tell_at:
                        _log.error("no connections of jobs can be taken: %s", error.strerror)
                        tell_at = loop.time() + _TELL_S
                    await asyncio.sleep(_BREATH_S)
                continue
            if len(self._strangers) >= _STRANGERS_MOST:
                oldest = next(iter(self._strangers))  # who means to ask says its secret at once
                del self._strangers[oldest]
                oldest.cancel()
            if len(self._sessions) >= _SESSIONS_MOST:
                taken.close()
                continue
            task = loop.create_task(self._serve(taken))
            self._sessions.add(task)
            self._strangers[task] = None
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sessions.discard(task)
        self._strangers.pop(task, None)

    async def _serve(self, taken: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=taken, limit=1024 * 1024)
        except OSError:
            taken.close()
            return
        try:
            with contextlib.suppress(ConnectionError):
                await Session(self._known_caller, reader, writer).serve()
        finally:
            writer.close()

    def _known_caller(self, cookie: str) -> Asker | None:
        found = self._find(cookie)
        task = asyncio.current_task()
        if found is not None and task is not None:
            self._strangers.pop(task, None)
        return found

    async def close(self) -> None:
        """Hang up."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._socket is not None:
            self._socket.close()
        for task in list(self._sessions):
            task.cancel()
