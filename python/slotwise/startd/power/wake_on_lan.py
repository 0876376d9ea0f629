"""Whether the network card can wake the machine, as ethtool has it."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

from msgspec import Struct

_SIOCETHTOOL = 0x8946
_ETHTOOL_GWOL = 5
_MAGIC = 0x20
#: Bits of the kernel's ``WAKE_...`` and their names in ads.
_FLAGS = (
    (0x01, "Physical Packet"),
    (0x02, "UniCast Packet"),
    (0x04, "MultiCast Packet"),
    (0x08, "BroadCast Packet"),
    (0x10, "ARP Packet"),
    (_MAGIC, "Magic Packet"),
    (0x40, "Secure Magic Packet"),
)


class WakeOnLan(Struct, frozen=True):
    """Bits of what the card can be woken by, and of what it is set to be woken by."""

    supported: int = 0
    enabled: int = 0

    @property
    def wakes(self) -> bool:
        """Whether some packet wakes the machine."""
        return bool(self.supported & self.enabled)

    def attributes(self) -> dict[str, bool | str]:
        """What a slot's ad says of it."""
        return {
            "IsWakeOnLanSupported": bool(self.supported & _MAGIC),
            "IsWakeOnLanEnabled": bool(self.enabled & _MAGIC),
            "IsWakeAble": self.wakes,
            "WakeOnLanSupportedFlags": _named(self.supported),
            "WakeOnLanEnabledFlags": _named(self.enabled),
        }


def read(interface: str) -> WakeOnLan:
    """What the driver of an interface says; nothing where it says nothing, or only to root."""
    info = array.array("B", struct.pack("=III6x2x", _ETHTOOL_GWOL, 0, 0))
    address, _ = info.buffer_info()
    request = struct.pack("16sP16x", interface.encode()[:15], address)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCETHTOOL, request)
    except OSError:
        return WakeOnLan()
    _, supported, enabled = struct.unpack_from("=III", info.tobytes())
    return WakeOnLan(supported, enabled)


def _named(bits: int) -> str:
    return ",".join(name for bit, name in _FLAGS if bits & bit) or "NONE"
