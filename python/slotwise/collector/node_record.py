"""The record of the hosts that the pool has admitted, and of join tokens: a SQLite file of the collector.

What is granted is committed before it is handed out, so that a name has one holder and a join token its uses, whatever
happens to the collector.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from slotwise.collector.enrolment import Asked
from slotwise.daemon import database
from slotwise.errors import DeniedError, HostError, NotFoundError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    name TEXT PRIMARY KEY, roles TEXT NOT NULL, public_key TEXT NOT NULL, tls_key TEXT NOT NULL,
    address TEXT NOT NULL, version TEXT NOT NULL, joined_at INTEGER NOT NULL, by TEXT NOT NULL,
    certificate_ends_at INTEGER NOT NULL DEFAULT 0, removed_at INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS join_token (
    id TEXT PRIMARY KEY, digest TEXT NOT NULL, roles TEXT NOT NULL, uses INTEGER NOT NULL, expires_at INTEGER NOT NULL,
    network TEXT NOT NULL, by TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS join_use (
    token TEXT NOT NULL, public_key TEXT NOT NULL, name TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (token, public_key)
);
"""
_COLUMNS = "name, roles, public_key, tls_key, address, version, joined_at, by, certificate_ends_at, removed_at"
_Found = tuple[str, str, str, str, str, str, int, str, int, int]
#: Join tokens that have ended are forgotten after this time, in seconds: until then it is known why one is refused.
_KEPT_S = 30 * 86400
#: What to do about a damaged file.
_REMEDY = "put a copy of it back (`slotwise restore`), or move it away: then each host is to be joined anew"


class NodeRow(Struct, frozen=True):
    """A host. Times are in epoch seconds; 0: never."""

    name: str
    roles: tuple[str, ...]
    public_key: str
    tls_key: str
    address: str
    version: str
    joined_at: int
    by: str
    certificate_ends_at: int = 0
    removed_at: int = 0


class NodeRecord:
    """The file.

    :raises HostError: when it cannot be used.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        try:
            self._database = database.sound(path, _prepare)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable("used", error) from None

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable("written", error) from None

    def _rows(self, words: str, *values: str) -> list[_Found]:
        try:
            return self._database.execute(words, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable("read", error) from None

    def _unusable(self, for_what: str, error: Exception) -> HostError:
        """It says which host has which name, and is never replaced by an empty one."""
        hint = _REMEDY if database.is_damage(error) else database.hint(error, self._path)
        what = f"{self._path}, the record of the pool's hosts, cannot be {for_what}: {error}"
        return HostError(what, path=str(self._path), hint=hint)

    # ---- hosts

    def node(self, name: str) -> NodeRow | None:
        """The host of this name, removed or not."""
        found = self._rows(f"SELECT {_COLUMNS} FROM node WHERE name = ?", name)
        return _row(found[0]) if found else None

    def nodes(self) -> list[NodeRow]:
        """All hosts, by name."""
        return [_row(found) for found in self._rows(f"SELECT {_COLUMNS} FROM node ORDER BY name")]

    def held_by_other(self, name: str, public_key: str) -> bool:
        """Whether a host with another key has this name."""
        found = self.node(name)
        return found is not None and not found.removed_at and found.public_key != public_key

    def admit(self, what: Asked, *, address: str, by: str, now: float) -> None:
        """Give a host its name.

        :raises DeniedError: when another host has it.
        """
        with self._transaction():
            self._admit(what, address, by, now)

    def _admit(self, what: Asked, address: str, by: str, now: float) -> None:
        if self.held_by_other(what.name, what.public_key):
            raise name_taken(what.name)
        self._database.execute(
            f"INSERT OR REPLACE INTO node ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0)",
            (
                what.name, ",".join(what.roles), what.public_key, what.tls_key, address, what.version, int(now), by
            ),
        )  # fmt: skip

    def certified(self, name: str, tls_key: str, ends_at: float) -> None:
        """Note until when a host has a certificate, and for which key."""
        with self._transaction() as database_:
            words = "UPDATE node SET certificate_ends_at = ?, tls_key = ? WHERE name = ?"
            database_.execute(words, (int(ends_at), tls_key, name))

    def remove(self, name: str, now: float) -> NodeRow:
        """Note that a host is removed; the name is free then.

        :raises NotFoundError: when the pool has admitted no such host.
        """
        with self._transaction() as database_:
            found = self.node(name)
            if found is None:
                raise NotFoundError(
                    f"the pool has admitted no host {name}",
                    hint="`slotwise node list` shows them; `slotwise token revoke` is for hosts that joined without",
                )
            words = "UPDATE node SET removed_at = ? WHERE name = ? AND removed_at = 0"
            database_.execute(words, (int(now), name))
            return found

    # ---- join tokens

    def add_token(
        self, token_id: str, digest: str, roles: list[str], uses: int, expires_at: float, network: str, by: str
    ) -> None:
        """Keep a join token, of which only the digest is known here."""
        with self._transaction() as database_:
            ended = "SELECT id FROM join_token WHERE expires_at < ?"
            forgotten = int(expires_at) - _KEPT_S
            database_.execute(f"DELETE FROM join_use WHERE token IN ({ended})", (forgotten,))
            database_.execute("DELETE FROM join_token WHERE expires_at < ?", (forgotten,))
            database_.execute(
                "INSERT INTO join_token VALUES (?, ?, ?, ?, ?, ?, ?)",
                (token_id, digest, json.dumps(roles), uses, int(expires_at), network, by),
            )

    def revoke_token(self, token_id: str) -> None:
        """End a join token.

        :raises NotFoundError: when there is none.
        """
        with self._transaction() as database_:
            if not database_.execute("UPDATE join_token SET uses = 0 WHERE id = ?", (token_id,)).rowcount:
                raise NotFoundError(f"there is no join token {token_id[:100]}")

    def use_token(self, token_id: str, digest: str, what: Asked, *, address: str, now: float) -> None:
        """Admit a host by a join token. A host that has used it may ask again with the same key, at no further use.

        :raises DeniedError: when the token does not admit it.
        """
        with self._transaction() as database_:
            found = database_.execute(
                "SELECT digest, roles, uses, expires_at, network, by FROM join_token WHERE id = ?", (token_id,)
            ).fetchone()
            if found is None or not hmac.compare_digest(str(found[0]), digest):
                raise DeniedError("the join token is not one of this pool", hint="`slotwise node token` makes one")
            _, roles, uses, expires_at, network, by = found
            if now >= expires_at:
                raise DeniedError("the join token has expired", hint="`slotwise node token` makes another")
            more = [role for role in what.roles if role not in json.loads(roles)]
            if more:
                raise DeniedError(f"the join token is not for hosts of the role {more[0]}")
            if network and not _is_in(address, network):
                raise DeniedError(f"the join token is for hosts of {network}, not for {address}")
            again = database_.execute(
                "SELECT name FROM join_use WHERE token = ? AND public_key = ?", (token_id, what.public_key)
            ).fetchone()
            if again is not None:
                if again[0] != what.name:
                    raise DeniedError(f"this host has used the join token as {again[0]}")
            elif uses < 1:
                raise DeniedError("the join token has been used", hint="`slotwise node token` makes another")
            else:
                database_.execute("UPDATE join_token SET uses = uses - 1 WHERE id = ?", (token_id,))
                database_.execute(
                    "INSERT INTO join_use (token, public_key, name, at) VALUES (?, ?, ?, ?)",
                    (token_id, what.public_key, what.name, int(now)),
                )
            self._admit(what, address, f"join token {token_id} of {by}", now)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(_SCHEMA)


def name_taken(name: str) -> DeniedError:
    """The refusal of a name that another host has."""
    return DeniedError(
        f"{name} is the name of another host of the pool",
        hint=f"an administrator frees it with `slotwise node remove {name}`",
    )


def _row(found: _Found) -> NodeRow:
    name, roles, *rest = found
    return NodeRow(name, tuple(roles.split(",")), *rest)  # type: ignore[arg-type]


def _is_in(address: str, network: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return found in ipaddress.ip_network(network)
    except ValueError:
        return False
