"""What a connection to the shared port begins with: HTTP's CONNECT with the name of a daemon, or anything else."""

from __future__ import annotations

from msgspec import Struct

from slotwise.wire.contact import Asked, asked_for

_METHOD = b"CONNECT "
#: The longest beginning that is read, in bytes.
LONGEST = 4096
_REASONS = {
    200: "Connection established",
    400: "Bad Request",
    404: "No Such Daemon",
    429: "Too Many Connections",
    502: "Host Did Not Connect",
    503: "Host Not Registered",
    504: "Host Did Not Answer",
}


class Request(Struct, frozen=True):
    """What is asked for. ``asked`` None: the daemon that is meant where none is named; ``rest``: what has been read
    beyond the request, and is for the daemon; ``status``: why it is refused, 200 if it is not."""

    asked: Asked | None
    rest: bytes = b""
    status: int = 200


def read_request(data: bytes) -> Request | None:
    """The request that ``data`` begins with; None while too little is known."""
    if not data.startswith(_METHOD):
        return None if _METHOD.startswith(data) else Request(None, data)
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None if len(data) < LONGEST else Request(None, status=400)
    words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Request(None, status=400)
    asked = asked_for(words[1].lower())
    return Request(asked, rest, 200 if asked is not None else 404)


def reply(status: int) -> bytes:
    """The answer to a CONNECT."""
    return f"HTTP/1.1 {status} {_REASONS[status]}\r\n\r\n".encode()


def connect(name: str) -> bytes:
    """A CONNECT that asks for ``name``."""
    return f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()


def status_of(data: bytes) -> int | None:
    """The status of the answer to a CONNECT that ``data`` is; None while it is not whole, 0 when it is none."""
    if b"\r\n\r\n" not in data:
        return None if len(data) < LONGEST else 0
    words = data.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() else 0
