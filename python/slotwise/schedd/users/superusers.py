"""Queue superusers: who may act on the jobs of others, and submit jobs that are another user's. Pure.

Manual: QUEUE_SUPER_USERS, QUEUE_SUPER_USER_MAY_IMPERSONATE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slotwise.errors import ConfigError, DeniedError
from slotwise.model.ownership import LocalDomains, domain_of, owner_of, same_user

_KNOB = "QUEUE_SUPER_USER_MAY_IMPERSONATE"


@dataclass(frozen=True)
class SuperUsers:
    """Who is one, and whose jobs these may submit.

    :param names: each ``user@domain``.
    :param impersonated: whose; None: whoever has had jobs in the queue.
    :param origin: the line that says so.
    """

    names: tuple[str, ...] = ()
    domains: LocalDomains = field(default_factory=lambda: LocalDomains(""))
    impersonated: re.Pattern[str] | None = None
    origin: str = ""

    @classmethod
    def of(cls, names: Iterable[str], domains: LocalDomains, impersonated: str = "", origin: str = "") -> SuperUsers:
        """From the texts of the knobs; a name without a domain is one of UID_DOMAIN.

        :raises ConfigError: when the regular expression is none.
        """
        try:
            pattern = re.compile(impersonated) if impersonated else None
        except re.error as error:
            raise ConfigError(
                f"{_KNOB} = {impersonated} is no regular expression: {error}", origin=origin, key=_KNOB
            ) from None
        return cls(tuple(domains.named(name) for name in names), domains, pattern, origin)

    def has(self, user: str) -> bool:
        """Whether ``user@domain`` is one."""
        return any(same_user(user, name) for name in self.names)

    def user_for(self, caller: str, owner: str, has_had_jobs: Callable[[str], bool]) -> str:
        """The user of jobs that ``caller`` submits with the attribute Owner set to ``owner``.

        :raises DeniedError: when they cannot be that user's.
        """
        user = self.domains.named(owner)
        if same_user(user, caller):
            return caller
        refusal = f"{caller} may not submit jobs of {user}"
        if not self.has(caller):
            raise DeniedError(f"{refusal}: QUEUE_SUPER_USERS does not name {caller}", hint="leave Owner out")
        if self.impersonated is None:
            if has_had_jobs(user):
                return user
            raise DeniedError(
                f"{refusal}, who has had no job in the queue since the access point was started",
                hint=f"{_KNOB} names users whose jobs superusers may submit, as a regular expression",
            )
        # Of users of this host the name alone counts as well, as in HTCondor; another domain's bob is not this one's.
        local = domain_of(user).lower() == self.domains.own.lower()
        if self.impersonated.search(user) or (local and self.impersonated.search(owner_of(user))):
            return user
        raise DeniedError(f"{refusal}: {_KNOB} ({self.origin}) does not match")
