"""Personal pools that a program starts and stops: ``slotwise up`` and ``down`` in a directory of its own."""

from __future__ import annotations

import atexit
import enum
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import classad2 as classad

from htcondor2._collector import Collector
from htcondor2._config import param, reload_config
from htcondor2._errors import HTCondorException
from htcondor2._schedd import Schedd

#: How long jobs may take to end when the pool is stopped; it is stopped at once then.
_KILL_AFTER_S = 60


class PersonalPoolState(str, enum.Enum):  # noqa: UP042 - as HTCondor's: str() gives the class's name, too
    """What has become of a pool."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZED = "INITIALIZED"
    STARTING = "STARTING"
    READY = "READY"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


class PersonalPool:
    """A pool with its state and configuration below ``local_dir`` (``~/.condor/personal``).

    :param config: knobs by name; None is an empty value.
    :param raw_config: text of the configuration language, behind ``config``.
    :param detach: the pool goes on when the program ends.
    :param use_config: the pool is this process's from now on, for all else that it calls.
    """

    def __init__(
        self,
        local_dir: Path | str | None = None,
        config: Mapping[str, str | None] | None = None,
        raw_config: str | None = None,
        detach: bool = False,
        use_config: bool = True,
    ) -> None:
        self._state = PersonalPoolState.UNINITIALIZED
        self.local_dir = Path(local_dir or Path.home() / ".condor" / "personal").absolute()
        self.execute_dir = self.local_dir / "execute"
        self.log_dir = self.local_dir / "log"
        self.run_dir = self.local_dir / "run"
        self.spool_dir = self.local_dir / "spool"
        self.config_file = self.local_dir / "condor_config"
        self._config = dict(config or {})
        self._raw_config = raw_config or ""
        self._detach = detach
        atexit.register(self.stop)
        if use_config:
            self.initialize()
            self.use_config().set()

    @property
    def state(self) -> PersonalPoolState:
        """What has become of the pool."""
        return self._state

    def __repr__(self) -> str:
        return f"{type(self).__name__}(local_dir={self.local_dir}, state={self._state})"

    def use_config(self) -> SetCondorConfig:
        """A context in which the pool is that of this process."""
        return SetCondorConfig(self.config_file)

    def _env(self) -> dict[str, str]:
        return os.environ | _naming(self.config_file)

    @property
    def collector(self) -> Collector:
        """The pool's collector, whatever the pool of this process is."""
        return Collector._of_pool(self._env())

    @property
    def schedd(self) -> Schedd:
        """The pool's schedd, whatever the pool of this process is."""
        return Schedd._of_pool(self._env())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the pool, unless it runs; it answers then.

        :raises HTCondorException: it does not start, with the reason; or another object has started one there.
        """
        if self._state in (PersonalPoolState.STARTING, PersonalPoolState.READY):
            return self
        self.initialize()
        if self.who():
            raise HTCondorException(f"a pool runs in {self.local_dir} already: use PersonalPool.attach")
        self._state = PersonalPoolState.STARTING
        done = self._slotwise("up")
        if done.returncode:
            self._slotwise("down", "--fast")
            self._state = PersonalPoolState.STOPPED
            raise HTCondorException(f"the pool in {self.local_dir} does not start: {done.stderr.strip()}")
        self._state = PersonalPoolState.READY
        return self

    def initialize(self, overwrite_config: bool = True) -> Self:
        """Make the directory and the configuration file.

        :raises FileExistsError: there is such a file, and it is not to be overwritten.
        """
        if self._state in (PersonalPoolState.INITIALIZED, PersonalPoolState.STARTING, PersonalPoolState.READY):
            return self
        self.local_dir.mkdir(parents=True, exist_ok=True)
        if not overwrite_config and self.config_file.exists():
            raise FileExistsError(f"{self.config_file} is there already")
        lines = [f"{name} = {'' if value is None else value}" for name, value in self._config.items()]
        self.config_file.write_text("\n".join([*lines, textwrap.dedent(self._raw_config), ""]))
        self._state = PersonalPoolState.INITIALIZED
        return self

    def stop(self) -> Self:
        """Stop the pool, unless it is detached: running jobs are vacated, and killed after a minute.

        :raises HTCondorException: it does not stop.
        """
        if self._detach or self._state not in (PersonalPoolState.STARTING, PersonalPoolState.READY):
            return self
        self._state = PersonalPoolState.STOPPING
        try:
            done = self._slotwise("down", timeout=_KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            done = self._slotwise("down", "--fast")
        if done.returncode:
            raise HTCondorException(f"the pool in {self.local_dir} does not stop: {done.stderr.strip()}")
        self._state = PersonalPoolState.STOPPED
        return self

    def who(self) -> classad.ClassAd:
        """What ``condor_who -quick`` prints of the pool's daemons; empty when none runs."""
        found = classad.parseAds(self._slotwise("who", "-quick").stdout)
        ad = next(iter(found), classad.ClassAd())
        return ad if "MASTER" in ad else classad.ClassAd()

    def run_command(self, args: Sequence[Any], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Run a command, HTCondor's names among them, in this pool; ``kwargs`` are those of :func:`subprocess.run`."""
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
        options |= {"env": self._env()} | kwargs
        path = [self._slotwise("condor-names").stdout.strip(), options["env"].get("PATH", os.defpath)]
        options["env"] = {**options["env"], "PATH": os.pathsep.join(filter(None, path))}
        done: subprocess.CompletedProcess[str] = subprocess.run([str(word) for word in args], check=False, **options)
        done.stdout, done.stderr = (text and text.rstrip() for text in (done.stdout, done.stderr))
        return done

    def _slotwise(self, *words: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "slotwise", *words]
        return subprocess.run(command, env=self._env(), capture_output=True, text=True, timeout=timeout, check=False)

    def get_config_val(self, macro: str, default: str | None = None) -> str:
        """The value of a knob; ``default`` where it has none.

        :raises KeyError: it has none, and there is no default.
        """
        with self.use_config():
            found = param.get(macro, default)
        if found is None:
            raise KeyError(macro)
        return str(found)

    @classmethod
    def attach(cls, local_dir: Path | str | None = None) -> Self:
        """The pool that runs in ``local_dir``.

        :raises HTCondorException: none does.
        """
        pool = cls(local_dir, use_config=False)
        if not pool.who():
            raise HTCondorException(f"no pool runs in {pool.local_dir}")
        pool._state = PersonalPoolState.READY
        pool.use_config().set()
        return pool

    def detach(self) -> Self:
        """Let the pool go on when the program ends."""
        self._detach = True
        return self


class SetCondorConfig:
    """The pool of a configuration file as that of this process: in a ``with``, or from ``set`` to ``unset``."""

    def __init__(self, config_file: Path | str) -> None:
        self.config_file = Path(config_file)
        self._before: dict[str, str | None] = {}

    def set(self) -> None:
        """Name the pool in the environment."""
        named = _naming(self.config_file)
        self._before = {name: os.environ.get(name) for name in named}
        os.environ.update(named)
        reload_config()

    def unset(self) -> None:
        """Name the pool that was named before."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        reload_config()

    def __enter__(self) -> Self:
        self.set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unset()


def _naming(config_file: Path) -> dict[str, str]:
    return {"CONDOR_CONFIG": str(config_file), "SLOTWISE_HOME": str(config_file.parent)}


__all__ = ["PersonalPool", "PersonalPoolState", "SetCondorConfig"]
