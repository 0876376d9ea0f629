"""Finds out whether this host runs virtual machines: by running one, as jobs' machines run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import stat
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

import slotwise
from slotwise.daemon import children
from slotwise.execution.keeper_spec import Identity, Isolation
from slotwise.starter.enforcement.privilege import read_small
from slotwise.starter.runtimes.vm import probe_guest
from slotwise.starter.runtimes.vm.domain import rights_of_emulator
from slotwise.starter.runtimes.vm.machine import Disk, Machine
from slotwise.starter.runtimes.vm.plan import REPORT, SupervisorPlan, decode_report
from slotwise.starter.runtimes.vm.qemu_words import BY_EMULATION, BY_KVM
from slotwise.starter.runtimes.vm.rules import BRIDGE, KVM, LIBVIRT, NAT, QEMU, XEN, VmRules
from slotwise.starter.runtimes.vm.virsh import end_session

#: How long the machine of the probe may take, seconds; it needs one.
_PROBE_S = 10.0
#: libvirt looks at its emulators first.
_PROBE_LIBVIRT_S = 40.0
_DEVICE = Path("/dev/kvm")
_PROBE_MIB = 32
_NOBODY = "nobody"
_OURS = Identity()
_PYTHONS = ("/usr/bin/python3",)


class Found(Struct, frozen=True):
    """What runs machines here. ``driver`` empty: nothing does, and ``reason`` says why."""

    driver: str = ""
    accelerator: str = ""
    version: str = ""
    reason: str = ""
    #: The group that may use KVM, which jobs' machines run with.
    kvm_group: int | None = None
    #: The networks of VM_NETWORKING_TYPE that machines do not get here, and why.
    no_network: tuple[tuple[str, str], ...] = ()


def supervisor_words(plan: SupervisorPlan, account: Identity = _OURS) -> tuple[str, ...]:
    """Program and arguments of a machine's supervisor. What its environment says about Python does not count.

    :param account: what it is to become before anything else, if the keeper does not see to that.
    """
    root = str(Path(slotwise.__file__).resolve().parent.parent)
    program = (
        f"import sys; sys.path.insert(0, {root!r}); "
        "from slotwise.starter.runtimes.vm.supervisor import main; sys.exit(main(sys.argv[1:]))"
    )
    words = (_interpreter(), "-I", "-c", program, plan.encode())
    if account.uid is None:
        return words
    becomes = (
        f"import os, sys; os.setgroups({list(account.groups)}); os.setgid({account.gid}); os.setuid({account.uid}); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return (words[0], "-I", "-c", becomes, *words)


def seeing_supervisor(isolation: Isolation) -> Isolation:
    """The isolation in which a supervisor finds its program also where that lies below a directory of which jobs have
    one of their own: ``/tmp``, for an installation there."""
    places = [Path(slotwise.__file__).resolve().parent.parent]
    if _interpreter() == sys.executable:
        places += [Path(sys.prefix).absolute(), Path(sys.base_prefix).resolve()]
    pins = [str(place) for place in places if any(place.is_relative_to(target) for _, target in isolation.mounts)]
    return replace(isolation, pins=tuple(dict.fromkeys((*isolation.pins, *pins))))


@lru_cache(maxsize=1)
def _interpreter() -> str:
    """A Python that every account can run: ours, unless it lies in a closed directory; any will do."""
    return next((path for path in (sys.executable, *_PYTHONS) if _is_open_to_all(path)), sys.executable)


def _is_open_to_all(path: str) -> bool:
    """Whether every account can run the program: no directory on the way to it is closed, links included."""
    try:
        return all(
            place.stat().st_mode & 0o001
            for one in (Path(path).absolute(), Path(path).resolve())
            for place in (one, *one.parents)
        )
    except OSError:
        return False


def kvm_group() -> int | None:
    """The group of the KVM device, where it is that which may use it."""
    with contextlib.suppress(OSError):
        status = _DEVICE.stat()
        if stat.S_ISCHR(status.st_mode) and status.st_mode & 0o060 == 0o060 and status.st_mode & 0o006 != 0o006:
            return status.st_gid
    return None


async def find(rules: VmRules, place: Path, *, root: bool) -> Found:
    """What runs machines of this kind on this host. ``place``: a directory that any account may enter.

    qemu tells first what executes instructions here: libvirt, which runs the same qemu, takes a minute to find out.
    """
    if rules.kind == XEN:
        return await _find(rules, place, root=root, drivers=_wanted(rules, LIBVIRT), accelerators=(XEN,))
    accelerators = (BY_KVM, BY_EMULATION) if rules.emulation else (BY_KVM,)
    direct = await _find(rules, place, root=root, drivers=(QEMU,), accelerators=accelerators)
    if not direct.driver and shutil.which(rules.qemu) is not None:
        return direct
    if direct.driver:
        accelerators = (direct.accelerator,)
    by_libvirt = await _find(rules, place, root=root, drivers=_wanted(rules, LIBVIRT), accelerators=accelerators)
    if by_libvirt.driver or not _wanted(rules, QEMU):
        return by_libvirt
    return direct if direct.driver else replace(direct, reason=f"{direct.reason}; {by_libvirt.reason}")


def _wanted(rules: VmRules, driver: str) -> tuple[str, ...]:
    return (driver,) if rules.driver in ("auto", driver) else ()


async def _find(
    rules: VmRules, place: Path, *, root: bool, drivers: tuple[str, ...], accelerators: tuple[str, ...]
) -> Found:
    """The first that runs the machine of the probe, or why none does."""
    reasons: list[str] = []
    for driver in drivers:
        version = await _version(rules, driver)
        if not version:
            reasons.append(f"there is no {'virsh' if driver == LIBVIRT else rules.qemu}")
            continue
        for accelerator in accelerators:
            # Emulated machines have no business with KVM; libvirt tries it all the same, if it may.
            group = kvm_group() if root and accelerator == BY_KVM else None
            account = _account(group) if root else Identity()
            why = await _try(rules, driver, accelerator, place, account)
            if not why:
                no_network = []
                for network in _of_host(rules, driver):
                    if why := await _try(rules, driver, accelerator, place, account, network):
                        no_network.append((network, why))
                return Found(driver, accelerator, version, kvm_group=group, no_network=tuple(no_network))
            reasons.append(f"{driver} with {accelerator}: {why}")
    if accelerators == (BY_KVM,) and not rules.emulation:
        reasons.append("SLOTWISE_VM_EMULATION = true has machines emulated")
    return Found(reason="; ".join(reasons))


def _of_host(rules: VmRules, driver: str) -> tuple[str, ...]:
    """The networks that this host has to have before machines can be on them: a bridge, and that of its libvirt."""
    own = (NAT, BRIDGE) if driver == LIBVIRT and not rules.in_session else (BRIDGE,)
    return tuple(network for network in rules.networks if network in own)


async def _version(rules: VmRules, driver: str) -> str:
    """What a driver says of itself; empty when it is not installed."""
    program = shutil.which("virsh" if driver == LIBVIRT else rules.qemu)
    if program is None:
        return ""
    try:
        ended = await children.run([program, "--version"], limit_s=_PROBE_S)
    except OSError:
        return ""
    if ended.timed_out:
        return ""
    first = ended.output.decode(errors="replace").partition("\n")[0].strip()
    return f"libvirt {first}" if driver == LIBVIRT else first


def _account(group: int | None) -> Identity:
    """Some account without rights, with the rights that jobs' machines have."""
    with contextlib.suppress(KeyError):
        nobody = pwd.getpwnam(_NOBODY)
        return Identity(nobody.pw_uid, nobody.pw_gid, () if group is None else (group,), _NOBODY)
    return Identity(65534, 65534, () if group is None else (group,), _NOBODY)


async def _try(rules: VmRules, driver: str, accelerator: str, place: Path, account: Identity, network: str = "") -> str:
    """Run the machine of the probe, on this network; why that failed, empty when it did not."""
    if accelerator == BY_KVM and rules.kind == KVM and not _DEVICE.exists():
        return "there is no /dev/kvm"
    loop = asyncio.get_running_loop()
    try:
        scratch = await loop.run_in_executor(None, _make_scratch, place, account)
    except OSError as error:
        return f"{place}: {error.strerror}"
    try:
        disk = Disk(f"{scratch}/disk.img", "vda" if rules.kind == KVM else "xvda", writable=True, transferred=True)
        bridge = rules.bridge if network == BRIDGE else ""
        name = f"slotwise_probe_{os.getpid()}"
        machine = Machine(name, rules.kind, _PROBE_MIB, disks=(disk,), network=network, bridge=bridge)
        privileged = driver == LIBVIRT and not rules.in_session
        rights = rights_in_libvirt(rules, account) if privileged else ""
        plan = SupervisorPlan(machine, str(scratch), driver, accelerator, rules.qemu, rules.uri, rights)
        return await _run(
            plan, Identity() if privileged else account, _PROBE_LIBVIRT_S if driver == LIBVIRT else _PROBE_S
        )
    finally:
        await loop.run_in_executor(None, _remove_scratch, scratch, account)


def rights_in_libvirt(rules: VmRules, account: Identity) -> str:
    """The account that emulators run as in a libvirt of the host, for jobs of this account; empty where there is none,
    as under Xen, whose machines use disks with the rights of root."""
    if rules.kind == XEN:
        return ""
    uid, gid = account.uid, account.gid
    return rights_of_emulator(os.geteuid() if uid is None else uid, os.getegid() if gid is None else gid)


def _make_scratch(place: Path, account: Identity) -> Path:
    scratch = Path(tempfile.mkdtemp(prefix="vm_probe_", dir=place))
    file = scratch / "disk.img"
    file.write_bytes(probe_guest.disk())
    if account.uid is not None and account.gid is not None:
        os.chown(scratch, account.uid, account.gid)
        os.chown(file, account.uid, account.gid)
    return scratch


def _remove_scratch(scratch: Path, account: Identity) -> None:
    end_session(scratch, os.geteuid() if account.uid is None else account.uid)
    shutil.rmtree(scratch, ignore_errors=True)


async def _run(plan: SupervisorPlan, account: Identity, patience_s: float) -> str:
    """Run a supervisor to its end; why it failed, empty when it did not."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "HOME": plan.scratch}
    try:
        words = supervisor_words(plan, account)
        ended = await children.run(words, limit_s=patience_s, cwd=plan.scratch, env=environment)
    except OSError as error:
        return f"its supervisor cannot be run: {error.strerror}"
    if ended.timed_out:
        return f"its machine did not end within {patience_s:.0f} s"
    if ended.status == 0:
        return ""
    report = None
    with contextlib.suppress(OSError):
        report = decode_report(read_small(Path(plan.scratch) / REPORT, account, 65536))
    detail = report.detail if report is not None else ended.errors.decode(errors="replace").strip()[-500:]
    return in_words(detail) or f"its supervisor ended with status {ended.status}"


def in_words(said: str) -> str:
    """What a supervisor has said, for people."""
    if "ModuleNotFoundError: No module named 'slotwise'" in said:
        place = Path(slotwise.__file__).resolve().parent.parent
        return f"the accounts of jobs cannot read the installation at {place}: open the directories above it to all"
    words = " ".join(said.split())
    if "master-key.aes" in words:
        words += (
            ": jobs' accounts, as which machines run, cannot enter libvirt's directory of machines, "
            "/var/lib/libvirt/qemu: chmod 0751 opens it to all"
        )
    return words


def with_kvm(identity: Identity, group: int | None) -> Identity:
    """The account with the group that may use KVM."""
    if group is None or identity.uid is None or group in (identity.gid, *identity.groups):
        return identity
    return replace(identity, groups=(*identity.groups, group))
