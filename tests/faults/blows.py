"""The faults: each is dealt, lasts for a while, and is over when it returns, but for hosts that are apart."""

from __future__ import annotations

import contextlib
import math
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

from slotwise.daemon import process

from tests.faults.set_time import SetTime
from tests.faults.site import Site
from tests.faults.wire import Wire
from tests.support.namespaces import Host
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

#: Those that are no blow of their own, see :meth:`Blows._kill_with_master`.
_OVERSEERS = ("master", "spawner")
#: Those that a lack of descriptors is tried on: each opens files of jobs.
_OPENING = ("schedd", "starter", "startd")
#: How long hosts are apart at most, seconds: some jobs' leases end meanwhile.
_APART_S = 100


class Blows:
    """Deals faults to a pool that is up.

    :param clock: the time of day of its processes; None where it cannot be set.
    """

    def __init__(self, site: Site, choose: random.Random, clock: SetTime | None = None) -> None:
        self._site, self._choose, self._clock = site, choose, clock
        #: Daemons of each host.
        self._daemons = [(host, sorted(name for name in host.pids() if name not in _OVERSEERS)) for host in site.hosts]
        #: Hosts that others do not reach, or that do not reach them, and until when (monotonic).
        self._apart: dict[Host, float] = {}
        self.kinds: dict[str, Callable[[], str]] = {
            "kill": self._kill,
            "kill all": self._kill_all,
            "kill with master": self._kill_with_master,
            "stop": self._stop,
            "restart": self._restart,
            "down and up": self._down_and_up,
            "few descriptors": self._few_descriptors,
        }
        if clock is not None:
            self.kinds["clock"] = lambda: self._set(clock)
        if site.disks:
            self.kinds["full disk"] = self._fill
            self.kinds["full disk and kill"] = lambda: self._fill(then_kill=True)
        if (wire := site.wire) is not None:
            self.kinds["cut off"] = lambda: self._part(wire, wire.cut)
            self.kinds["deaf"] = lambda: self._part(wire, wire.deafen)
            self.kinds["mute"] = lambda: self._part(wire, wire.silence)
            self.kinds["another address"] = lambda: self._renumber(wire)

    def deal(self) -> str:
        """One fault; returns what it was."""
        self._rejoin(time.monotonic())
        kind = self._choose.choice(sorted(self.kinds))
        return f"{kind}: {self.kinds[kind]()}"

    def heal(self) -> None:
        """Nothing is amiss any more; the pool is up."""
        if self._clock is not None:
            self._clock.by(0)
        self._rejoin(math.inf)
        for disk in self._site.disks:
            disk.make_room()
        for host, _ in self._daemons:
            for pid in host.pids().values():
                process.send(pid, signal.SIGCONT)
        for host, _ in self._daemons:
            host.until("the host is up", lambda at=host: at.run("up", check=False).returncode == 0, limit_s=5 * LIMIT_S)

    def _of_a_host(self) -> tuple[Pool, list[str]]:
        """A host, and its daemons."""
        return self._choose.choice(self._daemons)

    def _named(self, host: Pool) -> str:
        """How lines about the host begin."""
        return f"{host.name} " if isinstance(host, Host) else ""

    def _last(self, most_s: float) -> str:
        """The fault lasts for a while."""
        lasts_s = self._choose.uniform(0.2, most_s)
        time.sleep(lasts_s)
        return f"{lasts_s:.1f} s"

    def _strike(self, host: Pool, name: str, number: signal.Signals) -> bool:
        pid = host.pid(name)
        if pid is not None:
            process.send(pid, number)
        return pid is not None

    def _kill(self) -> str:
        host, daemons = self._of_a_host()
        name = self._choose.choice(daemons)
        struck = self._strike(host, name, signal.SIGKILL)
        return f"{self._named(host)}{name}{'' if struck else ', which did not live'}"

    def _kill_all(self) -> str:
        """Of one host or of all hosts at once."""
        struck = [self._of_a_host()] if self._choose.random() < 0.5 else self._daemons
        return " ".join(
            f"{self._named(host)}{name}"
            for host, daemons in struck
            for name in daemons
            if self._strike(host, name, signal.SIGKILL)
        )

    def _kill_with_master(self) -> str:
        """Nobody starts anything again, but for the administrator, later."""
        host, daemons = self._of_a_host()
        names = ["spawner", "master", *self._choose.sample(daemons, self._choose.randint(0, len(daemons)))]
        struck = [name for name in names if self._strike(host, name, signal.SIGKILL)]
        lasts = self._last(5)
        host.run("up", check=False)
        return f"{self._named(host)}{' '.join(struck)}, {lasts}"

    def _stop(self) -> str:
        host, daemons = self._of_a_host()
        names = self._choose.sample(daemons, self._choose.randint(1, min(3, len(daemons))))
        stopped = {name: host.pid(name) for name in names}
        for pid in stopped.values():
            if pid is not None:
                process.send(pid, signal.SIGSTOP)
        lasts = self._last(20)
        for pid in stopped.values():
            if pid is not None:
                process.send(pid, signal.SIGCONT)
        return f"{self._named(host)}{' '.join(names)}, {lasts}"

    def _restart(self) -> str:
        host, daemons = self._of_a_host()
        name = self._choose.choice(daemons)
        mode = self._choose.choice([(), ("--keep",)])
        done = host.run("restart", *mode, name, check=False)
        return f"{self._named(host)}{name} {' '.join(mode)}: {done.returncode}"

    def _down_and_up(self) -> str:
        host, _ = self._of_a_host()
        mode = self._choose.choice([("--fast",), ("--graceful",)])
        down = host.run("down", *mode, check=False)
        lasts = self._last(3)
        up = host.run("up", check=False)
        return f"{self._named(host)}{' '.join(mode)}: {down.returncode}, {lasts}, {up.returncode}"

    def _part(self, wire: Wire, part: Callable[[Host], None]) -> str:
        """A host is apart from the others, for longer than a job's lease now and then; meanwhile others are dealt."""
        host = self._choose.choice(wire.hosts)
        if host in self._apart:
            return f"{host.name}, which is apart as it is"
        lasts_s = self._choose.uniform(1, _APART_S)
        part(host)
        self._apart[host] = time.monotonic() + lasts_s
        return f"{host.name}, for {lasts_s:.1f} s"

    def _rejoin(self, now: float) -> None:
        """End what :meth:`_part` began and what is over at this time."""
        if (wire := self._site.wire) is None:
            return
        for host in [host for host, until in self._apart.items() if until <= now]:
            wire.mend(host)
            del self._apart[host]

    def _renumber(self, wire: Wire) -> str:
        host = self._choose.choice(wire.hosts)
        return f"{host.name}, {wire.renumber(host)}"

    def _set(self, clock: SetTime) -> str:
        """The clock jumps by up to a day, either way, and mostly back again."""
        by_s = self._choose.choice((-1, 1)) * self._choose.choice((2, 90, 3600, 86400))
        clock.by(by_s)
        lasts = self._last(15)
        if back := self._choose.random() < 0.8:
            clock.by(0)
        return f"{by_s:+d} s, {lasts}{', and back' * back}"

    def _few_descriptors(self) -> str:
        opening = [(host, name) for host, daemons in self._daemons for name in daemons if name in _OPENING]
        host, name = self._choose.choice(opening)
        pid = host.pid(name)
        if pid is None:
            return f"{self._named(host)}no {name}"
        lasts = ""
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 2, limits[1]))
            try:
                lasts = self._last(10)
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        return f"{self._named(host)}{name}, {lasts}"

    def _fill(self, *, then_kill: bool = False) -> str:
        disk = self._choose.choice(self._site.disks)
        with contextlib.suppress(OSError):
            disk.fill()
        what = next((f"{self._named(host)}home" for host, _ in self._daemons if host.root == disk.at), "the user's")
        struck: list[str] = []
        if then_kill:
            time.sleep(self._choose.uniform(0, 1))
            for host, daemons in self._daemons:
                victims = [name for name in daemons if self._choose.random() < 0.5]
                struck += [name for name in victims if self._strike(host, name, signal.SIGKILL)]
        lasts = self._last(15)
        disk.make_room()
        return " ".join([what, *struck, lasts])
