"""The image of the test container: one program that exits with 37, made here so that no registry is needed. Pure."""

from __future__ import annotations

import io
import platform
import struct
import tarfile

NAME = "slotwise_docker_test"
PROGRAM = "/exit_37"
STATUS = 37
_BASE = 0x400000
#: exit(37) in machine code, and the number of the machine in an ELF header.
_CODE = {
    "x86_64": (62, bytes.fromhex("bf25000000b83c0000000f05")),
    "aarch64": (183, bytes.fromhex("a00480d2a80b80d2010000d4")),
}


def program(machine: str = "") -> bytes | None:
    """A static program that exits with 37; None for a processor that we have no code for."""
    known = _CODE.get(machine or platform.machine())
    if known is None:
        return None
    number, code = known
    header, segment = 64, 56
    size = header + segment + len(code)
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    start = _BASE + header + segment
    elf = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, number, 1, start, header, 0, 0, header, segment, 1, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    return elf + load + code


def archive() -> bytes | None:
    """The file tree of the image as a tar archive, for ``docker import``."""
    body = program()
    if body is None:
        return None
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        entry = tarfile.TarInfo(PROGRAM.lstrip("/"))
        entry.size, entry.mode = len(body), 0o755
        tar.addfile(entry, io.BytesIO(body))
    return file.getvalue()
