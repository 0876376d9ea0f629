"""The starter's jobs on this host: makes runs, gives them what they need, watches over time, lets them go."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import pwd
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slotwise import ids
from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import UsageError
from slotwise.execution.cgroup.plan import listed, memory_limit_mib
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.execution.control_dir import control_root, discard
from slotwise.execution.exit_status import FAILED_TO_CREATE_PROCESS, SCRATCH_DIR_ERROR, End, How, Kill, MemoryRule, held
from slotwise.execution.job_view import read_job, read_slot
from slotwise.execution.keeper_spec import KeeperSpec
from slotwise.execution.launcher import Launcher, write_files
from slotwise.ids import doing_for_run
from slotwise.model.ownership import domain_of, owner_attributes
from slotwise.starter.enforcement import accounts, affinity, gpu_hiding
from slotwise.starter.enforcement.accounts import TrackingGroups
from slotwise.starter.hooks import hooks
from slotwise.starter.host import keeper_spec
from slotwise.starter.host.capabilities import Enforcement, cgroups_for
from slotwise.starter.host.keeper_spec import Surroundings
from slotwise.starter.io_proxy.listener import IoProxyListener
from slotwise.starter.job import directories
from slotwise.starter.job.ads import lookup, pack_one, text, unpack_one
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import LaunchRefusedError, scratch_failure
from slotwise.starter.links import user_log
from slotwise.starter.links.leftovers import Leftovers
from slotwise.starter.links.shadow_link import ShadowLink
from slotwise.starter.links.standalone import Standalone
from slotwise.starter.links.startd_events import StartdBoard
from slotwise.starter.run import events, reporting
from slotwise.starter.run.run import Run
from slotwise.starter.run.run_record import save
from slotwise.starter.run.states import Phase
from slotwise.starter.scratch.cleanup_retry import CleanupRetry
from slotwise.starter.scratch.disks import ScratchDisks, wants_encryption
from slotwise.starter.scratch.volumes import Volumes
from slotwise.starter.settings import SLOT_KNOBS, StarterSettings, for_slot
from slotwise.starter.transfer import transfer, url_transfer
from slotwise.starter.transfer.url_transfer import Plugins, find_plugins
from slotwise.wire.gen import common_pb2, starter_pb2

_log = logging.getLogger(__name__)


class JobHost:
    """All runs of this host's starter."""

    def __init__(
        self,
        settings: StarterSettings,
        enforcement: Enforcement,
        volumes: Volumes,
        clock: Clock,
        own_address: str,
    ) -> None:
        self.settings = settings
        self.enforcement = enforcement
        self.disks = ScratchDisks(settings, volumes)
        self.clock = clock
        self.board = StartdBoard()
        self.runs: dict[str, Run] = {}
        self._by_directory: dict[str, Run] = {}
        self._links: dict[str, ShadowLink] = {}
        self._standalone = Standalone()
        self._slot_settings: dict[tuple[object, ...], StarterSettings] = {}
        self.own_address = own_address
        self._groups = TrackingGroups(*settings.tracking_gids)
        self.control = control_root(settings.execute, settings.control)
        self.lease = self.control / "lease"
        self.left = Leftovers(self.control)
        self.cleanup_retry = CleanupRetry(self.control, self.disks.dispose_again, self._leftovers_removed)
        self.io_proxy = IoProxyListener()
        self.plugins = Plugins({})
        #: The host's GPUs by UUID.
        self.gpus = gpu_hiding.find_gpus()
        #: Its cores that daemons may use, by NUMA node.
        self.nodes = affinity.nodes_of_host(os.sched_getaffinity(0))
        self.launcher = Launcher(self.control / "notices", self._notice)

    async def open(self) -> None:
        """Make what the service needs, and the zygote."""
        self.lease.touch(mode=0o600)
        await self.launcher.start()
        await self.look_for_plugins()

    async def look_for_plugins(self) -> None:
        """Find out which URLs can be moved here."""
        self.plugins = await find_plugins(self.settings.plugins, self.control)
        self.enforcement = replace(self.enforcement, url_methods=self.plugins.methods)

    async def close(self) -> None:
        """End streams and zygote. Jobs go on under their keepers."""
        await self.cleanup_retry.stop()
        await self.io_proxy.close()
        for link in list(self._links.values()):
            await link.close()
        await self.launcher.stop()
        await asyncio.gather(*(run.settle() for run in list(self.runs.values()) if run.state.phase is Phase.GONE))
        discard(self.control)
        if not self.runs:
            for problem in await asyncio.get_running_loop().run_in_executor(None, self.disks.volumes.close):
                _log.error("could not remove volume group: %s", problem)

    @property
    def cgroups(self) -> CgroupHost:
        """The control groups that this host lets us use."""
        return self.enforcement.cgroups

    # ---- commands of the startd

    def start(self, run_id: str, start: starter_pb2.StartJob) -> None:
        """Take on a run.

        :raises SlotwiseError: when the command cannot be understood.
        """
        known = self.runs.get(run_id)
        if known is not None:
            # Said twice, after a break. A run that is over holds the slot no longer, and has said that once only.
            if known.state.reported_gone:
                reporting.tell_gone(known)
            return
        machine_ad = unpack_one(start.slot_ad)
        slot = read_slot(lookup(machine_ad), start.slot_name)
        limits = lookup(unpack_one(start.limits))
        execute = limits("EXECUTE")
        obstacle = None
        try:
            parent = Path(execute) if isinstance(execute, str) and execute else self.settings.execute
            directory = directories.create(parent, self.control, nested=self.settings.nested)
        except OSError as error:
            obstacle = scratch_failure(error)
            name = f"none_{ids.secret(32)}"
            directory = RunDirectory(self.settings.execute / name, self.control / name)
        try:
            run = Run(self, run_id, slot, machine_ad, directory)
            run.obstacle = obstacle
            self.register(run)
        except Exception:
            directories.remove(directory)
            raise
        try:
            run.token = start.run_token
            run.lease_s = float(start.lease_s)
            run.shadow_address = start.shadow_address
            run.fetched_for = start.fetched_for
            run.fetched_ad = start.job_ad if start.fetched_for else b""
            run.limits = {name: limits(name) for name in ("SlotUser", "MachineMaxVacateTime", *SLOT_KNOBS)}
            run.wants_encryption = bool(start.job_ad) and wants_encryption(lookup(unpack_one(start.job_ad)))
            obstacle = run.obstacle = obstacle or self.disks.refusal(run)
            if self.disks.gives_volume(run) and obstacle is None:
                run.begin(self._with_volume(run))
            else:
                self.link(run)
        except Exception:
            run.on(events.Unwanted(report_gone=False))  # who asked for it hears of the failure
            raise

    async def _with_volume(self, run: Run) -> None:
        """Give the run a file system of its own, then let it speak to its shadow."""
        run.obstacle = await self.disks.provide(run)
        self.link(run)

    def register(self, run: Run) -> None:
        """Know a run by its id and its directory."""
        self.runs[run.run_id] = run
        self._by_directory[run.directory.name] = run

    def link(self, run: Run) -> None:
        """Put a run on the stream to its shadow; fetched work has none."""
        if run.fetched_for:
            run.link = self._standalone
            self._standalone.add(run)
            return
        found = self._links.get(run.shadow_address)
        if found is None:
            found = ShadowLink(run.shadow_address, self.own_address, self._link_idle)
            self._links[run.shadow_address] = found
        run.link = found
        found.add(run)

    def _link_idle(self, link: ShadowLink) -> None:
        if self._links.get(link.address) is link:
            del self._links[link.address]

    def kill(self, run_id: str, kill: starter_pb2.KillJob) -> None:
        """End a job as the startd wants."""
        run = self.runs.get(run_id)
        if run is None:
            self.tell_unknown(run_id)
            return
        wish = Kill(
            fast=kill.fast,
            reason=kill.reason,
            code=kill.reason_code,
            subcode=kill.reason_subcode,
            vacate_s=kill.vacate_s or None,
            hold=kill.hold,
        )
        run.on(events.KillRequested(wish))

    def measured(self, run_id: str, pack: bytes) -> None:
        """The startd has measured what a job uses of its devices.

        :raises SlotwiseError: when the pack cannot be read.
        """
        run = self.runs.get(run_id)
        if run is not None:
            value = lookup(ad := unpack_one(pack))
            numbers = {name: value(name) for name in ad}
            run.measured = {name: number for name, number in numbers.items() if isinstance(number, int | float)}

    def suspend(self, run_id: str, resume: bool) -> None:
        """Stop a job, or let it go on."""
        run = self.runs.get(run_id)
        if run is not None:
            run.on(events.SuspendRequested(resume))

    def drop(self, run_id: str) -> None:
        """The startd has no claim for the run: end it. Its shadow, which may not know that, is told."""
        run = self.runs.get(run_id)
        if run is not None:
            run.on(events.ClaimGone())

    def tell_unknown(self, run_id: str) -> None:
        """The startd speaks of a run that is not here: it holds no slot."""
        self.board.post(starter_pb2.JobEvent(run_id=run_id, gone=starter_pb2.JobGone(how="failed")))

    def listed(self) -> Iterator[starter_pb2.JobListed]:
        """The runs that hold a slot, and fetched work whose end the startd has not written down."""
        for run in self.runs.values():
            if not run.state.reported_gone or run.fetched_for:
                yield starter_pb2.JobListed(
                    run_id=run.run_id,
                    slot_name=run.slot.name,
                    pid=run.state.pid,
                    phase=str(run.state.phase),
                    suspended=run.state.suspended,
                )

    def end_noted(self, run_id: str) -> None:
        """The startd has written down how fetched work ended."""
        run = self.runs.get(run_id)
        if run is not None and run.fetched_for:
            run.begin(self._leave(run))

    async def _leave(self, run: Run) -> None:
        """Nobody waits for fetched work any more, once its log tells of its end."""
        if run.user_log is not None:
            await run.user_log.settle()
        run.on(events.EndAcknowledged())

    def tell_ends_again(self) -> None:
        """What the startd may not have heard of the ends of fetched work."""
        for run in list(self.runs.values()):
            if run.fetched_for and run.state.reported_gone:
                reporting.tell_gone(run)

    # ---- what a run asks for

    def parse_job(self, run: Run, job_ad: ClassAd) -> None:
        """Read the final job ad: facts, identity, whether files move; make the job's directory.

        :raises OSError: when the directory cannot be made.
        :raises SlotwiseError: when the job cannot run here.
        """
        if not run.user:
            raise LaunchRefusedError(held("the access point does not say whose job it is", FAILED_TO_CREATE_PROCESS))
        run.job_ad = job_ad
        run.job_ad.update(owner_attributes(run.user))
        if run.fetched_for and not isinstance(lookup(job_ad)("Iwd"), str):
            run.job_ad["Iwd"] = str(run.directory.scratch)
        try:
            run.job = read_job(lookup(job_ad), run.user)
        except UsageError as error:
            raise LaunchRefusedError(held(str(error), FAILED_TO_CREATE_PROCESS, errno.EINVAL)) from None
        if run.job.image and not self.settings.wrapper:  # a wrapper may be what starts containers
            reason = f"The job is to run in the container {run.job.image}, and this execution point starts none"
            raise LaunchRefusedError(held(reason, FAILED_TO_CREATE_PROCESS, errno.ENOSYS))
        if wants_encryption(lookup(job_ad)) and not self.disks.encrypts(run):
            reason = "The job asks for an encrypted scratch directory, and did not when it was given one"
            raise LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=SCRATCH_DIR_ERROR))
        rules = self.settings.users
        named = run.limits.get("SlotUser")
        if isinstance(named, str) and named:
            rules = accounts.with_slot_user(rules, run.slot.name, named)
        run.identity = accounts.choose(
            run.job,
            run.slot,
            rules,
            owner_domain=domain_of(run.user),
            is_root=self.enforcement.root,
            allow_owner=self._lets_run_as_owner(run),
        )
        run.transfers = self._transfers(run)
        hooks.check(run, self.settings.hooks)
        directories.create_scratch(run.directory, run.identity, self.settings.permissions)

    def _lets_run_as_owner(self, run: Run) -> bool:
        allowed = self.settings.lets_run_as_owner(run.machine_ad, run.job_ad)
        if allowed is None:
            _log.warning("%s: STARTER_ALLOW_RUNAS_OWNER is neither true nor false for it: no", run.job_id)
        return allowed is True

    def _transfers(self, run: Run) -> bool:
        assert run.job is not None
        rules = run.job.transfer
        if rules.mode in ("YES", "NO"):
            return rules.mode == "YES"
        here = self.settings.file_system_domain.lower()
        shared = bool(here) and rules.file_system_domain.lower() == here
        name = run.identity.name or pwd.getpwuid(os.geteuid()).pw_name
        return not (shared and name == run.job.owner)

    async def prepare_transfer(self, run: Run) -> None:
        """Have the hook run that comes before the input files.

        :raises OSError: when the ads cannot be written.
        :raises SlotwiseError: when the job must not start.
        """
        self._write_ads(run)
        await hooks.before_transfer(run, self.settings.hooks)
        self._reparse_job(run)

    def _reparse_job(self, run: Run) -> None:
        """Read the ad that a hook has changed: it may change the job, but not whose it is."""
        run.job_ad.update(owner_attributes(run.user))
        try:
            run.job = read_job(lookup(run.job_ad), run.user)
        except UsageError as error:
            raise LaunchRefusedError(held(str(error), FAILED_TO_CREATE_PROCESS, errno.EINVAL)) from None

    def _write_ads(self, run: Run) -> None:
        """The ads of job and machine, for programs that run before the job does."""
        ads = (text(run.job_ad), text(run.machine_ad))
        write_files(directories.ad_files(run.directory, ads, run.identity.uid))

    async def prepare(self, run: Run) -> KeeperSpec:
        """Write what the job may read, keep what a restart needs, and compose the keeper's spec."""
        if run.fetched_for and (log := user_log.of(run)) is not None:
            await log.create()
            run.user_log = log
        hooked = hooks.prepares(run, self.settings.hooks)
        if hooked or (run.transfers and url_transfer.input_urls(run.job_ad)):
            self._write_ads(run)
        if run.transfers:
            await url_transfer.fetch(run, self.plugins)
            if run.job is not None and run.job.transfer.output_files is None:
                # What is there now is no output, what the hooks make is.
                run.before = transfer.listing(run.directory.scratch, run.identity)
        if hooked:
            await hooks.prepare(run, self.settings.hooks)
            self._reparse_job(run)
        self._keep_cgroups()
        group = self._groups.lend() if self.enforcement.tracking == "gid" else None
        if group is None and self.enforcement.tracking == "gid":
            _log.warning("run %s: all tracking GIDs are in use, tracking its processes by ancestry", run.run_id)
        run.identity = accounts.with_tracking(run.identity, group, self.settings.users)
        run.cores = self._cores_for(run)
        around = self._surroundings(run)
        settings = self._settings_of(run)
        rules = keeper_spec.cgroup_rules(around, settings)
        enforced = self.cgroups.has("memory")
        limit = memory_limit_mib(rules, run.slot.memory_mib) if enforced else None
        if limit is None and rules.memory_policy == "custom" and settings.hard_memory is not None:
            _log.warning("run %s: no memory limit, CGROUP_HARD_MEMORY_LIMIT_EXPR does not give a number", run.run_id)
        run.memory = MemoryRule(
            limit if limit is not None else run.slot.memory_mib or -1, self.settings.always_hold_on_oom
        )
        run.cgrouped = self.cgroups.version != 0
        spec = keeper_spec.compose(
            around,
            settings,
            self.cgroups,
            notify=self.control / "notices",
            lease=self.lease,
            lease_s=run.lease_s,
            secret=ids.secret(64),
        )
        ads = (text(run.job_ad), text(run.machine_ad))
        await self.io_proxy.admit(run, settings.chirp)
        write_files(directories.start_files(run.directory, ads, save(run), spec))
        return spec

    def _keep_cgroups(self) -> None:
        """Make the groups that hold those of jobs again: systemd removes empty ones, as of a unit with Type=oneshot."""
        missing = [base for base in self.cgroups.bases.values() if not base.is_dir()]
        if missing:
            _log.warning("the cgroup %s is gone, it is made again", missing[0])
            found = cgroups_for(self.settings, root=self.enforcement.root)
            if found.controllers != self.cgroups.controllers:
                _log.error("not all controllers are there again: %s", "; ".join(found.problems))
            self.enforcement = replace(self.enforcement, cgroups=found)
            self.tell_facts()

    def _settings_of(self, run: Run) -> StarterSettings:
        """The settings for the run's slot; kept for the next run with the same."""
        told = {name: run.limits.get(name) for name in SLOT_KNOBS}
        key = (id(self.settings), *map(str, told.values()))
        found = self._slot_settings.get(key)
        if found is None:
            if len(self._slot_settings) > 1000:
                self._slot_settings.clear()
            found = self._slot_settings[key] = for_slot(self.settings, told)
        return found

    def _surroundings(self, run: Run) -> Surroundings:
        assert run.job is not None
        return Surroundings(
            job=run.job,
            slot=run.slot,
            job_ad=run.job_ad,
            machine_ad=run.machine_ad,
            directory=run.directory,
            identity=run.identity,
            transfers=run.transfers,
            root=self.enforcement.root,
            hidden=self._hidden(run),
            cores=run.cores,
        )

    def _cores_for(self, run: Run) -> tuple[int, ...]:
        """The cores that the job is to be bound to; none when it may use all."""
        rules = self.settings.cores
        if not rules.is_asked_for:
            return ()
        if not rules.assigns(run.job_ad):
            fixed = rules.fixed(run.slot.number)
            there = tuple(core for core in fixed if any(core in node for node in self.nodes))
            if fixed and not there:
                _log.warning(
                    "run %s: the host has none of the cores %s, the job may use all", run.run_id, listed(fixed)
                )
            return there
        used = Counter(core for other in self.runs.values() if other is not run for core in other.cores)
        cores = affinity.choose(max(1, math.ceil(run.slot.cpus)), self.nodes, used)
        _log.info("%s: bound to the cores %s (run %s)", run.job_id, listed(cores), run.run_id)
        return cores

    def _hidden(self, run: Run) -> tuple[gpu_hiding.Device, ...]:
        if not (self.settings.hide_gpus and self.enforcement.root and self.gpus):
            return ()
        return gpu_hiding.hidden(self.gpus, gpu_hiding.assigned_uuids(run.slot, run.machine_ad))

    def take_group(self, group: int) -> None:
        """A run from before a restart has this tracking group."""
        self._groups.take(group)

    def spawn(self, run: Run) -> asyncio.Future[int]:
        """Have a keeper forked."""
        return self.launcher.spawn(run.directory.control)

    def vacate_s(self, run: Run) -> int:
        """Seconds a job may take to leave when nobody says otherwise (MachineMaxVacateTime)."""
        told = run.limits.get("MachineMaxVacateTime")
        return int(told) if isinstance(told, int | float) else self.settings.vacate_s

    async def dispose(self, run: Run) -> list[str]:
        """Remove directory and volume; returns what could not be removed."""
        self._groups.give_back(run.identity.tracking_gid)
        problems = await asyncio.get_running_loop().run_in_executor(None, self.disks.dispose, run)
        if problems:
            self.cleanup_retry.add(run.run_id, run.directory)
        return problems

    def clean_later(self, run: Run) -> None:
        """Remove directory and volume when something kept us from it."""
        self.cleanup_retry.add(run.run_id, run.directory)

    def _leftovers_removed(self, run_id: str) -> None:
        """The leftovers of a run have been removed after all; every list says so until the startd confirms it."""
        self.left.note_repair(run_id)
        self.board.post(starter_pb2.JobEvent(run_id=run_id, mended=starter_pb2.JobMended()))

    def take_over(self, settings: StarterSettings, enforcement: Enforcement) -> None:
        """New knobs, for jobs that start from now on."""
        self.settings = self.disks.settings = settings
        self.enforcement = enforcement

    def note_refusal(self, limit: str) -> None:
        """The kernel has refused a job's limit: no more is promised of it than it does."""
        known = self.enforcement
        self.enforcement = known.with_refusal(limit)
        if self.enforcement is not known:
            self.tell_facts()

    def tell_facts(self) -> None:
        """Tell the startd what this host enforces."""
        facts = common_pb2.AdBatch(pack=pack_one(self.enforcement.attributes()))
        self.board.post(starter_pb2.JobEvent(host_facts=facts))

    def forget(self, run: Run) -> None:
        """The run is gone."""
        self.io_proxy.dismiss(run)
        if self.runs.get(run.run_id) is run:
            del self.runs[run.run_id]
        self._by_directory.pop(run.directory.name, None)

    def _notice(self, name: str, what: str) -> None:
        run = self._by_directory.get(name)
        if run is not None:
            with contained(_log, doing_for_run(run.run_id, f"processing {what!r} of its keeper"), run.fail):
                run.notice(what)
