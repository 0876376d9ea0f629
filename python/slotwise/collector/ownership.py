"""Who owns which ad: nobody advertises, changes or invalidates ads under a name that is another's.

The ads of a host's daemons carry the name of that host, and the proof that a daemon presents names its host: such
names need no list. All other senders, and those who present nothing but a token, own what they were the first to
advertise, for as long as the ad exists. An administrator may do all of it, and so releases a name. No I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from slotwise.table import PackKeys
from slotwise.wire import contact
from slotwise.wire.token import Identity

#: Kinds whose ads are named after the host of their daemon: ``host``, ``slot1@host``, ``name@host``,
#: and those of submitters ``user@domain#name@host``.
HOST_NAMED = frozenset({"machine", "startdaemon", "scheduler", "daemonmaster", "submitter"})
#: Attributes of such ads that name the host, as the key does.
_HOSTS = {"submitter": ("ScheddName", "Machine")}
#: Attributes by which others find the daemon of an ad.
_ADDRESSES = ("MyAddress", "StartdIpAddr", "ScheddIpAddr", "MasterIpAddr")
#: Bytes of changes of an ad for which it is not worth measuring again.
_CHANGES_LEAST = 4096
#: The attributes that say whose an ad is, and where its daemon answers.
NAMING = ("Name", "Machine", "ScheddName", *_ADDRESSES)
#: Kinds whose daemons make a host an execution point, in lower case.
_OF_EXECUTION_POINTS = frozenset({"machine", "startdaemon"})
#: Kinds of which negotiator and rooster change existing ads: they note matches with sleeping machines, and wake-ups.
_NOTED = frozenset({"machine"})


class Sender(Struct, frozen=True):
    """Who advertises: ``host`` is the host that a daemon has proved to be on, in lower case, or empty; ``is_here``:
    the call comes from the collector's own host."""

    identity: Identity
    host: str = ""
    is_here: bool = False

    @property
    def is_administrator(self) -> bool:
        """Whether the sender may use all names."""
        return self.identity.may("ADMINISTRATOR")


def sender_of(identity: Identity, *, has_proof: bool, is_here: bool) -> Sender:
    """The sender of a call; ``has_proof``: with the proof of a host, whose name is the identity's domain."""
    is_host = has_proof and identity.user == "condor"
    return Sender(identity, identity.domain.lower() if is_host else "", is_here)


def host_in(name: str) -> str:
    """The host that the name of a daemon's ad names."""
    return name.rpartition("#")[2].rpartition("@")[2].lower()


class _Owned(Struct):
    """An ad that is somebody's.

    :param key: its name as it was spelled.
    :param measured: the bytes that it had when it came whole, or was measured last; ``added``: those of changes since.
    """

    identity: str
    key: str
    measured: int = 0
    added: int = 0


class Owners:
    """Records who advertised which ad first, and how large it is.

    :param is_there: whether an ad of this kind (as the collector spells it) and key exists.
    """

    def __init__(self, is_there: Callable[[str, str], bool]) -> None:
        self._is_there = is_there
        #: By name in lower case.
        self._owners: dict[tuple[str, str], _Owned] = {}
        #: How many names each identity has, and how many bytes.
        self._held: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        #: Hosts that have advertised slots with a proof of their name, in lower case.
        self._execution_points: set[str] = set()

    def held(self, identity: str) -> int:
        """How many names an identity has."""
        return self._held[identity]

    def bytes_of(self, identity: str) -> int:
        """How many bytes the ads of an identity have."""
        return self._bytes[identity]

    def bytes_at(self, kind: str, key: str) -> int:
        """How many bytes an ad that somebody owns has; 0 for another."""
        found = self._owners.get((kind.lower(), key.lower()))
        return 0 if found is None else found.measured + found.added

    def measure(self, kind: str, key: str, *, size: int, whole: bool) -> bool:
        """Note the bytes of an ad that came whole or was measured, or of a change of it; whether it is time to measure
        the ad: changes add to it here, though they may replace what was there."""
        found = self._owners.get((kind.lower(), key.lower()))
        if found is None:
            return False
        before = found.measured + found.added
        found.measured, found.added = (size, 0) if whole else (found.measured, found.added + size)
        self._bytes[found.identity] += found.measured + found.added - before
        return found.added > found.measured + _CHANGES_LEAST

    def _forget(self, name: tuple[str, str]) -> None:
        found = self._owners.pop(name, None)
        if found is not None:
            self._held[found.identity] -= 1
            self._bytes[found.identity] -= found.measured + found.added
            if self._held[found.identity] <= 0:
                del self._held[found.identity]
                del self._bytes[found.identity]

    def owner(self, kind: str, key: str) -> str | None:
        """The identity that owns the name; None when nobody does."""
        name = (kind.lower(), key.lower())
        found = self._owners.get(name)
        if found is None:
            return None
        if not self._is_there(kind, found.key):
            self._forget(name)
            return None
        return found.identity

    def is_execution_point(self, host: str) -> bool:
        """Whether a host has advertised slots with a proof of its name."""
        return host in self._execution_points

    def admitted(self, hosts: Iterable[str]) -> None:
        """These hosts are execution points of the pool by its record, before they have advertised anything: a collector
        that starts anew knows no sender, and their names are nobody else's meanwhile."""
        self._execution_points.update(hosts)

    def dropped(self, host: str) -> None:
        """A host is no part of the pool any more."""
        self._execution_points.discard(host)

    def refusal(self, sender: Sender, kind: str, key: str, *, new: bool) -> str | None:
        """Why ``sender`` may not advertise or invalidate this ad; None if it may.

        :param new: the ad may be a new one.
        """
        if sender.is_administrator:
            return None
        known = kind.lower()
        if self._only_notes(sender, kind, key) and self._is_there(kind, key):
            return None
        # A name that names no host (SCHEDD_NAME = grid@) is that of whoever advertises it first.
        if known in HOST_NAMED and sender.host and (named := host_in(key)):
            if named == sender.host:
                return None
            return f"{key} is not a name of {sender.host}, which {sender.identity.name} speaks for"
        if not sender.host and known in _OF_EXECUTION_POINTS and new and host_in(key) in self._execution_points:
            return f"{key} is a name of {host_in(key)}, which proves to be that host"
        found = self.owner(kind, key)
        if found is None:
            # After a restart the collector may have ads whose senders it no longer knows.
            return None if new or not self._is_there(kind, key) else f"nobody is known to have advertised {key}"
        return None if found == sender.identity.name else f"{key} is an ad of {found}"

    def _only_notes(self, sender: Sender, kind: str, key: str) -> bool:
        return kind.lower() in _NOTED and sender.identity.may("WAKEUP") and host_in(key) != sender.host

    def take(self, sender: Sender, kind: str, keys: Iterable[str]) -> list[str]:
        """Note that ``sender`` has advertised these; returns the names that were another's until now."""
        taken = []
        if sender.host and kind.lower() in _OF_EXECUTION_POINTS:
            self._execution_points.add(sender.host)
        for key in keys:
            name = (kind.lower(), key.lower())
            if sender.is_administrator:
                self._forget(name)
                continue
            former = self.owner(kind, key)
            if former is not None and self._only_notes(sender, kind, key):
                continue
            if former != sender.identity.name:
                if former is not None:
                    taken.append(f"{key} (of {former})")
                self._forget(name)
                self._owners[name] = _Owned(sender.identity.name, key)
                self._held[sender.identity.name] += 1
        return taken

    def release(self, kind: str, keys: Iterable[str]) -> None:
        """Release these names."""
        for key in keys:
            self._forget((kind.lower(), key.lower()))


def _disguised(pack: PackKeys, is_execution_point: Callable[[str], bool]) -> str | None:
    """Why an ad would pass for a slot of a host that proves its name: jobs ask for machines by it."""
    for key, said in pack.said["Machine"]:
        if said is None:
            return f"the ad {key} says that its Machine is {_shown(said)}"
        if is_execution_point(host_in(said)):
            return f"the ad {key} says that its Machine is {_shown(said)}, which proves to be that host"
    return None


def misnamed(
    sender: Sender, kind: str, pack: PackKeys, is_execution_point: Callable[[str], bool] = lambda host: False
) -> str | None:
    """Why an ad of a pack, or a change of one, would claim to be another's, or lead to another's daemon; None when
    none does.

    Such attributes are plain strings: what an expression says depends on the rest of the ad, which can change later.

    :param pack: has the attributes :data:`NAMING` of its ads.
    :param is_execution_point: whether a host proves to be an execution point of the pool.
    """
    known = kind.lower()
    if sender.is_administrator or known not in HOST_NAMED:
        return None
    if not sender.host and known in _OF_EXECUTION_POINTS and (why := _disguised(pack, is_execution_point)):
        return why
    if known not in _HOSTS:
        for key, said in pack.said["Name"]:
            if said is None or said.lower() != key.lower():
                return f"the ad {key} calls itself {_shown(said)}"
    if sender.host:
        for attribute in _HOSTS.get(known, ("Machine",)):
            for key, said in pack.said[attribute]:
                named = None if said is None else host_in(said)
                if named != sender.host and (named != "" or attribute == "Machine"):
                    return f"the ad {key} says that its {attribute} is {_shown(said)}, not of {sender.host}"
    for attribute in _ADDRESSES:
        for key, said in pack.said[attribute]:
            if (why := _misaddressed(sender, said)) is not None:
                return f"the ad {key} says that its {attribute} is {_shown(said)}, {why}"
    return None


def _misaddressed(sender: Sender, said: str | None) -> str | None:
    """Why an address may be that of another's daemon; None when it cannot.

    What is meant for the daemon of an ad goes to its address: a command for a glide-in must not reach the master of
    another host. Callers hold a host to its name, or to the key in its address.
    """
    found = None if said is None else contact.parse(said)
    if sender.host and sender.is_here and said is not None and (found is None or found.host in ("127.0.0.1", "::1")):
        return None  # in a pool of this host alone, daemons have no other address than a socket or the loopback
    if found is None:
        return "which is no address that others can call"
    if found.key:
        return None
    if not sender.host:
        return "which names no key: a token alone vouches for no host (SLOTWISE_ADDRESS_KEY = true gives it one)"
    return None if found.name.lower() == sender.host else f"which is not one of {sender.host}"


def _shown(said: str | None) -> str:
    return "what is not a plain string" if said is None else f'"{said}"'
