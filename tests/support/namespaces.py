"""Hosts as network namespaces on one wire: each with a name, an address and a pool directory of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

from tests.support import nursery
from tests.support.pool import Pool, wants_an_interpreter
from tests.support.waiting import LIMIT_S

#: Within a namespace of its own: host names, the host's own name, then the command.
_INSIDE = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'


class Host(Pool):
    """A pool directory on a host that is a network namespace."""

    def __init__(self, root: Path, name: str, config: str, at: Path | None = None) -> None:
        """:param at: its directory; ``name`` in ``root`` unless it is given."""
        super().__init__(at or root / name, config)
        self.name = name
        self.namespace = f"sw{os.getpid()}{name}"
        #: Its end of the wire, outside of the namespace.
        self.outer = f"sw{os.getpid()}{name}"
        self._hosts = root / "hosts"

    def words(self, *words: str, who: Sequence[str] = ()) -> list[str]:
        """The command line of ``slotwise`` on the host, behind words that make somebody else of root."""
        return [*self._inside(*who), sys.executable, "-m", "slotwise", *words]

    def python(self, program: str, *words: str) -> str:
        """What a Python program prints that runs on the host, as its root."""
        done = subprocess.run(
            [*self._inside(), sys.executable, "-c", program, *words],
            env=self.env,
            cwd=self.root,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def renumber(self, number: int) -> None:
        """Give the host the address 10.77.0.``number``, as another lease of DHCP would, and its name there."""
        lines = self._hosts.read_text().splitlines()
        former = next(line.split()[0] for line in lines if line.endswith(f" {self.name}"))
        for words in (("del", f"{former}/24"), ("add", f"10.77.0.{number}/24")):
            subprocess.run(["ip", "-n", self.namespace, "addr", *words, "dev", "eth0"], check=True, capture_output=True)
        text = self._hosts.read_text()  # written in place: it is mounted on the hosts
        self._hosts.write_text(text.replace(f"{former} {self.name}.", f"10.77.0.{number} {self.name}."))

    def _inside(self, *who: str) -> list[str]:
        inside = ["ip", "netns", "exec", self.namespace, "unshare", "-u", "sh", "-c", _INSIDE, "sh", str(self._hosts)]
        return [*inside, f"{self.name}.example", *who]

    def run(
        self, *words: str, check: bool = True, timeout: float = 2 * LIMIT_S, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_by([], *words, check=check, timeout=timeout, cwd=cwd, **env)

    def run_by(
        self,
        who: list[str],
        *words: str,
        check: bool = True,
        timeout: float = 2 * LIMIT_S,
        cwd: Path | None = None,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``slotwise`` on the host, behind the words of a command that makes somebody else of root."""
        environment, directory = self.env | env, cwd or self.root
        if not who and self.forks and wants_an_interpreter(words):
            place = nursery.Place(self.namespace, str(self._hosts), f"{self.name}.example")
            done = nursery.run(words, environment, directory, timeout, place)
        else:
            done = subprocess.run(
                # Root's commands are those of the host's own command server, where there is one.
                self.words(*words, who=who) if who else [*self._inside(), *self.command, *words],
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        assert not check or done.returncode == 0, f"{self.name}: {words}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done

    def start(self, *words: str, output: IO[str], terminal: int | None = None) -> subprocess.Popen[str]:
        """Start ``slotwise`` on the host and let it run; what it says goes into a file.

        :param terminal: the end of a terminal at which somebody types.
        """
        return subprocess.Popen(
            self.words(*words),
            env=self.env,
            cwd=self.root,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=output,
            stderr=output,
            text=True,
        )


@contextlib.contextmanager
def wired(configs: dict[str, str], places: Mapping[str, Path] = MappingProxyType({})) -> Iterator[dict[str, Host]]:
    """Hosts by name, each with the text of its configuration, on one wire; nothing is started.

    :param places: the directories of those that lie elsewhere, on a disk of their own.
    """
    bridge = f"swb{os.getpid()}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        root.chmod(0o755)
        made = {name: Host(root, name, config, places.get(name)) for name, config in configs.items()}
        lines = [f"10.77.0.{n} {name}.example {name}\n" for n, name in enumerate(made, 2)]
        (root / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
        with contextlib.ExitStack() as undo:
            # Without a delay: else nothing passes for the first 15 s.
            ip("link", "add", bridge, "type", "bridge", "forward_delay", "0")
            undo.callback(ip, "link", "del", bridge)
            ip("link", "set", bridge, "up")
            for n, host in enumerate(made.values(), 2):
                ip("netns", "add", host.namespace)
                undo.callback(ip, "netns", "del", host.namespace)
                outer = host.outer
                ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
                # Goes at once, where that of a name space goes with its last process; others may have moved it.
                undo.callback(subprocess.run, ["ip", "link", "del", outer], capture_output=True)
                ip("link", "set", outer, "master", bridge, "up")
                ip("-n", host.namespace, "addr", "add", f"10.77.0.{n}/24", "dev", "eth0")
                for device in ("eth0", "lo"):
                    ip("-n", host.namespace, "link", "set", device, "up")
            for host in made.values():
                undo.callback(host.destroy)
            yield made
