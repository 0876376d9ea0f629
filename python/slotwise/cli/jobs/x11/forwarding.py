"""The visitor's end: a second visit to the job, which runs the relay, and connections to the visitor's display."""

from __future__ import annotations

import contextlib
import inspect
import os
import secrets
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping

from msgspec import Struct

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Parsed
from slotwise.cli.jobs.session import PIECE, Visit, carry
from slotwise.cli.jobs.x11 import channels, frames, relay
from slotwise.cli.jobs.x11.setup import Display, Setup, cookie_listed, display_named
from slotwise.errors import HostError, SlotwiseError
from slotwise.wire.gen import schedd_pb2

_COOKIE_SIZE = 16
_CONNECT_S = 10.0
#: Interpreters that are tried beside the job, besides this one, which is there where hosts are alike.
_PYTHONS = ("python3", "/usr/bin/python3", "/usr/local/bin/python3")
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 7))"
#: Makes modules of its arguments, which are names and texts in turn, and runs the last one.
_BEGIN = """
import sys, types
words = sys.argv[1:]
for name, text in zip(words[::2], words[1::2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""


class Forwarded(Struct, frozen=True):
    """The display as it is named beside the job, and the file of its cookie there."""

    display: str
    cookies: str

    def command(self, command: list[str], shells: list[str], terminal: bool) -> list[str]:
        """The command, or a shell, with the display in its environment."""
        exports = f"export DISPLAY={shlex.quote(self.display)} XAUTHORITY={shlex.quote(self.cookies)};"
        if command:
            return [exports, *command]
        names = " ".join(shlex.quote(name) for name in shells or ("bash", "sh"))
        flag = " -i" if terminal else ""
        tries = f'for SHELL in {names}; do SHELL=$(command -v "$SHELL") && export SHELL && exec "$SHELL"{flag}; done;'
        return [exports, tries, f"exec /bin/sh{flag}"]


@contextlib.contextmanager
def forwarded(job: str, parsed: Parsed, inv: Invocation) -> Iterator[Forwarded]:
    """Forward connections beside the job to the display of the invocation, within the block.

    :raises SlotwiseError: when there is no display, or no way to it.
    """
    display = display_named(inv.env.get("DISPLAY", ""))
    real = _real_cookie(inv.env)
    try:
        _connect(display).close()
    except OSError as error:
        where = display.path or f"{display.host}:{display.port}"
        raise HostError(f"-X: no X server answers at {where}: {error.strerror or error}") from None
    shown = secrets.token_bytes(_COOKIE_SIZE)
    from_relay, to_us = os.pipe()
    from_us, to_relay = os.pipe()
    ready: list[Forwarded] = []
    failure: list[SlotwiseError] = []
    told = bytearray()
    known = threading.Event()

    def learn(frame: frames.Frame) -> None:
        number, _, cookies = frame.payload.decode("utf-8", "surrogateescape").partition(" ")
        if frame.kind == frames.READY and number.isdecimal() and not ready:
            ready.append(Forwarded(f"127.0.0.1:{int(number)}.{display.screen}", cookies))
            known.set()

    ours = channels.Channels(
        from_relay, to_relay, connect=lambda: (_connect(display), Setup(shown, real)), control=learn
    )
    ours.say(frames.Frame(frames.HELLO, 0, shown))

    def forward() -> None:
        with contextlib.suppress(frames.FrameError):
            ours.run()
        os.close(to_relay)
        os.close(from_relay)
        known.set()

    def print_of_relay(data: bytes, error: bool) -> None:
        if error:
            told.extend(data[: PIECE - len(told)])
            return
        view = memoryview(data)
        while view:
            view = view[os.write(to_us, view) :]

    source = open(from_us, "rb", buffering=0)  # noqa: SIM115 - closed with the last thread that reads it
    with Visit(job, parsed, inv) as visit:

        def visit_relay() -> None:
            try:
                carry(
                    visit, schedd_pb2.OpenShell(command=[_command()]), lambda: source.read(PIECE) or b"", print_of_relay
                )
            except SlotwiseError as error:
                failure.append(error)
            except OSError:
                pass  # our end is gone
            finally:
                os.close(to_us)
                known.set()

        threads = [threading.Thread(target=work, daemon=True) for work in (visit_relay, forward)]
        for thread in threads:
            thread.start()
        try:
            known.wait()
            if not ready:
                if failure:
                    raise failure[0]
                said = bytes(told).decode("utf-8", "replace").strip()
                raise HostError(f"-X: no display beside the job: {said or 'the relay ended'}")
            yield ready[0]
        finally:
            visit.leave()
            for thread in threads:
                thread.join(_CONNECT_S)


def _command() -> str:
    """Starts the relay, in the first interpreter that is there."""
    modules = (frames, channels, relay)
    words = [word for module in modules for word in (module.__name__, inspect.getsource(module))]
    pythons = " ".join(shlex.quote(python) for python in dict.fromkeys((*_PYTHONS, sys.executable)))
    fits = f'"$python" -I -S -c {shlex.quote(_NEW_ENOUGH)} 2>/dev/null'
    begin = f'exec "$python" -I -S -c {shlex.quote(_BEGIN)} {shlex.join(words)}'
    missing = "echo 'there is no Python 3.7 or later, which the relay needs' >&2; exit 127"
    return f"for python in {pythons}; do {fits} && {begin}; done; {missing}"


def _connect(display: Display) -> socket.socket:
    if display.host:
        return socket.create_connection((display.host, display.port), _CONNECT_S)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(display.path)
    except OSError:
        connection.close()
        raise
    return connection


def _real_cookie(env: Mapping[str, str]) -> bytes:
    """The cookie of the display; empty when xauth knows none."""
    try:
        listed = subprocess.run(
            ["xauth", "list", env["DISPLAY"]],
            env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_CONNECT_S,
        )  # fmt: skip
    except FileNotFoundError:
        raise HostError("-X: xauth is not installed", hint="it tells the cookie of the display") from None
    except subprocess.TimeoutExpired:
        raise HostError("-X: xauth does not answer", hint="is the file that XAUTHORITY names locked?") from None
    return cookie_listed(listed.stdout)
