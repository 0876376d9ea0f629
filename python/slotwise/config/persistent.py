"""Settings that a command makes: persistent ones stay, run-time ones last until the pool restarts.

They live in files of the pool's home that :func:`slotwise.config.load` reads after everything else, one pair for all
daemons and one for each subsystem. HTCondor: condor_config_val -set, -unset, -rset, -runset.
"""

from __future__ import annotations

import re
from pathlib import Path

from slotwise import whole_file
from slotwise.errors import ConfigError
from slotwise.home import PoolHome

_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_./]+)\s*=\s*(.*?)\s*", re.DOTALL)


def directory_of(home: PoolHome) -> Path:
    """The directory of what a pool keeps of its configuration."""
    return home.root / "config.d"


def settings_file(home: PoolHome, subsystem: str | None, *, runtime: bool) -> Path:
    """The file for settings of one subsystem, or of all."""
    directory = home.run if runtime else directory_of(home)
    kind = "runtime" if runtime else "persistent"
    return directory / f"{(subsystem or 'all').lower()}.{kind}"


def make_directory(home: PoolHome) -> None:
    """Make that directory; tools of all users read in it, whatever the umask is."""
    directory = directory_of(home)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)


def files(home: PoolHome, subsystem: str) -> list[str]:
    """Files that a daemon of ``subsystem`` reads, in order."""
    pairs = [(None, False), (subsystem, False), (None, True), (subsystem, True)]
    return [str(settings_file(home, who, runtime=runtime)) for who, runtime in pairs]


def parse_assignment(text: str) -> tuple[str, str]:
    """Name and value of ``NAME = value``.

    :raises ConfigError: it is not an assignment.
    """
    found = _ASSIGNMENT.fullmatch(text)
    if found is None:
        raise ConfigError(f"`{text}` is not an assignment", hint="write 'NAME = value'")
    if "\n" in found[2]:
        raise ConfigError(f"the value of {found[1]} has a line break", hint="write it on one line", key=found[1])
    return found[1], found[2]


def change(home: PoolHome, subsystem: str | None, name: str, value: str | None, *, runtime: bool) -> str:
    """Set a knob, or remove the setting if ``value`` is None. The file changes atomically.

    Returns the former text, for :func:`put_back`.
    """
    path = settings_file(home, subsystem, runtime=runtime)
    if runtime:
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        make_directory(home)
    former = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = [line for line in former.splitlines() if line.split("=", 1)[0].strip().lower() != name.lower()]
    if value is not None:
        kept.append(f"{name} = {value}")
    put_back(home, subsystem, "".join(f"{line}\n" for line in kept), runtime=runtime)
    return former


def put_back(home: PoolHome, subsystem: str | None, text: str, *, runtime: bool) -> None:
    """Write the whole file of settings."""
    path = settings_file(home, subsystem, runtime=runtime)
    # As other files of a configuration: tools of all users read them.
    whole_file.write(path, text, mode=0o644, exact=True, lasts=not runtime)


def forget_runtime(home: PoolHome) -> None:
    """Remove all run-time settings, as the pool restarts."""
    for path in home.run.glob("*.runtime"):
        path.unlink(missing_ok=True)
