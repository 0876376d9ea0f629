"""Queries the name service for authorization: names of callers' hosts, and addresses of host names in lists.

The queries block; :mod:`slotwise.authorization.authorizer` makes them in threads.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from pathlib import Path

from slotwise.authorization.entries import parse_address


def addresses_of(name: str) -> tuple[str, ...]:
    """The addresses of a host name; none if the name service knows none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def names_of(address: str) -> tuple[str, ...]:
    """The host names of an address. A name counts only if the address is among its own: the owner of an address may
    give it any name."""
    wanted = parse_address(address)
    if wanted is None:
        return ()
    try:
        name, aliases, _ = socket.gethostbyaddr(str(wanted))
    except (OSError, UnicodeError):
        return ()
    candidates = dict.fromkeys([name, *aliases])
    return tuple(each for each in candidates if wanted in {parse_address(found) for found in addresses_of(each)})


def own_addresses() -> tuple[str, ...]:
    """All addresses of this host, those of the loopback first."""
    found = dict.fromkeys(["127.0.0.1", "::1"])
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            found[str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0])))] = None
    with contextlib.suppress(OSError):
        # The kernel's table of local routes: an address followed by the words for one of the host's own.
        before = ""
        for line in Path("/proc/net/fib_trie").read_text(encoding="ascii").splitlines():
            if line.strip().endswith("/32 host LOCAL") and "|--" in before:
                found[before.split("|--")[1].strip()] = None
            before = line
    return tuple(found)
