"""The end beside the job: an X display on the loopback device, whose connections go to the visitor's own.

Ends with the visit. Its directory, with the file that holds the cookie, is the job's user's alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import sys
import tempfile

from slotwise.cli.jobs.x11.channels import MOST, Channels
from slotwise.cli.jobs.x11.frames import HELLO, READY, Frame

_PORTS = 6000
#: Displays that are tried; the first ten are left to servers of the host.
_NUMBERS = range(10, 200)
_COOKIE = b"MIT-MAGIC-COOKIE-1"
_WILD = 65535


def main() -> None:
    """Serve the visitor on standard input and output."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    scratch = os.environ.get("_CONDOR_SCRATCH_DIR", "")
    directory = tempfile.mkdtemp(prefix=".x11-", dir=scratch if os.path.isdir(scratch) else None)  # noqa: PTH112
    try:
        display, listener = _listener()
        path = f"{directory}/Xauthority"

        def greet(frame: Frame) -> None:
            if frame.kind == HELLO:
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(authority(display, frame.payload))
                listener.listen(MOST)
                channels.accept_from(listener)
                channels.say(Frame(READY, 0, f"{display} {path}".encode("utf-8", "surrogateescape")))

        channels = Channels(0, 1, control=greet)
        channels.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def authority(display: int, cookie: bytes) -> bytes:
    """An Xauthority file with one cookie, for this display under whatever name of the host."""
    parts = (b"", str(display).encode(), _COOKIE, cookie)
    return struct.pack(">H", _WILD) + b"".join(struct.pack(">H", len(part)) + part for part in parts)


def _listener() -> tuple[int, socket.socket]:
    for display in _NUMBERS:
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", _PORTS + display))
        except OSError:
            listener.close()
            continue
        listener.setblocking(False)
        return display, listener
    sys.exit("no port for an X display is free beside the job")
