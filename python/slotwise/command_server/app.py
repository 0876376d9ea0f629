"""Starts the command server: a UNIX socket in the pool's ``run`` directory, a thread per call.

Only calls of the user that the server runs as are served (the socket's directory is closed to others anyway), with the
umask of the caller; others, those with other groups or limits than the server's, and commands that want a process of
their own, are refused, and the launcher starts the Python command line instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import grpc

from slotwise.cli import registry
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.terminal import shown
from slotwise.cli.main import dispatch
from slotwise.command_server.request import CommandRequest, receive
from slotwise.config import Config
from slotwise.daemon.pause import pause_thread
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import HostError
from slotwise.wire import socket_path

_log = logging.getLogger(__name__)
_THREADS = 32
#: The wait after the system had no descriptor for another call, seconds.
_BREATH_S = 0.2
_NOT_SERVED = b"N"
_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_FS = 0x200
_thread = threading.local()


def _own_mask() -> bool:
    """Let this thread have a umask of its own from now on; False where the kernel refuses."""
    if not getattr(_thread, "apart", False):
        _thread.apart = _libc.unshare(_CLONE_FS) == 0
    return bool(_thread.apart)


class CommandServer:
    """Accepts calls and runs each in a thread, with channels to the daemons shared between calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channels: dict[str, grpc.Channel] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="command")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def open(self) -> None:
        """Bind the socket (mode 0600) and begin to accept.

        :raises HostError: when the path is not writable.
        """
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        try:
            self._listener.bind(socket_path.usable(self._path))
        except OSError as error:
            raise HostError(f"cannot listen on {self._path}: {error}", path=str(self._path)) from None
        self._path.chmod(0o600)
        self._listener.listen(128)
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def close(self) -> None:
        """Stop accepting; calls under way end by themselves."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                    pause_thread(_BREATH_S)
                    continue
                return  # closed
            self._pool.submit(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                request = receive(connection)
                if request is None:
                    return
                try:
                    answer = self._answer(request, connection)
                finally:
                    for descriptor in request.streams:
                        with contextlib.suppress(OSError):
                            os.close(descriptor)
                connection.sendall(answer)
            except Exception:
                _log.exception("error while answering a command")

    def _answer(self, request: CommandRequest, connection: socket.socket) -> bytes:
        entry = registry.find(request.argv[0]) if request.argv else None
        if entry is None or not entry.may_be_resident(request.argv[1:]) or request.uid != os.geteuid():
            return _NOT_SERVED
        if not request.alike or not _own_mask():
            return _NOT_SERVED
        os.umask(request.umask)
        return b"S" + bytes([self._run(request, connection) & 0xFF])

    def _run(self, request: CommandRequest, connection: socket.socket) -> int:
        stdin, stdout, stderr = (
            os.fdopen(os.dup(fd), mode, encoding="utf-8", errors="surrogateescape")
            for fd, mode in zip(request.streams, ("r", "w", "w"), strict=True)
        )
        terminal = os.isatty(request.streams[1])
        inv = Invocation(
            cwd=Path(request.cwd),
            env=request.env,
            stdin=stdin,
            stdout=shown(stdout),
            stderr=shown(stderr),
            is_terminal=terminal,
            width=os.get_terminal_size(request.streams[1]).columns if terminal else 80,
            uid=request.uid,
            channels=self._channels,
            caller_gone=partial(_is_gone, connection),
        )
        status = 1
        try:
            status = dispatch(request.argv, inv)
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 1
        except Exception as error:
            _log.exception("%s failed", request.argv[0])
            with contextlib.suppress(OSError):
                stderr.write(f"slotwise {request.argv[0]}: internal error: {error}\n")
        finally:
            for stream in (stdout, stderr, stdin):
                with contextlib.suppress(OSError, ValueError):
                    stream.close()
        return status


def _is_gone(connection: socket.socket) -> bool:
    """Whether the launcher at the other end was killed: it says nothing, and closes nothing, before it is answered."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class Front:
    """The running daemon."""

    def __init__(self, server: CommandServer) -> None:
        self._server = server

    async def reconfig(self, config: Config) -> list[str]:
        """Nothing of the configuration concerns the command server."""
        return []

    async def stop(self, mode: str) -> None:
        """Stop accepting calls."""
        self._server.close()


async def start(context: DaemonContext) -> Front:
    """Open the command server of the pool."""
    path = context.home.run / "commands.sock"
    server = CommandServer(path)
    server.open()
    return Front(server)
