"""Prepares jobs: reads their ads, chooses as whom and in what they run, and writes down how their keepers run them."""

from __future__ import annotations

import errno
import logging
import math
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from slotwise import ids
from slotwise.accounts import name_of
from slotwise.classad import ClassAd
from slotwise.errors import UsageError
from slotwise.execution.cgroup.plan import listed, memory_limit_mib
from slotwise.execution.exit_status import FAILED_TO_CREATE_PROCESS, SCRATCH_DIR_ERROR, End, How, MemoryRule, held
from slotwise.execution.job_view import JobView, read_job
from slotwise.execution.keeper_spec import Identity, KeeperSpec
from slotwise.execution.launcher import write_files
from slotwise.model.ownership import domain_of, owner_attributes
from slotwise.starter.enforcement import accounts, affinity, gpu_hiding
from slotwise.starter.enforcement.accounts import TrackingGroups
from slotwise.starter.hooks import hooks
from slotwise.starter.host import keeper_spec
from slotwise.starter.host.machine import Machine
from slotwise.starter.io_proxy.listener import IoProxyListener
from slotwise.starter.io_proxy.rules import ChirpRules
from slotwise.starter.job import directories
from slotwise.starter.job.ads import lookup, text
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.choice import NONE
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.job.run_job import Enforced, RunJob
from slotwise.starter.links import user_log
from slotwise.starter.messages import RemoteIo
from slotwise.starter.run import outputs
from slotwise.starter.run.run import Run
from slotwise.starter.run.run_record import save
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.runtime import ContainerJob
from slotwise.starter.scratch.disks import ScratchDisks, wants_encryption
from slotwise.starter.settings import SLOT_KNOBS, StarterSettings, for_slot
from slotwise.starter.transfer import distant_checkpoint, manifest, transfer, url_transfer

_log = logging.getLogger(__name__)


class Preparation:
    """Makes all that a job needs before its keeper starts. ``runs``: those of the host by id, whose cores others are
    kept from. ``notices`` and ``lease``: what keepers write to, and what they go by."""

    def __init__(
        self, machine: Machine, disks: ScratchDisks, runs: Mapping[str, Run], *, notices: Path, lease: Path
    ) -> None:
        self._machine = machine
        self._disks = disks
        self._runs = runs
        self._notices = notices
        self._lease = lease
        self._io_proxy = IoProxyListener()
        self._groups = TrackingGroups(*machine.settings.tracking_gids)
        self._slot_settings: dict[tuple[object, ...], StarterSettings] = {}
        #: The host's GPUs by UUID.
        self._gpus = gpu_hiding.find_gpus()
        #: Its cores that daemons may use, by NUMA node.
        self._nodes = affinity.nodes_of_host(os.sched_getaffinity(0))

    async def close(self) -> None:
        """Hear no job any more."""
        await self._io_proxy.close()

    def release(self, run: Run) -> None:
        """The processes of a run are gone: its tracking group is free."""
        self._groups.give_back(run.job.identity.tracking_gid)

    def forget(self, run: Run) -> None:
        """A run is gone."""
        self._io_proxy.dismiss(run.run_id)

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
        job.choice = self._machine.runtimes.choose(
            job.ad, run.assignment.machine_ad, wrapper=bool(self._machine.settings.wrapper)
        )
        if wants_encryption(job.value) and not self._disks.encrypts(run.scratch):
            reason = "The job asks for an encrypted scratch directory, and did not when it was given one"
            raise LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=SCRATCH_DIR_ERROR))
        rules = self._machine.settings.users
        named = run.assignment.limits.get("SlotUser")
        if isinstance(named, str) and named:
            rules = accounts.with_slot_user(rules, run.assignment.slot.name, named)
        job.identity = accounts.choose(
            view,
            run.assignment.slot,
            rules,
            owner_domain=domain_of(job.user),
            is_root=self._machine.enforcement.root,
            allow_owner=self._lets_run_as_owner(run.assignment, job),
        )
        job.transfers = self._transfers(view, job.identity)
        hooks.check(run, self._machine.settings)
        in_image = job.choice.runtime != NONE
        directories.create_scratch(
            run.assignment.directory, job.identity, self._machine.settings.permissions, linked=not in_image
        )

    def _lets_run_as_owner(self, assignment: Assignment, job: RunJob) -> bool:
        allowed = self._machine.settings.lets_run_as_owner(assignment.machine_ad, job.ad)
        if allowed is None:
            _log.warning("%s: STARTER_ALLOW_RUNAS_OWNER is neither true nor false for it: no", assignment.job_id)
        return allowed is True

    def _transfers(self, job: JobView, identity: Identity) -> bool:
        rules = job.transfer
        if rules.mode in ("YES", "NO"):
            return rules.mode == "YES"
        here = self._machine.settings.file_system_domain.lower()
        shared = bool(here) and rules.file_system_domain.lower() == here
        name = identity.name or name_of(os.geteuid())
        return not (shared and name == job.owner)

    async def prepare_transfer(self, run: Run) -> None:
        """Have the hook run that comes before the input files.

        :raises OSError: when the ads cannot be written.
        :raises SlotwiseError: when the job must not start.
        """
        _write_ads(run)
        await hooks.before_transfer(run, self._machine.settings)
        _reparse(run.job)

    async def prepare(self, run: Run) -> None:
        """Write what the job may read, what a restart needs, and the keeper's spec.

        :raises OSError: when a file system refuses.
        :raises SlotwiseError: when the job must not start.
        """
        assignment, job = run.assignment, run.job
        if assignment.fetched_for and (log := user_log.of(run, self._machine.settings.date_form)) is not None:
            await log.create()
            run.user_log = log
        hooked = hooks.prepares(run, self._machine.settings)
        if hooked or (job.transfers and (url_transfer.input_urls(job.ad) or _keeps_checkpoints_away(job))):
            _write_ads(run)
        if job.transfers:
            await url_transfer.fetch(run, self._machine.plugins)
            await distant_checkpoint.restore(run, self._machine.plugins)
            if job.view is not None and job.view.transfer.output_files is None:
                # What is there now is not an output; what the hooks make is.
                run.files.before = transfer.listing(assignment.directory.scratch, job.identity)
        if _has_manifest(job):
            await outputs.record_manifest(assignment, job, "in")
        if hooked:
            await hooks.prepare(run, self._machine.settings)
            _reparse(job)
        self._machine.keep_cgroups()
        group = self._groups.lend() if self._machine.enforcement.tracking == "gid" else None
        if group is None and self._machine.enforcement.tracking == "gid":
            _log.warning("run %s: all tracking GIDs are in use, tracking its processes by ancestry", run.run_id)
        job.identity = accounts.with_tracking(job.identity, group, self._machine.settings.users)
        cores = self._cores_for(run)
        context = self._job_context(assignment, job, cores)
        settings = self._settings_of(assignment)
        job.enforced = Enforced(self._memory_rule(context, settings), self._machine.cgroups.version != 0, cores)
        bare = keeper_spec.compose(
            context,
            settings,
            self._machine.cgroups,
            notify=self._notices,
            lease=self._lease,
            lease_s=assignment.lease_s,
            secret=ids.secret(64),
        )
        if _has_manifest(job):
            _record_environment(run, bare)
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
            memory_mib=limit if self._machine.cgroups.has("memory") else None,
            spec=spec,
            scratch_mounts=settings.mount_targets(context.machine_ad, context.job_ad),
        )
        container = await run.prepare_image(self._machine.runtimes.prepare(container, run.note_progress))
        run.job.image = container.image
        return self._machine.runtimes.compose(spec, container)

    def _memory_rule(self, context: JobContext, settings: StarterSettings) -> MemoryRule:
        """What to make of an OOM of the job."""
        rules, slot = keeper_spec.cgroup_rules(context, settings), context.slot
        limit = memory_limit_mib(rules, slot.memory_mib) if self._machine.cgroups.has("memory") else None
        if limit is None and rules.memory_policy == "custom" and settings.hard_memory is not None:
            _log.warning(
                "%s: no memory limit, CGROUP_HARD_MEMORY_LIMIT_EXPR does not give a number", context.job.job_id
            )
        return MemoryRule(
            limit if limit is not None else slot.memory_mib or -1, self._machine.settings.always_hold_on_oom
        )

    async def admit_to_io_proxy(self, run: Run, rules: ChirpRules) -> None:
        """Let the job speak to its access point, as far as ``rules`` and the job say so.

        :raises OSError: when its directory refuses the file.
        """

        def report(request: RemoteIo) -> None:
            run.shadow.report(request)

        run.io_proxy = await self._io_proxy.admit(run.assignment, run.job, rules, report)
        if run.io_proxy is not None:
            run.reported.by_job = run.io_proxy.attributes

    def _settings_of(self, assignment: Assignment) -> StarterSettings:
        """The settings for the run's slot; kept for the next run with the same."""
        told = {name: assignment.limits.get(name) for name in SLOT_KNOBS}
        key = (id(self._machine.settings), *map(str, told.values()))
        found = self._slot_settings.get(key)
        if found is None:
            if len(self._slot_settings) > 1000:
                self._slot_settings.clear()
            found = self._slot_settings[key] = for_slot(self._machine.settings, told)
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
            root=self._machine.enforcement.root,
            hidden=self._hidden(assignment),
            cores=cores,
            in_image=job.choice.runtime != NONE,
            namespaces=self._machine.enforcement.namespaces,
        )

    def _cores_for(self, run: Run) -> tuple[int, ...]:
        """The cores that the job is to be bound to; none when it may use all."""
        rules, slot = self._machine.settings.cores, run.assignment.slot
        if not rules.is_asked_for:
            return ()
        if not rules.assigns(run.job.ad):
            fixed = rules.fixed(slot.number)
            there = tuple(core for core in fixed if any(core in node for node in self._nodes))
            if fixed and not there:
                _log.warning(
                    "run %s: the host has none of the cores %s, the job may use all", run.run_id, listed(fixed)
                )
            return there
        others = (other for other in self._runs.values() if other is not run)
        used = Counter(core for other in others for core in other.job.enforced.cores)
        cores = affinity.choose(max(1, math.ceil(slot.cpus)), self._nodes, used)
        _log.info("%s: bound to the cores %s (run %s)", run.job_id, listed(cores), run.run_id)
        return cores

    def _hidden(self, assignment: Assignment) -> tuple[gpu_hiding.Device, ...]:
        if not (self._machine.settings.hide_gpus and self._machine.enforcement.root and self._gpus):
            return ()
        return gpu_hiding.hidden(self._gpus, gpu_hiding.assigned_uuids(assignment.slot, assignment.machine_ad))

    def take_group(self, group: int) -> None:
        """A run from before a restart has this tracking group."""
        self._groups.take(group)


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


def _keeps_checkpoints_away(job: RunJob) -> bool:
    rules = job.view.checkpoint if job.view is not None else None
    return rules is not None and bool(rules.destination)


def _has_manifest(job: RunJob) -> bool:
    """Whether a manifest is made: it is for files that move."""
    return job.transfers and job.view is not None and bool(job.view.manifest)


def _record_environment(run: Run, spec: KeeperSpec) -> None:
    """The environment into the job's manifest, without what only tells its processes from those of others."""
    assert run.job.view is not None
    marker = spec.marker.partition("=")[0]
    env = {name: value for name, value in spec.env.items() if name != marker}
    try:
        scratch = run.assignment.directory.scratch
        manifest.record_environment(scratch, run.job.view.manifest, env, run.job.identity)
    except OSError as error:
        _log.warning("%s: no environment in its manifest (run %s): %s", run.job_id, run.run_id, error)
