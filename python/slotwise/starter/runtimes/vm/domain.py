"""The description of a machine for libvirt, as HTCondor writes it, or as LIBVIRT_XML_SCRIPT does."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from slotwise.daemon import children
from slotwise.starter.runtimes.vm.machine import CRITICAL, Disk, Machine, MachineError
from slotwise.starter.runtimes.vm.qemu_words import BY_KVM
from slotwise.starter.runtimes.vm.rules import BRIDGE, USER, XEN

#: How long LIBVIRT_XML_SCRIPT may take, seconds.
_SCRIPT_S = 30.0
_QEMU_NAMES = "http://libvirt.org/schemas/domain/qemu/1.0"


def description(
    machine: Machine, accelerator: str, *, in_session: bool, marker: str = "", vnc: str = "", rights: str = ""
) -> str:
    """The XML of a domain.

    :param in_session: libvirt is the job's own, and has no networks.
    :param marker: a variable, ``NAME=VALUE``, for the environment of the emulator.
    :param vnc: the socket of the machine's console.
    :param rights: the account whose rights the emulator has, as :func:`rights_of_emulator` writes it; empty: libvirt's
        choice.
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
        *(_disk(disk, rights) for disk in machine.disks),
        f"<graphics type='vnc' socket={quoteattr(vnc)}/>" if vnc else "",
        "</devices>",
        _rights(rights) if rights else "",
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


def rights_of_emulator(uid: int, gid: int) -> str:
    """An account for libvirt, by its numbers."""
    return f"+{uid}:+{gid}"


def _rights(rights: str) -> str:
    """The emulator runs as this account, which opens the disks, and what they refer to when it opens them."""
    return f"<seclabel type='static' model='dac' relabel='yes'><label>{escape(rights)}</label></seclabel>"


#: libvirt gives the emulator's account its own files, but no disk: another file may be under its name by then.
_AS_IT_IS = "<seclabel model='dac' relabel='no'/>"


def with_rights(xml: str, rights: str) -> str:
    """A description by somebody else, with these rights for the emulator unless it says whose they are.

    :raises ValueError: when it is not XML.
    """
    try:
        domain = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not XML: {error}") from None
    if any(label.get("model") == "dac" for label in domain.findall("seclabel")):
        return xml
    for source in domain.findall("devices/disk/source"):
        source.append(ElementTree.fromstring(_AS_IT_IS))
    domain.append(ElementTree.fromstring(_rights(rights)))
    ElementTree.register_namespace("qemu", _QEMU_NAMES)
    return ElementTree.tostring(domain, encoding="unicode")


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


def _disk(disk: Disk, rights: str) -> str:
    """``<backingStore/>``: whatever file the disk refers to, libvirt and the emulator open none."""
    source = f"<source file={quoteattr(disk.path)}" + (f">{_AS_IT_IS}</source><backingStore/>" if rights else "/>")
    device = " device='cdrom'" if disk.cdrom else ""
    readonly = "" if disk.writable else "<readonly/>"
    return (
        f"<disk type='file'{device}><driver name='qemu' type={quoteattr(disk.form)}/>"
        f"{source}<target dev={quoteattr(disk.device)}/>{readonly}</disk>"
    )


async def described_by(words: Sequence[str], job_ad: str, machine: Machine, rights: str = "") -> str:
    """What LIBVIRT_XML_SCRIPT writes for a job, with the machine's identity and the emulator's rights where it names
    none.

    :raises MachineError: when it fails.
    """
    given = f"{job_ad.rstrip()}\n" + "".join(f"{name} = {_quoted(value)}\n" for name, value in _extras(machine))
    try:
        ended = await children.run(words, limit_s=_SCRIPT_S, given=given.encode())
    except OSError as error:
        raise MachineError(CRITICAL, f"LIBVIRT_XML_SCRIPT {words[0]}: {error}") from None
    if ended.timed_out:
        raise MachineError(CRITICAL, f"LIBVIRT_XML_SCRIPT {words[0]}: no end after {_SCRIPT_S:g} s")
    if ended.status != 0 or not ended.output.strip():
        detail = ended.errors.decode(errors="replace").strip()[-300:] or f"status {ended.status}"
        raise MachineError(CRITICAL, f"LIBVIRT_XML_SCRIPT {words[0]} writes no description: {detail}")
    xml = with_identity(ended.output.decode(errors="replace"), machine)
    try:
        return with_rights(xml, rights) if rights else xml
    except ValueError as error:
        raise MachineError(CRITICAL, f"LIBVIRT_XML_SCRIPT {words[0]} writes no description: {error}") from None


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
