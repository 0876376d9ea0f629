"""Which account of this host a connection over the loopback interface is of, as the kernel says (sock_diag(7))."""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
#: struct nlmsghdr, and of struct inet_diag_req_v2 and inet_diag_msg what stands before and behind the addresses.
_HEADER = struct.Struct("=IHHII")
_ASKED, _PORTS, _REST = struct.Struct("=BBBBI"), struct.Struct("!HH"), struct.Struct("=I8s")
#: Where the reply has the uid: behind the header, four bytes, the addresses and three numbers.
_UID = struct.Struct("=I")
_UID_AT = _HEADER.size + 4 + 48 + 12
_STATE_AT, _ESTABLISHED = _HEADER.size + 1, 1
_ANSWER_S = 1.0
_NO_COOKIE = b"\xff" * 8


def account_at(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """The uid of the process whose socket is at ``peer`` and is connected to ``here``, addresses of this host; None
    where the kernel does not tell.

    The kernel looks for this one connection: what it costs does not depend on how many there are.
    """
    try:
        ours, theirs = _address(here[0]), _address(peer[0])
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as asking:
            asking.settimeout(_ANSWER_S)
            asking.sendto(_question(theirs, peer[1], ours, here[1]), (0, 0))
            reply = asking.recv(4096)
    except (OSError, ValueError):
        return None
    if _HEADER.unpack_from(reply)[1] != _SOCK_DIAG_BY_FAMILY or len(reply) < _UID_AT + _UID.size:
        return None  # an error: there is no such connection
    # A connection that its process has closed is nobody's, which the kernel shows as uid 0.
    if reply[_STATE_AT] != _ESTABLISHED:
        return None
    uid: int = _UID.unpack_from(reply, _UID_AT)[0]
    return uid


def _address(host: str) -> IPv4Address | IPv6Address:
    """The address as sockets of its own family have it."""
    found = ipaddress.ip_address(host)
    return getattr(found, "ipv4_mapped", None) or found


def _question(peer: IPv4Address | IPv6Address, port: int, here: IPv4Address | IPv6Address, our_port: int) -> bytes:
    family = socket.AF_INET if peer.version == 4 else socket.AF_INET6
    body = b"".join(
        (
            _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF),
            _PORTS.pack(port, our_port),
            peer.packed.ljust(16, b"\0"),
            here.packed.ljust(16, b"\0"),
            _REST.pack(0, _NO_COOKIE),
        )
    )
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


def account_over_loopback(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """As :func:`account_at`, of a peer at an address of the loopback interface, IPv4 mapped into IPv6 too; None for
    others."""
    try:
        is_loopback = _address(peer[0].strip("[]")).is_loopback
    except ValueError:
        return None
    return account_at(peer, here) if is_loopback else None
