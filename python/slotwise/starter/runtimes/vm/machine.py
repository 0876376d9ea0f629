"""What a job of the VM universe asks for, read from its ad. Pure."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Collection
from pathlib import PurePosixPath

from msgspec import Struct, field, to_builtins

from slotwise.starter.runtimes.vm.rules import BRIDGE, KVM, XEN, VmRules

#: Forms of disks.
RAW, QCOW2 = "raw", "qcow2"
_FORMATS = (RAW, QCOW2)
_DEVICE = re.compile(r"(vd|hd|sd|xvd)[a-z][0-9]*")
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", re.IGNORECASE)
_QCOW2 = b"QFI\xfb"
_EXTERNAL_DATA = 4
#: Xen and libvirt take no smaller machine, MiB.
_LEAST_MIB = 32
#: Failures that are the job's own: it is put on hold, with the place of the word as the subcode. HTCondor's order.
_HOLDING = (
    "VMGAHP_ERR_JOBCLASSAD_NO_VM_MEMORY_PARAM",
    "VMGAHP_ERR_JOBCLASSAD_XEN_NO_KERNEL_PARAM",
    "VMGAHP_ERR_JOBCLASSAD_MISMATCHED_HARDWARE_VT",
    "VMGAHP_ERR_JOBCLASSAD_XEN_KERNEL_NOT_FOUND",
    "VMGAHP_ERR_JOBCLASSAD_XEN_INITRD_NOT_FOUND",
    "VMGAHP_ERR_JOBCLASSAD_XEN_NO_ROOT_DEVICE_PARAM",
    "VMGAHP_ERR_JOBCLASSAD_XEN_NO_DISK_PARAM",
    "VMGAHP_ERR_JOBCLASSAD_XEN_INVALID_DISK_PARAM",
    "VMGAHP_ERR_JOBCLASSAD_XEN_MISMATCHED_CHECKPOINT",
    "VMGAHP_ERR_JOBCLASSAD_KVM_NO_DISK_PARAM",
    "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM",
    "VMGAHP_ERR_JOBCLASSAD_KVM_MISMATCHED_CHECKPOINT",
    "VMGAHP_ERR_BAD_IMAGE",
)
BAD_IMAGE = "VMGAHP_ERR_BAD_IMAGE"
TOO_MUCH_MEMORY = "VMGAHP_ERR_JOBCLASSAD_TOO_MUCH_MEMORY_REQUEST"
NO_SUCH_NETWORK = "VMGAHP_ERR_JOBCLASSAD_MISMATCHED_NETWORKING_TYPE"
NO_NETWORK = "VMGAHP_ERR_JOBCLASSAD_MISMATCHED_NETWORKING"
CRITICAL = "VMGAHP_ERR_CRITICAL"


class MachineError(Exception):
    """A machine cannot be had. ``word`` is HTCondor's name for why, ``detail`` says it in words."""

    def __init__(self, word: str, detail: str) -> None:
        super().__init__(f"{word}: {detail}")
        self.word = word

    @property
    def subcode(self) -> int | None:
        """The subcode of the hold; None when the job is not at fault: it may run elsewhere."""
        return subcode_of(self.word)


def subcode_of(word: str) -> int | None:
    """The subcode of the hold for a failure by HTCondor's name; None for one that holds no job."""
    return _HOLDING.index(word) if word in _HOLDING else None


class Disk(Struct, frozen=True):
    """A file that the machine has as a disk."""

    path: str
    #: As the job names it: vda, hda1, sda.
    device: str
    writable: bool
    form: str = RAW
    cdrom: bool = False
    #: The file came with the job; else it is on a shared file system.
    transferred: bool = False


class XenBoot(Struct, frozen=True):
    """What a Xen machine boots: the boot loader, or a kernel; neither with hardware virtualization."""

    bootloader: str = ""
    kernel: str = ""
    initrd: str = ""
    root: str = ""
    parameters: str = ""
    hardware: bool = False


class Machine(Struct, frozen=True):
    """A virtual machine. ``network`` is nat, bridge, user or empty for none."""

    name: str
    kind: str
    memory_mib: int
    vcpus: int = 1
    disks: tuple[Disk, ...] = ()
    network: str = ""
    bridge: str = ""
    mac: str = ""
    checkpoint: bool = False
    #: vm_no_output_vm: the disks do not go back.
    no_output: bool = False
    vnc: bool = False
    xen: XenBoot | None = None

    def encode(self) -> str:
        """As text, for :func:`decode`."""
        return json.dumps(to_builtins(self))


def decode(text: str) -> Machine:
    """The machine of a text that :meth:`Machine.encode` made.

    :raises ValueError: when it is none.
    """
    try:
        fields = json.loads(text)
        fields["disks"] = tuple(Disk(**disk) for disk in fields["disks"])
        fields["xen"] = XenBoot(**fields["xen"]) if fields["xen"] else None
        return Machine(**fields)
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a machine: {error}") from None


class Sandbox(Struct, frozen=True):
    """The job's scratch directory, and the names of the files in it."""

    path: str
    files: Collection[str] = field(default_factory=frozenset)

    def find(self, name: str) -> str | None:
        """The path of a file that came with the job, by its name alone; None when none did."""
        base = PurePosixPath(name).name
        return f"{self.path}/{base}" if base in self.files else None


def read_machine(value: Callable[[str], object], rules: VmRules, sandbox: Sandbox) -> Machine:
    """The machine that a job's ad asks for.

    :raises MachineError: when it asks for what there is not, or is not well-formed.
    """
    kind = _text(value("JobVMType")).lower()
    if kind != rules.kind:
        raise MachineError("VMGAHP_ERR_NO_SUPPORTED_VM_TYPE", f"there are no {kind or 'unnamed'} machines here")
    network, mac = _network(value, rules)
    return Machine(
        name=_name(value),
        kind=kind,
        memory_mib=_memory(value, rules),
        vcpus=max(1, _whole(value("JobVM_VCPUS")) or _whole(value("RequestCpus")) or 1),
        disks=_disks(_text(value("VMPARAM_vm_Disk")), kind, sandbox),
        network=network,
        bridge=rules.bridge if network == BRIDGE else "",
        mac=mac,
        checkpoint=value("JobVMCheckpoint") is True,
        no_output=value("VMPARAM_No_Output_VM") is True,
        vnc=value("JobVMVNCConsole") is True,
        xen=_xen(value, rules, sandbox) if kind == XEN else None,
    )


def _name(value: Callable[[str], object]) -> str:
    """``user_domain_12.0``, as HTCondor names it."""
    user = re.sub(r"[^A-Za-z0-9._+-]", "_", _text(value("User")) or "job")
    return f"{user}_{_whole(value('ClusterId')) or 0}.{_whole(value('ProcId')) or 0}"


def _memory(value: Callable[[str], object], rules: VmRules) -> int:
    wanted = _whole(value("JobVMMemory"))
    if wanted is None:
        wanted = _whole(value("RequestMemory"))
    if wanted is None:
        raise MachineError("VMGAHP_ERR_JOBCLASSAD_NO_VM_MEMORY_PARAM", "the job has no JobVMMemory")
    if not 0 < wanted <= rules.memory_mib:
        raise MachineError(
            TOO_MUCH_MEMORY, f"{wanted} MiB, and virtual machines may have {rules.memory_mib} (VM_MEMORY)"
        )
    return max(wanted, _LEAST_MIB)


def _network(value: Callable[[str], object], rules: VmRules) -> tuple[str, str]:
    """The kind of network, and the address on it."""
    if value("JobVMNetworking") is not True:
        return "", ""
    if not rules.networks:
        raise MachineError(NO_NETWORK, "virtual machines have no network here (VM_NETWORKING)")
    wanted = _text(value("JobVMNetworkingType")).lower() or rules.default_network or rules.networks[0]
    if wanted not in rules.networks:
        raise MachineError(NO_SUCH_NETWORK, f"there is no network {wanted}, but {', '.join(rules.networks)}")
    mac = _text(value("JobVM_MACADDR"))
    if mac and not _MAC.fullmatch(mac):
        raise MachineError(CRITICAL, f"vm_macaddr {mac} is not an address like 52:54:00:12:34:56")
    return wanted, mac.lower()


def _disks(text: str, kind: str, sandbox: Sandbox) -> tuple[Disk, ...]:
    word = f"VMGAHP_ERR_JOBCLASSAD_{kind.upper()}_INVALID_DISK_PARAM"
    named = [disk.strip() for disk in text.split(",") if disk.strip()]
    if not named:
        raise MachineError(f"VMGAHP_ERR_JOBCLASSAD_{kind.upper()}_NO_DISK_PARAM", "the job has no VMPARAM_vm_Disk")
    disks = tuple(_disk(one, word, kind, sandbox) for one in named)
    if len({disk.device for disk in disks}) < len(disks):
        raise MachineError(word, f"two disks of {text} have the same device")
    return disks


def _disk(text: str, word: str, kind: str, sandbox: Sandbox) -> Disk:
    parts = [part.strip() for part in text.split(":")]
    if not 3 <= len(parts) <= 4 or not parts[0]:
        raise MachineError(word, f"{text} is not FILE:DEVICE:PERMISSION[:FORMAT]")
    name, device, permission = parts[0], parts[1].lower(), parts[2].lower()
    form = parts[3].lower() if len(parts) == 4 else RAW
    if not _DEVICE.fullmatch(device) or (kind == KVM and device.startswith("xvd")):
        raise MachineError(word, f"{device} is not a device like vda, hda or sda")
    if permission not in ("r", "w", "rw"):
        raise MachineError(word, f"the permission {permission} of {name} is none of r, w, rw")
    if form not in _FORMATS:
        raise MachineError(word, f"the format {form} of {name} is none of {', '.join(_FORMATS)}")
    found = sandbox.find(name)
    if found is None and not name.startswith("/"):
        raise MachineError(word, f"{name} did not come with the job (transfer_input_files), and is not a full path")
    writable, cdrom = permission != "r", ".iso" in name
    if kind == KVM and device.startswith("hd") and not writable and not cdrom:
        raise MachineError(word, f"{name}: an IDE disk cannot be read-only; name it vd{device[2:]}")
    return Disk(found or name, device, writable and not cdrom, form, cdrom, found is not None)


def _xen(value: Callable[[str], object], rules: VmRules, sandbox: Sandbox) -> XenBoot:
    kernel = _text(value("VMPARAM_Xen_Kernel")).strip()
    if not kernel:
        raise MachineError("VMGAHP_ERR_JOBCLASSAD_XEN_NO_KERNEL_PARAM", "the job has no VMPARAM_Xen_Kernel")
    if kernel.lower() == "included":
        if not rules.xen_bootloader:
            raise MachineError(CRITICAL, "xen_kernel = included needs XEN_BOOTLOADER, which is not set here")
        return XenBoot(bootloader=rules.xen_bootloader)
    if kernel.lower() == "vmx":
        if not rules.hardware_vt:
            word = "VMGAHP_ERR_JOBCLASSAD_MISMATCHED_HARDWARE_VT"
            raise MachineError(word, "xen_kernel = vmx needs VM_HARDWARE_VT, which is false here")
        return XenBoot(hardware=True)
    root = _text(value("VMPARAM_Xen_Root")).strip()
    if not root:
        raise MachineError("VMGAHP_ERR_JOBCLASSAD_XEN_NO_ROOT_DEVICE_PARAM", "the job has no VMPARAM_Xen_Root")
    initrd = _text(value("VMPARAM_Xen_Initrd")).strip()
    return XenBoot(
        kernel=_boot_file(kernel, "VMGAHP_ERR_JOBCLASSAD_XEN_KERNEL_NOT_FOUND", sandbox),
        initrd=_boot_file(initrd, "VMGAHP_ERR_JOBCLASSAD_XEN_INITRD_NOT_FOUND", sandbox) if initrd else "",
        root=root,
        parameters=_text(value("VMPARAM_Xen_Kernel_Params")).strip(),
    )


def _boot_file(name: str, word: str, sandbox: Sandbox) -> str:
    found = sandbox.find(name)
    if found is None and not name.startswith("/"):
        raise MachineError(word, f"{name} did not come with the job (transfer_input_files), and is not a full path")
    return found or name


def refers_elsewhere(header: bytes) -> bool:
    """Whether a qcow2 file, of which this is the beginning, has data in another file: that may be anybody's."""
    if header[:4] != _QCOW2:
        return False
    version, backing = struct.unpack_from(">IQ", header.ljust(80, b"\0"), 4)
    (features,) = struct.unpack_from(">Q", header.ljust(80, b"\0"), 72)
    return backing != 0 or (version >= 3 and bool(features & _EXTERNAL_DATA))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**40 else None
