"""The context of one call of a command, in place of the process's globals.

A resident server answers many callers from one process, so a command must take its directory, environment and
streams from here and never from ``os`` or ``sys``.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise import environment
from slotwise.cli.common.terminal import as_it_is, shown
from slotwise.home import PoolHome

if TYPE_CHECKING:
    import grpc

    from slotwise.client.pool import Pool
    from slotwise.config import Config

Stub = TypeVar("Stub")


class Invocation(Struct, dict=True):
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
    channels: dict[str, grpc.Channel] = field(default_factory=dict)
    #: ``host:port`` of another pool's collector, and the name of a daemon there, when the caller named them.
    pool: str | None = None
    daemon_name: str | None = None
    #: Where the daemon that is meant answers, when the caller named the address itself.
    daemon_address: str | None = None
    #: HTCondor's name of the command (``condor_q``), where it was called by that: words and statuses are HTCondor's
    #: then. Empty under ``slotwise``, which may say things better.
    called: str = ""
    #: Whether who called is gone, where a process of its own does the work for it.
    caller_gone: Callable[[], bool] = lambda: False

    @classmethod
    def of_process(cls) -> Invocation:
        """The call that started this process."""
        terminal = sys.stdout.isatty()
        width = os.get_terminal_size(sys.stdout.fileno()).columns if terminal else 80
        return cls(
            cwd=Path.cwd(),
            env=environment(),
            stdin=sys.stdin,
            stdout=shown(sys.stdout),
            stderr=shown(sys.stderr),
            is_terminal=terminal,
            width=width,
            uid=os.getuid(),
        )

    @cached_property
    def home(self) -> PoolHome:
        """The pool the caller means.

        :raises DeniedError: when it is another user's.
        """
        from slotwise.config import home_of

        return home_of(self.env).require_trusted()

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

    @property
    def screen(self) -> int:
        """The columns of the caller's terminal; 0 where there is none, and for HTCondor's commands, whose tables have
        widths of their own."""
        return self.width if self.is_terminal and not self.called else 0

    @property
    def has_colours(self) -> bool:
        """Whether tables are in colour: on a terminal that has colours, unless NO_COLOR is set (no-color.org)."""
        return bool(self.screen) and not self.env.get("NO_COLOR") and self.env.get("TERM") not in (None, "", "dumb")

    def draw(self, text: str) -> None:
        """Write a table that may have colours; what others wrote in it is escaped already."""
        as_it_is(self.stdout).write(text)

    def err(self, text: str) -> None:
        """Write a line to the caller's standard error."""
        self.stderr.write(text + "\n")

    def aimed(self, pool: str | None, daemon_name: str | None = None) -> Invocation:
        """The same call for another pool (its collector's ``host:port``), or a daemon by name; None leaves it."""
        return replace(self, pool=pool or self.pool, daemon_name=daemon_name or self.daemon_name)

    def at(self, address: str) -> Invocation:
        """The same call for the daemon that answers at an address, as a user writes it."""
        from slotwise.wire import contact
        from slotwise.wire.credential import places

        target = contact.target_of(address)
        places.name(target)
        return replace(self, daemon_address=target)

    # -------------------------------------------------------------------------------------------------- daemons

    @cached_property
    def _access(self) -> Pool:
        from slotwise.client.pool import Pool  # gRPC is loaded by commands that call a daemon, not by all

        return Pool(self.env, self.pool, self.cwd, self.channels)

    def channel(self, daemon: str) -> grpc.Channel:
        """A channel to a daemon of the pool that the caller means (``-pool``, ``-name``, else this machine's).

        :raises PeerUnavailableError: when there is none.
        :raises NotFoundError: when the pool has no such daemon.
        """
        return self.open(self.target(daemon), daemon)

    def target(self, daemon: str) -> str:
        """Where a daemon of the pool that the caller means answers, as :meth:`channel` finds it."""
        from slotwise.client import locate

        return self.daemon_address or locate.target_of(self._access, daemon, self.daemon_name)

    def open(self, target: str, daemon: str = "") -> grpc.Channel:
        """A channel to a gRPC target, open from an earlier call or new, that authenticates the caller.

        Calls of the schedd, if that is the ``daemon``, say on standard error what they wait for, once that has taken
        10 s.

        :raises DeniedError: when the daemon does not accept the caller's certificate.
        """
        opened = self._access.open(target)
        if daemon != "schedd":
            return opened
        from slotwise.cli.common.late import telling

        return telling(opened, self.stderr, daemon)

    def reading(self, stub_class: Callable[[grpc.Channel], Stub], daemon: str) -> Stub:
        """A stub for questions to a daemon of the central manager; without a token, to this host's master, which passes
        them on."""
        from slotwise.client import locate

        return stub_class(self.open(locate.reading_target(self._access, daemon, self.daemon_name)))

    def stub(self, stub_class: Callable[[grpc.Channel], Stub], daemon: str) -> Stub:
        """A service stub on the channel to ``daemon``."""
        return stub_class(self.channel(daemon))

    def knobs(self) -> Config:
        """The configuration as commands read it, which a call reads once."""
        return self._knobs

    @cached_property
    def _knobs(self) -> Config:
        from slotwise.config import load

        knobs = load(None, env=self.env, home=self.home)
        self.pass_on_warnings(knobs)
        return knobs

    def pass_on_warnings(self, config: Config) -> None:
        """What ``warning :`` statements of a configuration say, in HTCondor's words where the command was called by
        its name there; `slotwise config check` says it otherwise. Each is said once.
        """
        for origin, text in config.warnings if self.called else ():
            line = f'Config source Warning "{origin.file}", Line {origin.line}: {text}'
            if line not in self._passed_on:
                self._passed_on.add(line)
                self.err(line)

    @cached_property
    def _passed_on(self) -> set[str]:
        return set()

    def home_of(self, knobs: Config) -> PoolHome:
        """The pool the caller means, with its durable state where ``knobs`` has SPOOL."""
        return self.home.with_spool(knobs.get("SPOOL"))

    def proves_itself(self) -> bool:
        """Whether the caller can authenticate at other hosts: by a token, the host's credential, or a certificate.

        :raises DeniedError: when the token that was named is invalid.
        """
        return self._access.proves_itself()
