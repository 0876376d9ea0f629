"""What the host is, read below a root directory that the test makes up."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from slotwise.startd.fingerprint import bench, clock, cpu, disk, idle, load, memory, network, platform

CPUINFO = "\n".join(
    f"""processor\t: {n}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 167
model name\t: A Processor
cache size\t: 16384 KB
physical id\t: 0
core id\t\t: {n // 2}
flags\t\t: fpu cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave
"""
    for n in range(4)
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host of two cores with four threads, 8 GiB and Ubuntu 22.04."""
    for name, text in {
        "etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
        "proc/cpuinfo": CPUINFO,
        "proc/meminfo": "MemTotal:  8388608 kB\nSwapFree:  1024 kB\n",
        "proc/loadavg": "1.25 1.00 0.50 1/100 4242\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/memory.max": "max\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_names_are_those_of_the_reference(root: Path) -> None:
    found = platform.read(root, "x86_64")
    names = ("Arch", "OpSys", "OpSysAndVer", "OpSysMajorVer", "OpSysVer", "Microarch")
    assert {name: found[name] for name in names} == {
        "Arch": "X86_64", "OpSys": "LINUX", "OpSysAndVer": "Ubuntu22", "OpSysMajorVer": 22, "OpSysVer": 2204,
        "Microarch": "x86_64-v3",
    }  # fmt: skip
    assert platform.read(root / "nowhere", "riscv64")["Arch"] == "riscv64"


def test_threads_and_cores(root: Path) -> None:
    assert (cpu.read(root)["DetectedCpus"], cpu.read(root, count_hyperthreads=False)["DetectedCpus"]) == (4, 2)
    found = cpu.read(root)
    assert (found["CpuFamily"], found["CpuModelNumber"], found["CpuCacheSize"], found["has_avx2"]) == (
        6,
        167,
        16384,
        True,
    )
    assert "has_avx512f" not in found


def test_a_quota_of_either_version_of_cgroups_counts(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/cpu"
    group.mkdir(parents=True)
    assert cpu.limit({}, tmp_path) is None
    (group / "cpu.cfs_period_us").write_text("100000\n")
    for quota, cores in (("-1", None), ("350000", 3), ("50000", 1), ("many", None)):
        (group / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        assert cpu.limit({}, tmp_path) == cores


def test_limits_from_cgroup_and_batch_systems(root: Path) -> None:
    assert cpu.limit({}, root) == 1
    (root / "sys/fs/cgroup/cpu.max").write_text("max 100000\n")
    assert cpu.limit({}, root) is None
    assert cpu.limit({"SLURM_CPUS_ON_NODE": "3", "OMP_NUM_THREADS": "8"}, root) == 3


def test_memory_is_what_the_container_may_have(root: Path) -> None:
    assert memory.read(root) == {"DetectedMemory": 8192, "TotalVirtualMemory": 8389632}
    (root / "sys/fs/cgroup/memory.max").write_text(str(1 << 30))
    assert memory.read(root)["DetectedMemory"] == 1024


def test_load_and_its_absence(root: Path) -> None:
    assert load.read(root) == {"TotalLoadAvg": 1.25}
    assert load.read(root / "nowhere") == {"TotalLoadAvg": 0.0}


def touched(path: Path, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at, at))


def test_keys_at_terminals_of_sessions_count_others_do_not(root: Path) -> None:
    now = 10_000.0
    touched(root / "dev/tty1", now - 500)
    touched(root / "dev/pts/3", now - 20)
    touched(root / "dev/pts/4", now - 1)
    record = struct.pack("<h2xi32s4s32s256shhiii16s20s", 7, 1, b"pts/3", b"3", b"ann", b"", 0, 0, 0, 0, 0, b"", b"")
    (root / "run").mkdir()
    (root / "run/utmp").write_bytes(record)
    assert idle.read(now, 0, root=root) == {"KeyboardIdle": 20, "ConsoleIdle": 500}


def test_without_utmp_every_terminal_counts_and_the_mouse_is_the_console(root: Path) -> None:
    now = 10_000.0
    touched(root / "dev/pts/4", now - 300)
    touched(root / "dev/input/mouse0", now - 100)
    assert idle.read(now, 0, root=root) == {"KeyboardIdle": 100, "ConsoleIdle": 100}


def test_only_the_devices_that_are_named_count_as_console(root: Path) -> None:
    touched(root / "dev/tablet", 9_960)
    touched(root / "dev/mouse", 9_900)
    assert idle.read(10_000, 0, root=root) == {"KeyboardIdle": 100, "ConsoleIdle": 100}
    assert idle.read(10_000, 0, root=root, console_devices=["tablet"]) == {"KeyboardIdle": 40, "ConsoleIdle": 40}


def test_a_host_without_devices_has_been_idle_since_the_start(root: Path) -> None:
    assert idle.read(1000, 400, root=root) == {"KeyboardIdle": 600, "ConsoleIdle": 600}
    assert idle.disconnected(1000, 400) == {"KeyboardIdle": 1800, "ConsoleIdle": 1800}


def test_the_clock_begins_the_week_on_sunday() -> None:
    found = clock.read(1_700_000_000)
    assert 0 <= int(found["ClockMin"]) < 1440 and 0 <= int(found["ClockDay"]) <= 6
    assert (int(clock.read(1_700_000_000 + 86_400)["ClockDay"]) - int(found["ClockDay"])) % 7 == 1


def test_disk_network_and_benchmarks_of_this_host(tmp_path: Path) -> None:
    assert int(disk.read(tmp_path)["TotalDisk"]) > 0
    assert disk.place_of(tmp_path / "not" / "yet") == disk.place_of(tmp_path) == tmp_path
    assert disk.read(tmp_path / "nowhere") == {"TotalDisk": 0, "DetectedDisk": 0}
    assert int(disk.read(tmp_path)["DetectedDisk"]) >= int(disk.read(tmp_path)["TotalDisk"])
    assert set(network.read()) <= {"HardwareAddress", "SubnetMask"}
    found = bench.read(seconds=0.02)
    assert found is not None
    assert int(found["Mips"]) > 100 and int(found["KFlops"]) > 1000


def test_benchmarks_that_are_given_up_end_with_their_slice() -> None:
    asked: list[bool] = []

    def given_up() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    assert bench.read(seconds=3600 * bench.SLICE_S, given_up=given_up) is None
    assert asked == [False, False, True]


def test_one_bad_benchmark_does_not_mark_a_machine_as_slow() -> None:
    assert bench.averaged({}, {"Mips": 100}) == {"Mips": 100}
    assert bench.averaged({"Mips": 1000}, {"Mips": 200}) == {"Mips": 800}
