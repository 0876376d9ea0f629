"""The address of this host that a knob means: NETWORK_INTERFACE and PRIVATE_NETWORK_INTERFACE."""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
from collections.abc import Iterable

from slotwise.errors import ConfigError
from slotwise.model.knobs import Knobs


def chosen(config: Knobs, knob: str) -> str:
    """The address that ``knob`` chooses of those that this host has; empty where it leaves the choice open.

    :raises ConfigError: when no address of the host fits.
    """
    wanted = (config.get(knob) or "").replace(",", " ").split()
    if not wanted or "*" in wanted:
        return ""
    import psutil  # only hosts with such a knob need it here

    found = [
        (device, entry.address.partition("%")[0])
        for device, entries in sorted(psutil.net_if_addrs().items())
        for entry in entries
        if entry.family in (socket.AF_INET, socket.AF_INET6)
    ]
    if best := select(wanted, found):
        return best
    raise ConfigError(
        f"{knob} = {' '.join(wanted)} is no address or device of this host",
        hint="write an address, a pattern of addresses (10.1.*) or a device (eth0)",
        key=knob,
    )


def select(wanted: Iterable[str], addresses: Iterable[tuple[str, str]]) -> str:
    """The address that the words ``wanted`` mean, among ``(device, address)``; empty when none fits.

    Of several the one that others reach best: public before private, that before the loopback, IPv4 before IPv6.
    Source: administrators' manual, NETWORK_INTERFACE.
    """
    patterns = [word.strip("[]").lower() for word in wanted]
    fits = [
        address
        for device, address in addresses
        if any(fnmatch.fnmatchcase(address.lower(), p) or fnmatch.fnmatchcase(device.lower(), p) for p in patterns)
    ]
    return min(fits, key=_rank, default="")


def _rank(address: str) -> tuple[bool, bool, bool, int]:
    ip = ipaddress.ip_address(address)
    return ip.is_loopback, ip.is_link_local, ip.is_private, ip.version
