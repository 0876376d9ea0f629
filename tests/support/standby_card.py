"""The standby power of an emulated machine's network card, which qemu does not have.

It hears magic packets on the wire, and wakes the machine by its monitor, or starts it.

    python standby_card.py INTERFACE MAC MONITOR LOG COMMAND...      the command starts a machine that is off
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

_ALL_FRAMES = 0x0003
#: Packets that come within this time are one call (seconds): a machine that is starting has no monitor yet.
_DEAF_S = 2.0


def ask(monitor: str, command: str, **arguments: str) -> dict[str, object] | None:
    """The answer of a machine's monitor (QMP); None when there is no machine."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            line.connect(monitor)
            with line.makefile("rw") as talk:
                for said in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                    talk.write(json.dumps(said) + "\n")
                    talk.flush()
                    answer: dict[str, object] = {}
                    while "return" not in answer and "error" not in answer:
                        text = talk.readline()
                        if not text:
                            return None
                        answer = json.loads(text)
    except OSError:
        return None
    found = answer.get("return")
    return found if isinstance(found, dict) else answer


def status(monitor: str) -> str:
    """``running``, ``suspended`` ...; ``off`` when there is no machine."""
    found = ask(monitor, "query-status")
    return "off" if found is None else str(found.get("status"))


def listen(interface: str, mac: str, monitor: str, log: Path, start: list[str]) -> None:
    """Wake the machine by each packet that calls it, for ever."""
    wanted = b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_FRAMES)) as wire:
        wire.bind((interface, 0))
        until = 0.0
        while True:
            frame = wire.recv(4096)
            if wanted not in frame or time.monotonic() < until:
                continue
            before = status(monitor)
            with log.open("a") as file:
                print(before, file=file, flush=True)
            if before == "suspended":
                ask(monitor, "system_wakeup")
            elif before == "off":
                subprocess.run(start, check=True)
            until = time.monotonic() + _DEAF_S


if __name__ == "__main__":
    listen(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5:])
