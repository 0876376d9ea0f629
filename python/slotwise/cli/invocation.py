"""What a command gets from its caller instead of the process's globals.

A resident server answers many callers from one process, so a command must take its directory, environment and
streams from here and never from ``os`` or ``sys``.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from slotwise.cli.terminal import shown
from slotwise.home import PoolHome

if TYPE_CHECKING:
    import grpc


@dataclass
class Invocation:
    """One call of a command.

    ``channels`` caches open channels by target; the resident server shares one cache between calls.
    """

    cwd: Path
    env: Mapping[str, str]
    stdin: IO[str]
    stdout: IO[str]
    stderr: IO[str]
    is_terminal: bool = False
    width: int = 80
    uid: int = 0
    channels: dict[str, grpc.Channel] = field(default_factory=dict, repr=False)
    #: ``host:port`` of another pool's collector, and the name of a daemon there, when the caller named them.
    pool: str | None = None
    daemon_name: str | None = None

    @classmethod
    def of_process(cls) -> Invocation:
        """The call that started this process."""
        terminal = sys.stdout.isatty()
        width = os.get_terminal_size(sys.stdout.fileno()).columns if terminal else 80
        return cls(
            cwd=Path.cwd(),
            env=dict(os.environ),
            stdin=sys.stdin,
            stdout=shown(sys.stdout),
            stderr=shown(sys.stderr),
            is_terminal=terminal,
            width=width,
            uid=os.getuid(),
        )

    @property
    def home(self) -> PoolHome:
        """The pool the caller means.

        :raises DeniedError: when it is another user's.
        """
        return PoolHome.from_env(self.env).require_trusted()

    @property
    def account(self) -> str:
        """The caller's account; what the caller's environment says where the host knows none."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return self.env.get("USER", "")

    def path(self, name: str) -> Path:
        """A file name as the caller means it: relative to the caller's directory."""
        return self.cwd / name

    def out(self, text: str = "", end: str = "\n") -> None:
        """Write to the caller's standard output."""
        self.stdout.write(text + end)

    def err(self, text: str) -> None:
        """Write a line to the caller's standard error."""
        self.stderr.write(text + "\n")

    def aimed(self, pool: str | None, daemon_name: str | None = None) -> Invocation:
        """The same call for another pool (its collector's ``host:port``), or a daemon by name; None leaves it."""
        return replace(self, pool=pool or self.pool, daemon_name=daemon_name or self.daemon_name)

    def channel(self, daemon: str) -> grpc.Channel:
        """A channel to a daemon of the pool that the caller means."""
        from slotwise.cli import locate  # gRPC is loaded by commands that call a daemon, not by all

        return self.open(locate.target_of(self, daemon))

    def open(self, target: str) -> grpc.Channel:
        """A channel to a gRPC target, open from an earlier call or new."""
        from slotwise.cli import locate
        from slotwise.wire import channel

        found = self.channels.get(target)
        if found is None:
            if not target.startswith("unix:"):
                locate.trust_configured(self)
            found = self.channels[target] = channel.open_blocking(target)
        return found

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Call metadata with the caller's token."""
        from slotwise.wire import channel, token

        return channel.token_metadata(token.find_token(self.home, self.env))

    def stub(self, stub_class: Any, daemon: str) -> Any:
        """A service stub on the channel to ``daemon``."""
        return stub_class(self.channel(daemon))
