"""The messages between the two ends of forwarded connections. Pure.

This module, `channels` and `relay` run beside the job, too, in whatever Python 3.7 or later is there: they import
nothing else of the package.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

#: The cookie that programs beside the job shall show; the relay listens (payload: display number, space, cookie file).
HELLO, READY = 1, 2
#: A connection; its bytes; how many of them were used up (4 bytes); its end.
OPEN, DATA, TAKEN, CLOSE = 3, 4, 5, 6
#: The most bytes of one message.
PIECE = 32 * 1024
#: Bytes of one connection that one end may have sent and the other not used up.
WINDOW = 256 * 1024
_HEADER = struct.Struct(">BII")


class FrameError(Exception):
    """These bytes are no messages."""


class Frame(NamedTuple):
    """One message: its kind, the number of the connection (0: none), and what it carries."""

    kind: int
    channel: int
    payload: bytes = b""


def packed(frame: Frame) -> bytes:
    """The bytes of a message."""
    return _HEADER.pack(frame.kind, frame.channel, len(frame.payload)) + frame.payload


class Reader:
    """Makes messages of bytes, however they are cut."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The messages that are complete now.

        :raises FrameError: for an unknown kind, or a message that is too long.
        """
        self._waiting += data
        found = []
        while len(self._waiting) >= _HEADER.size:
            kind, channel, size = _HEADER.unpack_from(self._waiting)
            if not HELLO <= kind <= CLOSE or size > PIECE or (kind == TAKEN and size != 4):
                raise FrameError(f"no message of forwarded connections: kind {kind}, {size} bytes")
            end = _HEADER.size + size
            if len(self._waiting) < end:
                break
            found.append(Frame(kind, channel, bytes(self._waiting[_HEADER.size : end])))
            del self._waiting[:end]
        return found
