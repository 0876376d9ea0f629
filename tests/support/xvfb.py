"""A real X server without a screen, where Xvfb is installed."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support import host
from tests.support.waiting import LIMIT_S

COOKIE = bytes(range(16))


def authority(display: str, cookie: bytes = COOKIE) -> bytes:
    """An Xauthority file with one entry."""
    parts = (b"host", display.encode(), b"MIT-MAGIC-COOKIE-1", cookie)
    return struct.pack(">H", 256) + b"".join(struct.pack(">H", len(part)) + part for part in parts)


@contextlib.contextmanager
def running_xvfb(cookies: Path) -> Iterator[str]:
    """The number of a display that wants `COOKIE`; ``cookies`` becomes its Xauthority file."""
    host.need(host.programs("Xvfb"))
    cookies.write_bytes(authority(""))
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-auth", str(cookies), "-nolisten", "tcp", "-noreset"],
        pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading) as told:
        number = told.readline().strip()
    try:
        assert number, "Xvfb did not start"
        yield number
    finally:
        server.terminate()
        server.wait(LIMIT_S)
