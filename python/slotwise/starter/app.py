"""Wires and starts the starter."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
from functools import partial
from pathlib import Path

from slotwise.config import Config
from slotwise.daemon import tasks
from slotwise.daemon.runtime import DaemonContext
from slotwise.daemon.starter_key import accept_startd
from slotwise.errors import ConfigError, HostError
from slotwise.execution.control_dir import control_root
from slotwise.execution.launcher import holder
from slotwise.starter.enforcement.gpu_hiding import find_gpus
from slotwise.starter.enforcement.privilege import may_make_namespaces
from slotwise.starter.host.capabilities import Enforcement, assess, cgroups_for
from slotwise.starter.host.java_probe import look_for_java
from slotwise.starter.host.job_host import JobHost
from slotwise.starter.host.recovery import recover
from slotwise.starter.host.watch import keep_lease, keep_looking
from slotwise.starter.job.directories import PREFIX
from slotwise.starter.run import events
from slotwise.starter.scratch import mount_namespace
from slotwise.starter.scratch.volumes import Volumes
from slotwise.starter.service import StarterServicer
from slotwise.starter.settings import StarterSettings, is_root, read_settings
from slotwise.wire.gen import starter_pb2_grpc

_log = logging.getLogger(__name__)

#: How long a stopping starter waits for a startd that stops too to hang up, seconds.
_HANG_UP_S = 1.0
#: How long it waits for the end of jobs that have no starter from then on, seconds.
_LAST_S = 8.0


class Starter:
    """The running daemon."""

    def __init__(self, context: DaemonContext, host: JobHost, background: list[asyncio.Task[None]]) -> None:
        self._context = context
        self._host = host
        self._tasks = background

    async def reconfig(self, config: Config) -> list[str]:
        """Take over new knobs. They hold for jobs that start from now on; cgroups and volumes are probed again.

        What this host cannot enforce is in the log; the warnings name what is new of it.
        """
        settings = read_settings(config, self._context.home, self._context.env)
        warnings = []
        if settings.execute != self._host.machine.settings.execute:
            warnings.append("EXECUTE changes only with a restart of the starter")
        known = self._host.machine.enforcement.gaps
        enforcement, volumes = probe_host(settings)
        require_encryption(settings, volumes)
        self._host.machine.apply_settings(settings, enforcement)
        self._host.disks.settings = settings
        self._host.common.copies_only = settings.copies_common
        await self._host.machine.look_for_plugins()
        await self._host.machine.look_for_runtimes()
        await look_for_java(self._host.machine)
        if volumes.kind != self._host.disks.volumes.kind:
            warnings.append("scratch volumes change only with a restart of the starter")
        return warnings + [gap for gap in enforcement.gaps if gap not in known]

    async def stop(self, mode: str) -> None:
        """End the service. Jobs go on under their keepers while a startd is there to take the service up again;
        else (the pool goes down) they are ended."""
        if mode == "fast" or not await self._startd_stays():
            await self._end_all()
        await tasks.end(*self._tasks)
        await self._host.close()

    async def _startd_stays(self) -> bool:
        """Whether a startd still listens a moment from now: one that stops together with the service hangs up first,
        and the word of that may come after the signal."""
        deadline = self._context.clock.monotonic() + _HANG_UP_S
        while self._host.runs and self._host.startd.listening and self._context.clock.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return self._host.startd.listening

    async def _end_all(self) -> None:
        for run in list(self._host.runs.values()):
            run.on(events.Unwanted(report_gone=False))
        deadline = self._context.clock.monotonic() + _LAST_S
        while self._host.runs and self._context.clock.monotonic() < deadline:
            await asyncio.sleep(0.02)


def probe_host(settings: StarterSettings) -> tuple[Enforcement, Volumes]:
    """Find out what this host can enforce, and say in the log what it cannot."""
    root = is_root()
    cgroups = cgroups_for(settings, root=root)
    volumes = Volumes(settings.volumes, settings.execute / ".starter" / "volumes")
    if settings.enforce_disk:
        volumes.probe(root=root)
        if volumes.problem:
            _log.warning("scratch volumes: %s: %s", volumes.kind or "none", volumes.problem)
    absent = tuple(path for path in settings.fixed_mounts if not Path(path).is_dir())
    enforcement = assess(
        settings,
        cgroups,
        root=root,
        volumes=volumes.kind,
        gpus=bool(find_gpus()),
        absent=absent,
        encrypts=bool(volumes.encryption),
        namespaces=may_make_namespaces(),
    )
    for gap in enforcement.gaps:
        _log.warning("not enforced on this host: %s", gap)
    _log.info("cgroup v%d (%s)", cgroups.version, " ".join(sorted(cgroups.controllers)) or "none")
    return enforcement, volumes


def require_encryption(settings: StarterSettings, volumes: Volumes) -> None:
    """Run no jobs in the clear where the administrator has all of them encrypted.

    :raises ConfigError: when this host cannot.
    """
    if settings.encryption.always and not volumes.encryption:
        raise ConfigError(
            f"ENCRYPT_EXECUTE_DIRECTORY is true, and this host cannot encrypt: {volumes.no_encryption}",
            hint="set STARTD_ENFORCE_DISK_LIMITS = true, as root; the host needs cryptsetup and dm-crypt, or fscrypt",
            key="ENCRYPT_EXECUTE_DIRECTORY",
        )


def _hide_volumes(settings: StarterSettings) -> None:
    """See to it that volumes are mounted where only starter and jobs see them."""
    control = control_root(settings.execute, settings.control)
    keepers = (holder(path) for path in sorted(control.glob(f"{PREFIX}*")))
    problem = mount_namespace.enter(pid for pid in keepers if pid)
    if problem:
        _log.warning("scratch volumes are visible on the whole host: %s", problem)


_PR_SET_NO_NEW_PRIVS = 38


def _give_up_setuid() -> None:
    """Nothing that this process starts gains rights from a program's setuid bit or file capabilities."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise HostError(f"DISABLE_SETUID: the kernel refuses no_new_privs: {os.strerror(ctypes.get_errno())}")


async def start(context: DaemonContext) -> Starter:
    """Start the service: take up what a former one left, then listen to the startd."""
    if context.config.get_bool("DISABLE_SETUID"):
        _give_up_setuid()
    settings = read_settings(context.config, context.home, context.env)
    settings.execute.mkdir(mode=0o755, parents=True, exist_ok=True)
    if settings.enforce_disk and settings.volumes.hide and is_root():
        _hide_volumes(settings)
    enforcement, volumes = probe_host(settings)
    require_encryption(settings, volumes)
    host = JobHost(settings, enforcement, volumes, context.clock, context.address.target)
    await host.open()
    await recover(host)  # ends what a former starter has left running, trials among it
    await host.machine.look_for_runtimes()
    accept_startd(context.home, context.authenticator)
    starter_pb2_grpc.add_StarterServicer_to_server(StarterServicer(host), context.server)
    watching = [tasks.keep("renewing the lease of jobs", partial(keep_lease, host))]
    watching.append(tasks.keep("looking at jobs", partial(keep_looking, host)))
    # In the background: a virtual machine takes its time.
    java = asyncio.get_running_loop().create_task(look_for_java(host.machine))
    host.cleanup_retry.start(
        lambda: host.machine.settings.cleanup_interval_s, lambda: host.machine.settings.cleanup_eager
    )
    return Starter(context, host, [*watching, java])
