"""The knobs of virtual machines. Manual, "Virtual Machines" in the configuration of execution points."""

from __future__ import annotations

import shlex

from msgspec import Struct

from slotwise.config import Config

KVM, XEN = "kvm", "xen"
NAT, BRIDGE, USER = "nat", "bridge", "user"
#: What runs machines.
QEMU, LIBVIRT = "qemu", "libvirt"
#: The least time between two looks at a machine, seconds.
_LEAST_STATUS_S = 30.0


class VmRules(Struct, frozen=True):
    """What the configuration says to virtual machines. Times in seconds."""

    #: VM_TYPE: kvm or xen; empty: no virtual machines.
    kind: str = ""
    #: VM_MEMORY: what all machines together may have.
    memory_mib: int = 0
    #: VM_MAX_NUMBER; 0: any number.
    most: int = 0
    #: VM_NETWORKING_TYPE, those that can be had.
    networks: tuple[str, ...] = ()
    default_network: str = ""
    bridge: str = ""
    hardware_vt: bool = False
    soft_suspend: bool = False
    status_s: float = 60.0
    status_errors: int = 5
    kill_s: float = 60.0
    recheck_s: float = 600.0
    xen_bootloader: str = ""
    #: XEN_ALLOW_HARDWARE_VT_SUSPEND.
    xen_vt_suspend: bool = False
    xml_script: tuple[str, ...] = ()
    #: SLOTWISE_VM_DRIVER: auto, libvirt or qemu.
    driver: str = "auto"
    #: The libvirt to use.
    uri: str = ""
    qemu: str = "qemu-system-x86_64"
    #: SLOTWISE_VM_EMULATION: machines are emulated where KVM does not work.
    emulation: bool = False
    overhead_mib: int = 192
    #: What is wrong with these, in words.
    problems: tuple[str, ...] = ()

    @property
    def in_session(self) -> bool:
        """libvirt runs as the job's account, among the job's own processes."""
        return self.uri == "qemu:///session"


def read_vm_rules(config: Config) -> VmRules:
    """Read the knobs."""
    kind = _word(config, "VM_TYPE")
    networks, problems = _networks(config)
    if kind and kind not in (KVM, XEN):
        problems.append(f"VM_TYPE {kind} is neither kvm nor xen: there are no virtual machines")
        kind = ""
    memory_mib = config.get_int("VM_MEMORY") if kind else 0
    if kind and memory_mib <= 0:
        problems.append("VM_MEMORY is not set: there are no virtual machines")
        kind = ""
    wanted = _word(config, "VM_NETWORKING_DEFAULT_TYPE")
    script = config.get_str("LIBVIRT_XML_SCRIPT").strip()
    return VmRules(
        kind=kind,
        memory_mib=memory_mib,
        most=max(0, config.get_int("VM_MAX_NUMBER")),
        networks=networks,
        default_network=wanted if wanted in networks else next((one for one in (USER, NAT) if one in networks), ""),
        bridge=config.get_str("VM_NETWORKING_BRIDGE_INTERFACE").strip(" \"'"),
        hardware_vt=config.get_bool("VM_HARDWARE_VT"),
        soft_suspend=config.get_bool("VM_SOFT_SUSPEND"),
        status_s=max(_LEAST_STATUS_S, float(config.get_int("VM_STATUS_INTERVAL"))),
        status_errors=max(1, config.get_int("VM_STATUS_MAX_ERROR")),
        kill_s=float(max(1, config.get_int("VM_KILLING_TIMEOUT"))),
        recheck_s=float(config.get_int("VM_RECHECK_INTERVAL")),
        xen_bootloader=config.get_str("XEN_BOOTLOADER").strip(" \"'"),
        xen_vt_suspend=config.get_bool("XEN_ALLOW_HARDWARE_VT_SUSPEND"),
        xml_script=(script, *_arguments(config)) if script else (),
        driver=config.get_text("SLOTWISE_VM_DRIVER").strip().lower(),
        uri=config.get_str("SLOTWISE_VM_LIBVIRT_URI").strip()
        or ("xen:///system" if kind == XEN else "qemu:///session"),
        qemu=config.get_text("SLOTWISE_VM_QEMU").strip(),
        emulation=config.get_bool("SLOTWISE_VM_EMULATION"),
        overhead_mib=max(0, config.get_int("SLOTWISE_VM_OVERHEAD")),
        problems=tuple(problems),
    )


def _word(config: Config, name: str) -> str:
    return config.get_str(name).strip(" \"'").lower()


def _arguments(config: Config) -> list[str]:
    try:
        return shlex.split(config.get_str("LIBVIRT_XML_SCRIPT_ARGS"))
    except ValueError:
        return []


def _networks(config: Config) -> tuple[tuple[str, ...], list[str]]:
    """The networks that machines may have, and what is wrong with the knobs about them."""
    if not config.get_bool("VM_NETWORKING"):
        return (), []
    problems: list[str] = []
    named = [word.strip(" \"'").lower() for word in config.get_list("VM_NETWORKING_TYPE")]
    found = [word for word in dict.fromkeys(named) if word in (NAT, BRIDGE, USER)]
    unknown = [word for word in named if word not in found]
    if unknown:
        problems.append(f"VM_NETWORKING_TYPE has {', '.join(unknown)}, which is none of nat, bridge, user")
    if BRIDGE in found and not config.get_str("VM_NETWORKING_BRIDGE_INTERFACE").strip():
        problems.append("VM_NETWORKING_TYPE has bridge, and VM_NETWORKING_BRIDGE_INTERFACE is not set")
        found.remove(BRIDGE)
    if not found:
        problems.append("VM_NETWORKING is true, and VM_NETWORKING_TYPE names nothing that can be had")
    return tuple(found), problems
