"""Who has signed in to the page: tokens are kept here, and browsers get a name for one that is worth nothing elsewhere.

Cookies know no ports: whoever runs another server on the same host is sent them, too. So a session that an account of
this host begins is worth nothing to other accounts, nor to callers of elsewhere, and the other way round.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

#: How long a session lasts, in seconds, and how many one user has, and how many there are, at most; the oldest goes
#: first, of the user who begins one, or of the user who has the most.
LASTS_S = 12 * 3600.0
MOST_EACH, _MOST = 20, 10_000


class Sessions:
    """The sessions of this process; a restart ends them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: By name: the token, when it ends, whose it is, and the account of this host that began it.
        self._tokens: dict[str, tuple[str, float, str, int | None]] = {}
        #: The names of each user's sessions, the oldest first.
        self._of_user: dict[str, list[str]] = {}

    def begin(self, token: str, user: str, account: int | None = None) -> str:
        """A session in which ``user`` makes requests with ``token``; returns its name.

        :param account: the uid of the account that asks over the loopback interface; None: it is asked from elsewhere.
        """
        name = secrets.token_urlsafe(32)
        self._tokens[name] = (token, self._now() + LASTS_S, user, account)
        own = self._of_user.setdefault(user, [])
        own.append(name)
        if len(own) > MOST_EACH:
            self.end(own[0])
        elif len(self._tokens) > _MOST:
            self.end(max(self._of_user.values(), key=len)[0])
        return name

    def token(self, name: str, account: int | None = None) -> str:
        """The token of a session; empty when there is none of this name, or no more, or it is another account's."""
        token, until, _, own = self._tokens.get(name, ("", 0.0, "", None))
        if self._now() >= until:
            self.end(name)
            return ""
        return token if account == own else ""

    def end(self, name: str) -> None:
        """Forget a session."""
        found = self._tokens.pop(name, None)
        if found is None:
            return
        own = self._of_user[found[2]]
        own.remove(name)
        if not own:
            del self._of_user[found[2]]
