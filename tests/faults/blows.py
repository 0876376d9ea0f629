"""The faults: each is dealt, lasts for a while, and is over when it returns."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

from slotwise.daemon import process

from tests.faults.set_time import SetTime
from tests.support.pool import Pool
from tests.support.small_disk import SmallDisk
from tests.support.waiting import LIMIT_S

_DAEMONS = ("collector", "negotiator", "schedd", "starter", "startd", "front")
#: Those that a lack of descriptors is tried on: each opens files of jobs.
_OPENING = ("schedd", "starter", "startd")


class Blows:
    """Deals faults to a pool.

    :param home: the disk of the pool's home, and ``users`` that of its user's files; None where none can be mounted.
    :param clock: the time of day of its processes; None where it cannot be set.
    """

    def __init__(
        self,
        pool: Pool,
        choose: random.Random,
        home: SmallDisk | None,
        users: SmallDisk | None,
        clock: SetTime | None = None,
    ) -> None:
        self._pool, self._choose = pool, choose
        self._home, self._users = home, users
        self._clock = clock
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
        if home is not None and users is not None:
            self.kinds["full home"] = lambda: self._fill(home)
            self.kinds["full disk of the user"] = lambda: self._fill(users)
            self.kinds["full home and kill"] = lambda: self._fill(home, then_kill=True)

    def deal(self) -> str:
        """One fault; returns what it was."""
        kind = self._choose.choice(sorted(self.kinds))
        return f"{kind}: {self.kinds[kind]()}"

    def heal(self) -> None:
        """Nothing is amiss any more; the pool is up."""
        if self._clock is not None:
            self._clock.by(0)
        for disk in (self._home, self._users):
            if disk is not None:
                disk.make_room()
        for pid in self._pool.pids().values():
            process.send(pid, signal.SIGCONT)
        self._pool.until(
            "the pool is up", lambda: self._pool.run("up", check=False).returncode == 0, limit_s=5 * LIMIT_S
        )

    def _last(self, most_s: float) -> str:
        """The fault lasts for a while."""
        lasts_s = self._choose.uniform(0.2, most_s)
        time.sleep(lasts_s)
        return f"{lasts_s:.1f} s"

    def _strike(self, name: str, number: signal.Signals) -> bool:
        pid = self._pool.pid(name)
        if pid is not None:
            process.send(pid, number)
        return pid is not None

    def _kill(self) -> str:
        name = self._choose.choice(_DAEMONS)
        return name if self._strike(name, signal.SIGKILL) else f"no {name}"

    def _kill_all(self) -> str:
        struck = [name for name in _DAEMONS if self._strike(name, signal.SIGKILL)]
        return " ".join(struck)

    def _kill_with_master(self) -> str:
        """Nobody starts anything again, but for the administrator, later."""
        names = ["spawner", "master", *self._choose.sample(_DAEMONS, self._choose.randint(0, len(_DAEMONS)))]
        struck = [name for name in names if self._strike(name, signal.SIGKILL)]
        lasts = self._last(5)
        self._pool.run("up", check=False)
        return f"{' '.join(struck)}, {lasts}"

    def _stop(self) -> str:
        names = self._choose.sample(_DAEMONS, self._choose.randint(1, 3))
        stopped = {name: self._pool.pid(name) for name in names}
        for pid in stopped.values():
            if pid is not None:
                process.send(pid, signal.SIGSTOP)
        lasts = self._last(20)
        for pid in stopped.values():
            if pid is not None:
                process.send(pid, signal.SIGCONT)
        return f"{' '.join(names)}, {lasts}"

    def _restart(self) -> str:
        name = self._choose.choice(_DAEMONS)
        mode = self._choose.choice([(), ("--keep",)])
        done = self._pool.run("restart", *mode, name, check=False)
        return f"{name} {' '.join(mode)}: {done.returncode}"

    def _down_and_up(self) -> str:
        mode = self._choose.choice([("--fast",), ("--graceful",)])
        down = self._pool.run("down", *mode, check=False)
        lasts = self._last(3)
        up = self._pool.run("up", check=False)
        return f"{' '.join(mode)}: {down.returncode}, {lasts}, {up.returncode}"

    def _set(self, clock: SetTime) -> str:
        """The clock jumps by up to a day, either way, and mostly back again."""
        by_s = self._choose.choice((-1, 1)) * self._choose.choice((2, 90, 3600, 86400))
        clock.by(by_s)
        lasts = self._last(15)
        if back := self._choose.random() < 0.8:
            clock.by(0)
        return f"{by_s:+d} s, {lasts}{', and back' * back}"

    def _few_descriptors(self) -> str:
        name = self._choose.choice(_OPENING)
        pid = self._pool.pid(name)
        if pid is None:
            return f"no {name}"
        lasts = ""
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 2, limits[1]))
            try:
                lasts = self._last(10)
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        return f"{name}, {lasts}"

    def _fill(self, disk: SmallDisk, *, then_kill: bool = False) -> str:
        with contextlib.suppress(OSError):
            disk.fill()
        struck = ""
        if then_kill:
            time.sleep(self._choose.uniform(0, 1))
            victims = [name for name in _DAEMONS if self._choose.random() < 0.5]
            struck = " ".join(name for name in victims if self._strike(name, signal.SIGKILL))
        lasts = self._last(15)
        disk.make_room()
        return f"{struck} {lasts}".strip()
