"""The text of a join token: where the pool is, how to know it, and the secret that admits a host."""

from __future__ import annotations

import json

from msgspec import Struct

from slotwise.errors import UsageError
from slotwise.wire import base64url

_PREFIX = "slotwise-join-"


class JoinToken(Struct, frozen=True):
    """A join token.

    :param collector: ``host:port`` of the pool's collector.
    :param fingerprint: of the pool's authority.
    """

    collector: str
    fingerprint: str
    token_id: str
    secret: str

    def text(self) -> str:
        """One word, for a file or a variable."""
        parts = [self.collector, self.fingerprint, self.token_id, self.secret]
        return _PREFIX + base64url.encoded(json.dumps(parts).encode())

    @property
    def shown(self) -> str:
        """What the collector is shown."""
        return f"{self.token_id}.{self.secret}"

    @classmethod
    def of_text(cls, text: str) -> JoinToken:
        """The token of such a word.

        :raises UsageError: when it is none.
        """
        word = text.strip()
        try:
            if not word.startswith(_PREFIX):
                raise ValueError
            parts = json.loads(base64url.decoded(word.removeprefix(_PREFIX)))
            if len(parts) != 4 or not all(isinstance(part, str) for part in parts):
                raise ValueError
            return cls(*parts)
        except (ValueError, TypeError, RecursionError):
            raise UsageError("this is not a join token", hint="`slotwise node token` makes one") from None
