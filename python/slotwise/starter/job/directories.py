"""The directories of a run: layout, making, removing.

::

    EXECUTE/dir_<pid>_<n>/    0755, the starter's
        scratch/              the job's own, its working directory (JOB_EXECDIR_PERMISSIONS)
        htcondor              link to the control directory: .job.ad .machine.ad .update.ad, readable for the job
        creds/                0700, the job's own: its tokens, where it has some (_CONDOR_CREDS)
        private/              0700, the starter's: other users of the host must not reach what is in it
            tmp, var_tmp      what the job sees as /tmp, /var/tmp (MOUNT_UNDER_SCRATCH)
    CONTROL/dir_<pid>_<n>/    0710: the keeper's files (0600), and what a restarted starter needs; see `control`
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from slotwise import whole_file
from slotwise.execution.environment import Places
from slotwise.execution.keeper_spec import Identity, KeeperSpec
from slotwise.execution.launcher import Entry, remove_tree, write_files

PREFIX = "dir_"
#: What a restarted starter needs of a run, in its control directory.
_RECORD = "run.json"
_MODES = {"user": 0o700, "group": 0o750, "world": 0o755}
_serial = itertools.count(1)


class RunDirectory(Struct, frozen=True, dict=True):
    """The places of one run: its directory under EXECUTE, and its control directory of the same name."""

    path: Path
    control: Path
    nested: bool = True

    @property
    def name(self) -> str:
        """The directory's own name; keepers sign notices with it."""
        return self.path.name

    @cached_property
    def scratch(self) -> Path:
        """The job's directory."""
        return self.path / "scratch"

    @cached_property
    def private(self) -> Path:
        """Where the directories lie that are mounted over the job's ``/tmp`` and the like."""
        return self.path / "private"

    @cached_property
    def credentials(self) -> Path:
        """Where the job's tokens lie."""
        return self.path / "creds"

    @cached_property
    def ours(self) -> Path:
        """Where the job finds its ads: beside its directory (a link), or (not nested) in it."""
        return self.path / "htcondor" if self.nested else self.scratch

    @cached_property
    def job_ad(self) -> Path:
        """The job ad as the job may read it."""
        return self.ours / ".job.ad"

    @cached_property
    def machine_ad(self) -> Path:
        """The slot's ad as the job may read it."""
        return self.ours / ".machine.ad"

    @cached_property
    def update_ad(self) -> Path:
        """The newest usage."""
        return self.ours / ".update.ad"


def create(execute: Path, control: Path, *, nested: bool = True) -> RunDirectory:
    """Make the directories of a new run, empty; the rest comes when the job is known.

    :raises OSError: when a file system refuses (full, read-only).
    """
    while True:
        name = f"{PREFIX}{os.getpid()}_{next(_serial)}"
        run = RunDirectory(execute / name, control / name, nested)
        try:
            run.control.mkdir(mode=0o700)
        except FileExistsError:
            continue
        try:
            run.path.mkdir(mode=0o755)
        except FileExistsError:
            run.control.rmdir()
            continue
        except OSError:
            run.control.rmdir()
            raise
        return run


def create_scratch(run: RunDirectory, identity: Identity, permissions: str = "user", *, linked: bool = True) -> None:
    """Make the job's directory (its own), and the link to its ads.

    :param linked: false for a job that sees nothing but its own directories: its ads lie there, not behind a link.

    :raises OSError: when the file system refuses.
    """
    owner = None if identity.uid is None or identity.gid is None else (identity.uid, identity.gid)
    # Only the job's own group passes through to its ads: other users' jobs have no business there.
    passing = None if identity.gid is None else (os.geteuid(), identity.gid)
    write_files(
        [
            (str(run.control), 0o700 if passing is None else 0o710, passing, None),
            (str(run.scratch), _MODES.get(permissions, 0o700), owner, None),
        ]
    )
    if run.nested and not linked:
        write_files([(str(run.ours), 0o700 if passing is None else 0o710, passing, None)])
    elif run.nested:
        with contextlib.suppress(FileExistsError):
            run.ours.symlink_to(run.control)


def make_mount_point(run: RunDirectory) -> None:
    """The directory that a volume will be mounted on."""
    run.scratch.mkdir(exist_ok=True)


def temporary_source(run: RunDirectory, target: str) -> str:
    """The directory that the job sees as ``target``: world-writable as it is, in one that only we may enter."""
    return str(run.private / target.strip("/").replace("/", "_"))


def places_of(directory: RunDirectory, cwd: str) -> Places:
    """Where a run's files are for its job and its hooks; ``cwd`` is the job's."""
    return Places(
        scratch=str(directory.scratch),
        job_ad=str(directory.job_ad),
        machine_ad=str(directory.machine_ad),
        iwd=cwd,
        chirp_config=str(directory.ours / ".chirp.config"),
    )


def ad_files(run: RunDirectory, ads: tuple[str, str], uid: int | None) -> list[Entry]:
    """The ads of job and machine, for the job (``uid``) and its hooks to read: its environment is in them, and its
    group may be one that many users have."""
    owner = None if uid is None else (uid, os.getegid())
    return [
        (str(run.job_ad), 0o400, owner, ads[0].encode("utf-8", "surrogateescape")),
        (str(run.machine_ad), 0o400, owner, ads[1].encode("utf-8", "surrogateescape")),
    ]


def start_files(
    run: RunDirectory,
    ads: tuple[str, str],
    kept: Mapping[str, object],
    spec: KeeperSpec,
    private: Iterable[str] = (),
) -> list[Entry]:
    """All that is written when a job starts: ads it may read (job's, machine's), ``private`` directories (what it sees
    as ``/tmp`` and the like, whoever mounts them), what a restart needs, and last the keeper's spec: a run with a spec
    can be taken up again."""
    entries = ad_files(run, ads, spec.identity.uid)
    sources = tuple(private)
    if sources:
        entries.append((str(run.private), 0o700, None, None))
    entries += [(source, 0o1777, None, None) for source in sources]
    entries.append((str(run.control / _RECORD), 0o600, None, json.dumps(kept).encode()))
    entries.append((str(run.control / "spec"), 0o600, None, spec.encode()))
    return entries


def recall(run: RunDirectory) -> dict[str, object] | None:
    """What :func:`start_files` kept; None when it never came to that."""
    try:
        found = json.loads((run.control / _RECORD).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def amend(run: RunDirectory, changes: Mapping[str, object]) -> None:
    """Change values of what :func:`start_files` kept; nothing when it never came to that.

    :raises OSError: when the file system refuses; what was kept stays as it is.
    """
    kept = recall(run)
    if kept is None:
        return
    whole_file.write(run.control / _RECORD, json.dumps({**kept, **changes}), mode=0o600, lasts=False)


def existing(executes: Iterable[Path], control: Path, *, nested: bool = True) -> list[RunDirectory]:
    """Directories of runs that lie there, whether only one of the two or both, in the order of their names."""
    found: dict[str, Path] = {}
    for execute in executes:
        with contextlib.suppress(FileNotFoundError):
            found |= {path.name: path for path in execute.glob(f"{PREFIX}*") if path.is_dir()}
    for path in control.glob(f"{PREFIX}*"):
        found.setdefault(path.name, control / ".none" / path.name)
    return [RunDirectory(found[name], control / name, nested) for name in sorted(found)]


def remove(run: RunDirectory) -> list[str]:
    """Remove both trees; returns what could not be removed. Blocks."""
    # The control directory goes last: with it the run can still be taken up again.
    return remove_tree(run.path) + remove_tree(run.control)
