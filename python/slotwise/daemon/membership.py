"""A host's place in its pool, from the files in ``secrets/``: what it trusts, and what the pool grants its daemons."""

from __future__ import annotations

import os
import time
from pathlib import Path

from slotwise.config import Config
from slotwise.daemon import reach
from slotwise.wire import address, keys
from slotwise.wire.keys import PoolSecrets, PoolTrust
from slotwise.wire.token import DAEMON_LEVELS, peek, require_private, write_secret

#: How long the pool's word on a host's key holds, in seconds; it is renewed when a third of that is left.
HOST_TOKEN_S = 30 * 86400
#: Levels that a host of the central manager grants its own daemons.
CENTRAL_LEVELS = sorted({level for levels in DAEMON_LEVELS.values() for level in levels})


class _File:
    """Whether a file has changed since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None

    def changed(self) -> bool:
        try:
            about = os.stat(self._path)  # noqa: PTH116 - asked all the time
            mark = (about.st_ino, about.st_mtime_ns, about.st_size)
        except OSError:
            mark = None
        if mark == self._mark:
            return False
        self._mark = mark
        return True


class Trust:
    """``secrets/pool.json`` as it is now; the same object for as long as the file does not change."""

    def __init__(self, secrets: PoolSecrets) -> None:
        self._secrets = secrets
        self._file = _File(secrets.trust_file)
        self._trust = PoolTrust()

    def __call__(self) -> PoolTrust:
        """What is trusted.

        :raises UnauthenticatedError: when the file is spoilt.
        """
        if self._file.changed():
            self._trust = self._secrets.trust()
        return self._trust


class HostToken:
    """The pool's word on this host's key: made here by those who sign, else what is in the host's file.

    :param signs: this process has the pool's private keys at hand.
    :param publishes: it writes what it makes into the file, for the other daemons of the host.
    """

    def __init__(self, secrets: PoolSecrets, name: str, *, signs: bool, publishes: bool = False) -> None:
        self._secrets = secrets
        self._name = name
        self._signs = signs
        self._publishes = publishes
        self._file = _File(secrets.token_file)
        self._trusted = _File(secrets.trust_file)
        self._token: str | None = None
        self._renew_at = 0.0

    def __call__(self) -> str | None:
        """The token, or None while the host has not joined.

        :raises DeniedError: when a key cannot be read.
        """
        if not self._signs:
            if self._file.changed():
                try:
                    self._token = self._secrets.token_file.read_text().strip() or None
                except OSError:
                    self._token = None
            return self._token
        now = time.time()
        if self._trusted.changed() or now >= self._renew_at:
            bound_to = keys.public_text(self._secrets.host_key().public)
            self._token = self._secrets.mint(
                self._name, CENTRAL_LEVELS, now=now, lifetime_s=HOST_TOKEN_S, bound_to=bound_to
            )
            self._renew_at = now + HOST_TOKEN_S / 2
            if self._publishes:
                write_secret(self._secrets.token_file, self._token + "\n")
        return self._token


class StandIn:
    """The token that a glide-in was given: shown to the pool's collector and to its broker, and to nobody else."""

    def __init__(self, secrets: PoolSecrets, config: Config) -> None:
        self._path = secrets.bearer_file
        self._file = _File(secrets.bearer_file)
        broker = reach.broker_of(config)
        self._targets = {address.configured_collector(config), reach.broker_target(broker) if broker else None}
        self._token: str | None = None

    def __call__(self, target: str) -> str | None:
        """The token for the daemon at ``target``; None for those that it is not meant for.

        :raises DeniedError: when others may read its file.
        """
        if target not in self._targets:
            return None
        if self._file.changed():
            self._token = None
            if self._path.exists():
                require_private(self._path)
                self._token = self._path.read_text().strip() or None
        return self._token


def is_central(config: Config) -> bool:
    """Whether this host signs its pool's tokens: no other host's collector is configured."""
    return address.configured_collector(config) is None


def prepare(secrets: PoolSecrets, config: Config, host: str) -> bool:
    """Make the pool's first key where this host is the central manager; whether it is.

    :raises DeniedError: when the pool's tokens are of the old kind.
    """
    central = is_central(config)
    if central:
        secrets.create(config.get("TRUST_DOMAIN") or config.get("UID_DOMAIN") or host)
    else:
        secrets.require_upgraded()
    return central


def ends_at(token: str) -> float:
    """When a token ends, in epoch seconds."""
    return float(peek(token)[1].get("exp", float("inf")))
