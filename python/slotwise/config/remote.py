"""A daemon's remote settings: persistent ones in files of its host, run-time ones in its memory.

Persistent ones have HTCondor's form: below PERSISTENT_CONFIG_DIR ``.config.<SUBSYS>`` names them, in
RUNTIME_CONFIG_ADMIN, and each has a file ``.config.<SUBSYS>.<name>``. ``<SUBSYS>_CONFIG`` names another place for the
former, with which all names begin. Daemons read them after all other files, and run-time settings after these. The
switches are read once, without such settings: a caller who may set knobs must not be able to enable more.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from slotwise import whole_file
from slotwise.config.view import Config
from slotwise.errors import ConfigError, DeniedError

_NAME = re.compile(r"[A-Za-z0-9_.]{1,200}")
_INDEX = re.compile(r"\s*RUNTIME_CONFIG_ADMIN\s*=(.*)", re.IGNORECASE)
#: Words that begin a statement also before ``=``: no configuration with such a line can be read.
_STATEMENTS = frozenset(("if", "elif", "else", "endif"))
#: The most settings of each kind, and the longest value.
_SETTINGS_MOST, _VALUE_MOST = 1000, 64 * 1024


class RemoteSettings:
    """What may be set remotely in one daemon, and what has been set.

    :param config: the daemon's configuration without any such setting.
    :raises ConfigError: persistent settings are enabled, but have no place.
    """

    def __init__(self, config: Config) -> None:
        subsystem = (config.subsystem or "TOOL").upper()
        self.runtime: dict[str, str] = {}
        self._allowed = {
            True: config.get_bool("ENABLE_RUNTIME_CONFIG"),
            False: config.get_bool("ENABLE_PERSISTENT_CONFIG"),
        }
        self._index: Path | None = None
        if not self._allowed[False]:
            return
        directory, named = config.get("PERSISTENT_CONFIG_DIR"), config.get(f"{subsystem}_CONFIG")
        if named is None and directory is None:
            raise ConfigError(
                f"ENABLE_PERSISTENT_CONFIG is true, and neither {subsystem}_CONFIG nor PERSISTENT_CONFIG_DIR is set",
                hint="name a directory that only root, or the account of the daemons, may write",
                origin=str(config.origin("ENABLE_PERSISTENT_CONFIG")),
                key="PERSISTENT_CONFIG_DIR",
            )
        self._index = Path(named) if named else Path(str(directory)) / f".config.{subsystem}"
        if not self._index.is_absolute():
            raise ConfigError(f"{self._index} is not an absolute path", key="PERSISTENT_CONFIG_DIR")

    def files(self) -> list[str]:
        """The files of persistent settings, in order.

        :raises ConfigError: one is missing, or others could have written it.
        """
        if self._index is None or not self._index.parent.is_dir():
            return []
        names = self._names()
        files = [self._file(name) for name in names]
        for path in files:
            _require_ours(path)
        return [str(path) for path in files]

    def change(self, name: str, value: str | None, *, runtime: bool, try_it: Callable[[dict[str, str]], None]) -> None:
        """Set a knob, or remove the setting (``value`` None); it takes effect with the next reconfig.

        :param try_it: checks that a configuration with these run-time settings can be used.
        :raises DeniedError: such settings are not enabled, or there are too many.
        :raises ConfigError: it is not a setting, or ``try_it`` rejects it.
        """
        if not self._allowed[runtime]:
            knob = f"ENABLE_{'RUNTIME' if runtime else 'PERSISTENT'}_CONFIG"
            raise DeniedError(f"{knob} was false when this daemon started", hint=f"set {knob} there and restart it")
        if not _NAME.fullmatch(name) or name.lower() in _STATEMENTS:
            raise ConfigError(f"`{name[:100]}` is not the name of a knob")
        if value is not None:
            if any(ord(each) < 32 and each != "\t" for each in value):
                raise ConfigError(f"the value of {name} has a line break or a control character", key=name)
            if len(value) > _VALUE_MOST:
                raise ConfigError(f"the value of {name} is longer than {_VALUE_MOST} bytes", key=name)
            try_it({**self.runtime, name: value})
        if runtime:
            self._keep(name, value)
        else:
            self._write(name, value)

    def _keep(self, name: str, value: str | None) -> None:
        others = {known: text for known, text in self.runtime.items() if known.lower() != name.lower()}
        if value is not None:
            _require_few(len(others))
            others[name] = value
        self.runtime = others

    # ---- files

    def _file(self, name: str) -> Path:
        assert self._index is not None
        return self._index.with_name(f"{self._index.name}.{name.lower()}")

    def _names(self) -> list[str]:
        """Names of the persistent settings."""
        assert self._index is not None
        _require_safe_directory(self._index.parent)
        if not os.path.lexists(self._index):
            return []
        _require_ours(self._index)
        found: list[str] = []
        for line in self._index.read_text(encoding="utf-8", errors="replace").splitlines():
            match = _INDEX.fullmatch(line)
            if match is None:
                raise ConfigError(f"{self._index}: `{line[:100]}` is not a list of settings")
            found = match[1].replace(",", " ").split()
        if bad := [name for name in found if not _NAME.fullmatch(name)]:
            raise ConfigError(f"{self._index}: `{bad[0][:100]}` is not the name of a knob")
        return found

    def _write(self, name: str, value: str | None) -> None:
        assert self._index is not None
        if not self._index.parent.is_dir():
            raise ConfigError(
                f"PERSISTENT_CONFIG_DIR: there is no directory {self._index.parent}", key="PERSISTENT_CONFIG_DIR"
            )
        names = [known for known in self._names() if known.lower() != name.lower()]
        if value is not None:
            _require_few(len(names))
            _replace(self._file(name), f"{name} = {value}\n")
            names.append(name.lower())
        # HTCondor keeps them in order. A setting is in the list only while its file exists.
        if names:
            _replace(self._index, f"RUNTIME_CONFIG_ADMIN = {', '.join(sorted(names))}\n")
        else:
            self._index.unlink(missing_ok=True)
        if value is None:
            self._file(name).unlink(missing_ok=True)


def _require_few(count: int) -> None:
    if count >= _SETTINGS_MOST:
        raise DeniedError(f"{_SETTINGS_MOST} settings were made from afar already", hint="take some back")


def _replace(path: Path, text: str) -> None:
    try:
        whole_file.write(path, text, mode=0o644, exact=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}", key="PERSISTENT_CONFIG_DIR") from None


def _require_ours(path: Path) -> None:
    """Check that only this account or root could have written a file."""
    try:
        about = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"the persistent setting {path} cannot be read: {error.strerror}",
            hint="take its name out of RUNTIME_CONFIG_ADMIN",
        ) from None
    if not stat.S_ISREG(about.st_mode):
        raise ConfigError(f"the persistent setting {path} is not a regular file")
    _require_owner(path, about)


def _require_safe_directory(path: Path) -> None:
    """Check that nobody but this account or root can put files into a directory, or replace it."""
    if path.is_symlink():
        raise ConfigError(f"PERSISTENT_CONFIG_DIR: {path} is a symbolic link", key="PERSISTENT_CONFIG_DIR")
    _require_owner(path, path.stat())
    for above in Path(os.path.realpath(path)).parents:
        about = above.stat()
        if about.st_uid not in (0, os.geteuid()) or (about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX):
            raise ConfigError(
                f"PERSISTENT_CONFIG_DIR: others may put another directory in the place of {path}, by {above}",
                hint="name a directory that only root, or the account of the daemons, may write",
                key="PERSISTENT_CONFIG_DIR",
            )


def _require_owner(path: Path, about: os.stat_result) -> None:
    if about.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"persistent settings: {path} belongs to another user (uid {about.st_uid})")
    if about.st_mode & 0o022:
        raise ConfigError(
            f"persistent settings: others may write {path} (mode {stat.S_IMODE(about.st_mode):04o})",
            hint=f"chmod go-w {path}",
        )
