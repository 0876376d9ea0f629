"""What of root's rights a daemon of root's keeps (decision 18).

Where the host has an account for daemons (:mod:`slotwise.config.daemon_account`) it owns the pool's logs, spool and
secrets, and a daemon takes on its rights before it opens any of them. Daemons that need nothing of root's become it for
good; the schedd and the startd have only its rights on files, but for the blocks of :func:`root_files` and those that
work with a user's rights; master, starter and command server work as root, and touch logs with its rights. Programs
that administrators configure run as it in any case.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from slotwise.accounts import Account
from slotwise.config import Config
from slotwise.config.daemon_account import DaemonAccount, daemon_account
from slotwise.daemon import installation
from slotwise.daemon.file_rights import file_rights, take_file_rights
from slotwise.daemon.spawn import as_account
from slotwise.errors import ConfigError
from slotwise.home import PoolHome
from slotwise.observe.log import log_file, touch_logs_within

_log = logging.getLogger(__name__)

#: Become the account for good once they listen.
GIVE_UP_ROOT = frozenset({"collector", "negotiator", "defrag", "rooster", "librarian", "web", "shared_port"})
#: Have its rights on files, and root's where a block says so.
OWN_FILES = GIVE_UP_ROOT | {"schedd", "startd"}

_account: DaemonAccount | None = None
_roots_groups: tuple[int, ...] = ()


def account() -> DaemonAccount | None:
    """The account that this process does the daemon's own work as; None: the one that started it."""
    return _account


def choose(name: str, home: PoolHome, config: Config, env: Mapping[str, str]) -> tuple[DaemonAccount | None, str]:
    """The account for daemons of this pool, and why an account that there is cannot be it.

    :raises ConfigError: when CONDOR_IDS names none, or one that cannot use the pool's home.
    """
    if os.geteuid() != 0:
        return None, ""
    found = daemon_account(config, env)
    if found is None:
        return None, ""
    why = _unusable(found, name, home, config)
    if why and found.named:
        raise ConfigError(f"CONDOR_IDS names {found.name}: {why}", hint="let that account use it", key="CONDOR_IDS")
    return (None, f"the account {found.name} is not used: {why}") if why else (found, "")


def _unusable(who: DaemonAccount, name: str, home: PoolHome, config: Config) -> str:
    own = (home.log, home.spool, home.secrets)
    with file_rights(who.uid, who.gid, who.groups):
        try:
            home.run.stat()
        except OSError as error:
            return f"it cannot reach {home.run}: {error.strerror}"
        for part in installation.parts():
            try:
                Path(part).stat()
            except OSError:
                return f"it cannot reach the installation ({part})"
        for source in config.sources:
            if source.startswith("/"):
                try:
                    os.close(os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
                except OSError as error:
                    return f"it cannot read {source}: {error.strerror}"
        directory = log_file(home, name, config).parent
        if directory not in own:
            try:
                descriptor = os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            except OSError as error:
                return f"it cannot write to {directory}: {error.strerror}"
            os.close(descriptor)
    return ""


def begin(name: str, home: PoolHome, who: DaemonAccount | None) -> None:
    """Take on the account's rights as daemon ``name`` needs them. Called before the process has a second thread."""
    global _account, _roots_groups
    _account = who
    if who is None:
        return
    _roots_groups = tuple(os.getgroups())
    if not home.sandboxes.exists():
        home.sandboxes.mkdir(exist_ok=True)
        home.sandboxes.chmod(0o711)
    for path in (home.log, home.secrets, home.sandboxes, *(() if home.named_spool else (home.spool,))):
        give(path, who)
    if name in OWN_FILES:
        take_file_rights(who.uid, who.gid, who.groups)
    else:
        touch_logs_within(own_files)


def give_up_root(name: str) -> None:
    """Become the account for good, all threads of this process, where daemon ``name`` needs nothing of root's."""
    if _account is None or name not in GIVE_UP_ROOT:
        return
    os.setgroups(_account.groups)
    os.setresgid(_account.gid, _account.gid, _account.gid)
    os.setresuid(_account.uid, _account.uid, _account.uid)
    _log.info("** Running as %s (uid %d, gid %d) from here on", _account.name, _account.uid, _account.gid)


@contextlib.contextmanager
def root_files() -> Iterator[None]:
    """This thread has root's rights on files inside the block, which must not await; where root was given up, none."""
    if _account is None or os.geteuid() != 0:
        yield
        return
    with file_rights(0, 0, _roots_groups):
        yield


@contextlib.contextmanager
def own_files() -> Iterator[None]:
    """This thread has the account's rights on files inside the block, which must not await."""
    if _account is None or os.geteuid() != 0:
        yield
        return
    with file_rights(_account.uid, _account.gid, _account.groups):
        yield


@contextlib.contextmanager
def files_of(uid: int, gid: int) -> Iterator[None]:
    """This thread has a user's rights on files inside the block, which must not await; never root's by this way."""
    if _account is None or os.geteuid() != 0 or uid in (0, _account.uid):
        yield
        return
    with file_rights(uid, gid, ()):
        yield


def as_daemon_account() -> list[str]:
    """Words before the command of an administrator's program that make it run as the account."""
    if _account is None or os.geteuid() != 0:
        return []
    return as_account(_account.uid, _account.gid, _account.groups)


# ------------------------------------------------------------------------------------------------------- ownership


def give(top: Path, who: DaemonAccount) -> None:
    """Make a directory of the pool the account's, with all in it that root or its former owner has.

    Nothing is followed, and a file that has a second name is left alone: somebody may have made that name to be given
    the file. The directory itself changes hands last, so that what was interrupted is done again; and while it is
    root's nobody else changes what is in it. ``signing`` stays root's: see :class:`slotwise.wire.keys.PoolSecrets`.
    """
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        former = os.fstat(descriptor).st_uid
        if former == who.uid:
            return
        if former != 0:  # an account that CONDOR_IDS named before must not interfere meanwhile
            os.fchown(descriptor, 0, 0)
        _give_all_in(descriptor, {0, former}, who)
        os.fchown(descriptor, who.uid, who.gid)
        _log.info("%s belongs to %s now", top, who.name)
    finally:
        os.close(descriptor)


def give_to_user(top: Path, who: Account) -> None:
    """As :func:`give`, to a user: what root and the daemons' account have in a directory, and the directory itself.

    :raises OSError: when it is not a directory, or the kernel refuses.
    """
    own = {0} if _account is None else {0, _account.uid}
    with root_files():
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _give_all_in(descriptor, own, who)
            if os.fstat(descriptor).st_uid in own:
                os.fchown(descriptor, who.uid, who.gid)
        finally:
            os.close(descriptor)


def _give_all_in(directory: int, owners: set[int], who: DaemonAccount | Account) -> None:
    for name in os.listdir(directory):
        if name == "signing":
            continue
        try:
            entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        except FileNotFoundError:
            continue
        try:
            about = os.fstat(entry)
            is_directory = stat.S_ISDIR(about.st_mode)
            if about.st_uid not in owners:
                continue  # a user's
            if is_directory:
                opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
                try:
                    _give_all_in(opened, owners, who)
                    os.fchown(opened, who.uid, who.gid)
                finally:
                    os.close(opened)
            elif stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
                # The very file that was looked at, whatever has its name by now.
                os.chown(f"/proc/self/fd/{entry}", who.uid, who.gid)
        finally:
            os.close(entry)
