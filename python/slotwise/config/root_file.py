"""Records the root file with which the pool of a home was brought up, for the tools of that home in other shells.

The master records a file that ``slotwise up --config`` or CONDOR_CONFIG names, until another is named. Whoever writes
the record decides what the tools of others read, and a configuration may run commands; so it counts only if it belongs
to the reader or to root, and nobody else may write to it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from slotwise import whole_file
from slotwise.config import persistent
from slotwise.errors import ConfigError
from slotwise.home import PoolHome

_LONGEST = 8192


def file_of(home: PoolHome) -> Path:
    """The file of the record. Its name begins with a dot: where LOCAL_CONFIG_DIR names the same directory, it is not
    read as configuration."""
    return persistent.directory_of(home) / ".root.file"


def _undotted(home: PoolHome) -> Path:
    """The record of a pool that was brought up before its name had a dot."""
    return persistent.directory_of(home) / "root.file"


def record(home: PoolHome, root: Path) -> None:
    """Record ``root``, an absolute path, atomically."""
    path = file_of(home)
    persistent.make_directory(home)
    whole_file.write(path, os.fsencode(root) + b"\n", mode=0o644, exact=True)
    _undotted(home).unlink(missing_ok=True)


def recorded(home: PoolHome) -> Path | None:
    """The recorded root file, if any.

    :raises ConfigError: the record is not trusted, or the file cannot be read.
    """
    path = file_of(home)
    if not os.path.lexists(path) and os.path.lexists(_undotted(home)):
        path = _undotted(home)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise ConfigError(
            f"{home.root} is a file, and the pool wants a directory for its state",
            hint="name a directory with SLOTWISE_HOME",
        ) from None
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as stream:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise _refused(path, "is not a regular file")
        if about.st_uid not in (os.geteuid(), 0):
            raise _refused(path, f"belongs to another user (uid {about.st_uid})")
        if about.st_mode & 0o022:
            raise _refused(path, f"may be written by others (mode {stat.S_IMODE(about.st_mode):04o})")
        name = Path(os.fsdecode(stream.read(_LONGEST)).rstrip("\n"))
    if not name.is_absolute() or "\n" in str(name):
        raise _refused(path, "does not hold the path of a file")
    if not os.access(name, os.R_OK):
        raise ConfigError(
            f"the pool at {home.root} was brought up with the configuration file {name}, which cannot be read",
            hint="make it readable, or name another with CONDOR_CONFIG or `slotwise up --config`",
        )
    return name


def _refused(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path}, which names the pool's configuration file, {why}",
        hint="name the configuration file with CONDOR_CONFIG; the next `slotwise up` writes the name again",
    )
