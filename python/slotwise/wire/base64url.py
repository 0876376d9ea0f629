"""Base64 as tokens, keys and addresses have it: the alphabet of URLs, without padding (RFC 7515, section 2)."""

from __future__ import annotations

import base64


def encoded(data: bytes) -> str:
    """The text of some bytes."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """The bytes of a text of :func:`encoded`.

    :raises ValueError: when it is none.
    """
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
