"""Who calls and what they may do, and the files of tokens. Free of gRPC and of cryptography: commands start faster.

A token is a JWT that names an identity ``user@domain`` and scopes, which are HTCondor's authorization levels: see
:data:`IMPLIED`. Who signs them is in :mod:`slotwise.wire.keys`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from slotwise import whole_file
from slotwise.authorization.parts import PARTS_OF_NEGOTIATOR
from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.home import PoolHome
from slotwise.model.knobs import Knobs
from slotwise.wire import base64url

#: The header or the claims of a token: JSON of whoever signed it, and of whoever sends it until it is verified.
#: ``Any``: what a claim holds is checked where it is read.
Claims: TypeAlias = dict[str, Any]

#: What each authorization level implies besides itself. Source: manual, "Security", authorization levels. Two things
#: differ: levels ADVERTISE_* do not imply READ, so that an execution point cannot read the queue of an access point;
#: and DAEMON implies them, as an unset ALLOW_ADVERTISE_* is ALLOW_DAEMON.
IMPLIED: dict[str, tuple[str, ...]] = {
    "ALLOW": (),
    "READ": (),
    "WRITE": ("READ",),
    "ADMINISTRATOR": ("WRITE",),
    "CONFIG": ("READ",),
    "DAEMON": ("WRITE", "ADVERTISE_MASTER", "ADVERTISE_STARTD", "ADVERTISE_SCHEDD"),
    "NEGOTIATOR": ("READ", *PARTS_OF_NEGOTIATOR),
    **dict.fromkeys(PARTS_OF_NEGOTIATOR, ()),
    "ADVERTISE_MASTER": (),
    "ADVERTISE_STARTD": (),
    "ADVERTISE_SCHEDD": (),
}
#: HTCondor's levels.
LEVELS = tuple(level for level in IMPLIED if level not in PARTS_OF_NEGOTIATOR)

#: What the pool's owner may do: everything but what only daemons have a use for.
OWNER_LEVELS = ("ADMINISTRATOR", "CONFIG", "DAEMON")

#: What each daemon may do at others: its part and no more.
DAEMON_LEVELS: dict[str, tuple[str, ...]] = {
    "master": ("ADVERTISE_MASTER",),
    "collector": (),
    "negotiator": ("NEGOTIATOR",),
    "schedd": ("ADVERTISE_SCHEDD",),
    "startd": ("ADVERTISE_STARTD",),
    "starter": (),
    "defrag": ("DRAIN", "READ"),
    # It notes in ads of machines that sleep when they were called; where it may not, it only reads.
    "rooster": ("WAKEUP", "READ"),
    "librarian": (),
    "front": (),
    # For callers without a token; who has one shows it to the daemons through it.
    "web": ("READ",),
    # It registers with a broker, as any daemon of a host that advertises may.
    "shared_port": ("ADVERTISE_MASTER", "ADVERTISE_STARTD", "ADVERTISE_SCHEDD"),
}


def levels_of(daemons: Iterable[str]) -> list[str]:
    """The levels that a host with these daemons needs."""
    return sorted({level for name in ("master", *daemons) for level in DAEMON_LEVELS.get(name, ())})


def with_implied(levels: Iterable[str]) -> frozenset[str]:
    """The levels, and all that they imply; names that are not levels count for nothing."""
    found: set[str] = set()
    waiting = [level for level in levels if level in IMPLIED]
    while waiting:
        level = waiting.pop()
        if level not in found:
            found.add(level)
            waiting += IMPLIED[level]
    return frozenset(found)


class Identity(Struct, frozen=True):
    """An authenticated caller.

    :param name: ``user@domain``.
    :param levels: authorization levels that the caller's credentials allow, with those that they imply.
    :param method: how the caller was authenticated, as HTCondor names it: ``IDTOKENS``, ``FS``, ``SSL``, ...
    :param token_id: the id of the token (claim ``jti``), empty without one.
    :param expires: when the authentication ends, in epoch seconds; None: never.
    :param subject: of the certificate that proved it, empty without one.
    """

    name: str
    levels: frozenset[str]
    method: str = "IDTOKENS"
    token_id: str = ""
    expires: float | None = None
    subject: str = ""

    @property
    def user(self) -> str:
        """The part before the ``@``."""
        return self.name.partition("@")[0]

    @property
    def domain(self) -> str:
        """The part behind the ``@``."""
        return self.name.partition("@")[2]

    def may(self, *levels: str) -> bool:
        """Whether the caller has one of ``levels``."""
        return not self.levels.isdisjoint(levels)


def write_secret(path: Path, text: str) -> None:
    """Write a file only its owner can read (mode 0600 from its first moment), replacing one in a single step.

    Of root's it is the directory's owner's.
    """
    with whole_file.replaced(path, 0o600) as stream:
        stream.write(text.encode())
        above = os.lstat(path.parent)
        if os.geteuid() == 0 and above.st_uid != 0:  # what root writes among another's secrets is for that one
            os.fchown(stream.fileno(), above.st_uid, above.st_gid)


def require_private(path: Path) -> None:
    """See that only the owner of a secret's file may read it, and that this is nobody else.

    :raises DeniedError: when others may, or might write it, or it is another account's than its directory is.
    """
    about = path.stat()
    if about.st_uid not in (0, os.geteuid(), path.parent.stat().st_uid):
        raise DeniedError(
            f"{path} belongs to another account (uid {about.st_uid}), which knows what is in it",
            hint=f"chown {os.geteuid()} {path} if you put it there; else remove it, and look for who did",
        )
    mode = stat.S_IMODE(about.st_mode)
    if mode & 0o077:
        raise DeniedError(f"others may read {path} (mode {mode:04o})", hint=f"chmod 600 {path}; renew it if they did")


def peek(token: str) -> tuple[Claims, Claims]:
    """Header and claims of a token, unverified; for listings.

    :raises UnauthenticatedError: when it is not a token at all.
    """
    parts = token.split(".")
    try:
        if len(parts) != 3:
            raise ValueError("it does not have three parts")
        header, claims = (json.loads(base64url.decoded(part)) for part in parts[:2])
        if not (isinstance(header, dict) and isinstance(claims, dict)):
            raise ValueError("its parts are not objects")
    except ValueError as error:
        raise UnauthenticatedError(f"not a token: {error}") from None
    except RecursionError:
        raise UnauthenticatedError("not a token: its claims are nested too deeply") from None
    return header, claims


def token_directories(home: PoolHome, env: Mapping[str, str], knobs: Knobs | None = None) -> list[Path]:
    """Where a user's tokens are: SEC_TOKEN_DIRECTORY where it is set; else the pool's home and the user's own
    (``~/.slotwise/tokens.d``), and for root SEC_TOKEN_SYSTEM_DIRECTORY where that is set."""
    if knobs is not None:
        if named := _named(knobs, "SEC_TOKEN_DIRECTORY"):
            return [named]
        if os.geteuid() == 0 and (named := _named(knobs, "SEC_TOKEN_SYSTEM_DIRECTORY")):
            return [home.root / "tokens.d", named]
    own = Path(env["HOME"]) / ".slotwise" / "tokens.d" if env.get("HOME") else None
    found = [home.root / "tokens.d"]
    return found if own is None or own in found else [*found, own]


def _named(knobs: Knobs, name: str) -> Path | None:
    text = knobs.get(name) if knobs.is_set(name) else None
    return Path(text).expanduser() if text else None


def find_token(home: PoolHome, env: Mapping[str, str], knobs: Callable[[], Knobs | None] = lambda: None) -> str | None:
    """The token to show at other hosts: that of ``SLOTWISE_TOKEN_FILE``, else the first in the user's directories.

    :param knobs: the configuration, asked for only where it says which directories these are.
    :raises DeniedError: when a file that was named cannot be read, or others may read the token.
    """
    named = env.get("SLOTWISE_TOKEN_FILE")
    paths = (
        [Path(named)] if named else [path for place in token_directories(home, env, knobs()) for path in _files(place)]
    )
    for path in paths:
        try:
            found = path.read_text().split()
            if found:
                require_private(path)
                return found[0]
        except (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError):
            if named:
                raise DeniedError(f"the token file {path} cannot be read") from None
    return None


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError:
        return []
