"""The wire between hosts, and how it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tests.support.namespaces import Host

_DROPPING = """
table inet faults {{
  chain barred {{ type filter hook {hook} priority -10; policy accept; {way} != lo drop; }}
}}
"""
#: Last numbers of addresses that hosts may be given; those below are their first ones.
_FURTHER = range(32, 250)


class Wire:
    """The hosts that are on it."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._given = 0

    def cut(self, host: Host) -> None:
        """Nothing reaches the host, and nothing comes from it."""
        _ip("link", "set", host.outer, "down")

    def deafen(self, host: Host) -> None:
        """Nothing reaches the host; what it sends arrives."""
        self._drop(host, "input", "iifname")

    def silence(self, host: Host) -> None:
        """Nothing of what the host sends arrives anywhere."""
        self._drop(host, "output", "oifname")

    def renumber(self, host: Host) -> str:
        """Give the host another address, which it returns."""
        number = _FURTHER[self._given % len(_FURTHER)]
        self._given += 1
        host.renumber(number)
        return f"10.77.0.{number}"

    def mend(self, host: Host) -> None:
        """The host reaches all, and all reach it."""
        _ip("link", "set", host.outer, "up")
        self._nft(host, "delete table inet faults", check=False)

    def _drop(self, host: Host, hook: str, way: str) -> None:
        self._nft(host, _DROPPING.format(hook=hook, way=way))

    def _nft(self, host: Host, rules: str, *, check: bool = True) -> None:
        words = ("ip", "netns", "exec", host.namespace, "nft", "-f", "-")
        subprocess.run(words, input=rules, text=True, capture_output=True, check=check)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
