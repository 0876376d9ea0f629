"""A pool as one caller reaches it: its home on this host or the collector of another, and the caller's credential."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import grpc

from slotwise import environment
from slotwise.client import certificate
from slotwise.config import Config, home_of, load
from slotwise.errors import DeniedError
from slotwise.home import PoolHome
from slotwise.wire import channel, contact
from slotwise.wire.credential import Credential, HostCredential, Metadata, TokenCredential, UserCredential, places
from slotwise.wire.keys import PoolSecrets, public_text
from slotwise.wire.token import DAEMON_LEVELS, find_token

#: Lifetime of a token that is made for one caller, in seconds: an hour, for callers that follow something.
_MOMENT_S = 3600


@dataclass
class Pool:
    """The pool that ``env`` names (SLOTWISE_HOME, CONDOR_CONFIG), or the one whose collector is at ``collector``.

    :param collector: ``host:port`` of another pool's collector; None: that of the environment's pool.
    :param cwd: the directory that the name of a token's file is relative to.
    :param channels: open channels by target, which several pools may share.
    :param token: the caller's token; None: what SLOTWISE_TOKEN_FILE, the token directories or the account give.
    """

    env: Mapping[str, str]
    collector: str | None = None
    cwd: Path = field(default_factory=Path.cwd)
    channels: dict[str, grpc.Channel] = field(default_factory=dict, repr=False)
    token: str | None = field(default=None, repr=False)
    #: What is shown in place of all that; a daemon has one of its own.
    shown: Credential | None = field(default=None, repr=False)

    @classmethod
    def of_process(
        cls,
        home: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        collector: str | None = None,
        token: str | None = None,
        shown: Credential | None = None,
    ) -> Pool:
        """The pool that this process means: ``home`` in place of the environment's SLOTWISE_HOME."""
        named = environment() if env is None else dict(env)
        if home is not None:
            named["SLOTWISE_HOME"] = str(home)
        return cls(named, collector, token=token, shown=shown)

    @cached_property
    def home(self) -> PoolHome:
        """The pool's home on this host.

        :raises DeniedError: it is another user's.
        """
        return home_of(self.env).require_trusted()

    @property
    def account(self) -> str:
        """The account of this process; that of the environment if the host knows none."""
        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return self.env.get("USER", "")

    def knobs(self) -> Config:
        """The configuration as commands read it."""
        return load(None, env=self.env, home=self.home)

    # ------------------------------------------------------------------------------------------------------- channels

    def open(self, target: str) -> grpc.Channel:
        """A channel to a gRPC target, open from an earlier call or new, that authenticates the caller: by its token, or
        without one by its certificate, at a port that accepts certificates.

        :raises DeniedError: the daemon does not accept the certificate.
        """
        credential = self.credential()
        target = self.reached(target, credential)
        return channel.showing(self.plain(target), credential, target)

    def reached(self, target: str, credential: Credential) -> str:
        """The target at which the caller authenticates: another port of the same daemon for a caller with a certificate
        instead of a token.

        :raises DeniedError: the daemon does not accept the certificate.
        """
        if not target.startswith("unix:"):
            certificate.trust_configured(self.knobs)
            at_hand = not isinstance(credential, UserCredential) or credential.is_at_hand()
            if channel.own_certificate() and not at_hand:
                return certificate.certificate_target(target, self.plain)
        return target

    def plain(self, target: str) -> grpc.Channel:
        """A channel to a gRPC target that does not authenticate."""
        found = self.channels.get(target)
        if found is None:
            found = self.channels[target] = channel.open_blocking(target)
        return found

    def close(self) -> None:
        """Close all channels."""
        while self.channels:
            self.channels.popitem()[1].close()

    # ------------------------------------------------------------------------------------------------------ credentials

    def proves_itself(self) -> bool:
        """Whether the caller can authenticate at other hosts: by a token, the host's credential, or a certificate.

        :raises DeniedError: the named token is invalid.
        """
        certificate.trust_configured(self.knobs)
        if channel.own_certificate():
            return True
        credential = self.credential()
        return not isinstance(credential, UserCredential) or credential.is_at_hand()

    def credential(self) -> Credential:
        """The caller's credential."""
        if self.shown is not None:
            return self.shown
        if self.token is not None:
            return TokenCredential(self.token)
        env = dict(self.env)
        if named := env.get("SLOTWISE_TOKEN_FILE"):
            env["SLOTWISE_TOKEN_FILE"] = str(self.cwd / named)  # the command server has another directory
        return UserCredential(env, lambda: find_token(self.home, env, self.knobs), self._own_credential)

    def _own_credential(self) -> Credential | None:
        """The credential of the owner of the pool's home at other hosts: on the central manager one made for this call,
        elsewhere that of the host's daemons."""
        from slotwise.daemon import owner

        secrets = PoolSecrets(self.home)
        try:
            config = self.knobs()
            if secrets.is_central:
                found = owner.local_identity(os.geteuid(), config)
                return None if found is None else _CentralCredential(secrets, *found)
            if secrets.token_file.exists():
                levels = tuple({level for each in DAEMON_LEVELS.values() for level in each})
                name = f"condor@{config.get('FULL_HOSTNAME') or ''}"
                word = secrets.token_file.read_text().strip()
                return HostCredential(name, secrets.host_key(), lambda: word, levels, time.time)
        except (OSError, DeniedError):
            return None  # another user's home: its secrets are closed
        return None


class _CentralCredential:
    """What the owner of the pool shows on the central manager: a token made for a moment, and where an ad alone names
    the key of an address, a proof, which its receiver cannot show to anybody."""

    def __init__(self, secrets: PoolSecrets, identity: str, levels: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._identity = identity
        self._levels = levels

    def metadata(self, target: str) -> Metadata:
        """See the class.

        :raises DeniedError: the keys cannot be read, or a token could be read on its way.
        """
        key_there = contact.key_of(target)
        if not key_there or places.is_named(key_there):
            return TokenCredential(self._word()).metadata(target)
        key = self._secrets.host_key()
        word = self._word(public_text(key.public))
        return HostCredential(self._identity, key, lambda: word, self._levels, time.time).metadata(target)

    def _word(self, bound_to: str = "") -> str:
        return self._secrets.mint(
            self._identity, self._levels, now=time.time(), lifetime_s=_MOMENT_S, bound_to=bound_to
        )
