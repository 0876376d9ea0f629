"""Which account of this machine a connection over the loopback interface is of, as the kernel says."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_ESTABLISHED = b"01"


def account_at(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """The uid of the process whose socket is at ``peer`` and is connected to ``here``, addresses of this machine; None
    where the kernel does not tell."""
    try:
        wanted = b" %s %s %s " % (_hexadecimal(*peer), _hexadecimal(*here), _ESTABLISHED)
        table = _TABLES[ipaddress.ip_address(peer[0]).version].read_bytes()
    except (OSError, ValueError):
        return None
    _, found, rest = table.partition(wanted)
    return int(rest.split(None, 4)[3]) if found else None  # behind queues, timer and retransmissions


def _hexadecimal(host: str, port: int) -> bytes:
    """An address as the kernel's tables have it: words of 32 bits in the machine's order."""
    packed = ipaddress.ip_address(host).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}".encode()
