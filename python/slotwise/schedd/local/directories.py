"""The directories of runs on the access point: where they are, what is in them, and what others left there."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from slotwise.daemon.containment import contained
from slotwise.daemon.privileges import root_files
from slotwise.errors import HostError
from slotwise.execution import control_dir, launcher
from slotwise.execution.keeper_spec import Identity, KeeperSpec
from slotwise.schedd.jobs.codes import Universe
from slotwise.schedd.local.keeper_spec import PREFIX, RunPlace
from slotwise.schedd.local.settings import LocalSettings
from slotwise.schedd.local.work import RunWork

_log = logging.getLogger(__name__)
#: The time that a stray run's keeper has to be gone once it was told to kill, in seconds.
_LAST_S = 8.0


class RunDirectories:
    """LOCAL_UNIV_EXECUTE and the control directories; both are made when the first job needs them."""

    def __init__(self, settings: Callable[[], LocalSettings], work: RunWork) -> None:
        self._settings = settings
        self._work = work
        #: The control directories' parent; None before the first job.
        self.root: Path | None = None
        self._hold: control_dir.Hold | None = None
        #: LOCAL_UNIV_EXECUTE, once verified; changes take effect with a restart.
        self._execute: Path | None = None

    @property
    def execute(self) -> Path:
        """LOCAL_UNIV_EXECUTE."""
        return self._execute or self._settings().execute

    def place(self, run_id: str, *, root: Path | None = None) -> RunPlace:
        """The directories of a run; ``root``: where its control directory was laid out, if not where they are now."""
        return RunPlace.of(run_id, root or self.root, self.execute)

    async def is_unused(self) -> bool:
        """Whether no job has ever run here."""
        return not await self._work.in_thread(self.execute.is_dir)

    async def open(self) -> Path:
        """The parent of control directories, made at the first call.

        :raises HostError: when others may write to LOCAL_UNIV_EXECUTE, or no place is the schedd's alone.
        """
        if self.root is None:
            settings = self._settings()
            self.root, self._hold = await self._work.in_thread(partial(_make, settings))
            self._execute = settings.execute
        assert self.root is not None
        return self.root

    async def lay_out(self, place: RunPlace, universe: int, who: Identity, ad: str, spec: KeeperSpec) -> None:
        """Create a run's directories, and the keeper's spec last: a run with a spec can be recovered.

        :raises OSError: when the file system refuses.
        """
        await self._work.in_thread(partial(_lay_out, place, universe, who, ad, spec))

    async def is_laid_out(self, place: RunPlace) -> bool:
        """Whether a run's control directory is complete."""
        return await self._work.in_thread((place.control / "spec").exists)

    async def remove(self, place: RunPlace) -> None:
        """Remove both directories of a run."""
        await self._work.in_thread(partial(_remove, place))

    async def clear(self, known: set[str]) -> None:
        """Kill and remove what does not belong to any of the ``known`` runs."""
        assert self.root is not None
        await self._work.in_thread(partial(_clear, self.root, self.execute, known))

    def discard(self) -> None:
        """Remove the parent of control directories if no run is in it."""
        if self.root is not None:
            with root_files():
                control_dir.discard(self.root)
        if self._hold is not None:
            self._hold.end()


def _make(settings: LocalSettings) -> tuple[Path, control_dir.Hold]:
    with contextlib.suppress(FileExistsError):
        settings.execute.mkdir(parents=True)
        settings.execute.chmod(0o755)  # jobs read their ads there, whatever the daemon's umask
    if not control_dir.is_private(settings.execute):
        # Otherwise, files of others would be removed, or written through links, with the daemon's rights.
        raise HostError(
            f"{settings.execute} is not a directory of the schedd's that nobody else may write",
            hint="give LOCAL_UNIV_EXECUTE one of its own",
        )
    root = control_dir.control_root(settings.execute, settings.control)
    return root, control_dir.Hold(root)


def _lay_out(place: RunPlace, universe: int, who: Identity, ad: str, spec: KeeperSpec) -> None:
    _remove(place)
    owner = None if who.uid is None or who.gid is None else (who.uid, who.gid)
    scratch = place.scratch(universe)
    entries: list[launcher.Entry] = [(str(place.directory), 0o755, None, None)]
    if universe == Universe.LOCAL:
        entries.append((str(scratch), 0o700, owner, None))
        entries.append((str(scratch / ".machine.ad"), 0o400, owner, b""))
    # The job's environment is in its ad.
    entries.append((str(scratch / ".job.ad"), 0o400, owner, ad.encode("utf-8", "surrogateescape")))
    entries.append((str(place.control), 0o700, None, None))
    entries.append((str(place.control / "spec"), 0o600, None, spec.encode()))
    launcher.write_files(entries)


def _remove(place: RunPlace) -> None:
    """The control directory goes last, as the run can be recovered with it."""
    for path in (place.directory, place.control):
        for problem in launcher.remove_tree(path) if path.exists() else ():
            _log.warning("could not remove %s", problem)


def _clear(root: Path, execute: Path, known: set[str]) -> None:
    for path in sorted(root.glob(f"{PREFIX}*")):
        if path.name not in known:
            with contained(_log, f"killing the stray run {path.name}"):
                _end_stray(path)
    for path in sorted(execute.glob(f"{PREFIX}*")):
        if path.name not in known:
            launcher.remove_tree(path)


def _end_stray(path: Path) -> None:
    launcher.command(path, "hard")
    deadline = time.monotonic() + _LAST_S
    while launcher.holder(path) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    found, names = launcher.sweep(path)
    _log.info("killed the stray run %s: %s %s", path.name, found, " ".join(names))
    if found != "alive":
        launcher.remove_tree(path)
