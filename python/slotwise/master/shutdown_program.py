"""The program that runs when the master ends (``condor_set_shutdown``; MASTER_SHUTDOWN_<NAME>)."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from slotwise.config import Config
from slotwise.errors import ConfigError, NotFoundError

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9_.]+")
_DEFAULT = "DEFAULT_MASTER_SHUTDOWN_SCRIPT"


class ShutdownProgram:
    """Which program it is. Callers choose among those that the configuration names, and never give a path.

    :param config: reads the configuration that counts now.
    """

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._chosen = ""

    def choose(self, name: str) -> None:
        """Take the program of MASTER_SHUTDOWN_<name>; an empty name takes the choice back.

        :raises NotFoundError: when the configuration names no such program.
        :raises ConfigError: when that cannot be run.
        """
        if name:
            self._path(name)
        self._chosen = name

    def run(self) -> None:
        """Start the chosen program, or that of DEFAULT_MASTER_SHUTDOWN_SCRIPT; it outlives the master."""
        try:
            path = self._path(self._chosen) if self._chosen else self._executable(_DEFAULT)
        except (NotFoundError, ConfigError) as error:
            _log.error("the program to run at the end is left out: %s", error)
            return
        if path is None:
            return
        _log.info("running %s, the program for the end of the master", path)
        try:
            subprocess.Popen(
                [str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            _log.error("could not run %s: %s", path, error.strerror)

    def _path(self, name: str) -> Path:
        if _NAME.fullmatch(name) is None:
            raise NotFoundError(f"{name[:80]!r} is not the name of a program", hint="letters, digits, `_` and `.`")
        knob = f"MASTER_SHUTDOWN_{name}"
        path = self._executable(knob)
        if path is None:
            raise NotFoundError(f"{knob} is not set here", hint=f"set {knob} to the path of the program, and reconfig")
        return path

    def _executable(self, knob: str) -> Path | None:
        text = (self._config().get(knob) or "").strip()
        if not text:
            return None
        path = Path(text)
        if not path.is_absolute() or not os.access(path, os.X_OK) or not path.is_file():
            raise ConfigError(f"{knob}: {text} is not a program", hint="give the absolute path of an executable file")
        return path
