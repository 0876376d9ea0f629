"""The description of a machine for libvirt, as HTCondor writes it, or as LIBVIRT_XML_SCRIPT does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from slotwise.starter.runtimes.vm.machine import CRITICAL, Disk, Machine, MachineError
from slotwise.starter.runtimes.vm.qemu_words import BY_KVM
from slotwise.starter.runtimes.vm.rules import BRIDGE, USER, XEN

#: How long LIBVIRT_XML_SCRIPT may take, seconds.
_SCRIPT_S = 30.0
_QEMU_NAMES = "http://libvirt.org/schemas/domain/qemu/1.0"


def description(machine: Machine, accelerator: str, *, in_session: bool, marker: str = "", vnc: str = "") -> str:
    """The XML of a domain.

    :param in_session: libvirt is the job's own, and has no networks.
    :param marker: a variable, ``NAME=VALUE``, for the environment of the emulator.
    :param vnc: the socket of the machine's console.
    """
    kind = XEN if machine.kind == XEN else "kvm" if accelerator == BY_KVM else "qemu"
    names = f" xmlns:qemu={quoteattr(_QEMU_NAMES)}" if marker else ""
    parts = [
        f"<domain type={quoteattr(kind)}{names}>",
        f"<name>{escape(machine.name)}</name>",
        _identity(machine),
        f"<memory unit='MiB'>{machine.memory_mib}</memory>",
        f"<vcpu>{machine.vcpus}</vcpu>",
        *_boot(machine),
        "<features><acpi/></features>" if kind != XEN or (machine.xen and machine.xen.hardware) else "",
        "<on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>",
        "<devices>",
        "<console type='pty'/>",
        *_network(machine, in_session=in_session),
        *(_disk(disk) for disk in machine.disks),
        f"<graphics type='vnc' socket={quoteattr(vnc)}/>" if vnc else "",
        "</devices>",
    ]
    if marker:
        name, _, value = marker.partition("=")
        env = f"<qemu:env name={quoteattr(name)} value={quoteattr(value)}/>"
        parts.append(f"<qemu:commandline>{env}</qemu:commandline>")
    return "".join([*parts, "</domain>"])


def _identity(machine: Machine) -> str:
    """The same at each start of the job: libvirt lets no other machine go on from its state."""
    return f"<uuid>{uuid.uuid5(uuid.NAMESPACE_DNS, f'{machine.name}.slotwise')}</uuid>"


def with_identity(xml: str, machine: Machine) -> str:
    """A description by somebody else, with the machine's identity if it has none."""
    return xml if "<uuid>" in xml else xml.replace("</name>", f"</name>{_identity(machine)}", 1)


def _boot(machine: Machine) -> list[str]:
    boot = machine.xen
    if boot is None or boot.hardware:
        return ["<os><type>hvm</type></os>"]
    words = [("kernel", boot.kernel), ("initrd", boot.initrd), ("root", boot.root), ("cmdline", boot.parameters)]
    inside = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in words if boot.kernel and value)
    bootloader = f"<bootloader>{escape(boot.bootloader)}</bootloader>" if boot.bootloader else ""
    return [bootloader, f"<os><type>linux</type>{inside}</os>"]


def _network(machine: Machine, *, in_session: bool) -> list[str]:
    if not machine.network:
        return []
    mac = f"<mac address={quoteattr(machine.mac)}/>" if machine.mac else ""
    if machine.network == BRIDGE:
        return [f"<interface type='bridge'><source bridge={quoteattr(machine.bridge)}/>{mac}</interface>"]
    if machine.network == USER or in_session:
        return [f"<interface type='user'><model type='virtio'/>{mac}</interface>"]
    return [f"<interface type='network'><source network='default'/>{mac}</interface>"]


def _disk(disk: Disk) -> str:
    device = " device='cdrom'" if disk.cdrom else ""
    readonly = "" if disk.writable else "<readonly/>"
    return (
        f"<disk type='file'{device}><driver name='qemu' type={quoteattr(disk.form)}/>"
        f"<source file={quoteattr(disk.path)}/><target dev={quoteattr(disk.device)}/>{readonly}</disk>"
    )


async def described_by(words: Sequence[str], job_ad: str, machine: Machine) -> str:
    """What LIBVIRT_XML_SCRIPT writes for a job.

    :raises MachineError: when it fails.
    """
    given = f"{job_ad.rstrip()}\n" + "".join(f"{name} = {_quoted(value)}\n" for name, value in _extras(machine))
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, said = await asyncio.wait_for(process.communicate(given.encode()), _SCRIPT_S)
    except (OSError, TimeoutError) as error:
        if process is not None:
            process.kill()
        raise MachineError(CRITICAL, f"LIBVIRT_XML_SCRIPT {words[0]}: {error or 'it takes too long'}") from None
    if process.returncode != 0 or not out.strip():
        detail = said.decode(errors="replace").strip()[-300:] or f"status {process.returncode}"
        raise MachineError(CRITICAL, f"LIBVIRT_XML_SCRIPT {words[0]} writes no description: {detail}")
    return with_identity(out.decode(errors="replace"), machine)


def _extras(machine: Machine) -> list[tuple[str, str]]:
    """What HTCondor adds to the job's ad for that program."""
    found = [("VMPARAM_VM_NAME", machine.name)]
    if machine.xen is not None:
        found.append(("VMPARAM_Xen_Bootloader", machine.xen.bootloader))
    if machine.bridge:
        found.append(("VMPARAM_Bridge_Interface", machine.bridge))
    if machine.network:
        found.append(("JobVMNetworkingType", machine.network))
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
