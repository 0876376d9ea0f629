"""Requests of users about their credentials: whose they may touch, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from slotwise.errors import DeniedError, UsageError
from slotwise.model.credential_names import CredentialName, CredentialRequest
from slotwise.model.ownership import LocalDomains, same_user
from slotwise.schedd.credentials.keeping import CredentialKeeper, Outcome
from slotwise.wire import audit
from slotwise.wire.token import Identity


class Asked(Struct, frozen=True):
    """Which credential is meant; None: all. ``user``: whose, "" for the caller's."""

    request: CredentialRequest | None
    user: str = ""

    @property
    def name(self) -> CredentialName | None:
        """The credential's name; None for all."""
        return None if self.request is None else self.request.name


class CredentialRequests:
    """Answers the calls about credentials."""

    def __init__(self, keeper: CredentialKeeper, domains: Callable[[], LocalDomains]) -> None:
        self._keeper = keeper
        self._domains = domains

    async def store(
        self, caller: Identity, asked: Asked, content: bytes, *, refreshed: bool | None, is_private: bool
    ) -> Outcome:
        """Store a credential."""
        _require_private(is_private)
        user = self._user(caller, asked)
        if asked.request is None:
            raise UsageError("Operation aborted due to missing or bad arguments", hint="name the service")
        audit.note("%s of %s", asked.request.name.shown, user)
        return await self._keeper.store(user, asked.request, content, refreshed=refreshed)

    async def query(self, caller: Identity, asked: Asked) -> Outcome:
        """Which are stored."""
        return await self._keeper.query(self._user(caller, asked), asked.request)

    async def delete(self, caller: Identity, asked: Asked) -> None:
        """Remove one, or all."""
        user = self._user(caller, asked)
        audit.note("%s of %s", "all" if asked.name is None else asked.name.shown, user)
        await self._keeper.delete(user, asked.name)

    async def fetch(self, caller: Identity, asked: Asked, *, is_private: bool) -> tuple[CredentialName, bytes]:
        """The token that jobs get; of the caller's own credentials alone."""
        _require_private(is_private)
        if asked.name is None or (asked.user and not same_user(self._domains().named(asked.user), caller.name)):
            raise DeniedError("a token is given to its own user alone", hint="name the service, and no other user")
        audit.note("%s", asked.name.shown)
        return asked.name, await self._keeper.fetch(caller.name, asked.name)

    async def check(self, caller: Identity, needed: str, details: str) -> None:
        """See that tokens are there, those of the local issuers made."""
        await self._keeper.provide(caller.name)
        if needed:
            await self._keeper.check(caller.name, needed, details)

    def _user(self, caller: Identity, asked: Asked) -> str:
        """Whose credentials are meant.

        :raises DeniedError: those of somebody else.
        """
        user = self._domains().named(asked.user) if asked.user else caller.name
        if same_user(user, caller.name):
            return caller.name
        if not self._keeper.settings.is_superuser(caller.name):
            raise DeniedError(
                f"credentials of {user} are not for {caller.name} to touch",
                hint="CRED_SUPER_USERS of the access point names who may",
            )
        return user


def _require_private(is_private: bool) -> None:
    if not is_private:
        raise DeniedError(
            "Operation aborted because communication was not secure",
            hint="credentials go over TLS or the host's own sockets alone",
        )
