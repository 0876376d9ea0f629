"""What the visitor's end decides: which display is meant, and whose connections reach it. Pure.

Programs beside the job show a cookie that is good for this visit alone; it is replaced by the display's own, which
never leaves the visitor's host. A connection that shows another cookie is refused.
"""

from __future__ import annotations

import hmac
import re
import struct

from msgspec import Struct

from slotwise.cli.jobs.x11.channels import RefusedError
from slotwise.errors import UsageError

COOKIE = b"MIT-MAGIC-COOKIE-1"
_HEAD = 12
_PORTS = 6000
_REASON = b"slotwise: not the cookie of this session"


class Display(Struct, frozen=True):
    """Where an X server listens: at ``path``, or at ``port`` of ``host``."""

    path: str = ""
    host: str = ""
    port: int = 0
    screen: int = 0


def display_named(text: str) -> Display:
    """What DISPLAY means.

    :raises UsageError: when it names no display.
    """
    if not text:
        raise UsageError(
            "-X: DISPLAY is not set, so there is no display to forward", hint="use a terminal in a desktop"
        )
    if text.startswith("/"):
        return Display(path=text)
    found = re.fullmatch(r"(?:tcp/|inet6?/)?(.*):(\d{1,5})(?:\.(\d{1,5}))?", text)
    if found is None or int(found[2]) > 65535 - _PORTS:
        raise UsageError(f"-X: DISPLAY={text} names no X display", hint="host:number, or :number")
    host, number, screen = found[1].strip("[]"), int(found[2]), int(found[3] or 0)
    if host in ("", "unix"):
        return Display(path=f"/tmp/.X11-unix/X{number}", screen=screen)
    return Display(host=host, port=_PORTS + number, screen=screen)


def cookie_listed(listing: str) -> bytes:
    """The cookie in what `xauth list` prints of one display; empty: none is needed, or known."""
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] == COOKIE.decode() and re.fullmatch("([0-9a-f]{2})+", fields[2]):
            return bytes.fromhex(fields[2])
    return b""


class Setup:
    """Screens the beginning of one connection: its setup message, with the one cookie in place of the other."""

    def __init__(self, shown: bytes, real: bytes) -> None:
        self._shown, self._real = shown, real
        self._held: bytearray | None = bytearray()

    def __call__(self, data: bytes) -> bytes:
        """The bytes that may pass.

        :raises RefusedError: for another cookie, or what is not X11.
        """
        if self._held is None:
            return data
        if not data:
            return b""
        self._held += data
        if self._held[0] not in b"Bl":
            raise RefusedError(b"")
        if len(self._held) < _HEAD:
            return b""
        order = ">" if self._held[:1] == b"B" else "<"
        major, minor, name_size, cookie_size = struct.unpack_from(order + "HHHH", self._held, 2)
        if name_size > 256 or cookie_size > 256:
            raise RefusedError(_refusal(order))
        cookie_at = _HEAD + _padded(name_size)
        end = cookie_at + _padded(cookie_size)
        if len(self._held) < end:
            return b""
        name = bytes(self._held[_HEAD : _HEAD + name_size])
        cookie = bytes(self._held[cookie_at : cookie_at + cookie_size])
        if not hmac.compare_digest(cookie, self._shown) or name != COOKIE:
            raise RefusedError(_refusal(order))
        rest = bytes(self._held[end:])
        head = bytes(self._held[:2])
        self._held = None
        return head + _authorized(order, major, minor, self._real) + rest


def _authorized(order: str, major: int, minor: int, cookie: bytes) -> bytes:
    name = COOKIE if cookie else b""
    numbers = struct.pack(order + "HHHHH", major, minor, len(name), len(cookie), 0)
    return numbers + name.ljust(_padded(len(name)), b"\0") + cookie.ljust(_padded(len(cookie)), b"\0")


def _refusal(order: str) -> bytes:
    """The server's answer to a setup that it does not accept, with the reason."""
    reason = _REASON.ljust(_padded(len(_REASON)), b"\0")
    return struct.pack(order + "BBHHH", 0, len(_REASON), 11, 0, len(reason) // 4) + reason


def _padded(size: int) -> int:
    return size + -size % 4
