"""The command line of qemu. Pure."""

from __future__ import annotations

import json

from msgspec import Struct

from slotwise.starter.runtimes.vm.machine import Disk, Machine
from slotwise.starter.runtimes.vm.rules import BRIDGE

#: What executes the machine's instructions.
BY_KVM, BY_EMULATION = "kvm", "tcg"
#: The machine's type unless a saved state names another: qemu's alias of its newest.
NEWEST = "pc"
#: The processor of a machine that may be resumed on another host: every host can give it.
_COMMON_CPU = {BY_KVM: "kvm64", BY_EMULATION: "qemu64"}
_BEST_CPU = {BY_KVM: "host", BY_EMULATION: "max"}


class Handles(Struct, frozen=True):
    """Open files that qemu inherits: its control connection, and a saved state that it goes on from."""

    control: int
    saved: int | None = None


def words(
    machine: Machine, program: str, accelerator: str, handles: Handles, *, version: str = NEWEST, vnc: str = ""
) -> list[str]:
    """Program and arguments.

    :param version: the type of the machine, which a saved state names.
    :param vnc: the socket of its console.
    """
    cpu = (_COMMON_CPU if machine.checkpoint else _BEST_CPU)[accelerator]
    found = [program, "-name", f"guest={_escaped(machine.name)}", "-nodefaults", "-no-user-config"]
    found += ["-machine", f"{version},accel={accelerator}", "-cpu", cpu]
    found += ["-m", f"{machine.memory_mib}M", "-smp", str(machine.vcpus), "-rtc", "base=utc", "-vga", "std"]
    found += ["-display", f"vnc=unix:{_escaped(vnc)}"] if vnc else ["-display", "none"]
    found += ["-chardev", f"socket,id=control,fd={handles.control}", "-mon", "chardev=control,mode=control"]
    if any(disk.device.startswith("sd") for disk in machine.disks):
        found += ["-device", "virtio-scsi-pci,id=scsi0"]
    for number, disk in enumerate(machine.disks):
        found += _disk(disk, number)
    found += _network(machine)
    if handles.saved is not None:
        found += ["-incoming", f"fd:{handles.saved}"]
    return found


def _disk(disk: Disk, number: int) -> list[str]:
    file = {"driver": "file", "filename": disk.path, "read-only": not disk.writable}
    node = {"driver": disk.form, "node-name": f"disk{number}", "read-only": not disk.writable, "file": file}
    return ["-blockdev", json.dumps(node), "-device", f"{_device(disk)},drive=disk{number},bootindex={number + 1}"]


def _device(disk: Disk) -> str:
    letter = ord(disk.device.rstrip("0123456789")[-1]) - ord("a")
    if disk.device.startswith("sd"):
        return "scsi-cd,bus=scsi0.0" if disk.cdrom else "scsi-hd,bus=scsi0.0"
    if disk.device.startswith("hd") or disk.cdrom:
        place = f"bus=ide.{letter // 2 % 2},unit={letter % 2}"
        return f"ide-cd,{place}" if disk.cdrom else f"ide-hd,{place}"
    return "virtio-blk-pci"


def _network(machine: Machine) -> list[str]:
    if not machine.network:
        return ["-nic", "none"]
    mac = f",mac={machine.mac}" if machine.mac else ""
    backend = f"bridge,id=net0,br={_escaped(machine.bridge)}" if machine.network == BRIDGE else "user,id=net0"
    return ["-netdev", backend, "-device", f"virtio-net-pci,netdev=net0,romfile={mac}"]


def _escaped(text: str) -> str:
    """As a part of an option with commas."""
    return text.replace(",", ",,")
