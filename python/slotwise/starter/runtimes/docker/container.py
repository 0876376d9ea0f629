"""Composes a job's container: the arguments of ``docker create``, and the client by which the keeper runs it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.execution.exit_status import FAILED_TO_CREATE_PROCESS, held
from slotwise.execution.job_view import NULL_FILE
from slotwise.execution.keeper_spec import CgroupPlan, Isolation, KeeperSpec, Limits
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.docker.launch import UserDirectory
from slotwise.starter.runtimes.docker.rules import DockerRules

#: Marks containers of jobs, as HTCondor marks its own.
LABEL = "org.htcondorproject"
#: The run's directory, by which leftovers are recognized.
RUN_LABEL = "slotwise.run"
#: The slice of systemd below which those of jobs are, and how their names begin.
SLICE, _SLICES = "htcondor.slice", "htcondor-"
_NETWORKS = ("host", "none", "nat")
#: The longest name of a host that Docker takes.
_HOST_NAME = 63
_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm")


class Engine(Struct, frozen=True):
    """The daemon as it has been found: how containers are put below a job's cgroup, and what it lacks.

    ``mounts``: the mount points of the cgroup hierarchies that containers are in (version 2: one). ``nests``: a
    container can be put below the job's own group.
    """

    nests: bool = False
    mounts: tuple[str, ...] = ()
    #: Where the daemon's cgroups are slices of systemd: the mount point of version 2.
    slices: str = ""
    under_init: bool = True
    #: It mounts what a process of this host has open, by ``/proc``.
    mounts_open: bool = True
    podman: bool = False


#: What the names of all containers of jobs, and of tests, begin with.
NAMES = "HTCJob"


def container_name(job_id: str, directory: str) -> str:
    """The container of a run: as HTCondor names it, and by the run's directory."""
    return f"{NAMES}{job_id.replace('.', '_')}_{directory}"


def group_path(plan: CgroupPlan, engine: Engine) -> str:
    """The job's group below the root of its hierarchies (``/htcondor/NAME``); empty where no container can be below."""
    if not engine.nests or not plan.version or not plan.make:
        return ""
    below = (_below(mount, plan.freezer) for mount in sorted(engine.mounts, key=len, reverse=True))
    return next((path for path in below if path), "")


def _below(mount: str, path: str) -> str:
    return path.removeprefix(mount) if path.startswith(f"{mount}/") else ""


def slice_name(spec: KeeperSpec) -> str:
    """The slice of systemd that the job's container is in, below ``htcondor.slice``; empty for a job without group.

    It is this run's alone: systemd keeps a slice that is empty, with what has been used in it.
    """
    group = PurePosixPath(spec.cgroup.freezer).name.removesuffix(".slice")
    return f"{_SLICES}{_in_slices(group)}_{spec.name}.slice" if spec.cgroup.version == 2 and group else ""


def is_slice_of(name: str, execute: str, directory: str) -> bool:
    """Whether a slice is that of a run, by its EXECUTE and its directory; without a directory: of any run there."""
    ours = name.startswith(f"{_SLICES}{_in_slices(execute)}_") and name.endswith(".slice")
    return ours and (not directory or name.removesuffix(".slice").endswith(f"_{directory}"))


def _in_slices(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)


def slice_path(spec: KeeperSpec, engine: Engine) -> str:
    """Where that slice is; empty where the daemon's cgroups are not systemd's. The daemon makes and limits it."""
    name = slice_name(spec)
    return f"{engine.slices}/{SLICE}/{name}" if engine.slices and name else ""


def container_groups(spec: KeeperSpec, engine: Engine) -> CgroupPlan:
    """The job's groups with those that Docker makes for the container, so that all of them are removed at the end.

    The client stays outside: its memory is not the job's. Rules about devices are the container's own.
    """
    plan = spec.cgroup
    if place := slice_path(spec, engine):
        return CgroupPlan(
            version=2, freezer=place, memory=place, cpu=place, use_peak=plan.use_peak, ignore_cache=plan.ignore_cache
        )
    group = group_path(plan, engine)
    if not group:
        return CgroupPlan()
    others = (f"{mount}{group}" for mount in engine.mounts)
    make = plan.make if plan.version == 2 else tuple(dict.fromkeys((*plan.make, *others)))
    settings = tuple(setting for setting in plan.settings if not setting.path.endswith("/devices.deny"))
    return replace(plan, make=make, settings=settings, join=(), own=(), deny=())


class Devices(Struct, frozen=True):
    """Device files of GPUs by UUID."""

    by_uuid: Mapping[str, str] = field(default_factory=dict)

    def of(self, assigned: str, *, every: bool) -> tuple[str, ...]:
        """The files that a container of a slot with these GPUs gets (``CUDA0,CUDA1``, or short UUIDs)."""
        names = assigned.replace(",", " ").split()
        if not names:
            return ()
        numbered = [f"/dev/nvidia{name[4:]}" for name in names if re.fullmatch(r"CUDA\d+", name)]
        by_uuid = [path for uuid, path in self.by_uuid.items() if every or any(uuid.startswith(name) for name in names)]
        return (*_DEVICES, *(numbered or by_uuid))


_NO_DEVICES = Devices()


def create_arguments(
    spec: KeeperSpec,
    context: JobContext,
    rules: DockerRules,
    engine: Engine,
    *,
    image: str,
    memory_mib: int | None,
    account: tuple[int, int],
    devices: Devices = _NO_DEVICES,
    mounts: Iterable[tuple[str, str]] = (),
) -> list[str]:
    """The arguments of ``docker create``, without the program, and without the job's environment: it is not for those
    who list the processes of the host. :mod:`launch` gives it to the daemon.

    :param spec: the job on the bare host.
    :param account: user and group that the job runs as.
    :param mounts: what else the container gets of the host (source, target), read-only.
    :raises LaunchRefusedError: when the job asks for what the machine does not allow.
    """
    value, machine, job = lookup(context.job_ad), context.machine_ad, context.job_ad
    if 0 in account:
        raise _refused("A Docker job never runs as root, nor in root's group")
    words = ["create", "--name", container_name(context.job.job_id, spec.name)]
    words += ["--label", f"{LABEL}=True", "--label", f"{RUN_LABEL}={context.directory.path}"]
    words += _limits(spec, context, engine, memory_mib)
    if rules.drops_capabilities(machine, job):
        words += ["--cap-drop=all", "--cap-add=SYS_PTRACE", "--security-opt", "no-new-privileges"]
    if rules.under_init and engine.under_init:
        words.append("--init")
    if rules.keeps_no_log:
        words += ["--log-driver", "none"]
    if spec.stdin not in ("", NULL_FILE):
        words.append("--interactive")
    for volume in _volumes(spec, context, rules, engine, mounts):
        words += ["--volume", volume]
    assigned = next((text for tag, text in context.slot.assigned.items() if tag.lower() == "gpus"), "")
    for path in devices.of(assigned, every=rules.maps_all_gpus):
        words += ["--device", path]
    words += ["--workdir", spec.cwd, "--user", f"{account[0]}:{account[1]}"]
    for group in spec.identity.groups:
        words += ["--group-add", str(group)]
    words += _network(context)
    for _service, port in service_ports(context.job_ad):
        words += ["-p", str(port)]
    words += rules.extra_arguments
    if (shm := rules.shm_bytes(machine, job)) is not None:
        words += ["--shm-size", str(shm)]
    command = _command(spec, context)
    if command and value("DockerOverrideEntrypoint") is True:
        words += ["--entrypoint", command, image]
    else:
        words += [image, *([command] if command else [])]
    words += spec.args[1:]
    if value("InteractiveJob") is True:
        words.append("86400")
    return words


def _limits(spec: KeeperSpec, context: JobContext, engine: Engine, memory_mib: int | None) -> list[str]:
    words: list[str] = []
    if slice_path(spec, engine):
        words.append(f"--cgroup-parent={slice_name(spec)}")
    if group := group_path(spec.cgroup, engine):
        words.append(f"--cgroup-parent={group}")
    else:
        words.append(f"--cpu-shares={max(2, round(100 * context.slot.cpus))}")
        if context.cores:
            words.append(f"--cpuset-cpus={','.join(map(str, context.cores))}")
        limit = memory_mib if memory_mib is not None else context.slot.memory_mib
        if limit > 0:
            words.append(f"--memory={limit}m")
        words += _by_docker(spec.cgroup, limit)
    if context.job.core_bytes is not None:
        words.append(f"--ulimit=core={context.job.core_bytes}:{context.job.core_bytes}")
    return words


def _by_docker(plan: CgroupPlan, memory_mib: int) -> list[str]:
    """Limits of the job's cgroup that Docker sets for its container, where that is not below the job's."""
    words = []
    for setting in plan.settings:
        file = PurePosixPath(setting.path).name
        if file == "pids.max":
            words.append(f"--pids-limit={setting.value}")
        elif file in ("memory.swap.max", "memory.memsw.limit_in_bytes") and memory_mib > 0:
            words.append(f"--memory-swap={memory_mib}m")  # as much as memory: no swap
    return words


def users_directory(
    spec: KeeperSpec, context: JobContext, engine: Engine, account: tuple[int, int]
) -> UserDirectory | None:
    """The directory that a job without file transfer works in, for :mod:`launch` to open; None where it has none, or
    where the daemon finds it by its name and does not say what it has found."""
    if context.transfers or spec.cwd == str(context.directory.scratch):
        return None
    if not engine.mounts_open and not engine.podman:
        return None
    return (spec.cwd, *account, spec.identity.groups)


def _volumes(
    spec: KeeperSpec, context: JobContext, rules: DockerRules, engine: Engine, mounts: Iterable[tuple[str, str]]
) -> list[str]:
    """What the container sees of the host, each once: Docker refuses a target that comes twice."""
    scratch = str(context.directory.scratch)
    found = {scratch: f"{scratch}:{scratch}"}
    if not context.transfers:
        # Empty: it is shown to the daemon open.
        found.setdefault(spec.cwd, "" if engine.mounts_open else f"{spec.cwd}:{spec.cwd}")
    for source, target in spec.isolation.mounts:
        found.setdefault(target, f"{source}:{target}")
    for source, target in mounts:
        found.setdefault(target, f"{source}:{target}:ro")
    for volume in rules.volumes:
        if volume.is_mounted(context.machine_ad, context.job_ad):
            found.setdefault(volume.mount.split(":")[1], volume.mount)
    return [volume for volume in found.values() if volume]


def _network(context: JobContext) -> list[str]:
    """Network and host name.

    :raises LaunchRefusedError: for a network that DOCKER_NETWORKS does not allow.
    """
    value = lookup(context.job_ad)
    wanted = value("DockerNetworkType")
    network = wanted if isinstance(wanted, str) else ""
    if network and network not in _NETWORKS:
        allowed = lookup(context.machine_ad)("DockerNetworks")
        if network not in (allowed if isinstance(allowed, str) else "").replace(",", " ").split():
            raise _refused(f"The job wants the Docker network {network}, which DOCKER_NETWORKS does not allow here")
    words = [] if network in ("", "nat") else [f"--network={network}"]
    return words if network == "host" else [*words, "--hostname", host_name(context)]


def host_name(context: JobContext) -> str:
    """The container's host name: user, job and machine, as in HTCondor, without what no host name has."""
    machine = lookup(context.machine_ad)("Machine")
    where = machine if isinstance(machine, str) else "host"
    name = f"{context.job.owner or 'unknown'}-{context.job.job_id}-{where}"
    return re.sub(r"[^A-Za-z0-9.-]", "-", name)[:_HOST_NAME].rstrip("-.")


def service_ports(job_ad: ClassAd) -> list[tuple[str, int]]:
    """The services of the job (container_service_names) and their ports in the container.

    :raises LaunchRefusedError: when one has no port.
    """
    value = lookup(job_ad)
    names = value("ContainerServiceNames")
    found = []
    for name in (names if isinstance(names, str) else "").replace(",", " ").split():
        port = value(f"{name}_ContainerPort")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise _refused(f"The container service {name} has no port: set {name}_container_port")
        found.append((name, port))
    return found


def _command(spec: KeeperSpec, context: JobContext) -> str:
    """The program in the container: the transferred one, a path of the image, or none: the image's own."""
    job = context.job
    if not job.cmd:
        return ""
    if context.transfers and job.transfer.executable:
        return f"./{PurePosixPath(job.cmd).name}"
    return job.cmd


def attached(spec: KeeperSpec, words: tuple[str, ...], env: Mapping[str, str], engine: Engine) -> KeeperSpec:
    """The spec with which the keeper runs the container: its process is the client that is attached to it.

    :param words: the program that becomes this client.
    :param env: its environment.
    """
    return replace(
        spec,
        exe=words[0],
        args=words,
        env={**env, **_marker(spec)},
        cwd="/",
        client=True,
        limits=Limits(umask=spec.limits.umask),
        isolation=Isolation(),
        cgroup=container_groups(spec, engine),
    )


def _marker(spec: KeeperSpec) -> dict[str, str]:
    """The entry by which the family is found, for the client."""
    name, _, text = spec.marker.partition("=")
    return {name: text} if name else {}


def _refused(reason: str) -> LaunchRefusedError:
    return LaunchRefusedError(held(reason, FAILED_TO_CREATE_PROCESS))
