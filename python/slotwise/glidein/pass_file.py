"""The file that a glide-in is given: a token that only advertises, where the pool is, and how to know it. Pure.

::

    eyJhbGciOi...                        the token, as in every file of a token
    # pool: cm.example:9618
    -----BEGIN CERTIFICATE-----          the authorities that sign the certificates of the pool's hosts; none where
    ...                                  addresses name keys
"""

from __future__ import annotations

import re

from msgspec import Struct

_POOL = re.compile(r"^#\s*pool:\s*(\S+)\s*$", re.MULTILINE)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?")


class Pass(Struct, frozen=True):
    """What the file says; ``pool`` and ``authorities`` are empty where it does not."""

    token: str
    pool: str = ""
    authorities: str = ""

    def text(self) -> str:
        """The file."""
        pool = f"# pool: {self.pool}\n" if self.pool else ""
        return f"{self.token}\n{pool}{self.authorities}"

    @classmethod
    def of_text(cls, text: str) -> Pass:
        """What a file says; the token is empty where there is none."""
        words = text.split(None, 1)
        token = words[0] if words and words[0].count(".") == 2 else ""
        pool = _POOL.search(text)
        return cls(token, pool[1] if pool else "", "".join(_CERTIFICATE.findall(text)))
