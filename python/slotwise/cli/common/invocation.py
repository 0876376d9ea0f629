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

from slotwise.cli.common.terminal import shown
from slotwise.errors import DeniedError
from slotwise.home import PoolHome

if TYPE_CHECKING:
    import grpc

    from slotwise.config import Config
    from slotwise.wire.credential import Credential, UserCredential


#: How long a token lasts that is made for one command, in seconds: an hour, for those that follow something.
_MOMENT_S = 3600


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
    #: HTCondor's name of the command (``condor_q``), where it was called by that: words and statuses are HTCondor's
    #: then. Empty under ``slotwise``, which may say things better.
    called: str = ""

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
        from slotwise.cli.common import locate  # gRPC is loaded by commands that call a daemon, not by all

        return self.open(locate.target_of(self, daemon))

    def open(self, target: str) -> grpc.Channel:
        """A channel to a gRPC target, open from an earlier call or new, that shows who calls: the caller's token, or
        where there is none the caller's certificate, to a port that takes certificates.

        :raises DeniedError: when the daemon does not accept the certificate.
        """
        from slotwise.cli.common import locate
        from slotwise.wire import channel

        credential = self._credential()
        if not target.startswith("unix:"):
            locate.trust_configured(self)
            if channel.own_certificate() and not credential.is_at_hand():
                target = locate.certificate_target(self, target)
        return channel.showing(self.plain(target), credential, target)

    def plain(self, target: str) -> grpc.Channel:
        """A channel to a gRPC target that shows no token."""
        from slotwise.wire import channel

        found = self.channels.get(target)
        if found is None:
            found = self.channels[target] = channel.open_blocking(target)
        return found

    def _credential(self) -> UserCredential:
        """What the caller shows."""
        from slotwise.wire.credential import UserCredential
        from slotwise.wire.token import find_token

        env = dict(self.env)
        if named := env.get("SLOTWISE_TOKEN_FILE"):
            env["SLOTWISE_TOKEN_FILE"] = str(self.path(named))  # the command server has a directory of its own
        return UserCredential(env, lambda: find_token(self.home, env, self.knobs), self._own_credential)

    def knobs(self) -> Config:
        """The configuration as commands read it."""
        from slotwise.config import load

        return load(None, env=self.env, home=self.home)

    def _own_credential(self) -> Credential | None:
        """What the owner of the pool's home shows at other hosts: a token made for the moment, where this host is the
        central manager, else what the host's daemons show."""
        import time

        from slotwise.config import load
        from slotwise.daemon import owner
        from slotwise.wire.credential import HostCredential, TokenCredential
        from slotwise.wire.keys import PoolSecrets
        from slotwise.wire.token import DAEMON_LEVELS

        secrets = PoolSecrets(self.home)
        try:
            config = load(None, env=self.env, home=self.home)
            if secrets.is_central:
                identity, levels = owner.local_identity(os.geteuid(), config)
                return TokenCredential(secrets.mint(identity, levels, now=time.time(), lifetime_s=_MOMENT_S))
            if secrets.token_file.exists():
                levels = tuple({level for each in DAEMON_LEVELS.values() for level in each})
                name = f"condor@{config.get('FULL_HOSTNAME') or ''}"
                word = secrets.token_file.read_text().strip()
                return HostCredential(name, secrets.host_key(), lambda: word, levels, time.time)
        except (OSError, DeniedError):
            return None  # another user's home: its secrets are closed
        return None

    def reading(self, stub_class: Any, daemon: str) -> Any:
        """A stub for questions to a daemon of the central manager; without a token, to this host's master, which passes
        them on."""
        from slotwise.cli.common import locate

        return stub_class(self.open(locate.reading_target(self, daemon)))

    def proves_itself(self) -> bool:
        """Whether the caller has something to show at other hosts: a token, what stands for one, or a certificate.

        :raises DeniedError: when a token that was named is no good.
        """
        from slotwise.cli.common import locate
        from slotwise.wire import channel

        locate.trust_configured(self)
        return bool(channel.own_certificate()) or self._credential().is_at_hand()

    def stub(self, stub_class: Any, daemon: str) -> Any:
        """A service stub on the channel to ``daemon``."""
        return stub_class(self.channel(daemon))
