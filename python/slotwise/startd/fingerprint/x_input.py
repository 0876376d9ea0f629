"""When the X servers of this host last saw a key or the mouse, asked over their sockets (MIT-SCREEN-SAVER extension).

Speaks the few X11 messages itself: Xlib ends the whole process when a server dies, and needs libraries that compute
nodes do not have. No X server, no permission, no extension, no answer in time: no fact, never an error. A server that
did not answer is left alone for a minute.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from slotwise.wire import socket_path

_COOKIE = b"MIT-MAGIC-COOKIE-1"
_EXTENSION = b"MIT-SCREEN-SAVER"
_QUERY_EXTENSION, _QUERY_INFO = 98, 1
#: All of one question to one server takes no longer (seconds), and a silent server is asked again so much later.
_PATIENCE_S, _PAUSE_S = 0.1, 60.0
#: At most so many cookies are tried for one server, and so many servers are asked: anybody may put sockets there.
_TRIES, _SERVERS = 4, 16
#: Where display managers leave the cookies of sessions, for a startd that runs as root.
_COOKIE_FILES = (
    "run/user/*/gdm/Xauthority",
    "run/user/*/xauth_*",
    "run/user/*/.mutter-Xwaylandauth*",
    "run/lightdm/*/xauthority",
    "run/lightdm/root/:*",
    "run/sddm/*",
    "home/*/.Xauthority",
)


class NoAnswer(Exception):
    """The server said no, or nothing, or nonsense."""


class XProbe(Struct):
    """Asks all X servers with a socket on this host.

    :param env: XAUTHORITY and HOME tell where the cookies are, besides the usual places.
    :param root: the file system to look in.
    """

    env: Mapping[str, str]
    root: Path = Path("/")
    _not_before: dict[Path, float] = field(default_factory=dict)

    def last_input(self, now: float) -> float | None:
        """The latest input on any of them (epoch seconds), None when none could be asked."""
        latest = None
        for path in self._sockets():
            if now < self._not_before.get(path, 0.0):
                continue
            idle_s = self._idle_s(path)
            if idle_s is None:
                self._not_before[path] = now + _PAUSE_S
            else:
                latest = max(latest or 0.0, now - idle_s)
        return latest

    def _sockets(self) -> list[Path]:
        try:
            found = (self.root / "tmp/.X11-unix").iterdir()
            return sorted(path for path in found if path.name[:1] == "X" and path.name[1:].isdigit())[:_SERVERS]
        except OSError:
            return []

    def _idle_s(self, path: Path) -> float | None:
        display = path.name[1:].encode()
        for cookie in [*islice(self._cookies(display), _TRIES), b""]:
            try:
                with Connection(path, cookie) as server:
                    return server.idle_ms() / 1000
            except PermissionError:
                continue
            except (NoAnswer, OSError, struct.error):
                return None
        return None

    def _cookies(self, display: bytes) -> Iterator[bytes]:
        seen = set()
        for path in self._cookie_files():
            try:
                data = path.read_bytes()
            except OSError:
                continue
            for number, name, cookie in entries(data):
                if name == _COOKIE and number in (b"", display) and cookie not in seen:
                    seen.add(cookie)
                    yield cookie

    def _cookie_files(self) -> Iterable[Path]:
        if self.env.get("XAUTHORITY"):
            yield Path(self.env["XAUTHORITY"])
        if self.env.get("HOME"):
            yield Path(self.env["HOME"]) / ".Xauthority"
        for pattern in _COOKIE_FILES:
            try:
                yield from sorted(self.root.glob(pattern))
            except OSError:
                continue


def entries(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The entries of an Xauthority file: display number, kind, cookie. What is cut off is left out."""
    at = 0
    while at + 2 <= len(data):
        at += 2  # the family of the address
        parts = []
        for _ in range(4):
            if at + 2 > len(data):
                return
            (size,) = struct.unpack_from(">H", data, at)
            parts.append(data[at + 2 : at + 2 + size])
            if len(parts[-1]) < size:
                return
            at += 2 + size
        yield parts[1], parts[2], parts[3]


class Connection:
    """A connection to an X server.

    :raises PermissionError: when the server does not accept the cookie.
    :raises NoAnswer: when it does not answer as an X server.
    """

    def __init__(self, path: Path, cookie: bytes) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_PATIENCE_S)
        self._deadline = time.monotonic() + _PATIENCE_S
        try:
            self._socket.connect(socket_path.usable(path))
            self.root = self._greet(cookie)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def idle_ms(self) -> int:
        """Milliseconds since the last input."""
        opcode = self.extension(_EXTENSION)
        reply = self.ask(struct.pack("<BBHI", opcode, _QUERY_INFO, 2, self.root))
        return int(struct.unpack_from("<I", reply, 16)[0])

    def extension(self, name: bytes) -> int:
        """The number that requests of an extension begin with."""
        padded = _padded(name)
        request = struct.pack("<BxHHxx", _QUERY_EXTENSION, 2 + len(padded) // 4, len(name)) + padded
        present, opcode = struct.unpack_from("<BB", self.ask(request), 8)
        if not present:
            raise NoAnswer(name.decode())
        return int(opcode)

    def ask(self, request: bytes) -> bytes:
        """Send a request and wait for its reply of 32 bytes."""
        self._socket.sendall(request)
        reply = self._receive(32)
        while reply[0] > 1:  # events that all clients get, such as a changed keyboard
            reply = self._receive(32)
        if reply[0] != 1:
            raise NoAnswer(f"error {reply[1]}")
        return reply

    def _greet(self, cookie: bytes) -> int:
        """Introduce ourselves; the root window of the first screen."""
        name = _COOKIE if cookie else b""
        hello = struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(cookie))
        self._socket.sendall(hello + _padded(name) + _padded(cookie))
        status, length = struct.unpack("<B5xH", self._receive(8))
        rest = self._receive(4 * length)
        if status != 1:
            raise PermissionError("the X server refuses")
        vendor, formats = struct.unpack_from("<H", rest, 16)[0], rest[21]
        return int(struct.unpack_from("<I", rest, 32 + (vendor + 3) // 4 * 4 + 8 * formats)[0])

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise NoAnswer("too slow")
            self._socket.settimeout(left)
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise NoAnswer("closed")
            data += piece
        return data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
