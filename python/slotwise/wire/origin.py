"""Where a call comes from, also when it came by the host's shared port.

A shared port connects to a daemon's socket from an abstract name that says whose connection it passes on. Any process
of the host could choose such a name: it counts only on connections with TLS, which the sockets for users never have,
and those for shared ports are closed to all but the daemons' account.

What a broker passes on comes from where the broker says. That is believed only as far as the broker could call from
there itself: the name has the broker's own address, too, and lists of hosts have to allow both.
"""

from __future__ import annotations

import ipaddress
import secrets
from urllib.parse import unquote

from slotwise.wire import base64url
from slotwise.wire.context import Context

_MARK = "slotwise-shared-port/"


def name_for(host: str, port: int, broker: str = "", uid: int | None = None) -> bytes:
    """The name of a socket that passes on the connection of ``host`` (an IP address) and ``port``.

    :param broker: the IP address of the broker that says so; empty where the shared port has seen it itself.
    :param uid: the account of this host that has made the connection; None: it is from elsewhere.
    """
    where = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
    by = f"{base64url.encoded(ipaddress.ip_address(broker).packed)}/" if broker else ""
    return b"\0" + f"{_MARK}{where}/{by}{secrets.token_hex(4)}{'' if uid is None else f'-{uid}'}".encode()


def named(name: bytes) -> str:
    """``ipv4:1.2.3.4:5`` of a socket's name that says whose connection it passes on; empty for another name."""
    return _parts(name)[0]


def account_of(name: bytes) -> int | None:
    """The uid of the account of this host whose connection a socket of this name passes on; None: there is none."""
    text = name.lstrip(b"\0").decode(errors="replace")
    uid = text.rpartition("/")[2].partition("-")[2] if text.startswith(_MARK) else ""
    return int(uid) if uid.isascii() and uid.isdigit() else None


def _parts(name: bytes) -> tuple[str, str]:
    """Whose connection a socket passes on, and by the word of which broker; empty for another name."""
    text = name.lstrip(b"\0").decode(errors="replace")
    if not text.startswith(_MARK):
        return "", ""
    where, *rest = text.removeprefix(_MARK).split("/")
    return where, _broker(rest[0]) if len(rest) > 1 else ""


def _broker(text: str) -> str:
    try:
        at = ipaddress.ip_address(base64url.decoded(text))
    except ValueError:
        return "ipv4:unknown:0"  # no list allows it
    return f"ipv6:[{at}]:0" if at.version == 6 else f"ipv4:{at}:0"


def origin_of(context: Context) -> str:
    """Where a call comes from, in gRPC's form: ``unix:``, ``ipv4:1.2.3.4:5``, ``ipv6:[::1]:5``."""
    return _origin(context)[0]


def broker_of(context: Context) -> str:
    """The broker by whose word a call comes from there, in the same form; empty for a call that came by none."""
    return _origin(context)[1]


def _origin(context: Context) -> tuple[str, str]:
    peer = str(context.peer() or "")
    if not peer.startswith("unix-abstract:"):
        return peer, ""
    found, broker = _parts(unquote(peer.removeprefix("unix-abstract:")).encode())
    if found and context.auth_context().get("transport_security_type") == [b"ssl"]:
        return found, broker
    return "unix:", ""  # a process of this host that chose a name for itself
