"""Queue superusers, who may act on jobs of other users, and submit jobs for them. Pure.

Manual: QUEUE_SUPER_USERS, QUEUE_SUPER_USER_MAY_IMPERSONATE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from slotwise.errors import ConfigError, DeniedError
from slotwise.model.ownership import LocalDomains, domain_of, owner_of, same_user

_KNOB = "QUEUE_SUPER_USER_MAY_IMPERSONATE"


class SuperUsers(Struct, frozen=True):
    """The queue superusers, and the users for whom they may submit.

    :param names: each ``user@domain``.
    :param impersonated: matches the users for whom they may submit; None: those who have had jobs in the queue.
    :param origin: the line of the configuration that sets it.
    """

    names: tuple[str, ...] = ()
    domains: LocalDomains = field(default_factory=lambda: LocalDomains(""))
    impersonated: re.Pattern[str] | None = None
    origin: str = ""

    @classmethod
    def of(cls, names: Iterable[str], domains: LocalDomains, impersonated: str = "", origin: str = "") -> SuperUsers:
        """Read the knobs; a name without a domain is one of UID_DOMAIN.

        :raises ConfigError: when the regular expression is not valid.
        """
        try:
            pattern = re.compile(impersonated) if impersonated else None
        except re.error as error:
            raise ConfigError(
                f"{_KNOB} = {impersonated} is not a regular expression: {error}", origin=origin, key=_KNOB
            ) from None
        return cls(tuple(domains.named(name) for name in names), domains, pattern, origin)

    def has(self, user: str) -> bool:
        """Whether ``user@domain`` is one."""
        return any(same_user(user, name) for name in self.names)

    def user_for(self, caller: str, owner: str, has_had_jobs: Callable[[str], bool]) -> str:
        """The user of jobs that ``caller`` submits with the attribute Owner set to ``owner``.

        :raises DeniedError: when the caller may not submit for that user.
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
        # As in HTCondor, users of UID_DOMAIN also match by name alone; bob of another domain is somebody else.
        local = domain_of(user).lower() == self.domains.own.lower()
        if self.impersonated.search(user) or (local and self.impersonated.search(owner_of(user))):
            return user
        raise DeniedError(f"{refusal}: {_KNOB} ({self.origin}) does not match")
