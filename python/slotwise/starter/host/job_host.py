"""The runs of this host: takes them on, and carries out the commands of the startd."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from slotwise import ids
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.execution.control_dir import Hold, control_root, discard
from slotwise.execution.exit_status import End, Kill
from slotwise.execution.job_view import read_slot
from slotwise.execution.launcher import Launcher
from slotwise.ids import doing_for_run
from slotwise.starter.host.capabilities import Enforcement
from slotwise.starter.host.machine import Machine
from slotwise.starter.host.preparation import Preparation
from slotwise.starter.job import directories
from slotwise.starter.job.ads import lookup, unpack_one
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import scratch_failure
from slotwise.starter.links.leftovers import Leftovers
from slotwise.starter.links.shadow_link import ShadowLink
from slotwise.starter.links.standalone import Standalone
from slotwise.starter.links.startd_outbox import StartdOutbox
from slotwise.starter.messages import LeftoversRemoved, ListedRun, RunList, SlotFree, StartJob
from slotwise.starter.run import events, reporting
from slotwise.starter.run.run import Run
from slotwise.starter.run.states import Phase
from slotwise.starter.scratch.cleanup_retry import CleanupRetry
from slotwise.starter.scratch.disks import ScratchDisks, wants_encryption
from slotwise.starter.scratch.volumes import Volumes
from slotwise.starter.settings import SLOT_KNOBS, StarterSettings
from slotwise.starter.transfer.common_inputs import CommonInputs

_log = logging.getLogger(__name__)


class JobHost:
    """All runs of this host's starter, and what they share."""

    def __init__(
        self,
        settings: StarterSettings,
        enforcement: Enforcement,
        volumes: Volumes,
        clock: Clock,
        own_address: str,
    ) -> None:
        self.control = control_root(settings.execute, settings.control)
        self._hold = Hold(self.control)
        self.startd = StartdOutbox()
        self.machine = Machine(settings, enforcement, self.control, self.startd)
        self.disks = ScratchDisks(settings, volumes)
        self.common = CommonInputs(settings.execute)
        self.common.copies_only = settings.copies_common
        self.clock = clock
        self.runs: dict[str, Run] = {}
        self._by_directory: dict[str, Run] = {}
        self._links: dict[str, ShadowLink] = {}
        self._standalone = Standalone()
        self.own_address = own_address
        self.lease = self.control / "lease"
        self.leftovers = Leftovers(self.control)
        self.cleanup_retry = CleanupRetry(self.control, self.disks.dispose_again, self._leftovers_removed)
        notices = self.control / "notices"
        self._launcher = Launcher(notices, self._notice)
        self.preparation = Preparation(self.machine, self.disks, self.runs, notices=notices, lease=self.lease)

    async def open(self) -> None:
        """Start the zygote, and find out what plugins serve."""
        self.lease.touch(mode=0o600)
        await self._launcher.start()
        await self.machine.look_for_plugins()

    async def sweep_runtimes(self) -> None:
        """Remove what is left of containers whose runs are gone."""
        await self.machine.runtimes.sweep(frozenset(self._by_directory))

    async def close(self) -> None:
        """End streams and zygote. Jobs go on under their keepers."""
        await self.cleanup_retry.stop()
        await self.preparation.close()
        for link in list(self._links.values()):
            await link.close()
        await self._launcher.stop()
        await asyncio.gather(*(run.settle() for run in list(self.runs.values()) if run.state.phase is Phase.GONE))
        discard(self.control)
        self._hold.end()
        if not self.runs:
            for problem in await asyncio.get_running_loop().run_in_executor(None, self.disks.volumes.close):
                _log.error("could not remove volume group: %s", problem)

    # ---- commands of the startd

    def start(self, run_id: str, start: StartJob) -> None:
        """Take on a run.

        :raises SlotwiseError: when the command cannot be understood.
        """
        known = self.runs.get(run_id)
        if known is not None:
            # Repeated after a break of the stream. A run that has freed its slot reports that again.
            if known.state.reported_gone:
                reporting.report_slot_free(known)
            return
        machine_ad = unpack_one(start.slot_ad)
        slot = read_slot(lookup(machine_ad), start.slot_name)
        limits = lookup(unpack_one(start.limits))
        directory, obstacle = self._make_directory(limits("EXECUTE"))
        assignment = Assignment(
            run_id=run_id,
            slot=slot,
            machine_ad=machine_ad,
            directory=directory,
            token=start.run_token,
            lease_s=float(start.lease_s),
            shadow_address=start.shadow_address,
            fetched_for=start.fetched_for,
            fetched_ad=start.job_ad if start.fetched_for else b"",
            limits={name: limits(name) for name in ("SlotUser", "MachineMaxVacateTime", *SLOT_KNOBS)},
        )
        try:
            run = Run(self, assignment)
            self.register(run)
        except Exception:
            directories.remove(directory)
            raise
        try:
            run.scratch.wants_encryption = bool(start.job_ad) and wants_encryption(lookup(unpack_one(start.job_ad)))
            run.obstacle = obstacle or self.disks.refusal(run.scratch)
            if self.disks.gives_volume(run.scratch) and run.obstacle is None:
                run.begin(self._with_volume(run))
            else:
                self.link(run)
        except Exception:
            run.on(events.Unwanted(report_gone=False))  # who asked for it hears of the failure
            raise

    def _make_directory(self, execute: object) -> tuple[RunDirectory, End | None]:
        """The directories of a new run below ``execute`` (EXECUTE of its slot); or why they cannot be made."""
        try:
            parent = Path(execute) if isinstance(execute, str) and execute else self.machine.settings.execute
            return directories.create(parent, self.control, nested=self.machine.settings.nested), None
        except OSError as error:
            name = f"none_{ids.secret(32)}"
            nowhere = RunDirectory(self.machine.settings.execute / name, self.control / name)
            return nowhere, scratch_failure(error, at_start=True)

    async def _with_volume(self, run: Run) -> None:
        """Give the run a file system of its own, then let it speak to its shadow."""
        run.obstacle = await self.disks.provide(run.scratch)
        self.link(run)

    def register(self, run: Run) -> None:
        """Know a run by its id and its directory."""
        self.runs[run.run_id] = run
        self._by_directory[run.assignment.directory.name] = run

    def link(self, run: Run) -> None:
        """Put a run on the stream to its shadow; fetched work has none."""
        if run.assignment.fetched_for:
            run.shadow.link = self._standalone
            self._standalone.add(run)
            return
        address = run.assignment.shadow_address
        found = self._links.get(address)
        if found is None:
            found = self._links[address] = ShadowLink(address, self.own_address, self._link_idle)
        run.shadow.link = found
        found.add(run)

    def _link_idle(self, link: ShadowLink) -> None:
        if self._links.get(link.address) is link:
            del self._links[link.address]

    def move(self, run_ids: Iterable[str], address: str) -> None:
        """The schedd of these runs answers at another address: their shadows are there."""
        for run_id in run_ids:
            run = self.runs.get(run_id)
            if run is None or run.assignment.fetched_for or run.state.phase is Phase.GONE:
                continue
            if not address or run.assignment.shadow_address == address:
                continue
            doing = doing_for_run(run_id, f"looking for its shadow at {address}")
            with contained(_log, doing, run.fail):
                self._move(run, address)

    def _move(self, run: Run, address: str) -> None:
        former = self._links.get(run.assignment.shadow_address)
        _log.info("%s: looking for the shadow of run %s at %s now", run.job_id, run.run_id, address)
        run.assignment = replace(run.assignment, shadow_address=address)
        try:
            directories.amend(run.assignment.directory, {"shadow_address": address})
        except OSError as error:  # after a restart the list for the startd says so, and the startd repeats it
            _log.warning("%s: run %s is not known by its new address on disk: %s", run.job_id, run.run_id, error)
        if run.shadow.link is None:
            return  # it has yet to be put on a stream
        run.shadow.drop()
        run.link_lost()
        self.link(run)
        if former is not None and not former.runs:
            former.hang_up()  # whoever answers there is not the schedd any more

    def kill(self, run_id: str, kill: Kill) -> None:
        """End a job as the startd wants."""
        run = self.runs.get(run_id)
        if run is None:
            self.report_unknown_run(run_id)
            return
        run.on(events.KillRequested(kill))

    def measured(self, run_id: str, pack: bytes) -> None:
        """The startd has measured what a job uses of its devices.

        :raises SlotwiseError: when the pack cannot be read.
        """
        run = self.runs.get(run_id)
        if run is not None:
            value = lookup(ad := unpack_one(pack))
            numbers = {name: value(name) for name in ad}
            run.reported.devices = {name: number for name, number in numbers.items() if isinstance(number, int | float)}

    def suspend(self, run_id: str, resume: bool) -> None:
        """Suspend a job, or continue it."""
        run = self.runs.get(run_id)
        if run is not None:
            run.on(events.SuspendRequested(resume))

    def drop(self, run_id: str) -> None:
        """The startd has no claim for the run: end it, and report the end to its shadow, which may not know that."""
        run = self.runs.get(run_id)
        if run is not None:
            run.on(events.ClaimGone())

    def report_unknown_run(self, run_id: str) -> None:
        """Report that a run which the startd names is not here: it holds no slot."""
        self.startd.report(run_id, SlotFree(how="failed"))

    def report_runs(self) -> None:
        """Answer the startd's request for the list of runs; what the host enforces follows, and ends not noted yet."""
        runs = tuple(_listed(run) for run in self.runs.values() if _is_listed(run))
        self.startd.report("", RunList(runs, tuple(self.leftovers), tuple(self.leftovers.repaired)))
        self.machine.report_host_facts()
        for run in list(self.runs.values()):
            if run.assignment.fetched_for and run.state.reported_gone:
                reporting.report_slot_free(run)

    def end_noted(self, run_id: str) -> None:
        """The startd has written down how fetched work ended."""
        run = self.runs.get(run_id)
        if run is not None and run.assignment.fetched_for:
            run.begin(self._leave(run))

    async def _leave(self, run: Run) -> None:
        """End fetched work once its event log has its end."""
        if run.user_log is not None:
            await run.user_log.settle()
        run.on(events.EndAcknowledged())

    # ---- what a run asks for

    def spawn(self, run: Run) -> asyncio.Future[int]:
        """Have a keeper forked."""
        return self._launcher.spawn(run.assignment.directory.control)

    def vacate_s(self, run: Run) -> int:
        """Seconds that a job may take to leave unless the kill says otherwise (MachineMaxVacateTime)."""
        told = run.assignment.limits.get("MachineMaxVacateTime")
        return int(told) if isinstance(told, int | float) else self.machine.settings.vacate_s

    async def dispose(self, run: Run) -> list[str]:
        """Remove directory and volume; returns what could not be removed."""
        self.preparation.release(run)
        problems = await asyncio.get_running_loop().run_in_executor(None, self.disks.dispose, run.scratch)
        if problems:
            self.cleanup_retry.add(run.run_id, run.assignment.directory)
        return problems

    def clean_later(self, run: Run) -> None:
        """Remove directory and volume when something kept us from it."""
        self.cleanup_retry.add(run.run_id, run.assignment.directory)

    def _leftovers_removed(self, run_id: str) -> None:
        """The leftovers of a run have been removed after all; every list says so until the startd confirms it."""
        self.leftovers.note_repair(run_id)
        self.startd.report(run_id, LeftoversRemoved())

    def forget(self, run: Run) -> None:
        """The run is gone."""
        self.preparation.forget(run)
        if self.runs.get(run.run_id) is run:
            del self.runs[run.run_id]
        self._by_directory.pop(run.assignment.directory.name, None)

    def _notice(self, name: str, what: str) -> None:
        run = self._by_directory.get(name)
        if run is not None:
            with contained(_log, doing_for_run(run.run_id, f"processing {what!r} of its keeper"), run.fail):
                run.notice(what)


def _is_listed(run: Run) -> bool:
    """The run holds its slot, or is fetched work whose end the startd has not written down."""
    return not run.state.reported_gone or bool(run.assignment.fetched_for)


def _listed(run: Run) -> ListedRun:
    state = run.state
    assignment = run.assignment
    shadow = "" if assignment.fetched_for else assignment.shadow_address
    return ListedRun(run.run_id, assignment.slot.name, state.pid, str(state.phase), state.suspended, shadow)
