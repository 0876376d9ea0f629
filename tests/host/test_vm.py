"""Virtual machines: jobs of the VM universe under a real starter, by qemu itself and by libvirt.

The guest is a boot sector (`tests.support.vm_guest`), so that no kernel is needed. Where KVM does not work machines are
emulated.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.starter.runtimes.vm.domain import description
from slotwise.starter.runtimes.vm.machine import Disk, Machine
from slotwise.starter.runtimes.vm.qemu_words import BY_EMULATION
from slotwise.starter.runtimes.vm.saved_state import FACTS, STATE
from slotwise.starter.runtimes.vm.virsh import destroy_domain, virsh
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.pool import Pool
from tests.support.starter_bench import StarterBench, is_alive, starter_bench
from tests.support.vm_guest import FOREVER, GuestNotes, disk, notes
from tests.support.waiting import LIMIT_S, until

pytestmark = [
    pytest.mark.host,
    host.needs(host.virtual_machines),
]
EXITED, EVICTED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.EVICTED, schedd_pb2.RunEnded.HELD
NAME = "disk.img"
#: Ticks in a second of the guest.
HZ = 18
KNOBS: dict[str, Any] = {
    "VM_TYPE": "kvm",
    "VM_MEMORY": 256,
    "SLOTWISE_VM_DRIVER": "qemu",
    "SLOTWISE_VM_EMULATION": "true",
    "CGROUP_POLLING_INTERVAL": 0.2,
}


@contextlib.asynccontextmanager
async def vm_bench(**knobs: Any) -> AsyncIterator[StarterBench]:
    """A starter that runs virtual machines."""
    async with starter_bench(**{**KNOBS, **knobs}) as bench:
        await offers(bench)
        yield bench


async def offers(bench: StarterBench, **expected: object) -> dict[str, object]:
    """Wait until the starter offers virtual machines, with these attributes; what it says of them."""
    found: dict[str, object] = {}

    async def offered() -> bool:
        facts = await bench.facts()
        found.clear()
        found.update((name, facts.eval(name)) for name in facts if name.startswith(("VM", "HasVM")))
        assert "VMOfflineReason" not in found, found
        return {"HasVM": True, **expected}.items() <= found.items()

    await until(offered, f"{expected} is offered", told=lambda: f"{found}: {bench.log()[-2000:]}")
    return found


def start(bench: StarterBench, image: bytes, more: dict[str, bytes] | None = None, **ad: Any) -> str:
    """Start a job whose machine has this disk."""
    job = {
        "JobUniverse": 13,
        "JobVMType": "kvm",
        "JobVMMemory": 32,
        "JobVM_VCPUS": 1,
        "VMPARAM_vm_Disk": f"{NAME}:vda:w",
        "Out": "/dev/null",
        "Err": "/dev/null",
        **ad,
    }
    return bench.submit("guest", inputs={**(more or {}), NAME: image}, **job)


def live(bench: StarterBench) -> GuestNotes:
    """What the guest of the only run has written so far."""
    with contextlib.suppress(OSError, ValueError, struct.error):  # the disk may still be on its way
        (found,) = bench.execute.glob(f"dir_*/scratch/{NAME}")
        return notes(found.read_bytes())
    return GuestNotes(0, 0, "")


async def ticking(bench: StarterBench, after: int = 0) -> int:
    """Wait until the guest runs, and has run for more than ``after`` ticks; for how many."""
    await bench.eventually(lambda: live(bench).ticks > after, "the guest runs")
    return live(bench).ticks


def emulators(bench: StarterBench) -> list[int]:
    """Processes of qemu whose machine's disk is below the directory of the bench."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if b"qemu-system" in words.partition(b"\0")[0] and str(bench.root).encode() in words:
                found.append(int(entry.name))
    return [pid for pid in found if is_alive(pid)]


async def nothing_is_left(bench: StarterBench) -> None:
    """Wait until neither a machine nor a trace of one is left."""
    await bench.eventually(lambda: not emulators(bench), "no machine is left")
    await bench.clean()
    await bench.eventually(lambda: not list(bench.execute.glob(".starter/vm/*.json")), "no record is left")


async def leave(bench: StarterBench, run: str, *, fast: bool = False) -> None:
    """Have the job evicted, and wait until nothing is left of it."""
    assert bench.startd is not None
    bench.startd.command(run, kill={"fast": fast, "reason_code": 1010, "vacate_s": 600})
    assert (await bench.ended(run)).how == EVICTED
    await nothing_is_left(bench)


async def test_a_machine_runs_until_it_powers_itself_off_and_its_disk_comes_home(root: None) -> None:
    async with vm_bench() as bench:
        run = start(bench, disk(5), JobVM_VCPUS=2)
        unwanted = start(bench, disk(2), VMPARAM_No_Output_VM=True)
        held = {
            words: start(bench, disk(2), VMPARAM_vm_Disk=named)
            for named, words in (
                ("nowhere.img:vda:w", "KVM_INVALID_DISK_PARAM"),
                (f"{NAME}:vda:w:qcow2", "VMGAHP_ERR_BAD_IMAGE"),
                ("/etc/shadow:vda:r", "cannot be read"),
            )
        }
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended
        assert notes(bench.shadow.runs[run].outputs[NAME]) == GuestNotes(1, 5, "DONE", cores=2)
        assert set(bench.shadow.runs[run].outputs) == {NAME}
        assert (await bench.ended(unwanted)).how == EXITED
        assert not bench.shadow.runs[unwanted].outputs, "vm_no_output_vm"
        for words, one in held.items():
            ended = await bench.ended(one)
            assert (ended.how, ended.reason_code, words in ended.reason) == (HELD, 6, True), ended
        await nothing_is_left(bench)


async def test_what_is_offered_shrinks_by_what_machines_have() -> None:
    async with vm_bench(VM_MAX_NUMBER=2, VM_NETWORKING="true", VM_NETWORKING_TYPE="nat") as bench:
        await offers(bench, VM_Type="kvm", VM_Memory=256, VM_AvailNum=2, VM_Networking=True, VM_Networking_Types="nat")
        run = start(bench, disk(FOREVER), JobVMMemory=64, JobVMNetworking=True, JobVM_MACADDR="52:54:00:12:34:56")
        await ticking(bench)
        await offers(bench, VM_Memory=192, VM_AvailNum=1, VM_All_Guest_Macs="52:54:00:12:34:56")
        # A match that was made before that was known.
        ended = await bench.ended(start(bench, disk(2), JobVMMemory=250))
        assert (ended.how, "no room" in ended.reason) == (schedd_pb2.RunEnded.NOT_STARTED, True), ended
        await leave(bench, run, fast=True)
        await offers(bench, VM_Memory=256, VM_AvailNum=2)


#: Set where the machine's network is one of the test's own.
BRIDGED = "SLOTWISE_TEST_BRIDGED"
HELPER = Path("/usr/lib/qemu/qemu-bridge-helper")
#: A bridge, and what accounts without rights need to get on it, in namespaces that nobody else sees.
NETWORK = f"""
set -e
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
mount -t tmpfs tmpfs /mnt
cp {HELPER} /mnt/helper
chmod 4755 /mnt/helper
mount --bind /mnt/helper {HELPER}
mknod /mnt/tun c 10 200
chmod 666 /mnt/tun
mount --bind /mnt/tun /dev/net/tun
cp -a /etc /mnt/etc
mkdir -p /mnt/etc/qemu
echo allow br0 >/mnt/etc/qemu/bridge.conf
mount --bind /mnt/etc /etc
"$@"
"""


def in_network(request: pytest.FixtureRequest, mark: str, script: str) -> bool:
    """Whether this is the run of the test in a network namespace; outside of it, the test is run there."""
    if mark in os.environ:
        return True
    again = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "0", "-p", "no:cacheprovider", request.node.nodeid]
    # Processes of its own: what it has started is gone when it ends.
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    words += ["--propagation", "private", "sh", "-c", script, "sh", *again]
    root = request.config.rootpath
    done = subprocess.run(words, cwd=root, env={**os.environ, mark: "1"}, capture_output=True, text=True)
    said = done.stdout[-3000:] + done.stderr[-1000:]
    if "Operation not permitted" in done.stderr or "SKIPPED" in done.stdout:
        pytest.skip(f"it does not run in namespaces of its own here: {said[-300:]}")
    assert done.returncode == 0, said
    return False


def on_the_bridge() -> str:
    return subprocess.run(
        ["ip", "-o", "link", "show", "master", "br0"], capture_output=True, text=True, check=True
    ).stdout


@host.needs(host.programs(str(HELPER), "ip"))
async def test_a_machine_has_a_place_on_the_bridge(root: None, request: pytest.FixtureRequest) -> None:
    if not in_network(request, BRIDGED, NETWORK):
        return
    network = {"VM_NETWORKING": "true", "VM_NETWORKING_TYPE": "nat, bridge", "VM_NETWORKING_BRIDGE_INTERFACE": "br0"}
    async with vm_bench(**network) as bench:
        await offers(bench, VM_Networking_Types="nat,bridge")
        mac = "52:54:00:12:34:56"
        run = start(bench, disk(FOREVER), JobVMNetworking=True, JobVMNetworkingType="bridge", JobVM_MACADDR=mac)
        await ticking(bench)
        assert "tap0" in on_the_bridge()
        await leave(bench, run, fast=True)
        assert on_the_bridge() == ""


async def test_a_bridge_that_machines_cannot_get_on_is_not_offered() -> None:
    network = {"VM_NETWORKING": "true", "VM_NETWORKING_TYPE": "nat, bridge", "VM_NETWORKING_BRIDGE_INTERFACE": "none0"}
    async with vm_bench(**network) as bench:
        await offers(bench, VM_Networking=True, VM_Networking_Types="nat")
        assert "machines get no place on the bridge none0" in str((await bench.facts()).eval("EnforcementGaps"))
        ended = await bench.ended(start(bench, disk(2), JobVMNetworking=True, JobVMNetworkingType="bridge"))
        assert ended.how == schedd_pb2.RunEnded.NOT_STARTED and "there is no network bridge" in ended.reason, ended


@pytest.mark.parametrize("soft", [False, True])
async def test_a_suspended_machine_stands_still_and_goes_on(soft: bool) -> None:
    """Hard suspension (HTCondor's default) frees the machine's memory; soft suspension keeps it."""
    async with vm_bench(VM_SOFT_SUSPEND=str(soft)) as bench:
        run = start(bench, disk(FOREVER))
        await ticking(bench)
        assert bench.startd is not None
        bench.startd.command(run, suspend={"resume": False})
        await bench.eventually(lambda: bench.startd and bench.startd.of(run, "suspended"), "it is suspended")
        if not soft:
            await bench.eventually(lambda: not emulators(bench), "its memory is free")
        stood = live(bench)
        bench.startd.command(run, suspend={"resume": True})
        await ticking(bench, stood.ticks)
        assert live(bench).boots == 1, "it goes on, it does not boot"
        assert len(emulators(bench)) == 1
        await leave(bench, run, fast=True)


async def test_a_machine_that_has_to_leave_is_told_to_power_off_and_then_destroyed() -> None:
    async with vm_bench(VM_KILLING_TIMEOUT=5) as bench:
        run = start(bench, disk(FOREVER), WhenToTransferOutput="ON_EXIT_OR_EVICT")
        await ticking(bench)
        await leave(bench, run)
        assert notes(bench.shadow.runs[run].outputs[NAME]).word == "BUTN"
        run = start(bench, disk(FOREVER, deaf=True), WhenToTransferOutput="ON_EXIT_OR_EVICT")
        await ticking(bench)
        await leave(bench, run)
        assert notes(bench.shadow.runs[run].outputs[NAME]).word == "RUN"


async def test_a_checkpointed_machine_goes_on_where_it_was_unless_it_does_not_fit() -> None:
    wants: dict[str, Any] = {"JobVMCheckpoint": True, "WhenToTransferOutput": "ON_EXIT_OR_EVICT"}
    async with vm_bench() as bench:
        run = start(bench, disk(FOREVER), **wants)
        await ticking(bench, 3)
        await leave(bench, run)
        files = bench.shadow.runs[run].outputs
        assert set(files) == {NAME, STATE, FACTS}
        run = start(bench, files[NAME], files, **wants)
        await ticking(bench, notes(files[NAME]).ticks)
        assert live(bench).boots == 1
        assert not list(bench.execute.glob(f"dir_*/scratch/{STATE}")), "what it went on from is of no more use"
        await leave(bench, run, fast=True)
        run = start(bench, files[NAME], files, **wants, JobVMMemory=48)
        await bench.eventually(lambda: live(bench).boots == 2, "it boots from its disk")
        await leave(bench, run, fast=True)
        assert "it cannot go on from its checkpoint: it was saved with 32 MiB" in bench.log()


async def test_a_machine_whose_emulator_needs_more_memory_than_it_may_is_held_as_every_job(memory_cgroup: Any) -> None:
    few = {"CGROUP_MEMORY_LIMIT_POLICY": "custom", "CGROUP_HARD_MEMORY_LIMIT_EXPR": "4"}
    async with vm_bench(SLOTWISE_VM_OVERHEAD=1, **few) as bench:
        ended = await bench.ended(start(bench, disk(FOREVER)))
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102), ended
        await nothing_is_left(bench)


async def test_nothing_is_left_of_a_machine_when_part_of_its_run_is_killed() -> None:
    async with vm_bench() as bench:
        for who in ("qemu", "supervisor", "keeper"):
            run = start(bench, disk(FOREVER))
            pid = (await bench.running(run)).pid
            await ticking(bench)
            (machine,) = emulators(bench)
            keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill({"qemu": machine, "supervisor": pid, "keeper": keeper}[who], signal.SIGKILL)
            await bench.ended(run)
            await nothing_is_left(bench)


async def test_a_restarted_starter_finds_its_machine_again() -> None:
    async with vm_bench() as bench:
        run = start(bench, disk(30 * HZ))
        ticks = await ticking(bench)
        await bench.kill_9()
        await bench.start()
        await ticking(bench, ticks)
        assert live(bench).boots == 1
        await offers(bench, VM_Memory=256 - 32)
        await leave(bench, run, fast=True)


async def test_a_host_that_cannot_start_one_says_why() -> None:
    async with starter_bench(**{**KNOBS, "SLOTWISE_VM_QEMU": "/bin/false"}) as bench:
        await bench.eventually(lambda: "there are no virtual machines" in bench.log(), "it has tried")
        facts = await bench.facts()

        async def told() -> bool:
            nonlocal facts
            facts = await bench.facts()
            return "VMOfflineReason" in facts

        await until(told, "it tells the reason")
        assert facts.eval("HasVM") is False
        assert "/bin/false" in str(facts.eval("VMOfflineReason"))
        run = start(bench, disk(2))
        ended = await bench.ended(run)
        assert "virtual machine" in ended.reason


@host.needs(host.programs("virsh", "libvirtd"))
async def test_libvirt_runs_suspends_and_ends_a_machine() -> None:
    """In a libvirt of the job's own (``qemu:///session``), under the job's account."""
    async with vm_bench(SLOTWISE_VM_DRIVER="libvirt") as bench:
        run = start(bench, disk(FOREVER), WhenToTransferOutput="ON_EXIT_OR_EVICT")
        await ticking(bench)
        assert bench.startd is not None
        bench.startd.command(run, suspend={"resume": False})
        await bench.eventually(lambda: not emulators(bench), "its memory is free")
        stood = live(bench)
        bench.startd.command(run, suspend={"resume": True})
        await ticking(bench, stood.ticks)
        await leave(bench, run)
        found = notes(bench.shadow.runs[run].outputs[NAME])
        assert (found.boots, found.word) == (1, "BUTN")
        # Saved by one run of a job, it goes on in another, whose directory has another name.
        wants: dict[str, Any] = {
            "JobVMCheckpoint": True,
            "WhenToTransferOutput": "ON_EXIT_OR_EVICT",
            "ClusterId": 77,
        }
        run = start(bench, disk(FOREVER), **wants)
        await ticking(bench, 3)
        await leave(bench, run)
        files = bench.shadow.runs[run].outputs
        assert set(files) == {NAME, STATE, FACTS}
        run = start(bench, files[NAME], files, **wants)
        await ticking(bench, notes(files[NAME]).ticks)
        assert live(bench).boots == 1
        await leave(bench, run, fast=True)
        assert not own_daemons(bench)


def own_daemons(bench: StarterBench) -> str:
    """libvirt daemons that a job of the bench has started."""
    done = subprocess.run(["pgrep", "-af", f"libvirtd.*{bench.root}"], capture_output=True, text=True, check=False)
    return done.stdout


def _over(said: str) -> str:
    """What a slot says of its machines, once it has tried."""
    return said.strip() if said.startswith("true") or not said.rstrip().endswith("undefined") else ""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """A pool whose machine offers virtual machines."""
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        knobs = {**KNOBS, "NUM_CPUS": 2, "MEMORY": 1024, "NEGOTIATOR_INTERVAL": 5, "NEGOTIATOR_CYCLE_DELAY": 1}
        made = Pool(Path(directory) / "p", "".join(f"{name} = {value}\n" for name, value in knobs.items()))
        made.up()
        try:
            words = ("status", "-af", "HasVM", "VMOfflineReason")
            made.until("the slot is advertised", lambda: made.json("status"))
            said = made.until("the probe is over", lambda: _over(made.run(*words, check=False).stdout))
            assert said.startswith("true"), said
            yield made
        finally:
            made.destroy()


def queued(pool: Pool, where: str, image: bytes, *more: str) -> tuple[str, Path]:
    """Submit a machine with this disk from a directory of its own; the job's id, and the disk."""
    place = pool.root / where
    place.mkdir()
    place.chmod(0o777)
    (place / NAME).write_bytes(image)
    lines = [
        "universe = vm", "vm_type = kvm", "vm_memory = 32", f"vm_disk = {NAME}:vda:w", "executable = counter",
        f"transfer_input_files = {NAME}", "log = log", *more, "queue",
    ]  # fmt: skip
    (place / "vm.sub").write_text("\n".join(lines) + "\n")
    return pool.run("submit", "-terse", "vm.sub", cwd=place).stdout.split()[0], place / NAME


def test_a_job_of_the_vm_universe_goes_through_a_pool(pool: Pool) -> None:
    _, image = queued(pool, "plain", disk(HZ))
    pool.until("its disk is home", lambda: notes(image.read_bytes()) == GuestNotes(1, HZ, "DONE"))
    log = (image.parent / "log").read_text
    pool.until("its end is in the log", lambda: "Normal termination (return value 0)" in log())


def test_an_evicted_machine_goes_on_from_its_checkpoint(pool: Pool) -> None:
    job, image = queued(pool, "checkpoint", disk(8 * HZ), "vm_checkpoint = true")
    log = (image.parent / "log").read_text
    pool.until("it runs", lambda: "Job executing" in log())
    scratch = list(pool.home.execute.glob(f"dir_*/scratch/{NAME}"))
    pool.until("it ticks", lambda: notes(scratch[0].read_bytes()).ticks > HZ)
    pool.run("vacate-job", job)
    pool.until("it was evicted", lambda: "Job was evicted" in log())
    pool.until("its end is in the log", lambda: "Normal termination (return value 0)" in log(), limit_s=2 * LIMIT_S)
    # The eviction took the machine's state, not only its disk: it was booted once.
    assert notes(image.read_bytes()) == GuestNotes(1, 8 * HZ, "DONE")
    assert {path.name for path in image.parent.iterdir()} == {NAME, "log", "vm.sub"}


SYSTEM = "qemu:///system"


def _domains() -> list[str]:
    """Machines in the libvirt of the host."""
    words = ["virsh", "-q", "-c", SYSTEM, "list", "--all", "--name"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()


@pytest.fixture(scope="module")
def host_libvirt() -> Iterator[None]:
    """A libvirt of the host: the one that runs, or one that is started for these tests. It sees no KVM: where that only
    interprets, libvirt tries it for minutes. Debian closes its directory of machines to the accounts of jobs."""
    machines = Path("/var/lib/libvirt/qemu")
    host.need(host.root, host.programs("virsh", "libvirtd", "virtlogd", "unshare"))
    answers = ["virsh", "-q", "-c", SYSTEM, "version"]
    if subprocess.run(answers, capture_output=True, check=False).returncode == 0:
        if not machines.stat().st_mode & 0o001:
            pytest.skip(f"the accounts of jobs cannot enter {machines} here")
        yield
        return
    with tempfile.TemporaryDirectory(prefix="sw-libvirt-") as directory:
        pids = [Path(directory, name) for name in ("virtlogd.pid", "libvirtd.pid")]
        subprocess.run(["virtlogd", "-d", "-p", str(pids[0])], check=True)
        hidden = (
            f"mount -t tmpfs -o mode=0751 tmpfs {machines} && test ! -e /dev/kvm || mount --bind /dev/null /dev/kvm; "
            f"exec libvirtd -d --pid-file {pids[1]}"
        )
        subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", hidden], check=True)
        try:
            if subprocess.run(answers, capture_output=True, check=False).returncode != 0:
                pytest.skip("libvirtd does not answer here")
            yield
        finally:
            for name in _domains():
                subprocess.run(["virsh", "-q", "-c", SYSTEM, "destroy", name], capture_output=True, check=False)
            for file in reversed(pids):
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(file.read_text()), signal.SIGTERM)


#: Set where libvirt's networks are of the test's own.
OWN_NETWORKS = "SLOTWISE_TEST_LIBVIRT_NETWORKS"
#: A libvirt that has only the network ``default`` in namespaces that nobody else sees. It finds no KVM, which it would
#: try for minutes where that only interprets. The shell is the first process, and waits for those that are left to it.
LIBVIRT_NETWORK = """
set -e
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p /run/lock
mount -t tmpfs tmpfs /mnt
cp -a /var/lib/libvirt /mnt/lib
mount --bind /mnt/lib /var/lib/libvirt
mkdir -p /mnt/dev/pts /mnt/dev/shm /mnt/dev/net
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /mnt/dev
ln -s pts/ptmx /mnt/dev/ptmx
ln -s /proc/self/fd /mnt/dev/fd
ln -s /proc/self/fd/0 /mnt/dev/stdin
mount -t devpts -o ptmxmode=0666,gid=5,mode=620 devpts /mnt/dev/pts
mount --bind /dev/shm /mnt/dev/shm
mknod /mnt/dev/net/tun c 10 200
mount --rbind /mnt/dev /dev
echo "namespaces = []" >/mnt/qemu.conf
mount --bind /mnt/qemu.conf /etc/libvirt/qemu.conf
virtlogd -d
libvirtd -d
virsh -q -c qemu:///system domcapabilities --virttype qemu >/dev/null
"$@"
"""


async def test_a_machine_is_in_libvirts_own_network(root: None, request: pytest.FixtureRequest) -> None:
    """VM_NETWORKING_TYPE = nat through the libvirt of a host is its network ``default``."""
    host.need(host.host_programs("virsh", "libvirtd", "virtlogd", "dnsmasq", "iptables", "ip", "unshare"))
    if not in_network(request, OWN_NETWORKS, LIBVIRT_NETWORK):
        return
    virsh = ["virsh", "-q", "-c", SYSTEM]
    knobs = {"SLOTWISE_VM_DRIVER": "libvirt", "SLOTWISE_VM_LIBVIRT_URI": SYSTEM}
    network = {"VM_NETWORKING": "true", "VM_NETWORKING_TYPE": "nat"}
    subprocess.run([*virsh, "net-destroy", "default"], capture_output=True, check=False)
    async with vm_bench(**knobs, **network) as bench:
        assert "no place in libvirt's network default" in str((await bench.facts()).eval("EnforcementGaps"))
        await offers(bench, VM_Networking=False)
    made = subprocess.run([*virsh, "net-start", "default"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"libvirt starts no network here: {made.stderr.strip()[-200:]}")
    async with vm_bench(**knobs, **network) as bench:
        await offers(bench, VM_Networking=True, VM_Networking_Types="nat")
        mac = "52:54:00:01:02:03"
        run = start(bench, disk(FOREVER), JobVMNetworking=True, JobVMNetworkingType="nat", JobVM_MACADDR=mac)
        await bench.running(run)
        await bench.eventually(_domains, "the machine runs")
        (name,) = _domains()
        links = subprocess.run([*virsh, "domiflist", name], capture_output=True, text=True, check=True).stdout
        assert "default" in links and mac in links
        on_it = ["ip", "-o", "link", "show", "master", "virbr0"]
        assert "vnet" in subprocess.run(on_it, capture_output=True, text=True, check=True).stdout
        await leave(bench, run, fast=True)


def _qcow2_on(backing: Path) -> bytes:
    """A disk in the form qcow2 all of whose content is that of another file."""
    cluster, name, form = 65536, os.fsencode(backing), b"raw"
    # magic, version, place and length of the name, bits of a cluster, size, no encryption, L1 table, reference counts
    head = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", 3, 136, len(name), 16, 65536, 0, 1, 3 * cluster, cluster, 1, 0, 0)
    head += struct.pack(">QQQII", 0, 0, 0, 4, 104) + struct.pack(">II", 0xE2792ACA, len(form)) + form.ljust(8, b"\0")
    head = head.ljust(136, b"\0") + name
    counts = struct.pack(">Q", 2 * cluster).ljust(cluster, b"\0") + (b"\0\1" * 4).ljust(cluster, b"\0")
    return head.ljust(cluster, b"\0") + counts + bytes(cluster)


def test_a_disk_that_refers_to_a_file_of_another_account_is_not_opened_for_a_job(
    root: None, host_libvirt: None
) -> None:
    """Whoever owns a disk can have it refer to another file after it was looked at."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o755)
        secret, overlay = Path(directory, "secret"), Path(directory, NAME)
        secret.write_bytes(disk(FOREVER))
        secret.chmod(0o600)
        overlay.write_bytes(_qcow2_on(secret))
        os.chown(overlay, 65534, 65534)
        machine = Machine("sw_refers", "kvm", 32, disks=(Disk(str(overlay), "vda", True, "qcow2"),))
        text = description(machine, BY_EMULATION, in_session=False, rights="+65534:+65534")
        status, said = virsh(SYSTEM, "create", "/dev/stdin", given=text)
        # It is not even looked at.
        assert status == 0, said
        pid = int(Path("/run/libvirt/qemu/sw_refers.pid").read_text())
        opened = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()}
        assert (Path(f"/proc/{pid}").stat().st_uid, str(overlay) in opened, str(secret) in opened) == (
            65534,
            True,
            False,
        )
        assert destroy_domain(SYSTEM, machine.name) == ""
        # Nor does it count that the account may not read it where it is.
        text = text.replace("<backingStore/>", "")
        status, said = virsh(SYSTEM, "create", "/dev/stdin", given=text)
        assert status != 0 and "Permission denied" in said, said
        assert (secret.stat().st_uid, overlay.stat().st_uid) == (0, 65534), "libvirt gives no file away"


async def test_a_machine_in_a_libvirt_of_the_host_is_suspended_and_goes_on(root: None, host_libvirt: None) -> None:
    async with vm_bench(SLOTWISE_VM_DRIVER="libvirt", SLOTWISE_VM_LIBVIRT_URI=SYSTEM) as bench:
        run = start(bench, disk(FOREVER))
        await ticking(bench)
        assert bench.startd is not None
        bench.startd.command(run, suspend={"resume": False})
        await bench.eventually(lambda: bench.startd and bench.startd.of(run, "suspended"), "it is suspended")
        await bench.eventually(lambda: not _domains(), "its memory is free")
        stood = live(bench)
        bench.startd.command(run, suspend={"resume": True})
        await ticking(bench, stood.ticks)
        assert live(bench).boots == 1, "it goes on, it does not boot"
        await leave(bench, run, fast=True)


async def test_machines_in_a_libvirt_of_the_host_do_not_collide_and_do_not_stay(root: None, host_libvirt: None) -> None:
    """Two access points may have jobs of one user and one number; a crash leaves nothing."""
    async with vm_bench(SLOTWISE_VM_DRIVER="libvirt", SLOTWISE_VM_LIBVIRT_URI=SYSTEM) as bench:
        runs = [start(bench, disk(FOREVER), ClusterId=12) for _ in range(2)]
        for run in runs:
            await bench.running(run)
        await bench.eventually(lambda: len(_domains()) == 2, "both machines run")
        assert all(name.startswith("ann_elsewhere_12.0_") for name in _domains())
        assert bench.startd is not None
        bench.startd.command(runs[0], kill={"fast": True})
        assert (await bench.ended(runs[0])).how == EVICTED
        await bench.eventually(lambda: len(_domains()) == 1, "the other one stays")
        pid = (await bench.running(runs[1])).pid
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        await bench.kill_9()
        for one in (keeper, pid):
            os.kill(one, signal.SIGKILL)
        await bench.start()
        await bench.eventually(lambda: not _domains(), "nothing stays")
