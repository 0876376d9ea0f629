"""An emulated machine that really sleeps, on a wire of its own, whose network card is played by standby_card.py.

It is made of what ``tests/host/power_guest.sh`` builds. Its host is a network namespace with the central manager in it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support import standby_card
from tests.support.waiting import LIMIT_S, block_until

MAC = "52:54:00:12:34:56"
ADDRESS, HOST_ADDRESS = "10.76.0.2", "10.76.0.1"
#: Emulation is slow: a start to the login takes 40 s on two cores that have nothing else to do.
BOOT_S = 4 * LIMIT_S
_QEMU = """exec ip netns exec {namespace} qemu-system-x86_64 -accel tcg,thread=multi -cpu max -M pc -m 768 -smp 2 \\
  -display none -nodefaults -vga std -serial file:{work}/console -qmp unix:{work}/monitor,server,nowait \\
  -pidfile {work}/pid -daemonize -kernel {image}/vmlinuz -initrd {image}/initrd.gz \\
  -append "console=tty0 console=ttyS0 root=/dev/vda rw mitigations=off nokaslr quiet" \\
  -drive file={work}/root.qcow2,if=virtio,cache=unsafe -drive file={work}/swap.qcow2,if=virtio,cache=unsafe \\
  -netdev tap,id=lan,ifname=tap0,script=no,downscript=no -device e1000,netdev=lan,mac={mac}
"""


def ip(*words: str) -> None:
    """Run ``ip``."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Guest:
    """The machine.

    :param image: the directory that the build script filled.
    :param work: a directory for disks, console and monitor; its name must be short.
    """

    def __init__(self, image: Path, work: Path, namespace: str) -> None:
        self._image = image
        self._work = work
        self._namespace = namespace
        self._start = work / "start"
        #: What the card found when it heard a packet: "suspended", "off", "running", one a line.
        self.heard = work / "heard"

    @contextlib.contextmanager
    def on_its_wire(self) -> Iterator[None]:
        """With namespace, wire and card; the machine is off."""
        self._disk("root.qcow2", "-F", "raw", "-b", str(self._image / "root.ext4"))
        self._disk("swap.qcow2", size="1G")
        self._start.write_text(
            _QEMU.format(namespace=self._namespace, work=self._work, image=self._image.resolve(), mac=MAC)
        )
        with contextlib.ExitStack() as undo:
            ip("netns", "add", self._namespace)
            undo.callback(ip, "netns", "del", self._namespace)
            for words in (
                "link add br0 type bridge", "link set br0 up", "link set lo up", f"addr add {HOST_ADDRESS}/24 dev br0",
                "tuntap add tap0 mode tap", "link set tap0 master br0 up",
                # Something that is always plugged in: a bridge whose only machine is off carries no packets.
                "link add hub0 type veth peer name hub1", "link set hub1 up", "link set hub0 master br0 up",
            ):  # fmt: skip
                ip("-n", self._namespace, *words.split())
            card = ["ip", "netns", "exec", self._namespace, sys.executable, standby_card.__file__, "br0", MAC]
            listener = subprocess.Popen([*card, str(self._work / "monitor"), str(self.heard), "sh", str(self._start)])
            undo.callback(listener.wait)
            undo.callback(listener.kill)
            undo.callback(self.destroy)
            yield

    def _disk(self, name: str, *words: str, size: str = "") -> None:
        command = ["qemu-img", "create", "-q", "-f", "qcow2", *words, str(self._work / name), *([size] if size else [])]
        subprocess.run(command, check=True, capture_output=True)

    def power_on(self) -> None:
        """Press its button, and wait until it can be logged in to."""
        subprocess.run(["sh", str(self._start)], check=True)
        self.until("it can be logged in to", lambda: self.ssh("true", check=False).returncode == 0, limit_s=BOOT_S)

    def rouse(self) -> None:
        """Wake it by its monitor or its button, whatever it does."""
        state = self.state()
        if state == "off":
            self.power_on()
        elif state == "suspended":
            standby_card.ask(str(self._work / "monitor"), "system_wakeup")
        self.until("it can be logged in to", lambda: self.ssh("true", check=False).returncode == 0, limit_s=BOOT_S)

    def ssh(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a script there, as root."""
        options = "StrictHostKeyChecking=no UserKnownHostsFile=/dev/null LogLevel=ERROR ConnectTimeout=20"
        options += " ServerAliveInterval=5"
        words = ["ip", "netns", "exec", self._namespace, "ssh", "-i", str(self._image / "key")]
        words += [word for option in options.split() for word in ("-o", option)]
        done = subprocess.run(
            [*words, f"root@{ADDRESS}", script], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert not check or done.returncode == 0, f"guest: {script}: {done.stdout}{done.stderr}\n{self.journal()}"
        return done

    def put(self, path: str, text: str) -> None:
        """Write a file there, which root may read."""
        where = shlex.quote(str(Path(path).parent))
        self.ssh(f"umask 077; mkdir -p {where}; printf %s {shlex.quote(text)} > {shlex.quote(path)}")

    def state(self) -> str:
        """``running``, ``suspended``, ``off``."""
        return standby_card.status(str(self._work / "monitor"))

    def journal(self) -> str:
        """The ends of its logs."""
        return self.ssh("journalctl -q -n 20 -u slotwise; tail -n 15 /var/lib/slotwise/log/*", check=False).stdout

    def console(self, most: int = 1500) -> str:
        """The end of what it wrote to its console."""
        path = self._work / "console"
        return path.read_text(errors="replace")[-most:] if path.exists() else ""

    def until(self, what: str, true: Callable[..., Any], *, limit_s: float = LIMIT_S) -> Any:
        """Wait until ``true()`` gives something; a failure shows its state and its console."""
        return block_until(true, what, limit_s=limit_s, told=lambda: f"it is {self.state()}\n{self.console()}")

    def destroy(self) -> None:
        """Pull its plug."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self._work / "pid").read_text()), signal.SIGKILL)
