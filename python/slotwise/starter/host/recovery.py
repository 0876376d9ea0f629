"""After a restart: takes up runs whose keepers live, reports those that ended, ends and cleans the rest."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from slotwise.errors import SlotwiseError
from slotwise.execution import child_programs, launcher
from slotwise.execution.cgroup.plan import find_leftovers
from slotwise.execution.control_dir import discard, orphaned
from slotwise.starter.host.job_host import JobHost
from slotwise.starter.job import directories as scratch
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.run.run import Run
from slotwise.starter.run.run_record import load

_log = logging.getLogger(__name__)

#: How long a job of which nothing is known may take to be killed, seconds.
_END_S = 10.0


async def recover(host: JobHost) -> None:
    """Bring the directories under EXECUTE and the runs of ``host`` in line. Before any command of the startd."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, child_programs.end_all, host.control)
    places = (host.machine.settings.execute, *host.machine.settings.other_executes)
    directories = scratch.existing(places, host.control, nested=host.machine.settings.nested)
    found = await asyncio.gather(*(loop.run_in_executor(None, _fate, directory.control) for directory in directories))
    # Of runs that live. Once they are linked one may end, and its files go.
    used: set[str] = set()
    restored: list[Run] = []
    for directory, (fate, names) in zip(directories, found, strict=True):
        run = _restored(host, directory)
        if run is None:
            if fate == "alive":
                _log.error("%s: no record of the run, ending its job", directory.path)
                await _ended(directory.control)
            await loop.run_in_executor(None, _clear_away, host, directory)
            continue
        run.adopt()
        if fate == "alive":
            used |= set(_groups_of(directory.control))
            run.keeper.watch(int(names[0]))
            run.live.follow()
            run.ask_runtime()
            await host.preparation.admit_to_io_proxy(run, host.machine.settings.chirp)
            _log.info("run %s: reconnected to its keeper %s", run.run_id, names[0])
        else:
            if names:
                _log.error("run %s: left over: %s", run.run_id, " ".join(names))
            _log.info("run %s ended while the starter was down: %s", run.run_id, fate)
            run.keeper.take_result()
        restored.append(run)
    await loop.run_in_executor(None, host.common.clear)  # before the first run can be sent some
    for run in restored:  # all at once: a shadow takes a run that is not in the first list for lost
        host.link(run)
    await host.sweep_runtimes()
    await loop.run_in_executor(None, _clear_groups, host, used)
    await loop.run_in_executor(None, _clear_volumes, host)
    await loop.run_in_executor(None, _clear_orphans, host)


def _fate(control: Path) -> tuple[str, list[str]]:
    """What became of a run: see :func:`slotwise.execution.launcher.sweep`."""
    if not control.is_dir():
        return "never", []
    try:
        return launcher.sweep(control)
    except OSError as error:
        _log.error("%s: %s", control, error)
        return "unreadable", []


async def _ended(control: Path) -> None:
    """Have a keeper end its job, and wait a moment for it."""
    deadline = asyncio.get_running_loop().time() + _END_S
    while launcher.holder(control) is not None and asyncio.get_running_loop().time() < deadline:
        launcher.command(control, "hard")
        await asyncio.sleep(0.05)


def _restored(host: JobHost, directory: RunDirectory) -> Run | None:
    """The run of a directory; None when it was never started or cannot be read."""
    kept = scratch.recall(directory)
    if kept is None or not (directory.control / "spec").exists():
        return None
    try:
        return load(host, directory, kept)
    except (SlotwiseError, KeyError, ValueError, TypeError) as error:
        _log.error("could not recover the run in %s: %s", directory.path, error)
        return None


def _clear_away(host: JobHost, directory: RunDirectory) -> None:
    problems = host.disks.volumes.remove(directory.name, directory.scratch)
    problems += scratch.remove(directory)
    if problems:
        _log.error("could not remove %s: %s", directory.path, "; ".join(problems[:5]))


def _clear_groups(host: JobHost, used: set[str]) -> None:
    """Remove groups of this EXECUTE that belong to no living run; ``used``: those that do."""
    for group in find_leftovers(host.machine.cgroups, host.machine.settings.execute, host.machine.settings.slot_prefix):
        if str(group) not in used and not launcher.clear_group(host.machine.cgroups.version, group):
            _log.error("could not remove the cgroup %s", group)


def _groups_of(control: Path) -> list[str]:
    """The groups that a run's keeper has made for it."""
    fields = (control / "spec").read_bytes().split(b"\0")
    return [field[8:].decode() for field in fields if field.startswith(b"cg.make=")]


def _clear_orphans(host: JobHost) -> None:
    """End and remove what pools left behind whose directories are gone."""
    for root in orphaned(host.control):
        for control in sorted(root.glob(f"{scratch.PREFIX}*")):
            fate, _ = _fate(control)
            if fate != "alive":
                launcher.remove_tree(control)
        discard(root)


def _clear_volumes(host: JobHost) -> None:
    places = (host.machine.settings.execute, *host.machine.settings.other_executes)
    for name in host.disks.volumes.leftovers():
        if not any((place / name).exists() for place in places):
            for problem in host.disks.volumes.remove(name, host.machine.settings.execute / name / "scratch"):
                _log.error("volume %s: %s", name, problem)
    for problem in host.disks.volumes.clear_trials():
        _log.error("left over: %s", problem)
