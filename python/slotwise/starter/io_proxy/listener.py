"""The listener for chirp clients of this host's jobs: one local port, a secret for each job.

The job finds address and secret in the file that ``_CONDOR_CHIRP_CONFIG`` names: a host, a port and the secret, which
is all that HTCondor's clients read there, so that there is no UNIX socket. Any process of the host may connect to the
port. Until it has said a job's secret it has some seconds and a kilobyte, and its account few places; what a job may
have of the starter's descriptors and memory is bounded, too. Jobs with WantIOProxy may do all that ENABLE_CHIRP_IO and
ENABLE_CHIRP_UPDATES allow; delayed updates (ENABLE_CHIRP_DELAYED) are every job's.
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
from functools import partial

from msgspec.structs import replace

from slotwise import ids
from slotwise.classad import ExprTree
from slotwise.daemon import tasks
from slotwise.errors import AdSyntaxError
from slotwise.execution.launcher import write_files
from slotwise.starter.io_proxy.crowd import Crowd, FullError
from slotwise.starter.io_proxy.protocol import INVALID, LINE, NOT_AUTHENTICATED, TOO_BIG, words
from slotwise.starter.io_proxy.rules import ChirpRules
from slotwise.starter.io_proxy.session import Session, same
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.messages import RemoteIo, RemoteIoDone
from slotwise.wire.local_peer import account_at

_log = logging.getLogger(__name__)

#: How long a job waits for its access point, seconds.
_PATIENCE_S = 300.0
#: The longest text of a delayed attribute.
_LONGEST = 993
_FILE = ".chirp.config"
#: Connections at a time that have not said a job's secret: of one account, and in all.
_OF_ACCOUNT, _STRANGERS_MOST = 64, 256
#: Those of one job, and of all jobs; and requests of one job at a time that have more data than a part.
_OF_JOB, _SESSIONS_MOST, _LARGE = 64, 1024, 2
#: What a connection has to say a secret: seconds, and bytes.
_INTRODUCTION_S, _INTRODUCTION = 5.0, LINE
#: How much of what a job sends is read ahead, bytes.
_AHEAD = 64 * LINE
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
        self.large = asyncio.Semaphore(_LARGE)
        self._open: dict[int, tuple[RemoteIo, asyncio.Future[RemoteIoDone]]] = {}

    async def ask(self, request: RemoteIo) -> RemoteIoDone:
        """Have something done at the access point; asked again after a break of the stream."""
        number = next(self._serial)
        request = replace(request, id=number)
        answer: asyncio.Future[RemoteIoDone] = asyncio.get_running_loop().create_future()
        self._open[number] = (request, answer)
        try:
            self._request(request)
            async with asyncio.timeout(_PATIENCE_S):
                return await answer
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
        self._tasks: set[asyncio.Task[None]] = set()
        #: Connections that have not said a secret, by the uid of the process at their other end; None: unknown.
        self._strangers: Crowd[int | None, asyncio.Task[None]] = Crowd(_OF_ACCOUNT, _STRANGERS_MOST, displaces=True)
        #: Those that have, by the job.
        self._sessions: Crowd[JobIoProxy, asyncio.Task[None]] = Crowd(_OF_JOB, _SESSIONS_MOST, displaces=False)

    async def admit(
        self, assignment: Assignment, job: RunJob, rules: ChirpRules, request: Callable[[RemoteIo], None]
    ) -> JobIoProxy | None:
        """Let a job speak: write down for it where and with which secret. None when it may not.

        :param request: sends a request of the job to its access point.
        :raises OSError: when its directory refuses the file, or the host gives no port.
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
        """The job is gone, and its connections with it."""
        proxy = self._jobs.pop(run_id, None)
        for task in self._sessions.of(proxy) if proxy is not None else ():
            task.cancel()

    def _find(self, cookie: str) -> JobIoProxy | None:
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
        self._accepting = tasks.keep("accepting calls of jobs", partial(self._accept, listening))

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections for ever, no more than there may be.

        asyncio's own servers write a hundred lines to the log each second while the process is out of descriptors.
        """
        loop = asyncio.get_running_loop()
        tell_at = loop.time()
        while True:
            try:
                taken, peer = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno not in (errno.ECONNABORTED, errno.EPROTO):
                    if loop.time() >= tell_at:
                        _log.error("no connections of jobs can be taken: %s", error.strerror)
                        tell_at = loop.time() + _TELL_S
                    await asyncio.sleep(_BREATH_S)
                continue
            task = loop.create_task(self._serve(taken))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            # Who means to ask says its secret at once: an account's oldest connection that has not makes room.
            with contextlib.suppress(FullError):
                if (displaced := self._strangers.add(account_at(peer, taken.getsockname()), task)) is not None:
                    displaced.cancel()
            await asyncio.sleep(0)  # where many are waiting, nothing else would have its turn

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._strangers.remove(task)
        self._sessions.remove(task)

    async def _serve(self, taken: socket.socket) -> None:
        with contextlib.suppress(OSError, TimeoutError, FullError):
            with contextlib.ExitStack() as stack:
                stack.callback(taken.close)
                async with asyncio.timeout(_INTRODUCTION_S):
                    proxy, ahead = await self._introduced(taken)
                reader, writer = await _streams(taken, ahead)
                stack.pop_all()  # it is the writer's now
            try:
                await Session(proxy, reader, writer).serve()
            except asyncio.CancelledError:
                writer.transport.abort()  # what the client has not read does not stay
                raise
            finally:
                writer.close()

    async def _introduced(self, taken: socket.socket) -> tuple[JobIoProxy, bytes]:
        """The job whose secret is said, and what was sent behind it.

        :raises OSError: the client hangs up, or says too much that is none.
        :raises FullError: the job has all the connections that it may have.
        """
        loop = asyncio.get_running_loop()
        heard, read = b"", 0
        while read < _INTRODUCTION:
            data = await loop.sock_recv(taken, _INTRODUCTION - read)
            if not data:
                raise ConnectionResetError
            heard, read = heard + data, read + len(data)
            while b"\n" in heard:
                line, _, heard = heard.partition(b"\n")
                name, *rest = words(line) or [""]
                proxy = self._find(rest[0]) if name == "cookie" and len(rest) == 1 else None
                if proxy is not None:
                    return self._known(proxy), heard
                await loop.sock_sendall(taken, b"%d\n" % (NOT_AUTHENTICATED if name else INVALID))
        await loop.sock_sendall(taken, b"%d\n" % TOO_BIG)
        raise ConnectionAbortedError

    def _known(self, proxy: JobIoProxy) -> JobIoProxy:
        """:raises FullError: when the job, or all of them, have no room for another connection."""
        task = asyncio.current_task()
        assert task is not None
        self._strangers.remove(task)
        if (displaced := self._sessions.add(proxy, task)) is not None:
            displaced.cancel()
        return proxy

    async def close(self) -> None:
        """Hang up."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._socket is not None:
            self._socket.close()
        for task in list(self._tasks):
            task.cancel()


async def _streams(taken: socket.socket, ahead: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The streams of a connection of which ``ahead`` has been read, once its secret is acknowledged.

    :raises OSError: when the client has hung up.
    """
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(taken, b"0\n")
    reader = asyncio.StreamReader(limit=_AHEAD, loop=loop)
    reader.feed_data(ahead)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, taken)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
