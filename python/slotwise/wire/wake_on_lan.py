"""The Wake-on-LAN packet: what is sent to wake a machine, and where to.

Source: manual page of condor_power; HTCondor's udp_waker.cpp.
"""

from __future__ import annotations

import ipaddress
import re
import socket

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.errors import UsageError

_ADDRESS = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
#: ``host:port``, or HTCondor's ``<host:port?...>``.
_HOST = re.compile(r"<?([A-Za-z0-9_.-]+):\d+")
#: The port of packets that nobody reads ("discard").
PORT = 9
EVERYWHERE = "255.255.255.255"


class Packet(Struct, frozen=True):
    """A magic packet for a network card, and where it is broadcast."""

    hardware_address: str
    broadcast: str
    port: int

    @property
    def payload(self) -> bytes:
        """Six times 0xFF, then sixteen times the address."""
        return b"\xff" * 6 + bytes.fromhex(self.hardware_address.replace(":", "")) * 16


def packet(hardware_address: str, mask: str = "0.0.0.0", port: int = PORT, ip: str = EVERYWHERE) -> Packet:
    """A packet for the card of ``ip`` in a network with this mask; without a mask it goes to all.

    :raises UsageError: for what is not an address, mask or port.
    """
    if not _ADDRESS.fullmatch(hardware_address):
        raise UsageError(
            f"{hardware_address!r} is not a hardware address", hint="six pairs of hexadecimal digits: 00:1a:2b:3c:4d:5e"
        )
    if not 0 <= port < 65536:
        raise UsageError(f"{port} is not a port", hint="0 (the usual one) to 65535")
    try:
        host_part = int(ipaddress.IPv4Address(mask)) ^ 0xFFFFFFFF
        address = int(ipaddress.IPv4Address(ip))
    except ipaddress.AddressValueError as error:
        raise UsageError(f"no subnet mask or address: {error}", hint="four numbers: 255.255.255.0") from None
    return Packet(hardware_address, str(ipaddress.IPv4Address(host_part | address)), port or PORT)


def for_ad(ad: ClassAd) -> Packet:
    """A packet for the machine of a slot's ad (HardwareAddress, SubnetMask, WakePort, its own address).

    :raises UsageError: when the ad does not say enough.
    """
    hardware, mask, port = ad.eval("HardwareAddress"), ad.eval("SubnetMask"), ad.eval("WakePort")
    if not isinstance(hardware, str) or not isinstance(mask, str):
        missing = "SubnetMask" if isinstance(hardware, str) else "HardwareAddress"
        raise UsageError(f"the ad of {ad.get('Name', 'the machine')} has no {missing}", hint="is it a slot's ad?")
    found = _HOST.match(str(ad.get("MyAddress", "")))
    # A machine that listens on a socket of its own only is in this network.
    ip = resolve(found[1]) if found is not None else EVERYWHERE
    return packet(hardware, mask, port if isinstance(port, int) else PORT, ip)


def resolve(host: str) -> str:
    """The IPv4 address of a host.

    :raises UsageError: when there is none.
    """
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise UsageError(f"{host} has no IPv4 address: {error}", hint="say where it is in /etc/hosts") from None


def send(what: Packet) -> None:
    """Broadcast a packet.

    :raises OSError: when the network does not take it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        opened.sendto(what.payload, (what.broadcast, what.port))
