"""Reads one call from the launcher: arguments, directory, environment and the caller's standard streams."""

from __future__ import annotations

import array
import os
import resource
import socket
import struct
from pathlib import Path

from msgspec import Struct

_VERSION = b"1"
#: Limits that bound what a command may do; others (open files, locked memory) bound only processes.
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_DATA)
_LONGEST = 16 * 1024 * 1024


class CommandRequest(Struct, frozen=True):
    """A call as the launcher sent it; ``streams`` are three open descriptors that the receiver must close."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    streams: tuple[int, int, int]
    uid: int
    #: Of the caller's process, as it is now.
    umask: int = 0o022
    #: Whether files and limits are the server's own too: same groups, and no limit that the server does not have.
    alike: bool = True


def receive(connection: socket.socket) -> CommandRequest | None:
    """The call that comes over ``connection``; None when it is malformed or breaks off."""
    # Closed on exec: what a command starts gets no streams of other callers.
    head, ancillary, _flags, _from = connection.recvmsg(4, socket.CMSG_SPACE(3 * 4), socket.MSG_CMSG_CLOEXEC)
    streams = _descriptors(ancillary)
    try:
        if len(head) != 4 or len(streams) != 3:
            raise ValueError("no streams came with the call")
        (length,) = struct.unpack("<I", head)
        if length > _LONGEST:
            raise ValueError("the call is too long")
        argv, cwd, env = parse(_read(connection, length))
    except (ValueError, OSError):
        for descriptor in streams:
            os.close(descriptor)
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _gid = struct.unpack("3i", credentials)
    umask, alike = _surroundings(pid)
    return CommandRequest(argv, cwd, env, (streams[0], streams[1], streams[2]), uid, umask, alike)


def _surroundings(pid: int) -> tuple[int, bool]:
    """The umask of a process, and whether it has this one's groups and none but its limits."""
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        limits = [(resource.prlimit(pid, limit), resource.getrlimit(limit)) for limit in _LIMITS]
    except (OSError, ValueError):
        return 0o077, False
    groups = sorted(int(group) for group in fields["Groups"].split())
    same_groups = int(fields["Gid"].split()[1]) == os.getegid() and groups == sorted(os.getgroups())
    return int(fields["Umask"], 8), same_groups and all(theirs == ours for theirs, ours in limits)


def parse(body: bytes) -> tuple[list[str], str, dict[str, str]]:
    """Arguments, directory and environment of a request's body.

    :raises ValueError: when it is not of the form that the launcher writes.
    """
    fields = body.split(b"\0")
    if len(fields) < 4 or fields[0] != _VERSION or fields[-1] != b"":
        raise ValueError("not a call of this version")
    count = int(fields[1])
    if not 0 <= count <= len(fields) - 4:
        raise ValueError("fewer arguments than announced")
    texts = [os.fsdecode(field) for field in fields[2:-1]]
    env = dict(pair.split("=", 1) for pair in texts[count + 1 :] if "=" in pair)
    return texts[:count], texts[count], env


def _read(connection: socket.socket, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise ValueError("the call breaks off")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
