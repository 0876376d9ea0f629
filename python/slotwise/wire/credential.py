"""What a caller shows to prove who calls, and where it may be shown at all.

A daemon shows a *proof*: a token signed with its host's own key, for one address only, that carries the pool's word on
what that key may do. Whoever receives one can do nothing with it elsewhere. A person shows a token of the pool (a
bearer's: who has it may use it), or on a UNIX socket what the daemon itself handed to the account that calls.
"""

from __future__ import annotations

import logging
import os
import random
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slotwise.errors import DeniedError
from slotwise.wire import contact, login

if TYPE_CHECKING:
    from slotwise.wire.keys import SigningKey

_log = logging.getLogger(__name__)

Metadata = tuple[tuple[str, str], ...]

#: How long a proof holds, in seconds, and the claim in which it carries the pool's word.
PROOF_S = 86400.0
HOST_TOKEN = "host_token"
#: The type of a proof, in its header's place: the claim ``typ``.
PROOF = "proof"


class Credential(Protocol):
    """Something that can be shown to a daemon."""

    def metadata(self, target: str) -> Metadata:
        """Call metadata for the daemon at the gRPC target ``target``; empty when there is nothing to show."""
        ...


def bearer(token: str | None) -> Metadata:
    """Call metadata that shows ``token``; empty without one."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def no_token() -> None:
    """For those who have no token of their own."""


class Places:
    """Where tokens may be sent; set once for a process, as the configuration says."""

    def __init__(self) -> None:
        #: Connections to TCP addresses are encrypted, and the other side's name is verified.
        self.tls = False
        #: SLOTWISE_ALLOW_CLEARTEXT: others see to it that nobody listens.
        self.cleartext = False
        self._keys: set[str] = set()

    def name(self, target: str) -> None:
        """Take the word of the user, the configuration or a daemon of the pool for the key in an address."""
        if key := contact.key_of(target):
            self._keys.add(key)

    def is_named(self, key: str) -> bool:
        """Whether more than an ad vouches for the key of an address."""
        return key in self._keys


places = Places()


def require_safe(target: str, *, proof: bool = False) -> None:
    """See that nobody but the daemon meant can read what is sent to ``target``.

    Whoever may advertise a slot chooses the key of its address, and so who answers there: only what is of no use
    elsewhere goes to a key that nothing but an ad names.

    :param proof: what is sent is good at this target alone.
    :raises DeniedError: when it is neither a UNIX socket of this user's or root's, nor reached with TLS.
    """
    if target.startswith("unix:"):
        _require_own_socket(target.removeprefix("unix:"))
    elif key := contact.key_of(target):
        if not (proof or places.is_named(key)):
            raise DeniedError(
                f"no token is sent to {target}: only an ad says that this key is the daemon's",
                hint="ask through the access point of the job, or have the daemon show a certificate of the pool",
            )
    elif not (places.tls or places.cleartext):
        raise DeniedError(
            f"no token is sent to {target}, which is not reached with TLS",
            hint="set AUTH_SSL_CLIENT_CAFILE to the pool's authority; on the daemon's own host leave -pool away",
        )


def _require_own_socket(path: str) -> None:
    """See that a socket belongs to this user or root, and that nobody else can put another in its place."""
    try:
        about = os.lstat(path)
        above = [(directory, directory.stat()) for directory in Path(os.path.realpath(path)).parents]
    except OSError:
        return  # nobody is there: the call says so
    trusted = (0, os.geteuid())
    if not stat.S_ISSOCK(about.st_mode) or about.st_uid not in trusted:
        raise DeniedError(
            f"no token is sent to {path}, which uid {about.st_uid} made", hint="is another pool's daemon meant?"
        )
    for directory, place in above:
        if place.st_uid not in trusted or (place.st_mode & 0o002 and not place.st_mode & stat.S_ISVTX):
            who = f"belongs to uid {place.st_uid}" if place.st_uid not in trusted else "may be written by everybody"
            raise DeniedError(
                f"no token is sent to {path}: another user may put a socket of their own in its place",
                hint=f"{directory} {who}: name a SLOTWISE_HOME below directories of your own or of root's",
            )


class TokenCredential:
    """A token that whoever has it may use."""

    def __init__(self, token: str) -> None:
        self._token = token

    def metadata(self, target: str) -> Metadata:
        """The token, where nobody else can read it.

        :raises DeniedError: when it could be read on its way.
        """
        require_safe(target)
        return bearer(self._token)


class UserCredential:
    """What a person shows: the token that was named, on UNIX sockets what the daemon hands out, else one at hand.

    :param find: finds the user's token, or None.
    :param own: what the owner of a pool's home may show without a token: the word of the host, or of the pool.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        find: Callable[[], str | None],
        own: Callable[[], Credential | None] = lambda: None,
    ) -> None:
        self._named = bool(env.get("SLOTWISE_TOKEN_FILE"))
        self._find = find
        self._own = own

    def is_at_hand(self) -> bool:
        """Whether there is a token, or what stands for one, to be shown at other hosts.

        :raises DeniedError: when a named one is no good.
        """
        return self._named or self._find() is not None or self._own() is not None

    def metadata(self, target: str) -> Metadata:
        """See the class.

        :raises DeniedError: when a token could be read on its way, or a named one is no good.
        """
        if target.startswith("unix:") and not self._named:
            require_safe(target)
            token = login.obtain(target.removeprefix("unix:"))
            if token:
                return bearer(token)
        token = self._find()
        if token is None:
            own = None if self._named else self._own()
            return () if own is None else own.metadata(target)
        require_safe(target)
        return bearer(token)


class HostCredential:
    """What a daemon shows: proofs signed with its host's key.

    :param name: whom the daemon speaks for, ``condor@<host>``.
    :param host_token: the pool's word on this host's key, or None while it has not joined a pool.
    :param levels: what this daemon may do at others, at most.
    :param stand_in: a token that whoever has it may use, for the daemon at a target, while there is no word of the
        pool; None: there is none for that one.
    """

    def __init__(
        self,
        name: str,
        key: SigningKey,
        host_token: Callable[[], str | None],
        levels: Iterable[str],
        now: Callable[[], float],
        stand_in: Callable[[str], str | None] = lambda target: None,
    ) -> None:
        self._name = name
        self._stand_in = stand_in
        self._key = key
        self._host_token = host_token
        self._levels = tuple(levels)
        self._now = now
        self._proofs: dict[tuple[str, bool], tuple[Metadata, float, str | None]] = {}
        self._warned: set[str] = set()

    def renew(self) -> None:
        """Ask for the pool's word anew, which is made, and told to other daemons of the host, when it is time."""
        self._host_token()

    def metadata(self, target: str) -> Metadata:
        """A proof for the daemon at ``target`` alone."""
        return self._shown(target, family=False)

    def family(self, target: str) -> Metadata:
        """A proof for a daemon of the same home, which believes its own host's key everything."""
        return self._shown(target, family=True)

    def _shown(self, target: str, *, family: bool) -> Metadata:
        now, word = self._now(), None if family else self._host_token()
        found = self._proofs.get((target, family))
        if found is not None and now < found[1] and found[2] == word:
            return found[0]
        try:
            if not family and word is None:
                if (given := self._stand_in(target)) is not None:
                    require_safe(target)
                    return bearer(given)
                raise DeniedError("this host has not joined the pool", hint="see `slotwise token request`")
            require_safe(target, proof=True)
        except DeniedError as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                _log.warning("%s", error)
            return ()
        return self._made(target, word, family)

    def _made(self, target: str, word: str | None, family: bool) -> Metadata:
        from slotwise.wire import keys

        now = self._now()
        # Streams end with their proofs: not all at the same moment.
        lasts = PROOF_S * random.uniform(0.7, 1.0)
        more = {HOST_TOKEN: word} if word else {}
        levels = ("ADMINISTRATOR", "DAEMON") if family else self._levels
        text = keys.mint(
            self._key,
            self._name,
            levels,
            issued_at=now,
            lifetime_s=lasts,
            audience=contact.audience_of(target),
            typ=PROOF,
            **more,
        )
        if len(self._proofs) > 5000:
            self._proofs.clear()
        made = bearer(text)
        self._proofs[(target, family)] = (made, now + lasts / 2, word)
        return made
