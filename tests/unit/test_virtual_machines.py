"""What a job of the VM universe asks for, and what becomes of it: commands of qemu, descriptions for libvirt."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import slotwise
from msgspec.structs import replace
from slotwise.classad import ClassAd
from slotwise.config import load
from slotwise.execution.job_view import read_job, read_slot
from slotwise.execution.keeper_spec import CgroupPlan, CgroupSetting, Identity, Isolation
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.runtime import ContainerJob
from slotwise.starter.runtimes.vm import driver as vm_driver
from slotwise.starter.runtimes.vm import probe
from slotwise.starter.runtimes.vm.domain import description, with_identity, with_rights
from slotwise.starter.runtimes.vm.driver import VirtualMachines, name_of_run, offered, with_overhead
from slotwise.starter.runtimes.vm.machine import (
    Disk,
    Machine,
    MachineError,
    Sandbox,
    decode,
    read_machine,
    refers_elsewhere,
)
from slotwise.starter.runtimes.vm.plan import SupervisorPlan, decode_plan, decode_report
from slotwise.starter.runtimes.vm.probe import Found
from slotwise.starter.runtimes.vm.qemu_words import BY_EMULATION, BY_KVM, Handles, words
from slotwise.starter.runtimes.vm.records import VmRecord, VmRecords
from slotwise.starter.runtimes.vm.rules import VmRules, read_vm_rules
from slotwise.starter.runtimes.vm.saved_state import decode_facts, facts_of, obstacle

from tests.support import host
from tests.support.manual.features import FEATURES

RULES = VmRules(kind="kvm", memory_mib=1024, networks=("nat", "bridge"), default_network="nat", bridge="br0")
SCHEMA = Path("/usr/share/libvirt/schemas/domain.rng")
XEN = replace(RULES, kind="xen", xen_bootloader="/usr/bin/pygrub", hardware_vt=True)
SANDBOX = Sandbox("/scratch", frozenset({"disk.img", "vmlinuz"}))
JOB = {
    "JobVMType": "kvm", "JobVMMemory": 512, "JobVM_VCPUS": 2, "VMPARAM_vm_Disk": "/home/ann/disk.img:vda:w",
    "User": "ann@example.org", "ClusterId": 7, "ProcId": 1,
}  # fmt: skip
MACHINE = Machine("ann_7.1", "kvm", 512, 2, (Disk("/scratch/disk.img", "vda", writable=True, transferred=True),))


def machine(rules: VmRules = RULES, **ad: object) -> Machine:
    """The machine of a job with these attributes besides the usual ones."""
    return read_machine({**JOB, **ad}.get, rules, SANDBOX)


def test_a_machine_is_read_from_its_jobs_ad() -> None:
    found = machine()
    assert found == replace(MACHINE, name="ann_example.org_7.1")
    assert decode(found.encode()) == found


@pytest.mark.parametrize(
    ("text", "disks"),
    [
        ("disk.img:hda:w:qcow2", [Disk("/scratch/disk.img", "hda", True, "qcow2", transferred=True)]),
        ("/data/base.img:vdb:r", [Disk("/data/base.img", "vdb", False)]),
        ("/data/cd.iso:hdc:r", [Disk("/data/cd.iso", "hdc", False, cdrom=True)]),
        ("/a:vda:rw, /x:sda:w:RAW", [Disk("/a", "vda", True), Disk("/x", "sda", True)]),
    ],
)  # fmt: skip
def test_disks(text: str, disks: list[Disk]) -> None:
    assert machine(VMPARAM_vm_Disk=text).disks == tuple(disks)


@pytest.mark.parametrize(
    ("ad", "word"),
    [
        ({"JobVMType": "xen"}, "VMGAHP_ERR_NO_SUPPORTED_VM_TYPE"),
        ({"JobVMMemory": 2048}, "VMGAHP_ERR_JOBCLASSAD_TOO_MUCH_MEMORY_REQUEST"),
        ({"JobVMMemory": None}, "VMGAHP_ERR_JOBCLASSAD_NO_VM_MEMORY_PARAM"),
        ({"VMPARAM_vm_Disk": None}, "VMGAHP_ERR_JOBCLASSAD_KVM_NO_DISK_PARAM"),
        ({"VMPARAM_vm_Disk": "other.img:vda:w"}, "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM"),
        ({"VMPARAM_vm_Disk": "disk.img:vda"}, "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM"),
        ({"VMPARAM_vm_Disk": "disk.img:eth0:w"}, "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM"),
        ({"VMPARAM_vm_Disk": "disk.img:vda:x"}, "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM"),
        ({"VMPARAM_vm_Disk": "disk.img:vda:w:vmdk"}, "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM"),
        ({"VMPARAM_vm_Disk": "/a:vda:w,/b:vda:w"}, "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM"),
        ({"VMPARAM_vm_Disk": "disk.img:hda:r"}, "VMGAHP_ERR_JOBCLASSAD_KVM_INVALID_DISK_PARAM"),
        ({"JobVMNetworking": True, "JobVMNetworkingType": "user"}, "VMGAHP_ERR_JOBCLASSAD_MISMATCHED_NETWORKING_TYPE"),
        ({"JobVMNetworking": True, "JobVM_MACADDR": "52:54"}, "VMGAHP_ERR_CRITICAL"),
    ],
)
def test_what_cannot_be_had_is_named_as_htcondor_names_it(ad: dict[str, object], word: str) -> None:
    with pytest.raises(MachineError) as caught:
        machine(RULES, **ad)
    assert caught.value.word == word


def test_the_users_own_mistakes_hold_the_job_with_htcondors_subcodes() -> None:
    with pytest.raises(MachineError) as caught:
        machine(VMPARAM_vm_Disk="disk.img:vda")
    assert caught.value.subcode == 10
    with pytest.raises(MachineError) as caught:
        machine(JobVMMemory=2048)
    assert caught.value.subcode is None, "there may be room elsewhere"


def test_networks() -> None:
    assert (machine().network, machine().bridge) == ("", "")
    assert machine(JobVMNetworking=True).network == "nat"
    bridged = machine(JobVMNetworking=True, JobVMNetworkingType="Bridge", JobVM_MACADDR="52:54:00:AA:bb:01")
    assert (bridged.network, bridged.bridge, bridged.mac) == ("bridge", "br0", "52:54:00:aa:bb:01")
    with pytest.raises(MachineError, match="MISMATCHED_NETWORKING:"):
        machine(replace(RULES, networks=()), JobVMNetworking=True)


def test_xen_boots_by_its_boot_loader_or_a_kernel() -> None:
    xen = {"JobVMType": "xen", "VMPARAM_vm_Disk": "disk.img:xvda:w"}
    included = machine(XEN, **xen, VMPARAM_Xen_Kernel="included")
    assert included.xen is not None and included.xen.bootloader == "/usr/bin/pygrub"
    kernel = machine(XEN, **xen, VMPARAM_Xen_Kernel="vmlinuz", VMPARAM_Xen_Root="xvda1")
    assert kernel.xen is not None and (kernel.xen.kernel, kernel.xen.root) == ("/scratch/vmlinuz", "xvda1")
    assert decode(kernel.encode()) == kernel
    with pytest.raises(MachineError, match="NO_ROOT_DEVICE"):
        machine(XEN, **xen, VMPARAM_Xen_Kernel="vmlinuz")
    with pytest.raises(MachineError, match="MISMATCHED_HARDWARE_VT"):
        machine(replace(XEN, hardware_vt=False), **xen, VMPARAM_Xen_Kernel="vmx")
    domain = ElementTree.fromstring(description(kernel, "xen", in_session=False))
    assert (domain.get("type"), domain.findtext("os/kernel"), domain.findtext("os/root")) == (
        "xen", "/scratch/vmlinuz", "xvda1",
    )  # fmt: skip


def descriptions() -> dict[str, str]:
    """Machines of each kind with all that they may have, as they are described to libvirt."""
    bridge = {"JobVMNetworking": True, "JobVMNetworkingType": "bridge", "JobVM_MACADDR": "00:16:3e:00:00:01"}
    kernel = {"VMPARAM_Xen_Kernel": "vmlinuz", "VMPARAM_Xen_Root": "/dev/xvda1", "VMPARAM_Xen_Initrd": "vmlinuz"}
    boots: dict[str, dict[str, object]] = {
        "boot loader": {"VMPARAM_Xen_Kernel": "included"},
        "kernel": {**kernel, "VMPARAM_Xen_Kernel_Params": "console=hvc0 <x>"},
        "hardware": {"VMPARAM_Xen_Kernel": "vmx"},
    }
    rules = replace(XEN, networks=("nat", "bridge"), bridge="br0", hardware_vt=True)
    disks = "disk.img:xvda:w, /images/cd.iso:xvdb:r"
    xen = {
        name: machine(rules, JobVMType="xen", VMPARAM_vm_Disk=disks, **bridge, **boot) for name, boot in boots.items()
    }
    found = {name: description(one, "xen", in_session=False) for name, one in xen.items()}
    for network in ("nat", "user", "bridge", ""):
        asked = replace(MACHINE, network=network, bridge="br0" if network == "bridge" else "", mac="52:54:00:12:34:56")
        for in_session, marker in ((False, ""), (True, "A=b")):
            text = description(asked, BY_KVM, in_session=in_session, marker=marker, vnc="/scratch/console.sock")
            found[f"{network or 'no'} network{', session' * in_session}"] = text
    found["rights of the job's account"] = description(MACHINE, BY_KVM, in_session=False, rights="+1001:+100")
    found["rights in a description by others"] = with_rights(found["bridge network, session"], "+1001:+100")
    return found


@host.needs(host.programs("xmllint"))
@pytest.mark.skipif(not SCHEMA.exists(), reason=f"needs {SCHEMA}, which libvirt brings")
@pytest.mark.parametrize(("name", "text"), descriptions().items(), ids=list(descriptions()))
def test_libvirts_schema_takes_what_machines_are_described_as(name: str, text: str) -> None:
    words_of_it = ["xmllint", "--noout", "--relaxng", str(SCHEMA), "-"]
    done = subprocess.run(words_of_it, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name}: {done.stderr}"


def test_a_xen_machine_is_on_the_bridge_and_boots_with_its_words() -> None:
    kernel = ElementTree.fromstring(descriptions()["kernel"])
    assert kernel.findtext("os/cmdline") == "console=hvc0 <x>" and kernel.findtext("os/initrd") == "/scratch/vmlinuz"
    source, mac = kernel.find("devices/interface/source"), kernel.find("devices/interface/mac")
    assert source is not None and source.get("bridge") == "br0"
    assert mac is not None and mac.get("address") == "00:16:3e:00:00:01"
    assert ElementTree.fromstring(descriptions()["boot loader"]).findtext("bootloader") == "/usr/bin/pygrub"
    assert ElementTree.fromstring(descriptions()["hardware"]).findtext("os/type") == "hvm"


def option(line: list[str], name: str) -> list[str]:
    """The values of an option."""
    return [value for word, value in pairwise(line) if word == name]


def test_the_command_line_of_qemu() -> None:
    disks = (Disk("/a,b.img", "vda", True), Disk("/c.iso", "hdc", False, cdrom=True), Disk("/d", "sdb", False, "qcow2"))
    asked = replace(MACHINE, disks=disks, network="nat", mac="52:54:00:12:34:56")
    line = words(asked, "qemu", BY_EMULATION, Handles(7))
    assert line[0] == "qemu"
    assert option(line, "-m") == ["512M"] and option(line, "-smp") == ["2"]
    assert option(line, "-machine") == ["pc,accel=tcg"] and option(line, "-cpu") == ["max"]
    files = [json.loads(node) for node in option(line, "-blockdev")]
    assert [(file["file"]["filename"], file["driver"], file["read-only"]) for file in files] == [
        ("/a,b.img", "raw", False), ("/c.iso", "raw", True), ("/d", "qcow2", True),
    ]  # fmt: skip
    devices = option(line, "-device")
    assert [device.partition(",")[0] for device in devices] == [
        "virtio-scsi-pci", "virtio-blk-pci", "ide-cd", "scsi-hd", "virtio-net-pci",
    ]  # fmt: skip
    assert "bus=ide.1,unit=0" in devices[2] and "mac=52:54:00:12:34:56" in devices[4]
    assert option(line, "-netdev") == ["user,id=net0"]
    assert "-incoming" not in line


def test_a_machine_that_may_go_on_elsewhere_has_the_core_of_every_host() -> None:
    line = words(replace(MACHINE, checkpoint=True), "qemu", BY_KVM, Handles(3, 4), version="pc-i440fx-7.2")
    assert option(line, "-cpu") == ["kvm64"]
    assert option(line, "-machine") == ["pc-i440fx-7.2,accel=kvm"]
    assert option(line, "-incoming") == ["fd:4"]


def test_without_a_network_there_is_none() -> None:
    assert option(words(MACHINE, "qemu", BY_KVM, Handles(3)), "-nic") == ["none"]
    bridged = replace(MACHINE, network="bridge", bridge="br0")
    assert option(words(bridged, "qemu", BY_KVM, Handles(3)), "-netdev") == ["bridge,id=net0,br=br0"]


def test_the_description_for_libvirt() -> None:
    asked = replace(MACHINE, network="nat", disks=(*MACHINE.disks, Disk("/base <1>.img", "vdb", False, "qcow2")))
    domain = ElementTree.fromstring(description(asked, BY_KVM, in_session=False))
    assert domain.get("type") == "kvm"
    assert (domain.findtext("name"), domain.findtext("vcpu")) == ("ann_7.1", "2")
    memory = domain.find("memory")
    assert memory is not None and (memory.text, memory.get("unit")) == ("512", "MiB")
    sources = [disk.find("source") for disk in domain.iter("disk")]
    assert [source.get("file") for source in sources if source is not None] == ["/scratch/disk.img", "/base <1>.img"]
    assert [disk.find("readonly") is not None for disk in domain.iter("disk")] == [False, True]
    assert [interface.get("type") for interface in domain.iter("interface")] == ["network"]
    assert domain.findtext("uuid") == ElementTree.fromstring(description(MACHINE, BY_KVM, in_session=True)).findtext(
        "uuid"
    )
    assert with_identity("<domain><name>a</name></domain>", MACHINE).count("<uuid>") == 1
    # A libvirt of the job's own has no networks.
    domain = ElementTree.fromstring(description(asked, BY_EMULATION, in_session=True, marker="A=b"))
    assert domain.get("type") == "qemu"
    assert [interface.get("type") for interface in domain.iter("interface")] == ["user"]
    env = domain.find("{http://libvirt.org/schemas/domain/qemu/1.0}commandline/*")
    assert env is not None and (env.get("name"), env.get("value")) == ("A", "b")


def test_the_emulator_in_a_libvirt_of_the_host_has_the_rights_of_the_jobs_account() -> None:
    def seen(text: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """The labels of the domain, and of its disks."""
        domain = ElementTree.fromstring(text)
        return [one.attrib for one in domain.findall("seclabel")], [
            one.attrib for one in domain.findall("devices/disk/source/seclabel")
        ]

    of_domain = [{"type": "static", "model": "dac", "relabel": "yes"}]
    # libvirt gives no disk to that account, whatever is under its name by then.
    of_disk = [{"model": "dac", "relabel": "no"}]
    text = description(MACHINE, BY_KVM, in_session=False, rights="+1001:+100")
    domain = ElementTree.fromstring(text)
    assert seen(text) == (of_domain, of_disk)
    assert domain.findtext("seclabel/label") == "+1001:+100"
    backing = domain.find("devices/disk/backingStore")
    assert backing is not None and not backing.attrib and not len(backing), "nothing behind it is opened"
    assert seen(description(MACHINE, BY_KVM, in_session=True)) == ([], [])
    # Descriptions of LIBVIRT_XML_SCRIPT get it, whatever a job has brought into their texts.
    disk = "<devices><disk><source file='/a'/></disk></devices>"
    for inside in ("", "<title>&lt;seclabel type='none' model='dac'/></title>", "<seclabel model='selinux'/>"):
        labels, disks = seen(with_rights(f"<domain>{inside}{disk}</domain>", "+1001:+100"))
        assert (labels[-1:], disks) == (of_domain, of_disk)
    named = f"<domain>{disk}<seclabel type='none' model='dac'/></domain>"
    assert with_rights(named, "+1001:+100") == named, "the administrator's word"
    with pytest.raises(ValueError, match="not XML"):
        with_rights("<domain>", "+1001:+100")


@pytest.mark.parametrize(
    ("header", "elsewhere"),
    [
        (b"\xfa\x33" * 40, False),
        (b"QFI\xfb" + struct.pack(">IQ", 2, 0), False),
        (b"QFI\xfb" + struct.pack(">IQ", 2, 104), True),
        (b"QFI\xfb" + struct.pack(">IQ56xQ", 3, 0, 4), True),
        (b"QFI\xfb" + struct.pack(">IQ56xQ", 3, 0, 1), False),
    ],
)
def test_disks_that_read_other_files_are_seen(header: bytes, elsewhere: bool) -> None:
    assert refers_elsewhere(header) is elsewhere


def test_plans_and_reports_survive_their_way() -> None:
    plan = SupervisorPlan(MACHINE, "/scratch", "qemu", BY_KVM, qemu="qemu", soft_suspend=True, kill_s=5.0)
    assert decode_plan(plan.encode()) == plan
    assert decode_report("no report") is None and decode_report("[]") is None
    report = decode_report('{"word": "VMGAHP_ERR_BAD_IMAGE", "detail": "it is none"}')
    assert report is not None and (report.subcode, report.reason) == (12, "VMGAHP_ERR_BAD_IMAGE: it is none")


@pytest.mark.parametrize(
    ("change", "words_of_it"),
    [
        ({}, ""),
        ({"driver": "libvirt"}, "saved by libvirt"),
        ({"accelerator": BY_KVM}, "saved under kvm"),
        ({"memory_mib": 256}, "256 MiB"),
        ({"disks": {"vda": 5}}, "disks"),
    ],
)
def test_a_saved_machine_goes_on_only_where_it_fits(change: dict[str, object], words_of_it: str) -> None:
    now = facts_of(MACHINE, "qemu", "pc-i440fx-7.2", BY_EMULATION, {"vda": 10})
    saved = decode_facts(json.dumps({**json.loads(now.encode()), **change}))
    found = obstacle(saved, now)
    assert (words_of_it in found) and bool(found) == bool(words_of_it)


def test_no_two_runs_have_machines_of_one_name_in_a_libvirt_of_the_host() -> None:
    names = {name_of_run("ann_a.org_12.0", Path(top, "dir_7_1/scratch")) for top in ("/execute", "/other", "/execute")}
    assert len(names) == 2 and all(name.startswith("ann_a.org_12.0_") for name in names)


def test_what_is_offered_is_what_is_left() -> None:
    rules = replace(RULES, most=3, hardware_vt=True)
    records = [VmRecord("dir_1", "a", 300, "52:54:00:00:00:01"), VmRecord("dir_2", "b", 200)]
    assert offered(rules, Found("qemu", BY_KVM), records) == {
        "HasVM": True, "VM_GAHP_VERSION": "0.0.1", "VM_Type": "kvm", "VM_Memory": 524, "VM_AvailNum": 1,
        "VM_Networking": True, "VM_Networking_Types": "nat,bridge", "VM_HardwareVT": True, "VM_Accelerator": "kvm",
        "VM_All_Guest_Macs": "52:54:00:00:00:01",
    }  # fmt: skip
    assert offered(RULES, Found("qemu", BY_KVM), [])["VM_AvailNum"] == 10000


def test_the_emulator_has_room_besides_the_machine() -> None:
    plan = CgroupPlan(
        2, settings=(CgroupSetting("/g/memory.max", str(512 << 20), True), CgroupSetting("/g/cpu.weight", "5"))
    )
    assert [setting.value for setting in with_overhead(plan, 100).settings] == [str(612 << 20), "5"]


def test_records_outlive_the_starter(tmp_path: Path) -> None:
    records = VmRecords(tmp_path / "vm")
    assert list(records) == []
    records.add(VmRecord("dir_1", "a", 300))
    records.add(VmRecord("dir_2", "b", 200, uri="xen:///system"))
    (tmp_path / "vm" / "dir_3.json").write_text("not a record")
    again = VmRecords(tmp_path / "vm")
    assert [record.run for record in again] == ["dir_1", "dir_2"]
    assert [record.machine for record in again.gone({"dir_1"})] == ["b"]
    again.remove("dir_1")
    again.remove("dir_1")
    assert [record.run for record in again] == ["dir_2"]


def rules_of(tmp_path: Path, text: str) -> VmRules:
    (tmp_path / "config").write_text(text)
    return read_vm_rules(load(tmp_path / "config", env={}))


def test_knobs(tmp_path: Path) -> None:
    assert rules_of(tmp_path, "").kind == ""
    rules = rules_of(tmp_path, "VM_TYPE = KVM\nVM_MEMORY = 512\nVM_NETWORKING = true\nVM_NETWORKING_TYPE = nat, user\n")
    assert (rules.kind, rules.memory_mib, rules.networks, rules.default_network) == (
        "kvm",
        512,
        ("nat", "user"),
        "user",
    )
    assert (rules.soft_suspend, rules.kill_s, rules.status_s, rules.in_session) == (False, 60.0, 60.0, True)
    assert not rules.xml_script, "HTCondor's own program for it is not part of Slotwise"
    assert rules_of(tmp_path, "VM_TYPE = xen\nVM_MEMORY = 1\n").uri == "xen:///system"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("VM_TYPE = vmware\nVM_MEMORY = 5\n", "neither kvm nor xen"),
        ("VM_TYPE = kvm\n", "VM_MEMORY is not set"),
        ("VM_NETWORKING = true\n", "names nothing"),
        ("VM_NETWORKING = true\nVM_NETWORKING_TYPE = bridge, nat\n", "VM_NETWORKING_BRIDGE_INTERFACE"),
        ("VM_NETWORKING = true\nVM_NETWORKING_TYPE = nat, wire\n", "wire"),
    ],
)
def test_knobs_that_do_not_fit_are_told(tmp_path: Path, text: str, problem: str) -> None:
    assert any(problem in told for told in rules_of(tmp_path, text).problems)


def test_a_machine_of_the_manuals_knobs(tmp_path: Path) -> None:
    text = next(example.text for example in FEATURES if example.name == "virtual machines")
    rules = rules_of(tmp_path, text)
    assert (rules.kind, rules.memory_mib, rules.problems) == ("kvm", 512, ())
    assert offered(rules, Found("qemu", BY_KVM), [])["VM_Memory"] == 512
    assert machine(rules).memory_mib == 512


def prepared(top: Path, rules: VmRules, **ad: object) -> SupervisorPlan:
    """The plan for a job of an account without rights, on a host whose machines a libvirt of root runs."""
    vm_driver._known[rules] = Found(driver="libvirt", accelerator="kvm")
    (top / "scratch").mkdir(exist_ok=True)
    job_ad = ClassAd({name: value for name, value in {**JOB, **ad}.items() if isinstance(value, str | int)})
    place, nobody = RunDirectory(top, top / "control"), Identity(65534, 65534)
    slot = read_slot(lookup(ClassAd({"Memory": 1024})))
    context = JobContext(read_job(lookup(job_ad), "ann@here"), slot, job_ad, ClassAd({}), place, nobody, True, True)
    os.chown(top / "scratch", 65534, 65534)
    made = VirtualMachines(rules, top / "execute", root=True)
    job = ContainerJob("7.1#1", Choice("vm"), context)
    return decode_plan(asyncio.run(made.prepare(job, lambda _said: None)).image)


@pytest.fixture
def open_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


by_root = host.needs(host.root)


@by_root
@pytest.mark.parametrize(
    ("head", "word"),
    [
        (struct.pack(">4sIQ", b"QFI\xfb", 3, 0).ljust(104, b"\0"), ""),
        (struct.pack(">4sIQ", b"QFI\xfb", 3, 112).ljust(104, b"\0"), "leads to another file"),
        (struct.pack(">4sIQ56xQ", b"QFI\xfb", 3, 0, 4).ljust(104, b"\0"), "leads to another file"),
    ],
)
def test_root_reads_no_file_that_a_disk_names(open_path: Path, head: bytes, word: str) -> None:
    rules = replace(RULES, uri="qemu:///system")
    (open_path / "disk").write_bytes(head)
    disk = f"{open_path}/disk:vda:r:qcow2"
    if word:
        with pytest.raises(LaunchRefusedError, match=word):
            prepared(open_path, rules, VMPARAM_vm_Disk=disk)
    else:
        assert prepared(open_path, rules, VMPARAM_vm_Disk=disk).machine.disks[0].form == "qcow2"


@by_root
def test_root_waits_for_no_pipe_that_a_disk_is(open_path: Path) -> None:
    os.mkfifo(open_path / "disk", 0o666)
    (open_path / "disk").chmod(0o666)
    with pytest.raises(LaunchRefusedError, match="leads to another file, which may not be the job's, or is none"):
        prepared(open_path, replace(RULES, uri="qemu:///system"), VMPARAM_vm_Disk=f"{open_path}/disk:vda:r")


@by_root
@pytest.mark.parametrize("name", ["Kernel", "Initrd"])
def test_root_reads_no_kernel_that_the_job_may_not(open_path: Path, name: str) -> None:
    (open_path / "disk").touch()
    (open_path / "secret").touch(mode=0o600)
    files = {"VMPARAM_Xen_Kernel": f"{open_path}/disk", f"VMPARAM_Xen_{name}": f"{open_path}/secret"}
    disk = {"JobVMType": "xen", "VMPARAM_vm_Disk": f"{open_path}/disk:xvda:r", "VMPARAM_Xen_Root": "xvda"}
    with pytest.raises(LaunchRefusedError, match=f"XEN_{name.upper()}_NOT_FOUND"):
        prepared(open_path, replace(XEN, uri="xen:///system"), **disk, **files)


XEN_JOB = {"JobVMType": "xen", "VMPARAM_Xen_Root": "xvda", "VMPARAM_Xen_Kernel": "vmlinuz"}


def _came_with_the_job(top: Path, *names: str) -> Path:
    """A scratch directory with files of the job's account."""
    scratch = top / "scratch"
    scratch.mkdir()
    for name in names:
        (scratch / name).write_bytes(name.encode())
        os.chown(scratch / name, 65534, 65534)
    return scratch


@by_root
def test_the_emulator_under_the_libvirt_of_the_host_gets_the_account_of_the_job(open_path: Path) -> None:
    _came_with_the_job(open_path, "disk.img")
    plan = prepared(open_path, replace(RULES, uri="qemu:///system"), VMPARAM_vm_Disk="disk.img:vda:w")
    assert plan.rights == "+65534:+65534"
    assert prepared(open_path, replace(RULES, uri="qemu:///session"), VMPARAM_vm_Disk="disk.img:vda:w").rights == ""


@by_root
def test_root_starts_xen_machines_from_files_that_no_job_can_exchange(open_path: Path) -> None:
    scratch = _came_with_the_job(open_path, "disk.img", "vmlinuz", "initrd")
    (open_path / "secret").write_text("another's")
    rules = replace(XEN, uri="xen:///system")
    job = {**XEN_JOB, "VMPARAM_vm_Disk": "disk.img:xvda:w", "VMPARAM_Xen_Initrd": "initrd"}
    plan = prepared(open_path, rules, **job)
    assert plan.machine.xen is not None and plan.rights == ""
    found = [plan.machine.disks[0].path, plan.machine.xen.kernel, plan.machine.xen.initrd]
    for name in ("disk.img", "vmlinuz", "initrd"):
        (scratch / name).unlink()
        (scratch / name).symlink_to(open_path / "secret")
    assert [Path(path).read_text() for path in found] == ["disk.img", "vmlinuz", "initrd"]
    assert all(
        Path(path).parent.stat().st_mode & 0o777 == 0o700 and Path(path).parent.owner() == "root" for path in found
    )


@by_root
@pytest.mark.parametrize(
    ("disk", "why"), [("disk.img:xvda:w:qcow2", "convert it to raw"), ("{shm}:xvda:w", "exchange it")]
)
def test_root_opens_no_disk_of_a_xen_machine_that_others_can_exchange(open_path: Path, disk: str, why: str) -> None:
    scratch = _came_with_the_job(open_path, "disk.img", "vmlinuz")
    (scratch / "disk.img").write_bytes(struct.pack(">4sIQ", b"QFI\xfb", 3, 0).ljust(104, b"\0"))
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as elsewhere:  # another file system than EXECUTE
        os.chown(elsewhere.name, 65534, 65534)
        rules = replace(XEN, uri="xen:///system")
        with pytest.raises(LaunchRefusedError, match=why):
            prepared(open_path, rules, **XEN_JOB, VMPARAM_vm_Disk=disk.format(shm=elsewhere.name))
    assert not list((open_path / "execute" / ".starter" / "vm").iterdir()), "nothing is counted"


def test_a_libvirt_under_which_no_account_can_run_machines_is_named_with_the_remedy() -> None:
    said = "qemu-system-x86_64: Unable to read /var/lib/libvirt/qemu/domain-2-x/master-key.aes: Permission denied"
    assert "chmod 0751" in probe.in_words(said)


def test_an_installation_in_a_closed_directory_is_named_as_such() -> None:
    said = "Traceback (most recent call last):\n  File ...\nModuleNotFoundError: No module named 'slotwise'\n"
    assert "cannot read the installation at /" in probe.in_words(said)
    assert probe.in_words("no such\n  device\n") == "no such device" and probe.in_words("") == ""


@pytest.mark.parametrize(
    ("package", "pins"),
    [("/tmp/venv/lib/slotwise/__init__.py", ("/kept", "/tmp/venv/lib")), ("/opt/lib/slotwise/__init__.py", ("/kept",))],
)
def test_a_supervisor_finds_its_program_below_a_directory_that_is_the_jobs_own(
    monkeypatch: pytest.MonkeyPatch, package: str, pins: tuple[str, ...]
) -> None:
    monkeypatch.setattr(slotwise, "__file__", package)
    monkeypatch.setattr(probe, "_interpreter", lambda: "/usr/bin/python3")
    isolation = Isolation(mounts=(("/execute/tmp", "/tmp"),), pins=("/kept",))
    assert probe.seeing_supervisor(isolation).pins == pins
    assert probe.seeing_supervisor(Isolation()) == Isolation()
