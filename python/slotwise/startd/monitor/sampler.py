"""Reads the host: facts once at start, and what changes at every poll."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from slotwise.classad.evaluate import Value
from slotwise.config import Config
from slotwise.daemon import children, own_programs
from slotwise.daemon.privileges import as_daemon_account
from slotwise.errors import ConfigError
from slotwise.model.slot import Activity
from slotwise.release import CONDOR_VERSION, condor_platform
from slotwise.startd.fingerprint import Attributes as Facts
from slotwise.startd.fingerprint import clock, cpu, disk, idle, load, memory, network, platform
from slotwise.startd.fingerprint.self_monitor import SelfMonitor
from slotwise.startd.fingerprint.x_input import XProbe
from slotwise.startd.host import machine_amounts
from slotwise.startd.host.host_state import HostState
from slotwise.startd.settings import Sampled
from slotwise.startd.slot_ad.owner_load import LoadOf, share_load
from slotwise.startd.slot_types import gpu_detection
from slotwise.startd.slot_types.custom import CustomResource, custom_resources, is_named, names_in

#: Abilities of the starter that every job can count on.
_ABILITIES = "HasFileTransfer,HasJobDeferral,HasPerFileEncryption,HasReconnect,HasSelfCheckpointTransfers"


def host_facts(config: Config, env: Mapping[str, str], execute: Path) -> Facts:
    """What does not change while the startd runs."""
    facts: Facts = {
        **platform.read(),
        **cpu.read(count_hyperthreads=config.get_bool("COUNT_HYPERTHREAD_CPUS")),
        **memory.read(),
        # This may come before the starter makes the directory.
        **disk.read(disk.place_of(execute)),
        **disk.rotational(disk.place_of(execute)),
    }
    limit = cpu.limit(env)
    facts["DetectedCpus"] = min(int(facts["DetectedCpus"]), limit) if limit else facts["DetectedCpus"]
    facts.update(network.read())
    return facts


def machine_attributes(
    facts: Mapping[str, bool | int | float | str], config: Config, *, hostname: str, address: str, started_at: float
) -> dict[str, Value]:
    """The attributes that every slot ad of the machine begins with."""
    attributes: dict[str, Value] = {
        "MyType": "Machine",
        "Machine": hostname,
        "MyAddress": address,
        "StartdIpAddr": address,
        "CondorVersion": CONDOR_VERSION,
        "CondorPlatform": condor_platform(str(facts.get("OpSysAndVer"))),
        "DaemonStartTime": int(started_at),
        "UidDomain": config.get("UID_DOMAIN") or hostname,
        "FileSystemDomain": config.get("FILESYSTEM_DOMAIN") or hostname,
        "HasFileTransfer": True,
        "HasJobTransferPlugins": True,
        "HasPerFileEncryption": True,
        "HasJobDeferral": True,
        "HasIOProxy": True,
        "HasReconnect": True,
        "HasStartDaemonAd": True,
        "IsLocalStartd": False,
        # Nothing tells a startd for how long it will be there.
        "TimeToLive": 2**31 - 1,
        "HasJICLocalConfig": False,
        "HasSelfCheckpointTransfers": True,
        "HasUserNamespaces": Path("/proc/self/ns/user").exists(),
        "HasVM": False,
        "VM_Type": None,
        "StarterAbilityList": _ABILITIES,
        "LastBenchmark": 0,
        "HasEncryptExecuteDirectory": False,
        "OfflineUniverses": [],
        "HasRotationalScratch": facts.get("HasRotationalScratch"),
        "JavaVersion": None,
    }
    names = (
        "Arch", "Microarch", "OpSys", "OpSysAndVer", "OpSysLegacy", "OpSysLongName", "OpSysMajorVer", "OpSysName",
        "OpSysShortName", "OpSysVer", "CpuFamily", "CpuModelNumber", "CpuCacheSize", "CpuModel",
        "DetectedCpus", "DetectedDisk", "DetectedMemory", "HardwareAddress", "SubnetMask",
        "UtsnameMachine", "UtsnameNodename", "UtsnameRelease", "UtsnameSysname", "UtsnameVersion",
    )  # fmt: skip
    attributes.update({name: facts[name] for name in names if name in facts})
    attributes.update({name: value for name, value in facts.items() if name.startswith("has_")})
    return {name: value for name, value in attributes.items() if value is not None}


def inventory(config: Config) -> list[CustomResource]:
    """The machine's custom resources; inventory programs are run.

    :raises ConfigError: when a program fails.
    """
    found = custom_resources(config, run_inventory)
    configured = any(resource.tag.lower() == gpu_detection.TAG.lower() for resource in found)
    if configured or not is_named(gpu_detection.TAG, config):
        return found
    gpus = gpu_detection.detect(
        config,
        may_have_gpus=_may_have_gpus(),
        offline=names_in(config.get_str(f"OFFLINE_MACHINE_RESOURCE_{gpu_detection.TAG}")),
        run_inventory=run_inventory,
    )
    return found if gpus is None else [*found, gpus]


def inventory_command(config: Config, tag: str) -> str | None:
    """The program that names the devices of a resource; None when the configuration itself does."""
    if config.get(f"MACHINE_RESOURCE_{tag}"):
        return None
    command = config.get(f"MACHINE_RESOURCE_INVENTORY_{tag}")
    if command or tag.lower() != gpu_detection.TAG.lower():
        return command
    return gpu_detection.command(config, may_have_gpus=_may_have_gpus())


#: Without one of these no driver serves a GPU.
_GPU_FILES = tuple(Path(path) for path in ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/kfd", "/dev/dri"))


def _may_have_gpus() -> bool:
    return any(path.exists() for path in _GPU_FILES)


#: How long an inventory program may take (seconds): less than `slotwise up` waits, so that the fault is named.
_INVENTORY_S = 20


def run_inventory(tag: str, command: str) -> str:
    """What an inventory program prints.

    :raises ConfigError: when it fails.
    """
    try:
        words = [*as_daemon_account(), *own_programs.to_run(shlex.split(command))]
        ended = children.run_command_blocking(words, limit_s=_INVENTORY_S)
    except (OSError, ValueError) as error:
        what = str(error)
    else:
        if ended.timed_out:
            what = f"no end after {_INVENTORY_S} s"
        elif ended.status == 0:
            return ended.output.decode(errors="replace")
        else:
            said = ended.errors.decode(errors="replace").strip().splitlines()
            what = f"exit status {ended.status}" + (f", {said[-1]}" if said else "")
    knob = f"MACHINE_RESOURCE_INVENTORY_{tag}"
    raise ConfigError(f"{knob}: {command} failed: {what}", hint="correct it, or remove the knob", key=knob)


def custom_attributes(resources: list[CustomResource]) -> dict[str, Value]:
    """``Detected<tag>`` and the properties that all devices share."""
    attributes: dict[str, Value] = {}
    for resource in resources:
        attributes[f"Detected{resource.tag}"] = ", ".join(resource.devices) if resource.devices else resource.amount
    return attributes


#: A slot's load above this counts as busy (HTCondor's CPU_BUSY threshold for CpuBusyTime).
_BUSY_LOAD = 0.5


def free_disk(config: Config, execute: Path) -> int:
    """KiB that are free on the disk of EXECUTE, without RESERVED_DISK."""
    return max(0, int(disk.read(execute)["TotalDisk"]) - int(1024 * config.get_float("RESERVED_DISK")))


class HostSampler:
    """Measures load, idle times and free amounts, again and again.

    :param execute: EXECUTE, whose file system has the disk of the slots.
    :param started_at: when the startd began: keyboards that are not there count as idle since then.
    :param own: measures the startd itself.
    """

    def __init__(self, execute: Path, x: XProbe, started_at: float, own: SelfMonitor | None = None) -> None:
        self._execute, self._x, self._own = execute, x, own
        self._started_at = started_at
        #: Since when load that is not ours has been high.
        self._busy_since: float | None = None

    def clock_was_set(self, by_s: float) -> None:
        """The wall clock jumped by so many seconds."""
        self._started_at += by_s

    def sample(self, host: HostState, config: Config, now: float) -> None:
        """Measure, and share the load out among the slots."""
        machine_load = float(load.read()["TotalLoadAvg"])
        slots = []
        benchmarks = 1.0  # they run one at a time, for the first slot that waits for them
        for record in sorted(host.slots, key=lambda record: (record.slot_id, record.dslot_id)):
            room = record.free.cpus if record.children else record.total.cpus
            ours = record.usage.condor_load
            if record.slot.state.activity is Activity.BENCHMARKING:
                ours, benchmarks = ours + benchmarks, 0.0
            slots.append(LoadOf(record.name, record.slot.state.state, float(room), ours))
        loads = share_load(machine_load, slots)
        real = idle.read(
            now,
            self._started_at,
            console_devices=config.get_list("CONSOLE_DEVICES"),
            x_input=self._x.last_input(now),
        )
        boost = config.get_float("DISCONNECTED_KEYBOARD_IDLE_BOOST")
        disconnected = idle.disconnected(now, self._started_at, boost)
        machine: dict[str, Value] = {
            **clock.read(now),
            **(self._own.read(now) if self._own is not None else {}),
            "TotalLoadAvg": round(machine_load, 2),
            "TotalCondorLoadAvg": round(sum(condor for _, condor in loads.values()), 2),
            **self._cpu_busy(loads, now),
        }
        self._follow(host, config)
        host.settings.sample = Sampled(
            machine,
            loads,
            (int(real["KeyboardIdle"]), int(disconnected["KeyboardIdle"])),
            (int(real["ConsoleIdle"]), int(disconnected["ConsoleIdle"])),
        )

    def _cpu_busy(self, loads: Mapping[str, tuple[float, float]], now: float) -> dict[str, Value]:
        """CpuIsBusy and CpuBusyTime: since when the load that is not ours has been high."""
        owner_load = sum(total - condor for total, condor in loads.values())
        busy = owner_load >= _BUSY_LOAD
        if busy and self._busy_since is None:
            self._busy_since = now
        if not busy:
            self._busy_since = None
        since = self._busy_since
        return {"CpuIsBusy": busy, "CpuBusyTime": int(now - since) if since is not None else 0}

    def _follow(self, host: HostState, config: Config) -> None:
        """Swap follows the machine; disk only when STARTD_RECOMPUTE_DISK_FREE says so, as slots' own jobs fill it."""
        swap = max(0, int(memory.read()["TotalVirtualMemory"]) - int(1024 * config.get_float("RESERVED_SWAP")))
        free = None
        if config.get_bool("STARTD_RECOMPUTE_DISK_FREE"):
            free = free_disk(config, self._execute)
        if abs(swap - host.settings.resources.swap_kib) > 1024 or free is not None:
            machine_amounts.resize(host, disk_kib=free, swap_kib=swap)
