"""Slotwise: the resource manager that a high-throughput-computing pool runs on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

__all__ = ["__version__", "environment"]

# Host names as the host knows them (nsswitch.conf). gRPC's own resolver knows /etc/hosts and DNS alone, and waits for a
# DNS server even for names in that file: ten seconds where none answers. It reads this when it is imported.
_RESOLVER = "GRPC_DNS_RESOLVER"
_ADDED = {_RESOLVER} - os.environ.keys()
os.environ.setdefault(_RESOLVER, "native")


def environment() -> dict[str, str]:
    """The environment that this process was given, as jobs get it by ``getenv``: without the resolver, and without the
    LC_CTYPE that Python itself sets in place of the C locale."""
    added = _ADDED | ({"LC_CTYPE"} if os.environ.get("LC_CTYPE") in _COERCED and not _had("LC_CTYPE") else set())
    return {name: value for name, value in os.environ.items() if name not in added}


#: What Python makes of the C locale (PEP 538).
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")


def _had(name: str) -> bool:
    """Whether a variable was in the environment when this process began."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return any(entry.startswith(name.encode() + b"=") for entry in file.read().split(b"\0"))
    except OSError:
        return True


#: The version of the workspace in `Cargo.toml`, which is the only place that states it.
__version__: str

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        """``__version__``, without loading the native module for those who do not ask."""
        if name == "__version__":
            from slotwise._native import __version__

            return __version__
        raise AttributeError(f"module 'slotwise' has no attribute {name!r}")
