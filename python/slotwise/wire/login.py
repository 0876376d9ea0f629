"""Local users need no token: the kernel says which account is at the other end of a UNIX socket.

This is HTCondor's authentication method FS. gRPC does not tell a servicer who the peer is, so each daemon has, beside
its gRPC socket ``<daemon>.sock``, a socket ``<daemon>.login``: who connects there gets a token for the account that
connects, signed with a key that the daemon has in memory only and that it alone accepts. The client in turn looks whose
process answers before it believes anything.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.wire import socket_path

if TYPE_CHECKING:
    from collections.abc import Callable

#: How long such a token holds, in seconds; streams end with it.
LIFETIME_S = 86400
#: Who may connect to a daemon's sockets at all: every account where the daemons are root's, see
#: :mod:`slotwise.daemon.owner`; else the owner of the pool. What they may do is another matter.
OPEN_TO = 0o666 if os.geteuid() == 0 else 0o600
_TIMEOUT_S = 5.0
#: The wait after the system had no descriptor for another connection, seconds.
_BREATH_S = 0.5
_CREDENTIALS = struct.Struct("3i")
_TIMEVAL = struct.Struct("ll")
#: Callers that may stand in line (the system may allow fewer), and how many are answered before other work goes on.
_IN_LINE, _AT_A_TIME = 1024, 64
#: Logins of one account in a second that are answered; the next ones are asked to come again after so many seconds.
_A_SECOND, _AGAIN_S = 100, 0.2
_COME_AGAIN = json.dumps({"again_s": _AGAIN_S}).encode()
#: Tokens obtained by this process: socket -> (its identity on disk, the account that asked, token, when to renew).
_known: dict[str, tuple[tuple[int, int], int, str, float]] = {}


def socket_of(grpc_socket: str) -> str:
    """The login socket beside a daemon's gRPC socket."""
    return grpc_socket.removesuffix(".sock") + ".login"


def peer_uid(connection: socket.socket) -> int:
    """The account at the other end of a connected UNIX socket, as the kernel says."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(credentials)[1]
    return uid


def obtain(grpc_socket: str) -> str | None:
    """A token for this account from the daemon of ``grpc_socket``; None when it hands out none."""
    path = socket_of(grpc_socket)
    account = os.geteuid()
    try:
        about = os.stat(path)  # noqa: PTH116 - with each command
        mark = (about.st_ino, about.st_mtime_ns)
        known = _known.get(path)
        if known is not None and known[:2] == (mark, account) and time.time() < known[3]:
            return known[2]
        until = time.monotonic() + _TIMEOUT_S
        while "again_s" in (said := _asked(socket_path.usable(path), account)) and time.monotonic() < until:
            time.sleep(min(_TIMEOUT_S, float(str(said["again_s"]))))
        token, expires = str(said["token"]), float(str(said["expires"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    now = time.time()
    _known[path] = (mark, account, token, now + (expires - now) / 2)
    return token


def _asked(path: str, account: int) -> dict[str, object]:
    """What a daemon answers to a login.

    :raises OSError: when none answers, or that of another account.
    :raises ValueError: when it says nothing.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        # Not settimeout: a socket that does not block is refused at once while others stand in line.
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(int(_TIMEOUT_S), 0))
        connection.connect(path)
        if peer_uid(connection) not in (0, account):
            raise PermissionError("the socket is another account's")
        data = b""
        while piece := connection.recv(65536):
            data += piece
    said = json.loads(data)
    if not isinstance(said, dict):
        raise ValueError("that is no answer to a login")
    return said


class LoginServer:
    """Hands tokens to local accounts.

    :param token_for: makes the token of an account: ``(token, when it ends)`` for a uid, or None for nobody.
    """

    def __init__(self, path: str, token_for: Callable[[int], tuple[str, float] | None]) -> None:
        self._path = path
        self._token_for = token_for
        self._socket: socket.socket | None = None
        #: Logins of the present second by account, and when it began.
        self._counts: Counter[int] = Counter()
        self._began = 0.0

    def start(self) -> None:
        """Listen; called inside the event loop."""
        import asyncio
        import contextlib

        with contextlib.suppress(FileNotFoundError):
            Path(self._path).unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        listening.bind(socket_path.usable(self._path))
        Path(self._path).chmod(OPEN_TO)
        listening.listen(_IN_LINE)
        self._socket = listening
        asyncio.get_running_loop().add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        """Listen no more."""
        import asyncio
        import contextlib

        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
            with contextlib.suppress(OSError):
                Path(self._path).unlink()

    def _pause(self) -> None:
        import asyncio

        assert self._socket is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        loop.call_later(_BREATH_S, self._go_on, self._socket)

    def _go_on(self, listening: socket.socket) -> None:
        import asyncio

        if self._socket is listening:
            asyncio.get_running_loop().add_reader(listening.fileno(), self._accept)

    def _accept(self) -> None:
        assert self._socket is not None
        for _ in range(_AT_A_TIME):
            try:
                connection, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:
                self._pause()  # out of descriptors: the caller stays in the queue, and would wake the loop at once
                return
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                uid = peer_uid(connection)
                connection.setblocking(False)
                # What is sent fits the buffer of a new socket, so a caller that does not read holds nothing up.
                if self._is_crowd(uid):
                    connection.send(_COME_AGAIN)
                elif (made := self._token_for(uid)) is not None:
                    connection.send(json.dumps({"token": made[0], "expires": made[1]}).encode())
            except OSError:
                return

    def _is_crowd(self, uid: int) -> bool:
        """Whether an account has logged in too often in this second; what it costs to say so is little."""
        now = time.monotonic()
        if now >= self._began + 1.0:
            self._began, self._counts = now, Counter()
        self._counts[uid] += 1
        return self._counts[uid] > _A_SECOND
