"""The network card that a waking call would go to."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil

from slotwise.startd.fingerprint import Attributes


def read(root: Path = Path("/")) -> Attributes:
    """HardwareAddress and SubnetMask of the interface of the default route; empty without one."""
    interface = default_interface(root)
    if interface is None:
        return {}
    attributes: Attributes = {}
    for entry in psutil.net_if_addrs().get(interface, []):
        if entry.family == psutil.AF_LINK:
            attributes["HardwareAddress"] = entry.address
        elif entry.family == socket.AF_INET and entry.netmask:
            attributes["SubnetMask"] = entry.netmask
    return attributes


def default_interface(root: Path = Path("/")) -> str | None:
    """The interface of the default route."""
    try:
        rows = (root / "proc/net/route").read_text().splitlines()[1:]
    except OSError:
        return None
    for row in rows:
        fields = row.split()
        if len(fields) > 3 and fields[1] == "00000000":
            return fields[0]
    return None
