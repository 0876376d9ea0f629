"""Takes the connections of the port, finds out whom each is for, and passes them on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from slotwise.daemon import reach
from slotwise.daemon.reach import Place
from slotwise.errors import ConfigError, HostError
from slotwise.home import PoolHome
from slotwise.observe.outage import Outage
from slotwise.shared_port.request import LONGEST, Request, read_request, reply
from slotwise.shared_port.splice import splice
from slotwise.wire import call, origin, socket_path
from slotwise.wire.local_peer import account_over_loopback

_log = logging.getLogger(__name__)

#: How long a caller may take to say whom it means, and a daemon to take a connection, in seconds.
_GREETING_S, _CONNECT_S = 20.0, 10.0
#: The wait after the system had no descriptor for another connection.
_BREATH_S = 0.1
#: Connections that are taken before anything else is done.
_AT_ONCE = 256
#: A connection takes two descriptors; as many as this are left for the rest.
_DESCRIPTORS_LEFT = 100


class Caller(Struct, frozen=True):
    """Who connects. ``host``: the address, IPv4 as such even on a socket for both families; ``broker``: that of the
    broker who says so, empty where this host has seen it itself; ``uid``: the account of this host whose connection it
    is, None for those of elsewhere."""

    host: str
    port: int
    broker: str = ""
    uid: int | None = None

    @property
    def network(self) -> str:
        """Whom bounds count as one: all addresses of the loopback interface are every account's."""
        return call.network_of(self.host) if self.uid is None else f"uid {self.uid}"

    @property
    def shown(self) -> str:
        """As gRPC has it."""
        return f"ipv6:[{self.host}]:{self.port}" if ":" in self.host else f"ipv4:{self.host}:{self.port}"


def caller_of(address: tuple[object, ...]) -> Caller:
    """The caller at a socket's address."""
    host = str(address[0]).partition("%")[0]
    return Caller(host.removeprefix("::ffff:") if "." in host else host, int(str(address[1])))


def open_places(places: list[Place], port: int) -> list[socket.socket]:
    """Listen on all these addresses.

    :raises HostError: when the port is taken or an address is not of this host.
    """
    found: list[socket.socket] = []
    for place in places:
        try:
            found.append(_open(place, port))
        except OSError as error:
            if place.optional and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                continue
            for one in found:
                one.close()
            raise HostError(
                f"cannot listen on {place.host} port {port}: {error.strerror or error}",
                hint="name another port with SHARED_PORT_PORT, or set USE_SHARED_PORT = false",
            ) from None
    return found


def _open(place: Place, port: int) -> socket.socket:
    family, kind, protocol, _, at = socket.getaddrinfo(place.host, port, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(place.v6only))
        opened.bind(at)
        opened.listen(1024)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


#: Answers a caller that means a host which this broker knows, or is such a host: takes the connection over, to its end.
Brokering = Callable[[Request, Caller, socket.socket], Awaitable[None]]


class Passage:
    """The connections of this port.

    :param default: the daemon that is meant where a caller names none.
    :param most: descriptors that connections may take.
    :param most_of_network: connections of one address; 0: any number.
    :param most_of_account: those of one account of this host; 0: any number.
    :param exempt: accounts that are not bounded.
    """

    def __init__(
        self,
        home: PoolHome,
        default: str,
        most: int,
        most_of_network: int,
        most_of_account: int = 0,
        exempt: frozenset[int] = frozenset(),
    ) -> None:
        self._home = home
        self._default = default
        self._most = max(8, (most - _DESCRIPTORS_LEFT) // 2)
        self.most_of_network, self.most_of_account = most_of_network, most_of_account
        self._exempt = exempt
        self._unbounded = frozenset(f"uid {uid}" for uid in exempt)
        #: By network, its connections, the oldest first.
        self._of_network: dict[str, dict[asyncio.Task[None], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: Those of them that have not said whom they mean, the oldest first.
        self._silent: dict[asyncio.Task[None], None] = {}
        self.brokering: Brokering | None = None
        #: Connections and bytes passed on since the start.
        self.passed, self.bytes = 0, 0

    @property
    def open(self) -> int:
        """Connections that are open."""
        return len(self._tasks)

    @property
    def most(self) -> int:
        """How many connections may be open."""
        return self._most

    async def accept(self, listening: socket.socket) -> None:
        """Take connections for ever."""
        loop, outage = asyncio.get_running_loop(), Outage(_log)
        while True:
            try:
                self._take(*await loop.sock_accept(listening))
                outage.over(loop.time(), "connections are accepted")
                # A crowd that waits in front of others is taken, and closed, at once.
                for _ in range(_AT_ONCE):
                    self._take(*listening.accept())
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno not in (errno.ECONNABORTED, errno.EPROTO):
                    outage.failed(loop.time(), "connections wait to be accepted: %s", error.strerror)
                    await asyncio.sleep(_BREATH_S)

    def _take(self, taken: socket.socket, address: tuple[object, ...]) -> None:
        caller = _with_account(caller_of(address), taken)
        network, most, knob = caller.network, self.most_of_network, "SLOTWISE_MAX_CONNECTIONS_PER_ADDRESS"
        if caller.uid is not None:
            most = 0 if caller.uid in self._exempt else self.most_of_account
            knob = "SLOTWISE_MAX_CONNECTIONS_PER_USER"
        crowded = 0 < most <= len(self._of_network.get(network, ()))
        full = len(self._tasks) >= self._most
        if full and not crowded and (in_the_way := self._makes_room(network)) is not None:
            in_the_way.cancel()
            full = False
        if crowded or full:
            knob = knob if crowded else "SHARED_PORT_MAX_FILE_DESCRIPTORS"
            text = "closed a connection of %s, more than %s allows"
            call.refusals.note(network, f"<{caller.host}:{caller.port}>", text, network, knob)
            taken.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(taken, caller))
        self._tasks.add(task)
        self._of_network.setdefault(network, {})[task] = None
        self._silent[task] = None
        task.add_done_callback(lambda done: self._gone(done, network))

    def _gone(self, task: asyncio.Task[None], network: str) -> None:
        self._tasks.discard(task)
        self._silent.pop(task, None)
        connections = self._of_network.get(network, {})
        connections.pop(task, None)
        if not connections:
            self._of_network.pop(network, None)

    def _makes_room(self, network: str) -> asyncio.Task[None] | None:
        """The connection that ends for a new one of ``network`` where there is no place left; None: no one does.

        Who means to call says so at once: the oldest that is silent. Else the youngest of the network that has the
        most, where that has more than the caller's: some addresses that take all places keep nobody else out.
        """
        if self._silent:
            silent = next(iter(self._silent))
            del self._silent[silent]
            return silent
        bounded = {name: each for name, each in self._of_network.items() if name not in self._unbounded}
        if not bounded:
            return None
        most = max(bounded.values(), key=len)
        if len(most) <= len(self._of_network.get(network, ())) + 1:
            return None
        return most.popitem()[0]

    async def close(self) -> None:
        """End all connections."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, taken: socket.socket, caller: Caller) -> None:
        with taken:
            try:
                taken.setblocking(False)
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                async with asyncio.timeout(_GREETING_S):
                    request = await _read(taken)
                if (task := asyncio.current_task()) is not None:
                    self._silent.pop(task, None)
                if request is None:
                    return
                if request.status != 200:
                    await self._refuse(taken, request.status)
                elif request.asked is not None and (request.asked.secret or request.asked.host_id):
                    if self.brokering is not None:
                        await self.brokering(request, caller, taken)
                    else:
                        await self._refuse(taken, 404)
                else:
                    sock = request.asked.sock if request.asked is not None else self._default
                    await self.hand_over(taken, sock, caller, request.rest, answered=request.asked is not None)
            except (OSError, TimeoutError):
                return  # one side is gone, or says nothing
            except BaseExceptionGroup as group:
                if group.split(OSError)[1] is not None:
                    raise

    async def hand_over(
        self, taken: socket.socket, sock: str, caller: Caller, rest: bytes = b"", *, answered: bool
    ) -> None:
        """Pass a connection on to a daemon of this host, to its end.

        :param rest: what has been read of it already.
        :param answered: the caller waits for the answer to its CONNECT.
        """
        loop = asyncio.get_running_loop()
        try:
            opened = await self.open_daemon(sock, caller)
        except (OSError, TimeoutError, ConfigError):
            if answered:
                await self._refuse(taken, 404)
            return
        with opened:
            if answered:
                await loop.sock_sendall(taken, reply(200))
            if rest:
                await loop.sock_sendall(opened, rest)
            await self.splice(taken, opened)

    async def splice(
        self, one: socket.socket, other: socket.socket, passed: Callable[[int], None] = lambda count: None
    ) -> None:
        """Pass on what both say to each other, to the end, and tell ``passed`` how many bytes."""

        def note(count: int) -> None:
            self.bytes += count
            passed(count)

        self.passed += 1
        await splice(one, other, note)

    async def open_daemon(self, sock: str, caller: Caller) -> socket.socket:
        """A connection to a daemon of this host that says whose it is.

        :raises OSError: when there is no such daemon.
        """
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            opened.bind(origin.name_for(caller.host, caller.port, caller.broker, caller.uid))
            path = socket_path.usable(reach.forward_socket(self._home, sock))
            async with asyncio.timeout(_CONNECT_S):
                await asyncio.get_running_loop().sock_connect(opened, path)
        except BaseException:
            opened.close()
            raise
        return opened

    async def _refuse(self, taken: socket.socket, status: int) -> None:
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(taken, reply(status))


def _with_account(caller: Caller, taken: socket.socket) -> Caller:
    """The caller with the account of this host that makes the connection, where the kernel tells."""
    with contextlib.suppress(OSError):
        uid = account_over_loopback((caller.host, caller.port), taken.getsockname()[:2])
        return replace(caller, uid=uid)
    return caller


async def _read(taken: socket.socket) -> Request | None:
    """The request of a connection; None when it ends before."""
    loop = asyncio.get_running_loop()
    data = b""
    while (request := read_request(data)) is None:
        piece = await loop.sock_recv(taken, LONGEST)
        if not piece:
            return None
        data += piece
    return request
