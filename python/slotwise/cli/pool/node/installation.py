"""What ``node install`` has made on a host: recorded as it is made, so that ``node uninstall`` undoes it."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from slotwise.cli.common import written_file
from slotwise.config.loading import SITE_FILES
from slotwise.errors import DeniedError, HostError, UsageError
from slotwise.home import PoolHome

#: Where the configuration of a host with a package goes.
SITE_DIRECTORY = SITE_FILES[0].parent / "config.d"
_NAME = "10-node.conf"
_HEAD = "# Made by `slotwise node install`, removed by `slotwise node uninstall`."


class Installation(Struct):
    """The record, ``node.json`` in the pool's home."""

    roles: list[str]
    #: ``host:port`` of the collector of the pool; empty on the central manager.
    collector: str = ""
    #: The configuration file that was written.
    config: str = ""
    #: Whether the service of the host was made to run the pool.
    service: bool = False
    #: What was moved out of the way, by its path: to where.
    moved: dict[str, str] = field(default_factory=dict)
    #: Whether the host has its place.
    complete: bool = False

    @classmethod
    def of(cls, home: PoolHome) -> Installation | None:
        """The record of a home; None without one.

        :raises HostError: when it cannot be read.
        """
        try:
            return cls(**json.loads(_file(home).read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise HostError(f"{_file(home)} cannot be read: {error}", path=str(_file(home))) from None

    def save(self, home: PoolHome) -> None:
        """Write the record, in one step."""
        _replace(_file(home), json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def forget(home: PoolHome) -> None:
        """Remove the record."""
        _file(home).unlink(missing_ok=True)

    def set_aside(self, home: PoolHome, path: Path) -> None:
        """Move something that the host had before out of the way, to be put back later."""
        if str(path) in self.moved or not path.exists():
            return  # an earlier try has moved it, and what is there now is of this installation
        place = path.with_name(f"{path.name}.before-node")
        if place.exists():
            raise HostError(f"{place} is in the way", hint="an earlier installation left it: remove it if it is old")
        self.moved[str(path)] = str(place)
        self.save(home)
        path.rename(place)


def _file(home: PoolHome) -> Path:
    return home.root / "node.json"


def is_host_pool(home: PoolHome) -> bool:
    """Whether a home is that of the pool of the host, which a package has set up."""
    found = PoolHome.of_host()
    return found is not None and found.root == home.root and SITE_FILES[0].exists()


def config_file(home: PoolHome, named: str | None) -> Path:
    """Where the configuration goes that makes a host part of a pool.

    :param named: CONDOR_CONFIG of the caller.
    :raises UsageError: when it would not be read there.
    :raises DeniedError: when somebody else's file is there.
    """
    if named:
        raise UsageError(
            f"CONDOR_CONFIG names {named}, so that what `node install` writes would not be read",
            hint="unset it, or write the configuration by hand as the guide on several hosts tells",
        )
    path = SITE_DIRECTORY / _NAME if is_host_pool(home) else home.root / "condor_config"
    if path.exists() and not path.read_text(errors="replace").startswith(_HEAD):
        raise DeniedError(
            f"{path} is a configuration that `node install` did not make", hint="move it away, and include it later"
        )
    return path


def write_config(path: Path, settings: dict[str, str]) -> None:
    """Write the configuration."""
    if path.parent == SITE_DIRECTORY:
        more = f"# Your own settings: in other files of {path.parent}, which are read in the order of their names."
    else:
        more = "# Your own settings: in files of the directory below, which are read after this one."
        settings = settings | {"LOCAL_CONFIG_DIR": str(path.parent / "config.local")}
        (path.parent / "config.local").mkdir(exist_ok=True)
        (path.parent / "config.local").chmod(0o755)
    lines = [_HEAD, more, *(f"{name} = {value}" for name, value in settings.items())]
    _replace(path, "\n".join(lines) + "\n")


def _replace(path: Path, text: str) -> None:
    try:
        written_file.write(path, text)
        path.chmod(0o644)  # users' commands read it, whatever the umask is
    except OSError as error:
        raise HostError(f"{path} cannot be written: {error.strerror}", path=str(path)) from None
