"""Which token a call shows."""

from __future__ import annotations


class SecurityContext:
    """The token, by value, that a caller prefers; without one that of SLOTWISE_TOKEN_FILE counts."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token

    @property
    def preferred_token(self) -> str | None:
        """The token."""
        return self._token

    @preferred_token.setter
    def preferred_token(self, token: str | None) -> None:
        self._token = token

    @preferred_token.deleter
    def preferred_token(self) -> None:
        self._token = None
