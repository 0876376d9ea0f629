"""What hosts of a pool are for, what they are called, and the code by which a person knows one that wants to join."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable

from slotwise.errors import UsageError

#: The daemons of a role, besides the master: central manager, access point, execution point.
ROLES: dict[str, tuple[str, ...]] = {"cm": ("collector", "negotiator"), "ap": ("schedd",), "ep": ("startd",)}
#: Roles of hosts that join a pool.
JOINING = ("ap", "ep")
#: Letters and digits that are not taken for each other.
_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def roles_of(words: Iterable[str], allowed: Iterable[str] = ROLES) -> list[str]:
    """The roles that words such as ``cm,ap`` and ``ep`` name, each once, in the order of :data:`ROLES`.

    :raises UsageError: for a word that is no role, or one that is not allowed, and when there is none.
    """
    may = tuple(allowed)
    named = [role.strip().lower() for word in words for role in word.split(",") if role.strip()]
    wrong = next((role for role in named if role not in may), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is not a role that a host can have here", hint=f"roles are {', '.join(may)}")
    if not named:
        raise UsageError("no role is named", hint=f"--role with one or more of {', '.join(may)}")
    return [role for role in ROLES if role in named]


def daemons_of_roles(roles: Iterable[str]) -> list[str]:
    """The daemons of a host with these roles, without the master."""
    return [daemon for role in roles for daemon in ROLES[role]]


def host_name(text: str) -> str:
    """A host's full name in lower case.

    :raises UsageError: when it is not the name of a host that a certificate could have: an address, a pattern,
        ``localhost``, or a text with other characters than letters, digits, dots and hyphens.
    """
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise UsageError(f"{text[:300]!r} is not the name of a host", hint="letters, digits, hyphens, and dots between")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        pass
    else:
        raise UsageError(f"{name} is an address, not a name", hint="give the host a name that others can look up")
    if labels[-1].isdigit() or labels[0] == "localhost" or name.endswith(".localdomain"):
        raise UsageError(f"{name} is not a name by which other hosts call this one", hint="see hostname(1), /etc/hosts")
    return name


def enrolment_code(
    request_id: str, name: str, roles: Iterable[str], public_key: str, tls_key: str, secret_digest: str
) -> str:
    """A code that tells a host's request from all others, for people to compare: 12 letters and digits.

    It covers the host's keys and an id that the collector chooses, so that nobody can prepare a request with the code
    of another: both ends work it out.

    :param tls_key: the digest of the key of its certificate; empty without one.
    """
    parts = (request_id, name, ",".join(roles), public_key, tls_key, secret_digest)
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    text = "".join(_LETTERS[byte % 32] for byte in digest[:12])
    return f"{text[:4]}-{text[4:8]}-{text[8:]}"
