"""Composes the keeper's spec of one job: program, environment, directories, limits, groups, mounts."""

from __future__ import annotations

import os
import resource
import stat
from functools import lru_cache
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from slotwise.execution import environment as environments
from slotwise.execution.cgroup import plan as cgroup_plan
from slotwise.execution.cgroup.plan import CgroupRules
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.execution.job_view import NULL_FILE
from slotwise.execution.keeper_spec import CgroupPlan, Isolation, KeeperSpec, Limits
from slotwise.starter.enforcement.job_wrapper import WRAPPER_FAILURE, unfit_wrapper
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.directories import places_of, temporary_source
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.job.java import JAVA
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.settings import StarterSettings

#: A hard limit that leaves the host's own.
_UNLIMITED = 2**64 - 1
_SHARED_MEMORY = "/dev/shm"


def compose(
    context: JobContext,
    settings: StarterSettings,
    cgroups: CgroupHost,
    *,
    notify: Path,
    lease: Path,
    lease_s: float,
    secret: str,
) -> KeeperSpec:
    """The keeper's spec, without the job wrapper. ``secret`` makes the marker in the job's environment this run's own.

    :raises OSError: when the program cannot be looked at.
    """
    job, directory = context.job, context.directory
    scratch = str(directory.scratch)
    begins = scratch if context.transfers else job.iwd
    cwd = _joined(begins, job.remote_iwd) if job.remote_iwd else begins
    program = _program(context, cwd)
    if settings.wrapper and not os.access(settings.wrapper, os.X_OK):
        raise LaunchRefusedError(unfit_wrapper(settings.wrapper))
    marker = f"_SLOTWISE_FAMILY={directory.name}.{secret}"
    places = places_of(directory, cwd)
    if settings.wrapper:
        places = replace(places, wrapper_error=str(directory.scratch / WRAPPER_FAILURE))
    if job.needs_credentials:
        places = replace(places, credentials=str(directory.credentials))
    env = environments.build(job, context.slot, places, settings.environment, home=context.identity.home, marker=marker)
    if job.proxy:
        # Where files move it is among them; elsewhere the job reads it where it is.
        env["X509_USER_PROXY"] = f"{scratch}/{job.proxy_name}" if context.transfers else job.proxy
    arguments = job.arguments
    if job.universe == JAVA:
        moved = directory.scratch if context.transfers else None
        program, arguments = settings.java.command(lookup(context.job_ad), arguments, moved)
    arguments = tuple(word.replace("#CoNdOrScRaTcHdIr#", scratch) for word in arguments)
    stdin, stdout, stderr = _streams(context, begins)
    return KeeperSpec(
        name=directory.name,
        exe=program,
        args=(program, *arguments),
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        appends=job.appends,
        identity=context.identity,
        limits=_limits(context, settings, cgroups),
        isolation=_isolation(context, settings, program),
        cgroup=_cgroup(context, settings, cgroups),
        notify=str(notify),
        lease=str(lease),
        lease_s=lease_s,
        marker=marker,
        poll_s=settings.poll_s,
        proportional=settings.use_pss,
        kill_signal=job.kill.soft,
    )


def wrapped(spec: KeeperSpec, wrapper: str) -> KeeperSpec:
    """The spec with which the keeper starts the job's wrapper (USER_JOB_WRAPPER), if there is one. The client of a
    runtime is not the job, and has rights that no wrapper is meant to have."""
    if not wrapper or spec.client:
        return spec
    return replace(spec, exe=wrapper, args=(wrapper, spec.exe, *spec.args[1:]))


def _program(context: JobContext, cwd: str) -> str:
    """Path of the program: the transferred one in the scratch directory, else where the job says.

    In an image that is as the job writes it.
    """
    job = context.job
    if context.transfers and job.transfer.executable and (job.cmd or not context.in_image):
        path = context.directory.scratch / PurePosixPath(job.cmd).name
        with rights_of(context.identity):
            if path.is_file():
                mode = stat.S_IMODE(path.stat().st_mode)
                if not mode & stat.S_IXUSR:
                    path.chmod(mode | 0o500)
        return str(path)
    return job.cmd if context.in_image else _joined(cwd, job.cmd)


def _joined(directory: str, name: str) -> str:
    """``name`` as seen from ``directory``."""
    return name if name.startswith("/") else f"{directory}/{name}"


def _streams(context: JobContext, cwd: str) -> tuple[str, str, str]:
    """Where standard input, output and error are."""
    job, scratch = context.job, context.directory.scratch
    if not context.transfers:
        names = (job.stdin, job.stdout, job.stderr)
        found = [_joined(cwd, name) for name in names]
        return found[0], found[1], found[2]
    stdin = NULL_FILE if job.stdin == NULL_FILE else str(scratch / PurePosixPath(job.stdin).name)
    files = [str(scratch / name) for name in job.stream_files()]
    stdout = NULL_FILE if job.stdout == NULL_FILE else files[0]
    if job.stderr == NULL_FILE:
        return stdin, stdout, NULL_FILE
    return stdin, stdout, files[-1]  # one file for both is written in the order of the writes


def _limits(context: JobContext, settings: StarterSettings, cgroups: CgroupHost) -> Limits:
    limits: list[tuple[int, int, int]] = []
    core = context.job.core_bytes
    if core is not None:
        limits.append((resource.RLIMIT_CORE, core, core))
    stack = context.job.stack_bytes
    if stack is not None:  # the soft limit only, as in HTCondor: the job may raise it again
        limits.append((resource.RLIMIT_STACK, stack, _UNLIMITED))
    space = settings.number(settings.address_space_mib, context.machine_ad, context.job_ad)
    if space:
        limits.append((resource.RLIMIT_AS, space << 20, space << 20))
    nice = settings.number(settings.renice, context.machine_ad, context.job_ad) or 0
    # The account's limit stands in for the job's own: other jobs of the account count, and have as many more.
    processes = 0 if cgroups.has("pids") else max(0, settings.cgroup.max_processes)
    return Limits(
        tuple(limits), processes=processes, nice=max(0, min(19, nice)), umask=settings.umask, cores=context.cores
    )


def _isolation(context: JobContext, settings: StarterSettings, program: str) -> Isolation:
    if not (context.root and context.namespaces):
        return Isolation()
    directory = context.directory
    used = [] if context.transfers else [context.job.iwd, *_streams(context, context.job.iwd)]
    if context.job.remote_iwd.startswith("/"):
        used.append(context.job.remote_iwd)
    if not context.in_image and not program.startswith(f"{directory.scratch}/"):
        used.append(program)
    if settings.wrapper:
        used.append(settings.wrapper)
    mounts: list[tuple[str, str]] = []
    pins: list[str] = []
    for target in settings.mount_targets(context.machine_ad, context.job_ad):
        real = _real_directory(target)
        # A directory that the job works in or starts from cannot be hidden from it.
        if not real or any(_below(real, os.path.realpath(path)) for path in used):
            continue
        mounts.append((temporary_source(directory, target), real))
        if _below(real, f"{_real_directory(str(directory.path.parent))}/{directory.name}"):
            pins.append(str(directory.path))
        if _below(real, os.path.realpath(directory.control)):
            pins.append(str(directory.control))
    shared = _real_directory(_SHARED_MEMORY)
    shm_mib = None
    if settings.private_shm and shared and not any(_below(shared, os.path.realpath(path)) for path in used):
        shm_mib = context.slot.memory_mib if settings.cgroup.memory_policy in ("hard", "custom") else 0
        pins += [str(path) for path in (directory.path, directory.control) if _below(shared, os.path.realpath(path))]
    parent = os.path.realpath(directory.path.parent)
    return Isolation(
        mounts=tuple(mounts),
        pins=tuple(dict.fromkeys(pins)),
        pid_namespace=settings.pid_namespace,
        shm_mib=shm_mib,
        private_ipc=settings.private_ipc,
        hide=(parent, f"{parent}/{directory.name}") if settings.enforce_disk and settings.volumes.hide else None,
    )


@lru_cache(maxsize=256)
def _real_directory(path: str) -> str:
    """The directory behind ``path``, links followed; empty when there is none. Looked up once: these do not move."""
    real = os.path.realpath(path)
    return real if Path(real).is_dir() else ""


def _below(top: str, real: str) -> bool:
    return f"{real}/".startswith(f"{top.rstrip('/')}/")


def cgroup_rules(context: JobContext, settings: StarterSettings) -> CgroupRules:
    """The knobs about cgroups with their expressions evaluated for this job on this slot."""
    machine, job = context.machine_ad, context.job_ad
    return replace(
        settings.cgroup,
        hard_mib=settings.number(settings.hard_memory, machine, job),
        low_mib=settings.number(settings.low_memory, machine, job),
        deny=context.hidden,
        cores=context.cores,
    )


def _cgroup(context: JobContext, settings: StarterSettings, cgroups: CgroupHost) -> CgroupPlan:
    if not cgroups.version:
        return CgroupPlan()
    return cgroup_plan.plan(
        cgroups,
        cgroup_rules(context, settings),
        name=cgroup_plan.group_name(str(settings.execute), context.slot.name),
        cpus=context.slot.cpus,
        memory_mib=context.slot.memory_mib,
        user=context.identity.uid is not None,
    )
