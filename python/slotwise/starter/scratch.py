"""The directory of a run under EXECUTE: layout, making, removing.

::

    dir_<pid>_<n>/            0755, the starter's
        scratch/              the job's own, its working directory (JOB_EXECDIR_PERMISSIONS)
        htcondor/             .job.ad .machine.ad .update.ad, readable for the job
        tmp/                  what the job sees as /tmp, /var/tmp (MOUNT_UNDER_SCRATCH)
        control/              0700: the keeper's files, and what a restarted starter needs
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotwise.starter.keeper_spec import Identity

PREFIX = "dir_"
_MODES = {"user": 0o700, "group": 0o750, "world": 0o755}
_serial = itertools.count(1)


@dataclass(frozen=True)
class RunDirectory:
    """The places of one run."""

    path: Path
    nested: bool = True

    @property
    def name(self) -> str:
        """The directory's own name; keepers sign notices with it."""
        return self.path.name

    @property
    def scratch(self) -> Path:
        """The job's directory."""
        return self.path / "scratch"

    @property
    def ours(self) -> Path:
        """Where the ads lie: beside the job's directory, or (not nested) in it."""
        return self.path / "htcondor" if self.nested else self.scratch

    @property
    def control(self) -> Path:
        """The keeper's and the starter's own files."""
        return self.path / "control"

    @property
    def temporary(self) -> Path:
        """Sources of private temporary directories."""
        return self.path / "tmp"

    @property
    def job_ad(self) -> Path:
        """The job ad as the job may read it."""
        return self.ours / ".job.ad"

    @property
    def machine_ad(self) -> Path:
        """The slot's ad as the job may read it."""
        return self.ours / ".machine.ad"

    @property
    def update_ad(self) -> Path:
        """The newest usage."""
        return self.ours / ".update.ad"


def create(execute: Path, *, nested: bool = True) -> RunDirectory:
    """Make the directory of a new run with its control directory; the rest comes when the job is known.

    :raises OSError: when the file system refuses (full, read-only).
    """
    while True:
        path = execute / f"{PREFIX}{os.getpid()}_{next(_serial)}"
        try:
            path.mkdir(mode=0o755)
        except FileExistsError:
            continue
        break
    try:
        (path / "control").mkdir(mode=0o700)
    except OSError:
        path.rmdir()
        raise
    return RunDirectory(path, nested)


def furnish(run: RunDirectory, identity: Identity, permissions: str = "user") -> None:
    """Make the job's directory (its own) and ours.

    :raises OSError: when the file system refuses.
    """
    run.scratch.mkdir(exist_ok=True)
    run.scratch.chmod(_MODES.get(permissions, 0o700))
    if identity.uid is not None and identity.gid is not None:
        os.chown(run.scratch, identity.uid, identity.gid)
    if run.nested:
        run.ours.mkdir(exist_ok=True)


def make_mount_point(run: RunDirectory) -> None:
    """The directory that a volume will be mounted on."""
    run.scratch.mkdir(exist_ok=True)


def temporary_mount(run: RunDirectory, target: str) -> Path:
    """The directory that the job sees as ``target``; made if need be, for all to write."""
    run.temporary.mkdir(exist_ok=True)
    source = run.temporary / target.strip("/").replace("/", "_")
    source.mkdir(exist_ok=True)
    source.chmod(0o1777)
    return source


def remember(run: RunDirectory, facts: Mapping[str, Any]) -> None:
    """Keep what a restarted starter needs, in one step."""
    path = run.control / "run.json"
    fresh = path.with_suffix(".new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(facts, file)
    fresh.rename(path)


def recall(run: RunDirectory) -> dict[str, Any] | None:
    """What :func:`remember` kept; None when it never came to that."""
    try:
        found: dict[str, Any] = json.loads((run.control / "run.json").read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return found


def existing(execute: Path) -> list[RunDirectory]:
    """Directories of runs that lie there, oldest name first."""
    with contextlib.suppress(FileNotFoundError):
        return [RunDirectory(path) for path in sorted(execute.glob(f"{PREFIX}*")) if path.is_dir()]
    return []


def remove(run: RunDirectory) -> list[str]:
    """Remove the whole tree; returns what could not be removed. Blocks."""
    problems: list[str] = []

    def failed(function: Any, name: str, error: BaseException) -> None:
        # A job may have taken away the right to enter a directory: take it back, once.
        path = Path(name)
        try:
            path.parent.chmod(0o700)
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
            function(name)
        except OSError:
            if os.path.lexists(name):
                problems.append(f"{name}: {error}")

    shutil.rmtree(run.path, onerror=lambda function, path, info: failed(function, path, info[1]))
    if run.path.exists() and not problems:
        shutil.rmtree(run.path, ignore_errors=True)
        if run.path.exists():
            problems.append(str(run.path))
    return problems
