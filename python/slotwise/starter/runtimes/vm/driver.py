"""Virtual machines as a runtime: the VM universe of a host."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.execution.exit_status import FAILED_TO_CREATE_PROCESS, MACHINE_FAILED, STARTER_ERROR, End, How, held
from slotwise.execution.keeper_spec import CgroupPlan, CgroupSetting, Identity, Isolation, KeeperResult, KeeperSpec
from slotwise.starter.enforcement.privilege import read_small, rights_of
from slotwise.starter.job.ads import lookup, text
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.runtime import ContainerJob, ContainerRun, Entrance, Probe, Progress
from slotwise.starter.runtimes.vm.domain import described_by
from slotwise.starter.runtimes.vm.machine import (
    BAD_IMAGE,
    RAW,
    Machine,
    MachineError,
    Sandbox,
    read_machine,
    refers_elsewhere,
)
from slotwise.starter.runtimes.vm.plan import NOTE, REPORT, SupervisorPlan, decode_plan, decode_report
from slotwise.starter.runtimes.vm.probe import (
    Found,
    find,
    rights_in_libvirt,
    seeing_supervisor,
    supervisor_words,
    with_kvm,
)
from slotwise.starter.runtimes.vm.qemu_words import BY_EMULATION
from slotwise.starter.runtimes.vm.records import VmRecord, VmRecords
from slotwise.starter.runtimes.vm.rules import BRIDGE, LIBVIRT, VmRules
from slotwise.starter.runtimes.vm.virsh import destroy_domain

_log = logging.getLogger(__name__)

#: VM_AvailNum where VM_MAX_NUMBER sets no bound.
_UNLIMITED = 10000
#: VM_GAHP_VERSION: that of the protocol which HTCondor speaks to its own supervisors.
_GAHP_VERSION = "0.0.1"
#: Files of a cgroup that bound the job's memory.
_MEMORY_LIMITS = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.max")
_MIB = 1024 * 1024
#: What the last probe with these settings found: a reconfiguration makes this driver anew.
_known: dict[VmRules, Found] = {}


class VirtualMachines:
    """Runs the jobs of the VM universe. For the event loop's thread."""

    name = "vm"

    def __init__(self, rules: VmRules, execute: Path, *, root: bool) -> None:
        self._rules = rules
        self._root = root
        self._place = execute / ".starter" / "vm"
        self._records = VmRecords(self._place)
        self._probing: asyncio.Task[None] | None = None
        #: Why the last machine could not be started, and when.
        self._failed: tuple[str, float] | None = None

    @property
    def offer(self) -> Probe:
        """What is advertised now: less what machines have, and nothing after one that the host failed to start."""
        if not self._rules.kind:
            problem = "; ".join(self._rules.problems)
            refused: dict[str, Value] = {"HasVM": False, "VMOfflineReason": problem} if problem else {}
            return Probe(works=False, reason=problem, attributes=refused)
        why = self._failed[0] if self._failed is not None else "" if self._found.driver else self._found.reason
        if why or not self._found.driver:
            told: dict[str, Value] = {"HasVM": False}
            if why:
                told["VMOfflineReason"] = why
            return Probe(works=False, reason=why, attributes=told)
        attributes = offered(self._usable, self._found, list(self._records))
        return Probe(works=True, version=self._found.version, attributes=attributes, gaps=self._gaps())

    def _gaps(self) -> tuple[str, ...]:
        gaps = list(self._usable.problems)
        if self._outside:
            gaps.append(
                "the memory and the cores of virtual machines are what libvirt gives them, not the job's cgroup"
            )
        return tuple(gaps)

    @property
    def _usable(self) -> VmRules:
        """The knobs without the networks that machines do not get here."""
        rules, missing = self._rules, dict(self._found.no_network)
        if not missing:
            return rules
        networks = tuple(network for network in rules.networks if network not in missing)
        default = rules.default_network if rules.default_network in networks else next(iter(networks), "")
        problems = [_no_network(rules, network, why) for network, why in missing.items()]
        return replace(rules, networks=networks, default_network=default, problems=(*rules.problems, *problems))

    @property
    def _outside(self) -> bool:
        """Machines are not among the processes of their jobs."""
        return self._found.driver == LIBVIRT and not self._rules.in_session

    async def probe(self) -> None:
        """Have a machine run, which takes a while; until it has, the last word about these settings counts."""
        if self._rules.kind and (self._probing is None or self._probing.done()):
            self._probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        try:
            self._place.mkdir(mode=0o711, parents=True, exist_ok=True)
            found = await find(self._rules, self._place, root=self._root)
        except OSError as error:
            found = Found(reason=f"{error.filename}: {error.strerror}")
        failed_again = self._failed is not None and not found.driver
        self._failed = (found.reason, time.monotonic()) if failed_again else None
        _known[self._rules] = found
        if not found.driver:
            _log.warning("there are no virtual machines: %s", found.reason)
        elif found.accelerator == BY_EMULATION:
            _log.warning("virtual machines are emulated: KVM does not work here")
        else:
            _log.info("virtual machines: %s with %s", found.version, found.accelerator)
        for network, why in found.no_network:
            _log.warning("virtual %s", _no_network(self._rules, network, why))

    @property
    def _found(self) -> Found:
        return _known.get(self._rules, Found())

    async def prepare(self, job: ContainerJob, progress: Progress) -> ContainerJob:
        """Read and check what the job asks for, and count its machine."""
        sandbox = job.context.directory.scratch
        value = lookup(job.context.job_ad)
        try:
            with rights_of(job.context.identity):
                files = frozenset(path.name for path in sandbox.iterdir())
            machine = read_machine(value, self._usable, Sandbox(str(sandbox), files))
            if self._outside:
                machine = replace(machine, name=name_of_run(machine.name, sandbox))
            self._check(machine, job)
        except MachineError as error:
            raise LaunchRefusedError(_refusal(error)) from None
        rights = rights_in_libvirt(self._rules, job.context.identity) if self._outside else ""
        xml = ""
        if self._rules.xml_script and self._found.driver == LIBVIRT:
            try:
                xml = await described_by(self._rules.xml_script, text(job.context.job_ad), machine, rights)
            except MachineError as error:
                raise LaunchRefusedError(_refusal(error)) from None
        self._make_room(machine, job)
        if self._outside and not rights:
            try:
                machine = with_names_of_roots(machine, job.context.identity, self._state_of(job.name))
            except MachineError as error:
                self._forget(job.name)
                raise LaunchRefusedError(_refusal(error)) from None
        plan = self._plan(machine, str(sandbox), xml, str(self._state_of(job.name)) if self._outside else "")
        return replace(job, image=replace(plan, rights=rights).encode())

    def _make_room(self, machine: Machine, job: ContainerJob) -> None:
        """Count the machine among those of the host."""
        records = list(self._records)
        used_mib = sum(record.memory_mib for record in records)
        if used_mib + machine.memory_mib > self._rules.memory_mib or 0 < self._rules.most <= len(records):
            reason = f"There are {len(records)} virtual machines with {used_mib} MiB here, and no room for another"
            raise LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=STARTER_ERROR))
        uri = self._rules.uri if self._outside else ""
        self._records.add(VmRecord(job.name, machine.name, machine.memory_mib, machine.mac, uri))
        if self._outside:
            self._state_of(job.name).mkdir(mode=0o700, exist_ok=True)

    def _state_of(self, run: str) -> Path:
        """Where the state of a machine outside of its job's processes is written: no job reaches it."""
        return self._place / f"{run}.state"

    def _forget(self, run: str) -> None:
        """Nothing is left of the run's machine."""
        shutil.rmtree(self._state_of(run), ignore_errors=True)
        self._records.remove(run)

    def _check(self, machine: Machine, job: ContainerJob) -> None:
        """Refuse what the job's own account may not use, and what the slot has no room for.

        :raises MachineError: when it is refused.
        """
        slot_mib = job.context.slot.memory_mib
        if 0 < slot_mib < machine.memory_mib:
            raise MachineError(
                "VMGAHP_ERR_JOBCLASSAD_TOO_MUCH_MEMORY_REQUEST",
                f"the machine is to have {machine.memory_mib} MiB, and the slot has {slot_mib}: raise request_memory",
            )
        if machine.checkpoint and self._outside:
            word = f"VMGAHP_ERR_JOBCLASSAD_{machine.kind.upper()}_MISMATCHED_CHECKPOINT"
            raise MachineError(word, f"{self._rules.uri} takes no state that comes with a job: drop vm_checkpoint")
        with rights_of(job.context.identity):
            boot = machine.xen
            for name, path in (("KERNEL", boot.kernel), ("INITRD", boot.initrd)) if boot is not None else ():
                if path and not os.access(path, os.R_OK, effective_ids=True):
                    raise MachineError(f"VMGAHP_ERR_JOBCLASSAD_XEN_{name}_NOT_FOUND", f"{path} cannot be read")
            for disk in machine.disks:
                wanted = os.R_OK | (os.W_OK if disk.writable else 0)
                if not os.access(disk.path, wanted, effective_ids=True):
                    verb = "changed" if disk.writable else "read"
                    word = f"VMGAHP_ERR_JOBCLASSAD_{machine.kind.upper()}_INVALID_DISK_PARAM"
                    raise MachineError(word, f"{disk.path} cannot be {verb}")
                if self._outside and _leads_elsewhere(Path(disk.path)):
                    raise MachineError(
                        BAD_IMAGE, f"{disk.path} leads to another file, which may not be the job's, or is none"
                    )

    def _plan(self, machine: Machine, scratch: str, xml: str, state_dir: str) -> SupervisorPlan:
        rules, found = self._rules, self._found
        return SupervisorPlan(
            machine,
            scratch,
            found.driver,
            found.accelerator,
            qemu=rules.qemu,
            uri=rules.uri,
            xml=xml,
            state_dir=state_dir,
            soft_suspend=rules.soft_suspend or _cannot_be_saved(machine, rules),
            kill_s=rules.kill_s,
            status_s=rules.status_s,
            status_errors=rules.status_errors,
        )

    def compose(self, spec: KeeperSpec, job: ContainerJob) -> KeeperSpec:
        """The spec of the machine's supervisor."""
        scratch = str(job.context.directory.scratch)
        words = supervisor_words(decode_plan(job.image))
        name, _, value = spec.marker.partition("=")
        return replace(
            spec,
            exe=words[0],
            args=words,
            env={
                name: value,
                "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
                "HOME": scratch,
                "LC_ALL": "C.UTF-8",
            },
            # A machine of the host's libvirt is not among the job's processes. Its supervisor is a client of libvirt,
            # and sees the directories that libvirt sees.
            isolation=Isolation() if self._outside else seeing_supervisor(spec.isolation),
            client=self._outside and self._root,
            identity=with_kvm(spec.identity, self._found.kvm_group),
            cgroup=with_overhead(spec.cgroup, self._rules.overhead_mib),
            suspends_itself=True,
        )

    def inside(self, run: ContainerRun) -> Entrance | None:
        """Nobody enters a machine."""
        return None

    async def describe(self, run: ContainerRun, job_ad: ClassAd) -> Mapping[str, Value]:
        """Nothing: a machine has what its job has asked for."""
        return {}

    async def usage(self, run: ContainerRun) -> Mapping[str, Value]:
        """Nothing that the keeper does not measure."""
        return {}

    async def conclude(self, run: ContainerRun, result: KeeperResult) -> KeeperResult:
        """What the supervisor reports, if its machine did not run to its end; no machine is left."""
        loop = asyncio.get_running_loop()
        record = self._records.get(run.name)
        if record is not None and record.uri:
            await loop.run_in_executor(None, destroy_domain, record.uri, record.machine)
        self._forget(run.name)
        if noted := _read(run, NOTE):
            _log.warning("%s: its machine booted from its disks: %s", run.job.job_id, " ".join(noted.split())[:500])
        report = decode_report(_read(run, REPORT))
        if report is None or result.how != "exited" or result.ended_by != "itself":
            return result
        if report.subcode is not None:
            return replace(result, how="failed", stage=MACHINE_FAILED, detail=report.reason, errno=report.subcode)
        _log.error("%s: its virtual machine failed: %s", run.job.job_id, report.reason)
        if result.ended_at - result.started_at < self._rules.kill_s:
            self._failed = (report.reason, time.monotonic())
            await self.probe()  # a disk that no machine starts from is not the host's failure
        return replace(result, how="failed", stage="runtime", detail=report.reason)

    async def sweep(self, live: Collection[str]) -> list[str]:
        """Remove machines of runs that are gone; probe again after a failure."""
        problems = []
        loop = asyncio.get_running_loop()
        for record in self._records.gone(live):
            if record.uri:
                problem = await loop.run_in_executor(None, destroy_domain, record.uri, record.machine)
                if problem:
                    problems.append(f"the virtual machine {record.machine}: {problem}")
                    continue
            self._forget(record.run)
        if self._is_due():
            await self.probe()
        return problems

    def _is_due(self) -> bool:
        """Whether it is time to look again at a host that could not start a machine."""
        since = self._failed[1] if self._failed is not None else None
        return since is not None and 0 < self._rules.recheck_s <= time.monotonic() - since


def _read(run: ContainerRun, name: str) -> str:
    """What the supervisor has left in the scratch directory under this name; empty when it has not."""
    try:
        return read_small(run.directory.scratch / name, run.identity, 65536)
    except OSError:
        return ""


def name_of_run(name: str, scratch: Path) -> str:
    """A machine's name in a libvirt of the host: no other run's, whatever access points call their users and jobs. The
    end of a run destroys the machine of this name."""
    return f"{name}_{hashlib.sha256(os.fsencode(scratch)).hexdigest()[:12]}"


def _leads_elsewhere(path: Path) -> bool:
    """Whether a disk is another file than it seems, or none: libvirt would open that with its own rights.

    :raises OSError: when it cannot be read.
    """
    if path.is_symlink():
        return True
    # A pipe is not waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        kind = os.fstat(file.fileno()).st_mode
        return not (stat.S_ISREG(kind) or stat.S_ISBLK(kind)) or refers_elsewhere(file.read(512))


def with_names_of_roots(machine: Machine, identity: Identity, place: Path) -> Machine:
    """The machine with names for its files that no account but root's can give to other files.

    Xen has root open what is under a name when the machine starts, which the job's account may have changed by then: a
    link, or a file that refers to others.

    :param place: a directory that root alone changes, for names of files that others may exchange.
    :raises MachineError: when a file cannot get such a name.
    """
    disks = []
    for disk in machine.disks:
        word = f"VMGAHP_ERR_JOBCLASSAD_{machine.kind.upper()}_INVALID_DISK_PARAM"
        if disk.form != RAW:
            raise MachineError(word, f"{disk.path} is {disk.form}, and root opens disks here: convert it to {RAW}")
        disks.append(replace(disk, path=_named_by_root(disk.path, identity, place / f"disk.{disk.device}", word)))
    boot = machine.xen
    if boot is not None:
        for name in ("kernel", "initrd"):
            if path := getattr(boot, name):
                word = f"VMGAHP_ERR_JOBCLASSAD_XEN_{name.upper()}_NOT_FOUND"
                boot = replace(boot, **{name: _named_by_root(path, identity, place / name, word)})
    return replace(machine, disks=tuple(disks), xen=boot)


def _named_by_root(path: str, identity: Identity, name: Path, word: str) -> str:
    """The path if root alone can have it lead elsewhere; else ``name``, which becomes a name of the same file."""
    try:
        with rights_of(identity):
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(file, "rb") as opened:
            if _is_roots(Path(path).parent):
                return path
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise MachineError(word, f"{path} is no file")
            place = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # by linkat: link follows no link
                os.link(str(opened.fileno()), name, src_dir_fd=place, follow_symlinks=True)
            finally:
                os.close(place)
            return str(name)
    except OSError as error:
        raise MachineError(
            word,
            f"root opens {path} here, and other accounts may exchange it ({error.strerror}): have it come with the "
            "job, or put it into a directory that root alone can change, as those above it",
        ) from None


def _is_roots(place: Path) -> bool:
    """Whether root alone can change this directory and those above it.

    :raises OSError: when one cannot be looked at.
    """
    found = [one.lstat() for one in (place, *place.parents)]
    return all(stat.S_ISDIR(one.st_mode) and one.st_uid == 0 and not one.st_mode & 0o022 for one in found)


def _cannot_be_saved(machine: Machine, rules: VmRules) -> bool:
    return machine.xen is not None and machine.xen.hardware and not rules.xen_vt_suspend


def _refusal(error: MachineError) -> End:
    if error.subcode is not None:
        return held(str(error), FAILED_TO_CREATE_PROCESS, error.subcode)
    return End(How.NOT_STARTED, reason=str(error), reason_code=STARTER_ERROR)


def offered(rules: VmRules, found: Found, records: Collection[VmRecord]) -> Mapping[str, Value]:
    """The attributes of a host that runs virtual machines, less those that it runs."""
    attributes: dict[str, Value] = {
        "HasVM": True,
        "VM_GAHP_VERSION": _GAHP_VERSION,
        "VM_Type": rules.kind,
        "VM_Memory": rules.memory_mib - sum(record.memory_mib for record in records),
        "VM_AvailNum": max(0, rules.most - len(records)) if rules.most else _UNLIMITED,
        "VM_Networking": bool(rules.networks),
        "VM_Accelerator": found.accelerator,
    }
    if rules.networks:
        attributes["VM_Networking_Types"] = ",".join(rules.networks)
    if rules.hardware_vt:
        attributes["VM_HardwareVT"] = True
    if macs := [record.mac for record in records if record.mac]:
        attributes["VM_All_Guest_Macs"] = ",".join(macs)
    return attributes


def with_overhead(plan: CgroupPlan, mib: int) -> CgroupPlan:
    """The cgroups with room for the emulator besides the machine's memory."""

    def widened(setting: CgroupSetting) -> CgroupSetting:
        if setting.path.rpartition("/")[2] not in _MEMORY_LIMITS or not setting.value.isdigit():
            return setting
        return replace(setting, value=str(int(setting.value) + mib * _MIB))

    return replace(plan, settings=tuple(widened(setting) for setting in plan.settings))


def _no_network(rules: VmRules, network: str, why: str) -> str:
    if network == BRIDGE:
        return f"machines get no place on the bridge {rules.bridge}: {why}"
    return f"machines get no place in libvirt's network default, which {network} is: {why}"
