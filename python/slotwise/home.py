"""Where a pool keeps its things: the directory named by ``SLOTWISE_HOME``, the user's own, or that of the host's pool.

============  ========================================================================
``run/``      addresses, locks and sockets of running daemons (0700; root's are open to all: each says who may do what)
``secrets/``  keys of the host and, on the central manager, of the pool (mode 0700, files 0600)
``log/``      daemon logs (knob LOG)
``spool/``    job queue, history, accounting; elsewhere where the knob SPOOL says, with the files sent with jobs
``execute/``  scratch directories of running jobs (knob EXECUTE)
============  ========================================================================
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from slotwise.errors import ConfigError, DeniedError, HostError

#: Where scratch directories are when the home is closed to the users that jobs run as.
_ELSEWHERE = Path("/var/lib/slotwise")
#: The job queue, a file of the spool directory.
QUEUE = "schedd.sqlite"
#: Names the directory of the pool that belongs to the host, in one line; the packages for distributions install it.
HOST_POOL = Path("/etc/slotwise/home")


class PoolHome(Struct, frozen=True):
    """The state directory of a pool."""

    root: Path
    #: The directory that SPOOL names; None: ``spool/`` of the root.
    named_spool: Path | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> PoolHome:
        """``SLOTWISE_HOME``; else ``.slotwise`` of the user, where there is a pool; else the host's, if it has one.

        The launcher (``rust/front``) finds the command server's socket by the same rule.

        :raises DeniedError: when others than root can write the file that names the host's pool.
        """
        named = env.get("SLOTWISE_HOME")
        if named:
            return cls(Path(named).absolute())
        own = cls((Path(env["HOME"]) if env.get("HOME") else Path.home()) / ".slotwise")
        try:
            exists = own.run.is_dir()
        except OSError:  # a home directory that may not be looked into
            exists = False
        return own if exists else cls.of_host() or own

    @classmethod
    def of_host(cls, file: Path = HOST_POOL) -> PoolHome | None:
        """The pool of the host, which ``file`` names; None when there is none.

        :raises DeniedError: when others than root and this user can write the file: its pool's configuration may run
            commands.
        """
        try:
            with file.open("rb") as stream:
                about = os.fstat(stream.fileno())
                named = os.fsdecode(stream.readline(4096).strip())
        except OSError:
            return None
        if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o022:
            raise DeniedError(
                f"{file}, which names the pool of this host, can be written by others than root",
                hint=f"chown root {file} && chmod 0644 {file}, or name a pool with SLOTWISE_HOME",
            )
        return cls(Path(named)) if named.startswith("/") else None

    def require_trusted(self) -> PoolHome:
        """See that nobody but this user or root decides what is in the home: its configuration may run commands.

        :raises DeniedError: when it belongs to another user, or everybody may write to it.
        """
        try:
            about = self.root.stat()
        except OSError:
            return self  # what uses it says what is wrong
        if about.st_uid not in (os.geteuid(), 0):
            raise DeniedError(
                f"the pool in {self.root} belongs to another user (uid {about.st_uid})",
                hint=f"run as that user (sudo -u '#{about.st_uid}' ...), or name another pool with SLOTWISE_HOME",
            )
        if about.st_mode & 0o002 and not about.st_mode & 0o1000:
            raise DeniedError(f"everybody may write to {self.root}", hint=f"chmod o-w {self.root}")
        return self

    @property
    def run(self) -> Path:
        """Addresses, locks, sockets."""
        return self.root / "run"

    @property
    def secrets(self) -> Path:
        """Signing key and tokens."""
        return self.root / "secrets"

    @property
    def log(self) -> Path:
        """Daemon logs."""
        return self.root / "log"

    @property
    def spool(self) -> Path:
        """Durable state."""
        return self.named_spool or self.root / "spool"

    def with_spool(self, named: str | None) -> PoolHome:
        """The same home with its durable state in the directory that SPOOL names."""
        place = Path(named) if named else self.root / "spool"
        return replace(self, named_spool=None if place == self.root / "spool" else place)

    @property
    def sandboxes(self) -> Path:
        """Files that were sent with jobs, a directory of its owner for each job."""
        return (self.named_spool or self.execute.parent) / "sandboxes"  # where their owners can reach it

    @property
    def restored(self) -> Path:
        """What ``slotwise restore`` leaves where root has run it: files sent with jobs are not their owners' yet."""
        return self.spool / "restored"

    @property
    def execute(self) -> Path:
        """Scratch directories of jobs.

        Jobs of a pool that root runs are other users, who must be able to reach them: where the home is closed to
        others (``/root`` is), they are in ``/var/lib/slotwise/<mark of the home>/execute`` instead; and stay there when
        the home is opened later, as a daemon that is started again must find its jobs.
        """
        if os.geteuid() == 0:
            mark = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
            elsewhere = _ELSEWHERE / mark / "execute"
            if elsewhere.is_dir() or not open_to_others(self.root):
                return elsewhere
        return self.root / "execute"

    def create(self) -> None:
        """Make all directories, with the modes above; existing ones are kept.

        :raises HostError: when one cannot be made, or may not be written to by this user.
        """
        try:
            self._make()
        except OSError as error:
            raise HostError(
                f"cannot use {self.root} as the pool's directory: {error.strerror}: {error.filename}",
                hint="name another with SLOTWISE_HOME",
            ) from None
        for path in (self.run, self.secrets, self.log, self.root / "spool", self.execute):
            if not os.access(path, os.W_OK | os.X_OK):
                raise HostError(
                    f"{path} may not be written to by this user",
                    hint="make it the user's own, or name another pool directory with SLOTWISE_HOME",
                )

    def make_root(self) -> None:
        """Make the home itself, unless it is there, as open to others as the umask says.

        :raises OSError: when it cannot be made.
        """
        if not self.root.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(self.root.stat().st_mode & ~0o022)  # whatever the umask is: see `require_trusted`

    def _make(self) -> None:
        self.make_root()
        for path, mode in (
            (self.run, 0o755 if os.geteuid() == 0 else 0o700),
            (self.secrets, 0o700),
            (self.log, 0o755),
            (self.root / "spool", 0o700),
            (self.execute, 0o755),
        ):
            if path.parent != self.root:
                _make_open(path.parent)
            path.mkdir(mode=mode, exist_ok=True)
            if mode == 0o700 or path in (self.run, self.execute):
                path.chmod(mode)

    def make_named_spool(self, owner: int, group: int) -> None:
        """Make the directory that SPOOL names, if it names one; one that is there must be the daemons' own.

        :param owner: the account that the daemons work as.
        :raises ConfigError: it cannot be made, is another account's, or others may write to it or cannot reach it.
        """
        if self.named_spool is None:
            return
        place = self.named_spool
        try:
            if not place.exists():
                _make_open(place.parent)
                place.mkdir()
                place.chmod(0o711)  # jobs' accounts reach the files that came with their jobs
            about = place.stat()
            if about.st_uid == 0 and owner != 0 and os.geteuid() == 0 and not any(place.iterdir()):
                os.chown(place, owner, group)
                about = place.stat()
            if not self.sandboxes.exists():
                self.sandboxes.mkdir(exist_ok=True)
                self.sandboxes.chmod(0o711)
        except OSError as error:
            raise _not_a_spool(place, f"cannot be used: {error.strerror}", "name another directory") from None
        if about.st_uid != owner:
            why = f"belongs to another account (uid {about.st_uid})"
            raise _not_a_spool(place, why, f"chown it to uid {owner}, or name a directory of its own for this pool")
        if about.st_mode & 0o022:
            raise _not_a_spool(place, "may be written to by others", f"chmod go-w {place}")
        if os.geteuid() == 0 and not open_to_others(place.resolve()):
            why = "cannot be reached by the accounts that jobs run as"
            raise _not_a_spool(place, why, f"chmod o+x {place}, and the directories above it")


def _not_a_spool(place: Path, why: str, hint: str) -> ConfigError:
    return ConfigError(f"SPOOL names {place}, which {why}", hint=hint, key="SPOOL")


def open_to_others(path: Path) -> bool:
    """Whether anybody may go through ``path`` and all directories above it; those not made yet do not count."""
    for place in (path, *path.parents):
        try:
            if not place.stat().st_mode & 0o001:
                return False
        except OSError:
            continue
    return True


def _make_open(path: Path) -> None:
    """Make ``path`` and what is missing above it, open to all whatever the umask is."""
    for place in reversed((path, *path.parents)):
        if not place.exists():
            place.mkdir(exist_ok=True)
            place.chmod(0o755)
