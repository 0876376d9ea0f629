"""Tokens and the key they are signed with. Free of gRPC, so that a command can make one without loading it.

A pool has one signing key (``secrets/pool.key``, mode 0600). A token is a JWT signed with it (HS256) that names an
identity ``user@domain`` and scopes. Scopes follow the reference's authorization levels: ADMINISTRATOR includes all,
DAEMON includes WRITE and READ, WRITE includes READ.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt

from slotwise import ids
from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.home import PoolHome

_ALGORITHM = "HS256"
_INCLUDES = {
    "ADMINISTRATOR": {"ADMINISTRATOR", "DAEMON", "WRITE", "READ"},
    "DAEMON": {"DAEMON", "WRITE", "READ"},
    "WRITE": {"WRITE", "READ"},
    "READ": {"READ"},
}
SCOPES = tuple(_INCLUDES)


@dataclass(frozen=True)
class Identity:
    """An authenticated caller: ``name`` is ``user@domain``; ``scopes`` are expanded."""

    name: str
    scopes: frozenset[str]

    @property
    def user(self) -> str:
        """The part before the ``@``."""
        return self.name.partition("@")[0]

    def may(self, scope: str) -> bool:
        """Whether the caller has ``scope``."""
        return scope in self.scopes


def write_secret(path: Path, text: str) -> None:
    """Write a file only its owner can read (mode 0600 from its first moment), replacing one in a single step."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    partial.replace(path)


def require_private(path: Path) -> None:
    """See that only the owner of a secret's file may read it.

    :raises DeniedError: when others may, or might write it.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise DeniedError(f"others may read {path} (mode {mode:04o})", hint=f"chmod 600 {path}; renew it if they did")


def pool_key(home: PoolHome, *, create: bool = False) -> str:
    """The pool's signing key.

    :raises DeniedError: when it is missing (and ``create`` is false), may not be read, or may be read by others.
    """
    path = home.secrets / "pool.key"
    try:
        key = path.read_text().strip()
        require_private(path)
        return key
    except FileNotFoundError:
        if not create:
            raise DeniedError(f"no pool key at {path}", hint="`slotwise up` makes one") from None
    except PermissionError:
        raise DeniedError(f"{path} may not be read by this user") from None
    # Two daemons may start at once: the first key to get its name stays, so that both sign with the same one.
    fresh = path.with_name(f".pool.key.{os.getpid()}")
    write_secret(fresh, ids.secret(256) + "\n")
    with contextlib.suppress(FileExistsError):
        os.link(fresh, path)
    fresh.unlink()
    return path.read_text().strip()


def mint(key: str, identity: str, scopes: Iterable[str], *, issued_at: int, lifetime_s: int | None = None) -> str:
    """A token for ``identity`` (``user@domain``) with ``scopes``; without a lifetime it does not expire."""
    wanted = sorted(set(scopes))
    unknown = [scope for scope in wanted if scope not in _INCLUDES]
    if unknown:
        raise DeniedError(f"unknown scope {unknown[0]}", hint=f"scopes are {', '.join(SCOPES)}")
    claims: dict[str, Any] = {"sub": identity, "scope": " ".join(wanted), "iat": issued_at}
    if lifetime_s is not None:
        claims["exp"] = issued_at + lifetime_s
    return jwt.encode(claims, key, algorithm=_ALGORITHM)


def verify(key: str, token: str) -> tuple[Identity, bool]:
    """Who ``token`` stands for, and whether that stays true for ever (it has no end of validity).

    :raises UnauthenticatedError: when it is not valid, or no longer.
    """
    try:
        claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options={"verify_iat": False, "require": ["sub"]})
    except jwt.PyJWTError as error:
        raise UnauthenticatedError(
            f"the token is not valid in this pool: {error}", hint="use the token file of this pool"
        ) from None
    scopes: set[str] = set()
    for scope in str(claims.get("scope", "")).split():
        scopes |= _INCLUDES.get(scope, set())
    return Identity(str(claims["sub"]), frozenset(scopes)), "exp" not in claims


def peek(token: str) -> dict[str, Any]:
    """What a token says, unverified; for listings.

    :raises UnauthenticatedError: when it is not a token at all.
    """
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError as error:
        raise UnauthenticatedError(f"not a token: {error}") from None
    return claims


def find_token(home: PoolHome, env: Mapping[str, str]) -> str | None:
    """The token a client should show: ``SLOTWISE_TOKEN_FILE``, else the pool owner's, else none.

    :raises DeniedError: when a file that was named cannot be read, or others may read the token.
    """
    named = env.get("SLOTWISE_TOKEN_FILE")
    for path in [Path(named)] if named else [home.secrets / "token"]:
        try:
            found = path.read_text().strip() or None
            if found is not None:
                require_private(path)
            return found
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            if named:
                raise DeniedError(f"the token file {path} cannot be read") from None
    return None
