"""Whose job an ad tells of. The access point decides it from its own record; no ad that a user wrote does.

A submission, a hook or an update may put any attribute into a job ad, so no daemon reads a job's owner from one: it
gets ``user@domain`` in a field of the message that carries the ad, and lays :func:`owner_attributes` over the ad.
"""

from __future__ import annotations

#: Attributes that say whose job it is, in lower case.
OWNER_ATTRIBUTES = frozenset(("owner", "user", "osuser"))


def owner_of(user: str) -> str:
    """The account name of ``user@domain``."""
    return user.partition("@")[0]


def domain_of(user: str) -> str:
    """The domain of ``user@domain``, or ""."""
    return user.partition("@")[2]


def owner_attributes(user: str) -> dict[str, str]:
    """What the ad of a job of ``user@domain`` says about its owner."""
    owner = owner_of(user)
    return {"Owner": owner, "User": user, "OsUser": owner}
