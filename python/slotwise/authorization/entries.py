"""One entry of an authorization list: whom it names, and from where.

Syntax as HTCondor reads it: ``user/host``, ``user/network/mask``, ``network/mask``, ``user@domain``, or a host; ``*``
in users and host names stands for any text. Networks are ``128.105.0.0/16``, ``128.105.0.0/255.255.0.0``,
``128.105.*`` and their IPv6 forms. Manual, "Authorization".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

#: The host of an entry that stands for every address of this host.
LOCAL_ADDRESSES = "{:local_ips:}"
_SERVICE, _POOL = "condor@", "condor_pool@"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Peer:
    """Where a call comes from: all addresses and host names of the caller's host.

    ``local``: the call comes from this host.
    """

    addresses: tuple[str, ...]
    names: tuple[str, ...] = ()
    local: bool = False


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """An address; an IPv4 address in IPv6 form becomes the IPv4 address. None for anything else."""
    try:
        found = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


@dataclass(frozen=True)
class Network:
    """Addresses of one version whose first ``bits`` are those of ``base``; of version 0: every address."""

    version: int
    base: int = 0
    bits: int = 0

    @property
    def width(self) -> int:
        """Bits of an address."""
        return 32 if self.version == 4 else 128

    def has(self, address: Address) -> bool:
        """Whether an address is in the network."""
        if self.version == 0:
            return True
        if address.version != self.version:
            return False
        rest = self.width - self.bits
        return int(address) >> rest == self.base >> rest


_ANYWHERE = Network(0)
#: What is meant as an address.
_NUMBERS = re.compile(r"\d+(?:\.\d*)+")


def parse_network(text: str) -> Network | None:
    """The network in a text; None if it is not one (a host name, say)."""
    if text in ("*", "*/*"):
        return _ANYWHERE
    base, slash, mask = text.partition("/")
    if slash:
        address = parse_address(base)
        bits = _bits(mask, address) if address is not None else None
        if address is None or bits is None:
            return None
        return Network(address.version, int(address), min(bits, address.max_prefixlen))
    if ":" not in text:
        return _octets(text)
    if "*" not in text:
        address = parse_address(text)
        return Network(address.version, int(address), address.max_prefixlen) if address is not None else None
    if not text.endswith(":*"):
        return None
    address = parse_address(text[:-1] + ":")
    return Network(6, int(address), 16 * text.count(":")) if address is not None and address.version == 6 else None


def _bits(mask: str, address: Address) -> int | None:
    if mask.isdigit():
        return int(mask)
    dotted = parse_address(mask)
    if address.version != 4 or dotted is None or dotted.version != 4:
        return None
    # Ones, then zeros.
    text = f"{int(dotted):032b}"
    ones = text.rstrip("0")
    return None if "0" in ones else len(ones)


def _octets(text: str) -> Network | None:
    """``128.105.3.4``, or the beginning of an address: ``128.105.*``, ``128.105.``, ``128.105``."""
    if not 1 <= len(text) <= 15:
        return None
    if text[-1] in "*.":
        text = text[:-2] if text[:-1].endswith(".") else text[:-1]
    parts = text.split(".") if text else []
    if len(parts) > 4 or not all(part.isascii() and part.isdigit() and int(part) <= 255 for part in parts):
        return None
    padded = [int(part) for part in parts] + [0] * (4 - len(parts))
    return Network(4, int.from_bytes(bytes(padded), "big"), 8 * len(parts))


@lru_cache(maxsize=4096)
def wildcard(pattern: str) -> Callable[[str], bool]:
    """A test whether a pattern matches a text, regardless of case.

    The first ``*`` stands for any text, and so does one at the end; others stand for themselves.
    """
    pattern = pattern.lower()
    start, star, end = pattern.partition("*")
    if not star:
        return lambda text: text.lower() == pattern
    anywhere = end.endswith("*")
    end = end[:-1] if anywhere else end

    def fits(text: str) -> bool:
        text = text.lower()
        if not text.startswith(start):
            return False
        rest = text[len(start) :]
        return end in rest if anywhere else rest.endswith(end)

    return fits


def split(entry: str) -> tuple[str, str]:
    """User and host of an entry; ``*`` for the part that it lacks."""
    first = entry.find("/")
    if first < 0:
        return (entry, "*") if "@" in entry else ("*", entry)
    if entry.find("/", first + 1) >= 0:
        return entry[:first], entry[first + 1 :]
    at = entry.find("@")
    if not 0 <= at < first and not entry.startswith("*") and parse_network(entry) is not None:
        return "*", entry
    return entry[:first], entry[first + 1 :]


@dataclass(frozen=True)
class Entry:
    """An entry as it stands in a list. ``text``: as it is written; ``users``: patterns, one of which must match.

    ``addresses``: those of the host's name, as networks of one address.
    """

    text: str
    users: tuple[str, ...]
    host: str
    network: Network | None
    addresses: tuple[Network, ...] = ()
    _tests: tuple[Callable[[str], bool], ...] = field(default=(), repr=False, compare=False)

    @property
    def host_name(self) -> str | None:
        """The host's name if the entry has a whole one, so that its addresses can be looked up."""
        plain = re.fullmatch(r"[A-Za-z0-9_.-]+", self.host)
        return self.host if plain and self.network is None else None

    @property
    def needs_names(self) -> bool:
        """Whether the entry depends on a caller's host name."""
        return self.network is None and self.host.lower() != LOCAL_ADDRESSES

    @property
    def names_users(self) -> bool:
        """Whether the entry says who, and not only from where."""
        return self.users[0] not in ("*", "*@*")

    @property
    def is_no_address(self) -> bool:
        """Whether the entry has what is meant as an address and is none, such as ``10.0.0.300``."""
        return any(_NUMBERS.fullmatch(part) for part in (self.users[0], "" if self.network else self.host))

    def at(self, addresses: Iterable[str]) -> Entry:
        """The entry with the addresses of its host name."""
        found = [parse_network(address) for address in addresses]
        return replace(self, addresses=tuple(network for network in found if network is not None))

    def fits(self, user: str, peer: Peer) -> bool:
        """Whether the entry names this user, calling from there."""
        return any(test(user) for test in self._tests) and self._has_host(peer)

    def _has_host(self, peer: Peer) -> bool:
        if self.host.lower() == LOCAL_ADDRESSES:
            return peer.local
        networks = (self.network,) if self.network is not None else self.addresses
        if networks and networks[0] is _ANYWHERE:
            return True
        for text in peer.addresses:
            address = parse_address(text)
            if address is not None and any(network.has(address) for network in networks):
                return True
        if self.network is not None:
            # HTCondor tries host names as well, so that `127.0.evil.example` passes for `127.0.*`.
            return False
        test = wildcard(self.host)
        return any(test(name) for name in peer.names)


def parse_entry(text: str, *, pool_names_equal: bool = True) -> Entry:
    """One entry of a list.

    :param pool_names_equal: whether ``condor@`` and ``condor_pool@`` mean each other (USE_POOL_USERNAME_EQUIVALENT).
    """
    user, host = split(text)
    users = [user]
    if pool_names_equal:
        lower = user.lower()
        if lower.startswith(_SERVICE):
            users.append(_POOL + user[len(_SERVICE) :])
        elif lower.startswith(_POOL):
            users.append(_SERVICE + user[len(_POOL) :])
    tests = tuple(wildcard(pattern) for pattern in users)
    return Entry(text, tuple(users), host, parse_network(host), (), tests)


def words(value: str) -> list[str]:
    """The entries of a list, as texts: separated by commas and blanks."""
    return value.replace(",", " ").split()


def doubt(entry: Entry) -> str | None:
    """The doubt about an entry, for the administrator, if there is one."""
    if re.search(r"[<>?]", entry.host):
        return f"`{entry.text}` looks like the address of a daemon, which says nothing about where its calls come from"
    if entry.is_no_address:
        return f"`{entry.text}` is neither an address nor a network, and nobody is called that"
    mask = entry.host.rpartition("/")[2]
    if entry.network is not None and mask.isdigit() and int(mask) > entry.network.width:
        return f"`{entry.text}` has more bits than an address: it is taken for /{entry.network.width}"
    if "/" in entry.text and entry.network is None and "@" not in entry.users[0] and entry.users[0] != "*":
        return f"`{entry.text}` names the user `{entry.users[0]}`, and callers are called user@domain"
    for what in (entry.users[0], entry.host if entry.network is None else ""):
        if "*" in what.rstrip("*").partition("*")[2]:
            return f"of the asterisks in `{what}` only the first and one at the end stand for any text"
    return None
