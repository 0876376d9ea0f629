"""The disk of the machine that a host is probed with; ``probe_guest.S`` is its source."""

from __future__ import annotations

import base64

_CODE = base64.b64decode(
    "+jHAjtiOwI7QvAB8/L8AELkADGYxwGbzq8cGABADIMcGACADMMcGADCDAGa4ABAAAA8i2A8g4AwgDyLgZrmAAADADzKAzAEP"
    "MA8BFpB8DyDAZg0BAACADyLA6l98CAC5gJaYALsAEAAASAMD/8l1+Wa6BAZmuAAgZu/06/2NdgAAAAAAAAAAAAAAAAAAmiAA"
    "DwCAfA=="
)
_SECTOR = 512
_SIZE = 1 << 20


def disk() -> bytes:
    """The content of the disk: a boot sector, and nothing."""
    return _CODE.ljust(_SECTOR - 2, b"\0") + b"\x55\xaa" + bytes(_SIZE - _SECTOR)
