"""How long keyboard and console have been idle: terminals of logged-in users, the console, the mouse, X servers.

A terminal's access time moves with every key. Sessions come from utmp where there is one, else all pseudo terminals
count. Times lie in seconds before ``now``; what has never been touched was touched when the startd began.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable
from pathlib import Path

from slotwise.startd.fingerprint import Attributes

#: A record of utmp(5) on Linux: type, pid, line, id, user, host, exit, session, time, address, rest.
_UTMP = struct.Struct("<h2xi32s4s32s256shhiii16s20s")
_USER_PROCESS = 7


def read(
    now: float,
    started_at: float,
    *,
    root: Path = Path("/"),
    console_devices: Iterable[str] = ("mouse", "console"),
    x_input: float | None = None,
) -> Attributes:
    """KeyboardIdle and ConsoleIdle. KeyboardIdle counts the console too, and remote sessions; ConsoleIdle only it.

    ``x_input``: when an X server last saw input, which counts as the console's.
    """
    dev = root / "dev"
    console = [_touched(dev / name) for name in console_devices]
    console += [_touched(path) for path in _numbered(dev, "tty")]
    console += [_touched(path) for path in _input_devices(dev)]
    terminals = [_touched(dev / line) for line in _sessions(root)]
    console_at = max((at for at in console if at is not None), default=started_at)
    console_at = max(console_at, x_input or 0.0)
    keyboard_at = max([console_at, *(at for at in terminals if at is not None)])
    return {
        "KeyboardIdle": max(0, int(now - max(keyboard_at, 0.0))),
        "ConsoleIdle": max(0, int(now - max(console_at, 0.0))),
    }


def disconnected(now: float, started_at: float, boost_s: float = 1200) -> Attributes:
    """What slots see that are connected to neither: time since the startd began, and a little."""
    idle = int(now - started_at + boost_s)
    return {"KeyboardIdle": idle, "ConsoleIdle": idle}


def _touched(device: Path) -> float | None:
    try:
        return device.stat().st_atime
    except OSError:
        return None


def _numbered(dev: Path, stem: str) -> list[Path]:
    """tty1 to tty12: virtual consoles, not serial lines."""
    return [dev / f"{stem}{number}" for number in range(1, 13)]


def _input_devices(dev: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in (dev / "input").iterdir() if path.name.startswith(("mouse", "mice"))]
    return []


def _sessions(root: Path) -> list[str]:
    """Terminal lines of logged-in users, without ``/dev/``; all pseudo terminals when there is no utmp."""
    for name in ("run/utmp", "var/run/utmp"):
        try:
            data = (root / name).read_bytes()
        except OSError:
            continue
        records = _UTMP.iter_unpack(data[: len(data) // _UTMP.size * _UTMP.size])
        return [record[2].rstrip(b"\0").decode(errors="replace") for record in records if record[0] == _USER_PROCESS]
    with contextlib.suppress(OSError):
        return [f"pts/{path.name}" for path in (root / "dev/pts").iterdir() if path.name.isdigit()]
    return []
