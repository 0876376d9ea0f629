"""The address of a daemon as ads and configuration have it: ``host:port``, with HTCondor's parameters behind it.

``ep.example:9618?sock=startd`` is the startd behind the shared port of ep.example. Parameters that count:

==========  ==========================================================================================================
sock        which daemon behind a shared port
alias       the host's name in its certificate, where that is not the host in front of the port
CCBID       ``host:port#id`` of a broker through which the host is reached, and the host's id there
PrivNet     name of a network inside of which PrivAddr reaches the host
PrivAddr    ``host:port`` there
key         the key that callers verify in place of a certificate's name: :mod:`slotwise.wire.address_key`
==========  ==========================================================================================================

Source: HTCondor's "sinful strings" (administrators' manual, networking); decision 21. Others' parameters are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

#: What a daemon behind a shared port may be called: no name leads out of the directory of sockets.
SOCK = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: A host: a name, or an address of either family without brackets.
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]{1,32})?")
#: What a host is called at a broker.
_PORT = re.compile("[0-9]{1,5}")
_BROKER_ID = re.compile(r"[0-9A-Za-z]{1,64}")
#: What is appended to a daemon's name where it requires a certificate of every caller.
CERTIFICATE = "_certificate"
#: The domain of the names that a shared port is asked for. No such host exists: nothing is looked up.
_DOMAIN = "slotwise"
#: Which daemon a shared port means, by the name in a caller's CONNECT.
_LOCAL, _BROKERED, _BACK = "sock", "ccb", "back"
_SAFE = ":.[]-_,@"


class Contact(Struct, frozen=True):
    """Where a daemon is reached. ``port`` is 0 where only a broker reaches it."""

    host: str
    port: int
    sock: str = ""
    alias: str = ""
    broker: str = ""
    broker_id: str = ""
    private_network: str = ""
    private_address: str = ""
    key: str = ""

    def __str__(self) -> str:
        found = [("alias", self.alias), ("PrivNet", self.private_network), ("PrivAddr", self.private_address)]
        found += [("CCBID", f"{self.broker}#{self.broker_id}" if self.broker else ""), ("sock", self.sock)]
        found.append(("key", self.key))
        given = "&".join(f"{name}={quote(value, safe=_SAFE)}" for name, value in found if value)
        return self.address + (f"?{given}" if given else "")

    @property
    def address(self) -> str:
        """``host:port``."""
        return join(self.host, self.port)

    @property
    def name(self) -> str:
        """The host as its certificate names it."""
        return self.alias or self.host

    @property
    def audience(self) -> str:
        """For whom a proof is made that is shown there: the same by whichever way the daemon is reached.

        A key is part of it. Whoever makes an address chooses its key, and could otherwise have callers make proofs for
        another daemon, whose address stands in front of that key.
        """
        given = "&".join(f"{name}={value}" for name, value in (("sock", self.sock), ("key", self.key)) if value)
        return join(self.name, self.port) + (f"?{given}" if given else "")

    @property
    def for_certificates(self) -> Contact:
        """The same daemon where it requires a certificate."""
        return replace(self, sock=f"{self.sock}{CERTIFICATE}")


class Way(Struct, frozen=True):
    """How a connection to a daemon is made. ``via``: ``host:port`` of the shared port or broker that is asked for it by
    HTTP's CONNECT; empty for a daemon with a port of its own, at ``target``. ``authority``: whom the certificate has to
    name."""

    target: str
    authority: str
    via: str = ""


def join(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"{bracketed(host)}:{port}"


def bracketed(host: str) -> str:
    """A host as it stands in front of a port."""
    return f"[{host}]" if ":" in host else host


def divide(text: str) -> tuple[str, int] | None:
    """Host and port of ``host:port`` or ``[address]:port``; None for what is neither."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not _PORT.fullmatch(port) or int(port) > 65535 or (":" in bare) != host.startswith("["):
        return None
    return bare, int(port)


def parse(text: str) -> Contact | None:
    """The address in ``text``, with or without angle brackets; None for what is none: a UNIX socket, a bare host.

    Whoever advertises a daemon chooses its address, and its parts go into what callers send, to a broker of its choice
    at that: parts with other characters than such parts have count as if they were not there.
    """
    address, _, given = text.strip("<> ").partition("?")
    divided = divide(address)
    if divided is None or not _HOST.fullmatch(divided[0]):
        return None
    found = {name.lower(): unquote(value) for name, _, value in (part.partition("=") for part in given.split("&"))}
    sock = found.get("sock", "")
    alias = found.get("alias", "")
    broker, _, broker_id = found.get("ccbid", "").partition(" ")[0].partition("#")
    brokered = _is_place(broker) and _BROKER_ID.fullmatch(broker_id) is not None
    private_address = found.get("privaddr", "").strip("<>").partition("?")[0]
    return Contact(
        *divided,
        sock=sock if SOCK.fullmatch(sock) else "",
        alias=alias if _HOST.fullmatch(alias) else "",
        broker=broker if brokered else "",
        broker_id=broker_id if brokered else "",
        private_network=found.get("privnet", ""),
        private_address=private_address if _is_place(private_address) else "",
        key=found.get("key", ""),
    )


def _is_place(text: str) -> bool:
    divided = divide(text)
    return divided is not None and _HOST.fullmatch(divided[0]) is not None


def target_of(text: str) -> str:
    """The gRPC target of an address as ads and users write it: ``<host:port?parameters>``, ``unix:/path``."""
    found = parse(text)
    return text.strip("<> ") if found is None else str(found)


def with_port(text: str, port: Callable[[], int]) -> str | None:
    """The gRPC target of an address that may lack its port, as users write it: ``host``, ``host:port``, ``[::1]``,
    ``unix:/path``; None for what is none. ``port``: that of a host without one."""
    if text.startswith("unix:") or parse(text) is not None:
        return target_of(text)
    host = text.strip("<> ")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (":" in bare and bare.count(":") < 2) or not _HOST.fullmatch(bare):
        return None
    return join(bare, port())


def key_of(target: str) -> str:
    """The key by which callers of a gRPC target verify it; empty where a certificate names it, or it is a socket."""
    found = None if target.startswith("unix:") else parse(target)
    return "" if found is None else found.key


def audience_of(target: str) -> str:
    """For whom a proof is made that is shown at a gRPC target."""
    found = None if target.startswith("unix:") else parse(target)
    return target if found is None else found.audience


def way_to(target: str, network: str = "") -> Way:
    """How the daemon at ``target`` is reached from inside of the private network ``network``, if there is one.

    Inside of its own private network a host is reached directly, elsewhere by its broker if it has one.
    """
    found = None if target.startswith("unix:") else parse(target)
    if found is None:
        return Way(target, target)
    authority = join(found.name, found.port)
    inside = bool(found.private_address) and found.private_network == network != ""
    if found.broker and found.sock and not inside:
        asked = f"{found.sock}.{found.broker_id}.{_BROKERED}.{_DOMAIN}:1"
        return Way(asked, authority, found.broker)
    at = found.private_address if inside else found.address
    if found.sock:
        return Way(f"{found.sock}.{_LOCAL}.{_DOMAIN}:1", authority, at)
    return Way(at, authority)


class Asked(Struct, frozen=True):
    """What a shared port is asked for: the daemon ``sock`` of this host, that of the host with an id at this broker, or
    the connection that a host was told to make with a secret."""

    sock: str = ""
    host_id: str = ""
    secret: str = ""


_NAME = re.compile(
    rf"(?:(?P<local>{SOCK.pattern})\.{_LOCAL}|(?P<far>{SOCK.pattern})\.(?P<id>[0-9a-f]{{40}})\.{_BROKERED}"
    rf"|(?P<secret>[0-9a-f]{{32}})\.{_BACK})\.{_DOMAIN}(?::\d+)?"
)


def asked_for(name: str) -> Asked | None:
    """What a caller means by the name in its CONNECT; None for names that mean nothing here."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return Asked(found["local"] or found["far"] or "", found["id"] or "", found["secret"] or "")


def back_name(secret: str) -> str:
    """The name under which a host that was told to connect asks its broker for the caller that waits."""
    return f"{secret}.{_BACK}.{_DOMAIN}:1"
