"""A guest for tests of virtual machines: a boot sector that counts its boots and its life on its own disk.

The second sector of the disk has, each in four bytes: how often it was booted, for how many ticks (18 a second) it has
run since, a word, and how many cores it has. The word is ``RUN``, ``DONE`` (its time was over) or ``BUTN`` (somebody
pressed the power button).
``vm_guest.S`` is its source.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass

_CODE = base64.b64decode(
    "+jHAjtiOwI7QvAB8+4gWt3y0AuiQAGb/BgCAuhAFuAUA70LsogyAZscGBIAAAAAAZscGCIAgUlVO6GgA9gbwfQF0S7oCBrgAAe9m"
    "ix5sBPRmoWwEZjnDdPZmicNm/wYEgGZT6D4AZlv2BvB9AnUUugAG7fbEAXQLZscGCIBCVVRO6xRmoQSAZjsG9H1ywWbHBgiARE9O"
    "RegKALoEBrgAIO/06/20A7ABuQIAtgCKFrd8uwCAzRPD"
)
_MODE_AT, _TICKS_AT, _SIZE = 0x1F0, 0x1F4, 1 << 20
_RUNS, _DEAF = 1, 2
FOREVER = 2**32 - 1


@dataclass(frozen=True)
class GuestNotes:
    """What a guest has written."""

    boots: int
    ticks: int
    word: str
    #: How many cores its machine has.
    cores: int = 1


def disk(ticks: int = 0, *, deaf: bool = False) -> bytes:
    """A disk whose guest powers itself off after so many ticks; ``deaf``: it does not hear the power button."""
    mode = (_RUNS if ticks else 0) | (_DEAF if deaf else 0)
    sector = bytearray(_CODE.ljust(512, b"\0"))
    sector[_MODE_AT] = mode
    struct.pack_into("<I", sector, _TICKS_AT, ticks)
    sector[510:] = b"\x55\xaa"
    return bytes(sector) + bytes(_SIZE - 512)


def notes(content: bytes) -> GuestNotes:
    """What the guest of this disk has written."""
    boots, ticks, word, cores = struct.unpack_from("<II4sB", content, 512)
    return GuestNotes(boots, ticks, word.decode(errors="replace").strip("\0 "), cores)
