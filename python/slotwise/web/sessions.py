"""Who has signed in to the page: tokens are kept here, and browsers get a name for one that is worth nothing elsewhere.

Cookies know no ports: whoever runs another server on the same host is sent them, too. What such a server could do with
one ends with the session.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable

#: How long a session lasts, in seconds, and how many there are at most; the oldest goes first.
LASTS_S = 12 * 3600.0
_MOST = 10_000


class Sessions:
    """The sessions of this process; a restart ends them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, token: str) -> str:
        """A session in which requests are made with ``token``; returns its name."""
        name = secrets.token_urlsafe(32)
        self._tokens[name] = (token, self._now() + LASTS_S)
        while len(self._tokens) > _MOST:
            self._tokens.popitem(last=False)
        return name

    def token(self, name: str) -> str:
        """The token of a session; empty when there is none of this name, or no more."""
        token, until = self._tokens.get(name, ("", 0.0))
        if self._now() >= until:
            self._tokens.pop(name, None)
            return ""
        return token

    def end(self, name: str) -> None:
        """Forget a session."""
        self._tokens.pop(name, None)
