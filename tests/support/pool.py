"""A real pool for tests: real processes in a home of its own, ended whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import slotwise
from slotwise.cli import registry
from slotwise.daemon import lock, process
from slotwise.daemon.registry import DAEMONS
from slotwise.home import PoolHome

from tests.support import nursery
from tests.support.waiting import LIMIT_S, block_until

_PACKAGE_PATH = str(Path(slotwise.__file__).parent.parent)
# The command as users have it: a running pool's command server takes it, a process of its own does without one.
_LAUNCHER = str(Path(sys.executable).parent / "slotwise")


def wants_an_interpreter(words: Sequence[str]) -> bool:
    """Whether no command server would run the command: the launcher becomes an interpreter then."""
    entry = registry.find(words[0]) if words else None
    return entry is not None and not entry.may_be_resident(list(words[1:]))


class Pool:
    """A pool under ``root``; ``config`` is the text of its configuration file."""

    #: What runs the command of the installation whose pool this is.
    command: Sequence[str] = (_LAUNCHER,)
    #: What a program is started by so that it runs as the account whose pool this is; nothing for the tests' own.
    account: Sequence[str] = ()
    #: Whether the nursery runs what no command server does, as a fork: such processes have libraries of its choice.
    forks = True

    def __init__(self, root: Path, config: str = "") -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.home = PoolHome(root / "home")
        self.config_file = root / "condor_config"
        self.config_file.write_text(config)
        # Of the caller's own settings none counts, nor one that makes Python write at once: few people have it.
        foreign = ("SLOTWISE_", "_CONDOR_", "CONDOR_", "PYTHONUNBUFFERED")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)} | {
            "SLOTWISE_HOME": str(self.home.root),
            "CONDOR_CONFIG": str(self.config_file),
            "PYTHONPATH": _PACKAGE_PATH,
            # Where the tests run as root, root's are the jobs.
            "_CONDOR_SLOTWISE_MIN_UID": "0",
        }
        if "benchmark" not in config.lower():
            # They take two seconds of a core, which each pool would take from the tests beside it.
            self.env["_CONDOR_RUNBENCHMARKS"] = "False"
        if os.geteuid():
            # Jobs of a pool of root's have accounts and directories of their own; an ordinary user's would run where
            # they were submitted.
            self.env["_CONDOR_SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES"] = "YES"
        self.env["_CONDOR_SLOTWISE_START_TIMEOUT"] = f"{LIMIT_S:g}"

    def run(
        self, *words: str, check: bool = True, timeout: float = 2 * LIMIT_S, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``slotwise`` with ``words``; fails the test when it does and ``check`` is set."""
        if self.forks and self.command == Pool.command and wants_an_interpreter(words):
            done = nursery.run(words, self.env | env, cwd or self.root, timeout)
        else:
            done = subprocess.run(
                [*self.command, *words],
                env=self.env | env,
                cwd=cwd or self.root,
                capture_output=True,
                text=True,
                errors="surrogateescape",
                timeout=timeout,
            )
        return self._checked(done, words) if check else done

    def _checked(
        self, done: subprocess.CompletedProcess[str], words: Sequence[str]
    ) -> subprocess.CompletedProcess[str]:
        if done.returncode:
            raise AssertionError(f"slotwise {' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Start ``slotwise`` with ``words`` and let it run; its output is dropped."""
        quiet = subprocess.DEVNULL
        words = (sys.executable, "-m", "slotwise", *words)
        return subprocess.Popen(words, env=self.env, cwd=self.root, stdin=quiet, stdout=quiet, stderr=quiet)

    def json(self, *words: str) -> Any:
        """What a command prints with ``--json``."""
        return json.loads(self.run(*words, "--json").stdout)

    def up(self) -> None:
        """Start the pool."""
        self.run("up")

    def down(self) -> None:
        """Stop the pool, fast, and see that no daemon is left."""
        self.run("down", "--fast")
        left = self.pids()
        assert not left, f"daemons left after `down`: {left}"

    def pid(self, daemon: str) -> int | None:
        """The process that is ``daemon`` now."""
        return lock.holder(self.home, daemon)

    def pids(self) -> dict[str, int]:
        """All daemons that live, the spawner included."""
        found = {name: self.pid(name) for name in (*DAEMONS, "spawner")}
        return {name: pid for name, pid in found.items() if pid is not None}

    def kill(self, daemon: str) -> int:
        """``kill -9`` the daemon and wait until it is gone; returns the pid it had."""
        pid = self.pid(daemon)
        assert pid is not None, f"no {daemon} lives"
        os.kill(pid, signal.SIGKILL)
        assert process.wait_gone(pid, LIMIT_S)
        return pid

    def stop(self, daemon: str) -> int:
        """``kill -STOP`` the daemon; returns its pid."""
        pid = self.pid(daemon)
        assert pid is not None, f"no {daemon} lives"
        os.kill(pid, signal.SIGSTOP)
        return pid

    def until(self, what: str, true: Callable[..., Any], *, limit_s: float = LIMIT_S) -> Any:
        """Wait until ``true()`` gives something; a failure shows the queue and the ends of all logs."""
        return block_until(true, what, limit_s=limit_s, told=lambda: f"{self.jobs()}\n{self.logs()}")

    def answers(self, daemon: str) -> bool:
        """Whether the daemon answers a ping."""
        return self.run("ping", "--quiet", daemon, check=False).returncode == 0

    def jobs(self) -> str:
        """What the queue tells of its jobs and why they wait; for messages of failed tests."""
        names = (
            "ClusterId ProcId JobStatus EnteredCurrentStatus RemoteHost HoldReason VacateReason JobCoolDownExpiration"
        )
        told = self.run("q", "-limit", "20", "-af:l", *names.split(), check=False)
        return f"--- q\n{told.stdout}{told.stderr}"

    def logs(self, lines: int = 15) -> str:
        """The ends of all logs."""
        parts = []
        for path in sorted(self.home.log.glob("*")):
            if path.is_file():
                tail = path.read_text(errors="replace").splitlines()[-lines:]
                parts += [f"--- {path.name}", *tail]
        return "\n".join(parts)

    def destroy(self) -> None:
        """End everything by force, for the end of a test that failed."""
        if self.pids():
            self.run("down", "--fast", check=False)
        for pid in self.pids().values():
            process.send(pid, signal.SIGKILL)
        if self.home.execute.parent != self.home.root:
            shutil.rmtree(self.home.execute.parent, ignore_errors=True)
