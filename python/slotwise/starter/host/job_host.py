"""The runs of this host: creates them, prepares their jobs, disposes of them."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import pwd
from collections import Counter
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
from slotwise.execution.job_view import JobView, read_job, read_slot
from slotwise.execution.keeper_spec import Identity, KeeperSpec
from slotwise.execution.launcher import Launcher, write_files
from slotwise.ids import doing_for_run
from slotwise.model.ownership import domain_of, owner_attributes
from slotwise.starter.enforcement import accounts, affinity, gpu_hiding
from slotwise.starter.enforcement.accounts import TrackingGroups
from slotwise.starter.hooks import hooks
from slotwise.starter.host import keeper_spec
from slotwise.starter.host.capabilities import Enforcement, cgroups_for
from slotwise.starter.io_proxy.listener import IoProxyListener
from slotwise.starter.io_proxy.rules import ChirpRules
from slotwise.starter.job import directories
from slotwise.starter.job.ads import lookup, pack_one, text, unpack_one
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.choice import NONE
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import LaunchRefusedError, scratch_failure
from slotwise.starter.job.run_job import Enforced, RunJob
from slotwise.starter.links import user_log
from slotwise.starter.links.leftovers import Leftovers
from slotwise.starter.links.shadow_link import ShadowLink
from slotwise.starter.links.standalone import Standalone
from slotwise.starter.links.startd_outbox import StartdOutbox
from slotwise.starter.messages import HostFacts, LeftoversRemoved, ListedRun, RemoteIo, RunList, SlotFree, StartJob
from slotwise.starter.run import events, reporting
from slotwise.starter.run.run import Run
from slotwise.starter.run.run_record import save
from slotwise.starter.run.states import Phase
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.drivers import drivers
from slotwise.starter.runtimes.installed import Runtimes
from slotwise.starter.runtimes.runtime import ContainerJob
from slotwise.starter.scratch.cleanup_retry import CleanupRetry
from slotwise.starter.scratch.disks import ScratchDisks, wants_encryption
from slotwise.starter.scratch.volumes import Volumes
from slotwise.starter.settings import SLOT_KNOBS, StarterSettings, for_slot
from slotwise.starter.transfer import transfer, url_transfer
from slotwise.starter.transfer.url_transfer import Plugins, find_plugins

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
        self.startd = StartdOutbox()
        self.runs: dict[str, Run] = {}
        self._by_directory: dict[str, Run] = {}
        self._links: dict[str, ShadowLink] = {}
        self._standalone = Standalone()
        self._slot_settings: dict[tuple[object, ...], StarterSettings] = {}
        self.own_address = own_address
        self._groups = TrackingGroups(*settings.tracking_gids)
        self.control = control_root(settings.execute, settings.control)
        self.runtimes = self._runtimes(settings)
        self.lease = self.control / "lease"
        self.leftovers = Leftovers(self.control)
        self.cleanup_retry = CleanupRetry(self.control, self.disks.dispose_again, self._leftovers_removed)
        self.io_proxy = IoProxyListener()
        self.plugins = Plugins({})
        #: The host's GPUs by UUID.
        self.gpus = gpu_hiding.find_gpus()
        #: Its cores that daemons may use, by NUMA node.
        self.nodes = affinity.nodes_of_host(os.sched_getaffinity(0))
        self.launcher = Launcher(self.control / "notices", self._notice)

    async def open(self) -> None:
        """Start the zygote, and find out what plugins serve."""
        self.lease.touch(mode=0o600)
        await self.launcher.start()
        await self.look_for_plugins()

    async def look_for_plugins(self) -> None:
        """Find out which URLs can be moved here."""
        self.plugins = await find_plugins(self.settings.plugins, self.control, self.settings.transfer_stats_log)
        self.enforcement = replace(self.enforcement, url_methods=self.plugins.methods)

    def _runtimes(self, settings: StarterSettings) -> Runtimes:
        found = drivers(settings.runtimes, settings.execute, self.control)
        return Runtimes(found, settings.runtimes.choice)

    async def look_for_runtimes(self) -> None:
        """Find out in what jobs can run here besides the bare host. Until that is known, what worked before holds."""
        found = self._runtimes(self.settings)
        await found.probe()
        self.runtimes = found
        self.check_runtimes()

    def check_runtimes(self) -> None:
        """Report to the startd what has changed about the runtimes since the last time."""
        former, known = (
            self.enforcement,
            self.enforcement.with_runtimes(self.runtimes.attributes(), self.runtimes.gaps()),
        )
        if known != former:
            self.enforcement = known
            self.report_host_facts()

    async def sweep_runtimes(self) -> None:
        """Remove what is left of containers whose runs are gone."""
        await self.runtimes.sweep(frozenset(self._by_directory))

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
            parent = Path(execute) if isinstance(execute, str) and execute else self.settings.execute
            return directories.create(parent, self.control, nested=self.settings.nested), None
        except OSError as error:
            name = f"none_{ids.secret(32)}"
            return RunDirectory(self.settings.execute / name, self.control / name), scratch_failure(error)

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
        self.report_host_facts()
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

    def parse_job(self, run: Run, job_ad: ClassAd) -> None:
        """Read the final job ad: facts, identity, whether files move; make the job's directory.

        :raises OSError: when the directory cannot be made.
        :raises SlotwiseError: when the job cannot run here.
        """
        job = run.job
        if not job.user:
            raise LaunchRefusedError(held("the access point does not say whose job it is", FAILED_TO_CREATE_PROCESS))
        job.ad = job_ad
        job.ad.update(owner_attributes(job.user))
        if run.assignment.fetched_for and not isinstance(job.value("Iwd"), str):
            job.ad["Iwd"] = str(run.assignment.directory.scratch)
        view = _read(job)
        job.choice = self.runtimes.choose(job.ad, run.assignment.machine_ad, wrapper=bool(self.settings.wrapper))
        if wants_encryption(job.value) and not self.disks.encrypts(run.scratch):
            reason = "The job asks for an encrypted scratch directory, and did not when it was given one"
            raise LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=SCRATCH_DIR_ERROR))
        rules = self.settings.users
        named = run.assignment.limits.get("SlotUser")
        if isinstance(named, str) and named:
            rules = accounts.with_slot_user(rules, run.assignment.slot.name, named)
        job.identity = accounts.choose(
            view,
            run.assignment.slot,
            rules,
            owner_domain=domain_of(job.user),
            is_root=self.enforcement.root,
            allow_owner=self._lets_run_as_owner(run.assignment, job),
        )
        job.transfers = self._transfers(view, job.identity)
        hooks.check(run, self.settings)
        in_image = job.choice.runtime != NONE
        directories.create_scratch(
            run.assignment.directory, job.identity, self.settings.permissions, linked=not in_image
        )

    def _lets_run_as_owner(self, assignment: Assignment, job: RunJob) -> bool:
        allowed = self.settings.lets_run_as_owner(assignment.machine_ad, job.ad)
        if allowed is None:
            _log.warning("%s: STARTER_ALLOW_RUNAS_OWNER is neither true nor false for it: no", assignment.job_id)
        return allowed is True

    def _transfers(self, job: JobView, identity: Identity) -> bool:
        rules = job.transfer
        if rules.mode in ("YES", "NO"):
            return rules.mode == "YES"
        here = self.settings.file_system_domain.lower()
        shared = bool(here) and rules.file_system_domain.lower() == here
        name = identity.name or pwd.getpwuid(os.geteuid()).pw_name
        return not (shared and name == job.owner)

    async def prepare_transfer(self, run: Run) -> None:
        """Have the hook run that comes before the input files.

        :raises OSError: when the ads cannot be written.
        :raises SlotwiseError: when the job must not start.
        """
        _write_ads(run)
        await hooks.before_transfer(run, self.settings)
        _reparse(run.job)

    async def prepare(self, run: Run) -> None:
        """Write what the job may read, what a restart needs, and the keeper's spec.

        :raises OSError: when a file system refuses.
        :raises SlotwiseError: when the job must not start.
        """
        assignment, job = run.assignment, run.job
        if assignment.fetched_for and (log := user_log.of(run, self.settings.date_form)) is not None:
            await log.create()
            run.user_log = log
        hooked = hooks.prepares(run, self.settings)
        if hooked or (job.transfers and url_transfer.input_urls(job.ad)):
            _write_ads(run)
        if job.transfers:
            await url_transfer.fetch(run, self.plugins)
            if job.view is not None and job.view.transfer.output_files is None:
                # What is there now is not an output; what the hooks make is.
                run.files.before = transfer.listing(assignment.directory.scratch, job.identity)
        if hooked:
            await hooks.prepare(run, self.settings)
            _reparse(job)
        self._keep_cgroups()
        group = self._groups.lend() if self.enforcement.tracking == "gid" else None
        if group is None and self.enforcement.tracking == "gid":
            _log.warning("run %s: all tracking GIDs are in use, tracking its processes by ancestry", run.run_id)
        job.identity = accounts.with_tracking(job.identity, group, self.settings.users)
        cores = self._cores_for(run)
        context = self._job_context(assignment, job, cores)
        settings = self._settings_of(assignment)
        job.enforced = Enforced(self._memory_rule(context, settings), self.cgroups.version != 0, cores)
        bare = keeper_spec.compose(
            context,
            settings,
            self.cgroups,
            notify=self.control / "notices",
            lease=self.lease,
            lease_s=assignment.lease_s,
            secret=ids.secret(64),
        )
        spec = bare
        if job.choice.runtime != NONE:
            spec = await self._in_runtime(run, context, bare, settings)
        spec = keeper_spec.wrapped(spec, settings.wrapper)
        await self.admit_to_io_proxy(run, settings.chirp)
        ads = (text(job.ad), text(assignment.machine_ad))
        private = tuple(source for source, _target in bare.isolation.mounts)
        write_files(directories.start_files(assignment.directory, ads, save(run), spec, private))

    async def _in_runtime(
        self, run: Run, context: JobContext, spec: KeeperSpec, settings: StarterSettings
    ) -> KeeperSpec:
        """The spec of a job in a container or virtual machine, whose image is there from then on."""
        limit = memory_limit_mib(keeper_spec.cgroup_rules(context, settings), context.slot.memory_mib)
        container = ContainerJob(
            run_id=run.run_id,
            choice=run.job.choice,
            context=context,
            memory_mib=limit if self.cgroups.has("memory") else None,
            spec=spec,
            scratch_mounts=settings.mount_targets(context.machine_ad, context.job_ad),
        )
        container = await run.prepare_image(self.runtimes.prepare(container, run.note_progress))
        run.job.image = container.image
        return self.runtimes.compose(spec, container)

    def _memory_rule(self, context: JobContext, settings: StarterSettings) -> MemoryRule:
        """What to make of an OOM of the job."""
        rules, slot = keeper_spec.cgroup_rules(context, settings), context.slot
        limit = memory_limit_mib(rules, slot.memory_mib) if self.cgroups.has("memory") else None
        if limit is None and rules.memory_policy == "custom" and settings.hard_memory is not None:
            _log.warning(
                "%s: no memory limit, CGROUP_HARD_MEMORY_LIMIT_EXPR does not give a number", context.job.job_id
            )
        return MemoryRule(limit if limit is not None else slot.memory_mib or -1, self.settings.always_hold_on_oom)

    async def admit_to_io_proxy(self, run: Run, rules: ChirpRules) -> None:
        """Let the job speak to its access point, as far as ``rules`` and the job say so.

        :raises OSError: when its directory refuses the file.
        """

        def report(request: RemoteIo) -> None:
            run.shadow.report(request)

        run.io_proxy = await self.io_proxy.admit(run.assignment, run.job, rules, report)
        if run.io_proxy is not None:
            run.reported.by_job = run.io_proxy.attributes

    def _keep_cgroups(self) -> None:
        """Make the groups that hold those of jobs again: systemd removes empty ones, as of a unit with Type=oneshot."""
        missing = [base for base in self.cgroups.bases.values() if not base.is_dir()]
        if missing:
            _log.warning("the cgroup %s is gone, it is made again", missing[0])
            found = cgroups_for(self.settings, root=self.enforcement.root)
            if found.controllers != self.cgroups.controllers:
                _log.error("not all controllers are there again: %s", "; ".join(found.problems))
            self.enforcement = replace(self.enforcement, cgroups=found)
            self.report_host_facts()

    def _settings_of(self, assignment: Assignment) -> StarterSettings:
        """The settings for the run's slot; kept for the next run with the same."""
        told = {name: assignment.limits.get(name) for name in SLOT_KNOBS}
        key = (id(self.settings), *map(str, told.values()))
        found = self._slot_settings.get(key)
        if found is None:
            if len(self._slot_settings) > 1000:
                self._slot_settings.clear()
            found = self._slot_settings[key] = for_slot(self.settings, told)
        return found

    def _job_context(self, assignment: Assignment, job: RunJob, cores: tuple[int, ...]) -> JobContext:
        assert job.view is not None
        return JobContext(
            job=job.view,
            slot=assignment.slot,
            job_ad=job.ad,
            machine_ad=assignment.machine_ad,
            directory=assignment.directory,
            identity=job.identity,
            transfers=job.transfers,
            root=self.enforcement.root,
            hidden=self._hidden(assignment),
            cores=cores,
            in_image=job.choice.runtime != NONE,
        )

    def _cores_for(self, run: Run) -> tuple[int, ...]:
        """The cores that the job is to be bound to; none when it may use all."""
        rules, slot = self.settings.cores, run.assignment.slot
        if not rules.is_asked_for:
            return ()
        if not rules.assigns(run.job.ad):
            fixed = rules.fixed(slot.number)
            there = tuple(core for core in fixed if any(core in node for node in self.nodes))
            if fixed and not there:
                _log.warning(
                    "run %s: the host has none of the cores %s, the job may use all", run.run_id, listed(fixed)
                )
            return there
        others = (other for other in self.runs.values() if other is not run)
        used = Counter(core for other in others for core in other.job.enforced.cores)
        cores = affinity.choose(max(1, math.ceil(slot.cpus)), self.nodes, used)
        _log.info("%s: bound to the cores %s (run %s)", run.job_id, listed(cores), run.run_id)
        return cores

    def _hidden(self, assignment: Assignment) -> tuple[gpu_hiding.Device, ...]:
        if not (self.settings.hide_gpus and self.enforcement.root and self.gpus):
            return ()
        return gpu_hiding.hidden(self.gpus, gpu_hiding.assigned_uuids(assignment.slot, assignment.machine_ad))

    def take_group(self, group: int) -> None:
        """A run from before a restart has this tracking group."""
        self._groups.take(group)

    def spawn(self, run: Run) -> asyncio.Future[int]:
        """Have a keeper forked."""
        return self.launcher.spawn(run.assignment.directory.control)

    def vacate_s(self, run: Run) -> int:
        """Seconds that a job may take to leave unless the kill says otherwise (MachineMaxVacateTime)."""
        told = run.assignment.limits.get("MachineMaxVacateTime")
        return int(told) if isinstance(told, int | float) else self.settings.vacate_s

    async def dispose(self, run: Run) -> list[str]:
        """Remove directory and volume; returns what could not be removed."""
        self._groups.give_back(run.job.identity.tracking_gid)
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

    def apply_settings(self, settings: StarterSettings, enforcement: Enforcement) -> None:
        """New knobs, for jobs that start from now on."""
        self.settings = self.disks.settings = settings
        self.enforcement = replace(enforcement, java=self.enforcement.java)

    def note_refusal(self, limit: str) -> None:
        """The kernel has refused a job's limit: no more is promised of it than it does."""
        known = self.enforcement
        self.enforcement = known.with_refusal(limit)
        if self.enforcement is not known:
            self.report_host_facts()

    def report_host_facts(self) -> None:
        """Report to the startd what this host enforces."""
        self.startd.report("", HostFacts(pack_one(self.enforcement.attributes())))

    def forget(self, run: Run) -> None:
        """The run is gone."""
        self.io_proxy.dismiss(run.run_id)
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
    return ListedRun(run.run_id, run.assignment.slot.name, state.pid, str(state.phase), state.suspended)


def _read(job: RunJob) -> JobView:
    """Read the job's ad.

    :raises LaunchRefusedError: when the job cannot be understood: it is put on hold.
    """
    try:
        job.view = read_job(lookup(job.ad), job.user)
    except UsageError as error:
        raise LaunchRefusedError(held(str(error), FAILED_TO_CREATE_PROCESS, errno.EINVAL)) from None
    return job.view


def _reparse(job: RunJob) -> None:
    """Read the ad that a hook has changed: it may change the job, but not whose it is."""
    job.ad.update(owner_attributes(job.user))
    _read(job)


def _write_ads(run: Run) -> None:
    """The ads of job and machine, for programs that run before the job does."""
    ads = (text(run.job.ad), text(run.assignment.machine_ad))
    write_files(directories.ad_files(run.assignment.directory, ads, run.job.identity.uid))
