"""Whose job an ad tells of. The access point decides it from its own record; no ad that a user wrote does.

A submission, a hook or an update may put any attribute into a job ad, so no daemon reads a job's owner from one: it
gets ``user@domain`` in a field of the message that carries the ad, and lays :func:`owner_attributes` over the ad.
"""

from __future__ import annotations

from msgspec import Struct

#: Attributes that say whose job it is, in lower case.
OWNER_ATTRIBUTES = frozenset(("owner", "user", "osuser"))


def owner_of(user: str) -> str:
    """The account name of ``user@domain``."""
    return user.partition("@")[0]


def domain_of(user: str) -> str:
    """The domain of ``user@domain``, or ""."""
    return user.partition("@")[2]


def same_user(one: str, other: str) -> bool:
    """Whether two names are of one user: ``bob@example.org`` is not ``bob@other.edu``. Domains ignore case."""
    if one == other:
        return True
    return owner_of(one) == owner_of(other) and domain_of(one).lower() == domain_of(other).lower()


class LocalDomains(Struct, frozen=True):
    """Domains whose users are those of this host's accounts.

    ``own``: UID_DOMAIN. ``trusted``: TRUST_UID_DOMAIN, a list of domains; HTCondor has a truth value there, and true
    trusts every domain.
    """

    own: str
    trusted: tuple[str, ...] = ()
    every: bool = False

    @classmethod
    def of(cls, own: str, trusted: str) -> LocalDomains:
        """From the texts of UID_DOMAIN and TRUST_UID_DOMAIN."""
        words = trusted.replace(",", " ").split()
        if len(words) == 1 and words[0].lower() in _TRUTHS:
            return cls(own, every=_TRUTHS[words[0].lower()])
        return cls(own, tuple(word.lower() for word in words))

    def has(self, domain: str) -> bool:
        """Whether users of ``domain`` have the accounts of their names here."""
        domain = domain.lower()
        return bool(domain) and (self.every or domain == self.own.lower() or domain in self.trusted)

    def account_of(self, user: str) -> str:
        """The account of ``user@domain``; "" for a user of another domain, who has none whatever the name."""
        return owner_of(user) if self.has(domain_of(user)) else ""

    def named(self, name: str) -> str:
        """``user@domain`` for a name that may lack its domain."""
        return name if "@" in name else f"{name}@{self.own}"


_TRUTHS = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}


def owner_attributes(user: str, account: str | None = None) -> dict[str, str]:
    """What the ad of a job of ``user@domain`` says about its owner; ``account``: where it is not of that name."""
    owner = owner_of(user)
    return {"Owner": owner, "User": user, "OsUser": owner if account is None else account}
