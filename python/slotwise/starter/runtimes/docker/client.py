"""Runs the docker program, as root or whoever the starter is."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from slotwise.errors import HostError
from slotwise.execution.child_programs import Answer, call
from slotwise.starter.runtimes.docker.state import one_line

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_SOCKET = Path("/var/run/docker.sock")
#: How long the daemon may take to answer, seconds; as in HTCondor.
ANSWER_S = 120.0


def client_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of the docker program: the starter's (DOCKER_HOST, proxies), with its account's HOME."""
    env = {
        name: text for name, text in own.items() if not name.upper().startswith(("SLOTWISE_", "_CONDOR_", "_SLOTWISE"))
    }
    env["PATH"] = PATH
    try:
        env["HOME"] = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        env.pop("HOME", None)
    return env


def _begins(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(2)


class Client(Struct, frozen=True):
    """The docker program. ``control``: the directory by which its processes are known as the starter's."""

    words: tuple[str, ...]
    control: Path
    env: Mapping[str, str] = field(default_factory=lambda: client_environment(os.environ))

    def path(self) -> str | None:
        """Where the program is; None where it is not installed."""
        return shutil.which(self.words[0], path=PATH) if self.words else None

    def command(self) -> tuple[str, ...]:
        """The words that begin each command, with the program's path."""
        return (self.path() or self.words[0], *self.words[1:])

    def daemon_missing(self) -> str:
        """Why Docker's own client cannot reach a daemon, found out without starting it; empty when it may reach one.

        Where Docker's package is there and its service is not, as in many a test machine, starters start quickly.
        """
        path = self.path()
        if path is None or len(self.words) != 1 or Path(path).name != "docker" or self.env.get("DOCKER_HOST"):
            return ""
        contexts = Path(self.env.get("HOME", "/")) / ".docker/contexts"
        with contextlib.suppress(OSError):
            # A script of this name, as podman's package has it, needs no daemon.
            if _SOCKET.exists() or contexts.exists() or _begins(path) == b"#!":
                return ""
        return f"no daemon listens at {_SOCKET}"

    async def call(self, *arguments: str, limit_s: float = ANSWER_S, given: bytes = b"") -> Answer:
        """Run it to its end.

        :raises OSError: when it cannot be started.
        """
        return await call(
            [*self.command(), *arguments], self.control, cwd="/", env=self.env, limit_s=limit_s, given=given
        )

    async def output(self, *arguments: str, limit_s: float = ANSWER_S, given: bytes = b"") -> str:
        """What it prints.

        :raises HostError: when it cannot be started or fails, with its words.
        """
        try:
            answer = await self.call(*arguments, limit_s=limit_s, given=given)
        except OSError as error:
            raise HostError(f"{self.words[0]}: {error.strerror or error}") from None
        if answer.status != 0:
            said = one_line(answer.errors or answer.output)
            killed = f"no answer in {limit_s:g} s" if answer.status < 0 else f"exit status {answer.status}"
            raise HostError(f"{self.words[0]} {arguments[0]}: {said or killed}")
        return answer.output
