"""Finds the root configuration file and reads everything from there."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import slotwise._native as _native
from slotwise.config import detect, persistent, root_file
from slotwise.config.refusal import config_error
from slotwise.config.view import DEFAULT, Config
from slotwise.errors import ConfigError
from slotwise.home import PoolHome
from slotwise.release import RELEASE_DIR

#: The default places of a site's configuration; the first one that can be read counts.
SITE_FILES = (Path("/etc/slotwise/condor_config"), Path("/etc/condor/condor_config"))
#: Value of CONDOR_CONFIG that asks for environment settings alone.
ONLY_ENV = "ONLY_ENV"


def named_file(env: Mapping[str, str], config_file: str | None) -> Path | None:
    """The root file that the caller named, on the command line or with CONDOR_CONFIG; None: search for it."""
    named = config_file or env.get("CONDOR_CONFIG") or ONLY_ENV
    return None if named.upper() == ONLY_ENV else Path(named).absolute()


def config_file_of(env: Mapping[str, str], home: PoolHome | Path | None = None) -> Path | None:
    """The root file: CONDOR_CONFIG, else the one that the pool was brought up with, else ``condor_config`` in the
    pool's home, else the site's; or None.

    :raises ConfigError: CONDOR_CONFIG or the pool's record names a file that cannot be read.
    """
    named = env.get("CONDOR_CONFIG")
    if named:
        if named.upper() == ONLY_ENV:
            return None
        if not os.access(named, os.R_OK):
            raise ConfigError(f"CONDOR_CONFIG names {named}, which cannot be read", hint="correct or unset it")
        return Path(named)
    if home is None:
        candidates = []
    else:
        place = _pool_home(home)
        if (recorded := root_file.recorded(place)) is not None:
            return recorded
        candidates = [place.root / "condor_config"]
    return next((path for path in [*candidates, *SITE_FILES] if os.access(path, os.R_OK)), None)


def home_of(env: Mapping[str, str]) -> PoolHome:
    """The home of the pool that a process means: SLOTWISE_HOME; else LOCAL_DIR of the configuration that CONDOR_CONFIG
    names, where that is a directory of its own for a pool (LOG and SPOOL are its ``log`` and ``spool``, which
    LOCAL_DIR = /var of a distribution's HTCondor are not); else as `PoolHome.from_env` finds it.

    :raises DeniedError: see there.
    """
    named = env.get("CONDOR_CONFIG")
    if named and not env.get("SLOTWISE_HOME") and named.upper() != ONLY_ENV and os.access(named, os.R_OK):
        # What is wrong with the configuration is said by who reads it for what it says.
        with suppress(ConfigError):
            config = load(named, env=env)
            origin, place = config.origin("LOCAL_DIR"), Path(config.get_str("LOCAL_DIR"))
            if (
                origin not in (None, DEFAULT)
                and place.is_absolute()
                and Path(config.get_str("LOG")) == place / "log"
                and Path(config.get_str("SPOOL")) == place / "spool"
            ):
                return PoolHome(place)
    return PoolHome.from_env(env)


def _pool_home(home: PoolHome | Path) -> PoolHome:
    return home if isinstance(home, PoolHome) else PoolHome(Path(home))


def _home_defaults(home: PoolHome | Path | None) -> list[tuple[str, str]]:
    """Directories of the pool's home, and of the installation, replace HTCondor's defaults."""
    if home is None:
        return []
    place = _pool_home(home)
    run = str(place.run)
    installed = [("RELEASE_DIR", str(RELEASE_DIR))] if RELEASE_DIR.exists() else []
    return [
        *installed,
        ("LOCAL_DIR", str(place.root)),
        ("LOG", str(place.log)),
        ("SPOOL", str(place.spool)),
        ("EXECUTE", str(place.execute)),
        ("LOCK", run),
        ("RUN", run),
    ]


def load(
    config_file: Path | str | None = None,
    *,
    subsystem: str | None = None,
    local_name: str | None = None,
    env: Mapping[str, str] | None = None,
    home: PoolHome | Path | None = None,
    cwd: Path | str | None = None,
    runtime: Mapping[str, str] | None = None,
    remote_files: Sequence[str] = (),
    seed: int | None = None,
) -> Config:
    """Read the configuration.

    :param config_file: root file; None asks :func:`config_file_of`.
    :param subsystem: whose prefixed settings win (``STARTD.X``); ``TOOL`` by default.
    :param local_name: second prefix, of one daemon among several of its kind.
    :param env: environment for ``_CONDOR_X``, ``_SLOTWISE_X`` and ``$ENV``; the process's if None.
    :param home: pool directory: LOG, SPOOL and EXECUTE default to places below it, and settings made persistent
        with ``slotwise config set`` are read from it.
    :param cwd: where relative file names start.
    :param runtime: settings made at run time, by name; they win over all else.
    :param remote_files: files of a daemon's remote settings (:mod:`slotwise.config.remote`).
    :param seed: makes ``$RANDOM_CHOICE`` and ``$RANDOM_INTEGER`` repeatable.
    :raises ConfigError: the configuration is rejected; names file, line and remedy.
    """
    env = os.environ if env is None else env
    reader = (subsystem or "TOOL").upper()
    root = config_file_of(env, home) if config_file is None else Path(config_file)
    is_null = root is not None and str(root) == "/dev/null"
    names = detect.host_names()
    request: dict[str, object] = {
        "root": None if root is None or is_null else str(root),
        "early": detect.early_facts(env, reader, local_name),
        "firm": detect.firm_facts(reader, local_name),
        "fallback": [("FILESYSTEM_DOMAIN", names[1]), ("UID_DOMAIN", names[1])],
        "defaults": _home_defaults(home),
        "environment": list(env.items()),
        "user_directory": _user_directory(env, reader),
        "persistent": [*_persistent_files(home, reader), *remote_files],
        "runtime": list((runtime or {}).items()),
        "subsystem": reader,
        "local_name": local_name,
        "cwd": str(cwd or Path.cwd()),
        "seed": random.SystemRandom().getrandbits(64) if seed is None else seed,
    }
    try:
        data = _native.load_config(request)
    except ValueError as error:
        raise config_error(error) from None
    return Config(data, reader, local_name)


def _user_directory(env: Mapping[str, str], reader: str) -> str | None:
    """The file of a person's own settings; daemons and root have none."""
    if reader not in ("TOOL", "SUBMIT") or os.getuid() == 0 or not env.get("HOME"):
        return None
    return f"{env['HOME']}/.condor"


def _persistent_files(home: PoolHome | Path | None, reader: str) -> list[str]:
    if home is None:
        return []
    return persistent.files(_pool_home(home), reader)
