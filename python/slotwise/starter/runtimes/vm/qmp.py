"""Speaks qemu's control protocol (QMP) over a socket that qemu has inherited."""

from __future__ import annotations

import array
import json
import socket
import time
from collections.abc import Mapping, Sequence

#: How long an answer may take, seconds: qemu answers at once, unless the host swaps.
_PATIENCE_S = 60.0


class QmpError(Exception):
    """qemu refuses a command, or has gone."""


class Qmp:
    """One connection. Events that come meanwhile are kept in :attr:`events`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = b""
        #: Names of events with their data, oldest first.
        self.events: list[tuple[str, Mapping[str, object]]] = []
        #: qemu has closed its end.
        self.closed = False

    def fileno(self) -> int:
        """For `select`."""
        return self._connection.fileno()

    def greet(self) -> None:
        """Take qemu's greeting, and leave the mode in which it negotiates.

        :raises QmpError: when qemu is gone.
        """
        self._wait_for(lambda message: "QMP" in message)
        self.execute("qmp_capabilities")

    def execute(self, command: str, *, files: Sequence[int] = (), **arguments: object) -> object:
        """Run a command and return what it answers; a name's ``_`` stands for ``-``. ``files`` go along.

        :raises QmpError: when qemu refuses it, or is gone.
        """
        request: dict[str, object] = {"execute": command}
        if arguments:
            request["arguments"] = {name.replace("_", "-"): value for name, value in arguments.items()}
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        try:
            self._connection.settimeout(_PATIENCE_S)
            self._connection.sendmsg([json.dumps(request).encode() + b"\n"], ancillary)
        except OSError as error:
            self.closed = True
            raise QmpError(f"{command}: {error}") from None
        answer = self._wait_for(lambda message: "return" in message or "error" in message)
        if isinstance(refusal := answer.get("error"), dict):
            raise QmpError(f"{command}: {refusal.get('desc')}")
        return answer.get("return")

    def read_events(self) -> None:
        """Read what has come, without waiting."""
        while not self.closed and (message := self._next(0.0)) is not None:
            self._note(message)

    def _wait_for(self, wanted: object) -> Mapping[str, object]:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            message = self._next(deadline - time.monotonic())
            if message is None:
                raise QmpError("qemu is gone" if self.closed else "qemu does not answer")
            if callable(wanted) and wanted(message):
                return message
            self._note(message)

    def _note(self, message: Mapping[str, object]) -> None:
        if isinstance(name := message.get("event"), str):
            data = message.get("data")
            self.events.append((name, data if isinstance(data, dict) else {}))

    def _next(self, patience_s: float) -> Mapping[str, object] | None:
        """The next message; None when none has come in time, or qemu has closed its end."""
        while b"\n" not in self._unread:
            try:
                self._connection.settimeout(max(0.0, patience_s))
                data = self._connection.recv(65536)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError:
                data = b""
            if not data:
                self.closed = True
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            return {}
        return message if isinstance(message, dict) else {}
