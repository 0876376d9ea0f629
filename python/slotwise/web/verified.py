"""Finds out whose a request's token is, by asking the collector, before anything is done or read for it."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from slotwise.errors import PeerUnavailableError, UnauthenticatedError
from slotwise.web.access import SIGN_IN, Access
from slotwise.web.pool_client import PoolClient

#: For how long a token's user is remembered, in seconds, and how many are: daemons look at each call's token anyhow.
_REMEMBERED_S, _REMEMBERED = 10.0, 1000
#: Who shows tokens while no collector says whose they are: these count as one caller.
_UNVERIFIED = "<unverified>"


class Verified:
    """Remembers whose tokens are, by their digests."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._users: OrderedDict[bytes, tuple[str, float]] = OrderedDict()

    async def access(self, access: Access, pool: PoolClient, *, reads: bool) -> Access:
        """The access with the verified name of its caller.

        :param reads: the request changes nothing, and is answered without a collector as far as that goes: metrics tell
            that it is away.
        :raises UnauthenticatedError: when the token is not good.
        :raises PeerUnavailableError: when nobody can say.
        """
        if not access.token:
            return access
        digest = hashlib.sha256(access.token.encode()).digest()
        user, until = self._users.get(digest, ("", 0.0))
        if self._now() < until:
            return replace(access, caller=user)
        try:
            user = await _user(pool)
        except PeerUnavailableError:
            if not reads:
                raise
            return replace(access, caller=_UNVERIFIED)
        self._users[digest] = (user, self._now() + _REMEMBERED_S)
        self._users.move_to_end(digest)
        if len(self._users) > _REMEMBERED:
            self._users.popitem(last=False)
        return replace(access, caller=user)


async def _user(pool: PoolClient) -> str:
    async with pool.collector() as collector:
        if user := (await collector.caller()).identity:
            return user
        await collector.query("collector", limit=1)  # is refused, and says why
    raise UnauthenticatedError("the token is not valid in this pool", hint=SIGN_IN)
