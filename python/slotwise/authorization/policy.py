"""Decides whether a caller has an authorization level, by the lists of the configuration.

The rules are HTCondor's (manual, "Authorization"): an entry of DENY_<LEVEL> wins over those of ALLOW_<LEVEL>; a level
whose lists say nothing about a caller leaves it to the levels that imply it. Where HTCondor admits nobody because a
list is not set, callers are admitted here whose proof grants the level: the scopes of a token, or being root or the
pool's owner on this host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from slotwise.authorization.entries import Entry, Peer
from slotwise.authorization.parts import PARTS_OF_NEGOTIATOR

#: The levels that each level includes directly.
IMPLIES: Mapping[str, str | None] = {
    "READ": None,
    "WRITE": "READ",
    "NEGOTIATOR": "READ",
    "ADMINISTRATOR": "WRITE",
    "CONFIG": "READ",
    "DAEMON": "WRITE",
    "ADVERTISE_STARTD": "READ",
    "ADVERTISE_SCHEDD": "READ",
    "ADVERTISE_MASTER": "READ",
}
LEVELS = tuple(IMPLIES)
#: Levels that directly include a level.
_IMPLIED_BY = {level: tuple(who for who, what in IMPLIES.items() if what == level) for level in LEVELS}
_EVERYBODY = ("*", "*/*")
#: Levels that an entry with a host alone gives to whoever is on that host. All others belong to daemons and
#: administrators, and each account of a host could call itself one of these.
OF_HOSTS = frozenset({"READ", "WRITE"})


class Caller(Protocol):
    """The authenticated caller."""

    @property
    def name(self) -> str:
        """``user@domain``."""

    @property
    def levels(self) -> frozenset[str]:
        """Levels that the proof grants, with those that they imply."""

    @property
    def method(self) -> str:
        """The method by which the caller proved the name: ``FS``, ``IDTOKENS``, ..."""


class Listing(Struct, frozen=True):
    """The list that one knob holds. ``origin``: file and line where it is set."""

    knob: str
    value: str
    entries: tuple[Entry, ...]
    origin: str

    @property
    def names_everybody(self) -> bool:
        """Whether every caller is on the list."""
        return self.value in _EVERYBODY

    def find(self, users: Sequence[str], peer: Peer, *, by_host: bool = True) -> Entry | None:
        """The first entry that names the user, who has these names, calling from there; ``by_host``: also one that
        names nobody."""
        candidates = (each for each in self.entries if by_host or each.names_users)
        return next((each for each in candidates if any(each.fits(user, peer) for user in users)), None)


class Lists(Struct, frozen=True):
    """The two lists of one level; None if one is not set."""

    allow: Listing | None = None
    deny: Listing | None = None


class Decision(Struct, frozen=True):
    """Whether a caller has a level, and why. ``knob``, ``entry`` and ``origin``: the line that decided, if one did."""

    allowed: bool
    level: str
    reason: str
    knob: str = ""
    entry: str = ""
    origin: str = ""

    @property
    def by(self) -> str:
        """The decision in words: ``DENY_WRITE (bob@example.org) in /etc/condor/condor_config, line 7``."""
        if not self.knob:
            return self.reason
        return f"{self.knob} ({self.entry}) in {self.origin}" if self.entry else f"{self.knob} in {self.origin}"


class Methods(NamedTuple):
    """The knob that names the authentication methods of a level, its value, and where it is set."""

    knob: str
    value: str
    origin: str


class Policy(Struct, frozen=True):
    """The lists of all levels of one daemon."""

    lists: Mapping[str, Lists] = field(default_factory=dict)
    #: The levels that a certificate cannot give, with the knob that says so.
    without_certificates: Mapping[str, Methods] = field(default_factory=dict)

    @property
    def needs_names(self) -> bool:
        """Whether a decision may depend on a caller's host name."""
        return any(
            entry.needs_names
            for lists in self.lists.values()
            for listing in (lists.allow, lists.deny)
            if listing is not None
            for entry in listing.entries
        )

    def decide(self, caller: Caller, level: str, peer: Peer) -> Decision:
        """Whether ``caller``, calling from ``peer``, has ``level``."""
        if caller.method == FAMILY_METHOD and level in caller.levels:
            return Decision(True, level, "daemons of one pool on one host trust each other")
        if caller.method == CERTIFICATE_METHOD and (methods := self.without_certificates.get(level)) is not None:
            return Decision(False, level, f"{methods.knob} does not list SSL ({methods.origin})", *methods)
        if caller.method not in LISTED_METHODS and level not in caller.levels:
            levels = " ".join(sorted(caller.levels)) or "nothing"
            return Decision(False, level, f"the {_proof(caller)} of {caller.name} is limited to {levels}")
        return self._verify(caller, level, peer, by_host=_counts_by_host(caller, level))

    def _verify(self, caller: Caller, level: str, peer: Peer, *, by_host: bool) -> Decision:
        """``by_host``: whether entries that name no user count for this caller."""
        names = _names(caller)
        lists = self.lists.get("NEGOTIATOR" if level in PARTS_OF_NEGOTIATOR else level, _NO_LISTS)
        allow, deny = lists.allow, lists.deny
        if deny is not None:
            entry = deny.find(names, peer)
            if deny.names_everybody or entry is not None:
                return _listed(False, level, deny, entry)
        if allow is None:
            if level in caller.levels:
                unset = f"no ALLOW_{level} is set, and the {_proof(caller)} of {caller.name} grants it"
                return Decision(True, level, unset)
        elif allow.names_everybody and by_host:
            return _listed(True, level, allow, None)
        else:
            entry = allow.find(names, peer, by_host=by_host)
            if entry is not None:
                return _listed(True, level, allow, entry)
        for higher in _IMPLIED_BY.get(level, ()):
            found = self._verify(caller, higher, peer, by_host=by_host)
            if found.allowed:
                reason = f"{higher} includes it: {found.reason}"
                return Decision(True, level, reason, found.knob, found.entry, found.origin)
        if allow is None:
            unset = f"no ALLOW_{level} is set, and {caller.name} has the level by nothing else"
            if caller.method == CERTIFICATE_METHOD:
                unset = f"no ALLOW_{level} is set, and a certificate alone allows nothing: name {caller.name} in it"
            return Decision(False, level, unset)
        reason = f"no entry of {allow.knob} names {caller.name} from {_where(peer)}"
        if not by_host and (allow.names_everybody or allow.find(names, peer) is not None):
            reason += ", and an entry that names a host alone gives no local account this level"
        return Decision(False, level, reason, allow.knob, "", allow.origin)


#: The method of callers that the kernel identifies. Their levels apply if no list is set; they are not a limit.
LOCAL_METHOD = "FS"
#: The method of callers that show a token which the pool has signed.
TOKEN_METHOD = "IDTOKENS"
_BY_PASSWORD = "condor@password"
#: The method of callers that a certificate and the map file identify.
CERTIFICATE_METHOD = "SSL"
#: Methods that identify callers without granting anything: lists alone grant.
LISTED_METHODS = frozenset({LOCAL_METHOD, CERTIFICATE_METHOD})
#: The method of daemons that one master started. No list separates them.
FAMILY_METHOD = "FAMILY"
_NO_LISTS = Lists()


def _counts_by_host(caller: Caller, level: str) -> bool:
    """Whether entries that name a host alone count: not for levels of daemons where all that is known of a caller is
    the account on this host, unless that account has the level by itself, as root has. (HTCondor gives it.)"""
    return caller.method != LOCAL_METHOD or level in OF_HOSTS or level in caller.levels


def _names(caller: Caller) -> tuple[str, ...]:
    """The names of a caller in lists. A daemon that shows a token of the pool is ``condor@password``, too: HTCondor's
    name for those who have the pool's password, which the template ``SECURITY : user_based`` writes. An account of a
    host that is called condor is not."""
    is_daemon = caller.method == TOKEN_METHOD and caller.name.partition("@")[0] == "condor"
    return (caller.name, _BY_PASSWORD) if is_daemon else (caller.name,)


def _proof(caller: Caller) -> str:
    return {LOCAL_METHOD: "login", CERTIFICATE_METHOD: "certificate"}.get(caller.method, "token")


def _where(peer: Peer) -> str:
    if peer.local:
        return "this host"
    return ", ".join((*peer.addresses, *peer.names)) or "an unknown host"


def _listed(allowed: bool, level: str, listing: Listing, entry: Entry | None) -> Decision:
    text = entry.text if entry is not None else listing.value
    verb = "allows" if allowed else "denies"
    reason = f"{listing.knob} {verb} `{text}` ({listing.origin})"
    return Decision(allowed, level, reason, listing.knob, text, listing.origin)
