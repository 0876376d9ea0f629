"""Ports for what tests start."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Ports to choose from, where the kernel's begin at no lower one.
_PORTS = range(10_000, 32_000)


def free_port() -> int:
    """A port at which nothing listens. It is none of those that the kernel gives out, to a connection of another test
    before it is used, unless it gives out nearly all."""
    given_out = int(_RANGE.read_text().split()[0])
    below = range(_PORTS.start, min(given_out, _PORTS.stop))
    choose = random.SystemRandom()
    while True:
        port = choose.choice(below if len(below) > 1000 else _PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
