"""Requests of hosts for a place in the pool that wait for an administrator. No I/O: times and ids are arguments.

They are kept in memory: a host whose request is forgotten, after an hour or with the collector, asks again by itself.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from slotwise.collector import waiting_room
from slotwise.errors import NotFoundError, UsageError
from slotwise.model.pool_host import JOINING, enrolment_code, host_name, roles_of

_VERSION = re.compile(r"[A-Za-z0-9.+~_-]{0,64}")


class Asked(Struct, frozen=True):
    """What a host asks for, checked.

    :param public_key: its key for tokens.
    :param tls_key: the digest of the key of its certificate; empty for a host with a certificate of the site.
    """

    name: str
    roles: tuple[str, ...]
    public_key: str
    tls_key: str
    secret_digest: str
    version: str = ""


def asked(name: str, roles: list[str], public_key: str, tls_key: str, secret_digest: str, version: str) -> Asked:
    """What a host asks for.

    :raises UsageError: when it could not be granted to anybody.
    """
    if not re.fullmatch("[0-9a-f]{64}", secret_digest):
        raise UsageError("the request has no digest of a secret")
    if not _VERSION.fullmatch(version):
        raise UsageError("the request names a version that is none")
    return Asked(host_name(name), tuple(roles_of(roles, JOINING)), public_key, tls_key, secret_digest, version)


class Waiting(Struct):
    """A request that waits for a decision, or whose answer waits to be collected."""

    what: Asked
    request_id: str
    peer: str
    network: str
    asked_at: float
    #: The request for a certificate, DER; empty without one.
    csr: bytes = b""
    granted: bool = False
    denied: bool = False
    #: When its host asked for the answer last; 0: not yet.
    polled_at: float = 0.0

    @property
    def heard_at(self) -> float:
        """When its host was heard of last."""
        return max(self.asked_at, self.polled_at)

    @property
    def is_decided(self) -> bool:
        """Whether it needs no decision any more."""
        return self.granted or self.denied

    @property
    def code(self) -> str:
        """The code that both ends show."""
        what = self.what
        return enrolment_code(self.request_id, what.name, what.roles, what.public_key, what.tls_key, what.secret_digest)


class Enrolments(Struct):
    """The requests that wait."""

    waiting: dict[str, Waiting] = field(default_factory=dict)

    def expire(self, now: float) -> None:
        """Forget what has waited too long."""
        for request_id in [name for name, each in self.waiting.items() if each.asked_at + waiting_room.LASTS_S < now]:
            del self.waiting[request_id]

    def add(self, request: Waiting) -> Waiting:
        """Add a request; one of the same keys, whose answer nobody will collect any more, makes room.

        One that is granted already, by a join token or to a host that has its place, is added in any case.

        :raises BusyError: too many wait, none of which makes room.
        """
        self.expire(request.asked_at)
        what = request.what
        for name, each in list(self.waiting.items()):
            if (each.what.public_key, each.what.tls_key, each.network) == (
                what.public_key, what.tls_key, request.network
            ):  # fmt: skip
                del self.waiting[name]
        if not request.granted:
            undecided = {each.request_id: each for each in self.undecided(request.asked_at)}
            if (displaced := waiting_room.making_room(undecided, request.network, request.asked_at)) is not None:
                del self.waiting[displaced]
        self.waiting[request.request_id] = request
        return request

    def undecided(self, now: float) -> list[Waiting]:
        """The requests that wait for a decision, the oldest first."""
        self.expire(now)
        return [each for each in self.waiting.values() if not each.is_decided]

    def find(self, word: str, now: float) -> Waiting:
        """The one request with this id or code that waits for a decision.

        :raises NotFoundError: when there is none.
        """
        meant = word.strip().upper().replace("-", "")
        for each in self.undecided(now):
            if word == each.request_id or meant == each.code.replace("-", ""):
                return each
        raise NotFoundError(f"no host waits with the code {word[:100]}", hint="`slotwise node requests` shows them")
