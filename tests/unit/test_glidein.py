"""What a glide-in finds out, plans and writes, without one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import asdict
from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import DeniedError
from slotwise.glidein import host
from slotwise.glidein.allotment import DAEMONS_MIB, Allotment, CgroupLimits, cgroup_limits, of
from slotwise.glidein.logs import LogFollower
from slotwise.glidein.order import Order
from slotwise.glidein.pass_file import Pass
from slotwise.glidein.plan import Schedule, Settings, configuration, job_time, quoted

NOW = 1_800_000_000.0
SLURM = {
    "SLURM_CPUS_ON_NODE": "8",
    "SLURM_MEM_PER_NODE": "16384",
    "SLURM_JOB_END_TIME": "1800003600",
    "CUDA_VISIBLE_DEVICES": "0,GPU-3f1c,NoDevFiles,1",
}
SETTINGS = Settings(pool="cm.example:9618", name="glidein-1", listen="10.0.0.7")


def test_slurm_says_what_its_job_has() -> None:
    found = of(SLURM, CgroupLimits(), 64, NOW)
    assert (found.cpus, found.memory_mib, found.gpus) == (8, 16384 - DAEMONS_MIB, 2)
    assert found.ends_at == 1800003600
    assert found.sources["memory"] == "SLURM_MEM_PER_NODE"


@pytest.mark.parametrize(
    ("env", "limits", "affinity", "cpus", "memory"),
    [
        ({}, CgroupLimits(), 4, 4, None),
        ({}, CgroupLimits(2.5, 4 << 30), 16, 2, 4096 - DAEMONS_MIB),
        ({}, CgroupLimits(0.5, 1 << 20), 16, 1, 1),
        ({"SLURM_CPUS_ON_NODE": "8", "SLURM_MEM_PER_CPU": "1000"}, CgroupLimits(), 64, 8, 8000 - DAEMONS_MIB),
        ({"SLURM_CPUS_ON_NODE": "8"}, CgroupLimits(None, 2 << 30), 2, 2, 2048 - DAEMONS_MIB),
        ({"NSLOTS": "3"}, CgroupLimits(), 64, 3, None),
        ({"PBS_NCPUS": "6", "PBS_RESOURCE_MEM": str(3 << 30)}, CgroupLimits(), 64, 6, 3072 - DAEMONS_MIB),
        ({"SLURM_CPUS_ON_NODE": "8(x2)", "SLURM_MEM_PER_NODE": "0"}, CgroupLimits(), 4, 4, None),
    ],
)
def test_the_least_of_what_several_say_counts(
    env: dict[str, str], limits: CgroupLimits, affinity: int, cpus: int, memory: int | None
) -> None:
    found = of(env, limits, affinity, NOW)
    assert (found.cpus, found.memory_mib) == (cpus, memory)


def test_a_walltime_becomes_an_end() -> None:
    assert of({"PBS_WALLTIME": "7200"}, CgroupLimits(), 1, NOW).ends_at == NOW + 7200


@pytest.mark.parametrize(("visible", "devices"), [("", 0), ("0,1", 2), ("MIG-1/2/0", 1), ("-1", 0), ("NoDevFiles", 0)])
def test_visible_devices_are_counted_as_cuda_does(visible: str, devices: int) -> None:
    assert of({"CUDA_VISIBLE_DEVICES": visible}, CgroupLimits(), 1, NOW).gpus == devices


def test_limits_of_both_versions_of_cgroups() -> None:
    two = {"/a/cpu.max": "max 100000\n", "/cpu.max": "250000 100000\n", "/a/memory.max": "max\n", "/memory.max": "5\n"}
    assert cgroup_limits(two) == CgroupLimits(2.5, 5)
    one = {
        "/c/cpu.cfs_quota_us": "-1\n",
        "/b/cpu.cfs_quota_us": "150000\n",
        "/b/cpu.cfs_period_us": "50000\n",
        "/m/memory.limit_in_bytes": "9223372036854771712\n",
    }
    assert cgroup_limits(one) == CgroupLimits(3.0, None)
    assert cgroup_limits({"/cpu.max": "", "/memory.max": "rubbish"}) == CgroupLimits()


def test_files_with_limits_are_found_up_to_the_root(tmp_path: Path) -> None:
    process = tmp_path / "cgroup"
    process.write_text("4:memory:/user/job\n3:cpu,cpuacct:/user/job\n0::/job\n")
    for place, name in (
        ("memory/user", "memory.limit_in_bytes"),
        ("cpu/user/job", "cpu.cfs_quota_us"),
        ("job", "cpu.max"),
        (".", "memory.max"),
    ):
        (tmp_path / "fs" / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / place / name).write_text("100000 50000" if name == "cpu.max" else "100000")
    found = host.cgroup_texts(process, tmp_path / "fs")
    assert cgroup_limits(found) == CgroupLimits(1.0, 100000)
    assert len(found) == 4
    assert host.cgroup_texts(tmp_path / "missing", tmp_path) == {}


def test_the_address_towards_this_host_is_the_loopback() -> None:
    assert host.address_towards("localhost", 9) in ("127.0.0.1", "[::1]")


def test_no_job_starts_and_jobs_leave_before_the_end() -> None:
    day = Schedule.until(NOW + 86400, NOW)
    assert day == Schedule(NOW + 86400 - 730, NOW + 86400 - 130, NOW + 86400)
    assert day.vacate_s == 120
    short = Schedule.until(NOW + 100, NOW)
    assert NOW < (short.drains_at or 0) < (short.vacates_at or 0) < NOW + 100
    assert Schedule.until(None, NOW) == Schedule()
    assert Schedule.until(NOW + 100, NOW, 1000).drains_at == NOW


def test_the_notice_of_the_batch_system_brings_the_end_near() -> None:
    told = Schedule.until(NOW + 86400, NOW).after_notice(NOW + 50, 30)
    assert told == Schedule(NOW + 50, NOW + 65, NOW + 80)
    assert 0 < told.vacate_s < 15
    assert Schedule().after_notice(NOW, 30).ends_at == NOW + 30
    assert Schedule.until(NOW + 20, NOW).after_notice(NOW + 10, 3600).ends_at == NOW + 20


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        ({}, 0),
        ({"AllowedExecuteDuration": 60}, 60),
        ({"AllowedJobDuration": 90, "MaxWallTimeMins": 5}, 90),
        ({"MaxWallTimeMins": 5}, 300),
        ({"AllowedExecuteDuration": "soon"}, 0),
    ],
)
def test_what_a_job_says_of_its_length(job: dict[str, int], seconds: int) -> None:
    expression = ExprTree(job_time().replace("TARGET.", ""))
    assert expression.eval(ClassAd(job)) == seconds


def test_the_configuration_says_all_and_knobs_win() -> None:
    settings = Settings(
        **{**asdict(SETTINGS), "start": 'TARGET.Owner == "ann"', "site": 'a "b" $(X)', "knobs": ("START = False",)}
    )
    lines = configuration(settings, Schedule.until(NOW + 86400, NOW)).splitlines()
    assert "COLLECTOR_HOST = cm.example:9618" in lines and "DAEMON_LIST = MASTER, STARTD" in lines
    assert 'GlideinSite = "a \\"b\\" $(DOLLAR)(X)"' in lines
    assert next(line for line in lines if line.startswith("START =")).startswith('START = (TARGET.Owner == "ann") && ')
    assert lines[-1] == "START = False"
    assert not any("GlideinEnd" in line for line in configuration(SETTINGS, Schedule()).splitlines())


def test_with_a_broker_nothing_listens() -> None:
    lines = configuration(Settings(**{**asdict(SETTINGS), "broker": "cm.example:9618"}), Schedule()).splitlines()
    assert "CCB_ADDRESS = cm.example:9618" in lines and "SHARED_PORT_PORT = 0" in lines
    assert not any(line.startswith("SLOTWISE_LISTEN") for line in lines)


def test_a_line_of_orders_comes_back_as_it_was() -> None:
    order = Order("/tmp/x", "t", SETTINGS, NOW, None, 30.0, 300.0, shows_logs=True)
    assert Order.of_text(order.text()) == order
    assert order.text().count("\n") == 1


def test_a_pass_has_token_pool_and_authorities() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"
    made = Pass("a.b.c", "cm:9618?key=K", pem + pem)
    assert Pass.of_text(made.text()) == made
    assert Pass.of_text("a.b.c\n") == Pass("a.b.c")
    assert Pass.of_text("") == Pass("") == Pass.of_text("no token")


def test_quoted_strings_are_strings_again() -> None:
    for text in ('a "b"', "back\\slash", ""):
        assert ExprTree(quoted(text)).eval(ClassAd({})) == text


def test_new_lines_of_logs_are_copied_once(tmp_path: Path) -> None:
    said: list[str] = []
    follower = LogFollower(tmp_path, said.append)
    log = tmp_path / "StartLog"
    follower.look()
    log.write_text("one\ntw")
    follower.look()
    with log.open("a") as stream:
        stream.write("o\n")
    follower.look()
    log.rename(tmp_path / "StartLog.old")
    log.write_text("three\n")
    follower.look()
    follower.look()
    assert said == ["StartLog: one", "StartLog: two", "StartLog: three"]


def test_nothing_allotted_is_nothing_said() -> None:
    assert Allotment().cpus is None
    assert of({}, CgroupLimits(), 0, NOW).sources == {}


def test_a_key_of_an_address_is_made_once_and_kept_private(tmp_path: Path) -> None:
    from slotwise.wire.address_key import AddressKey

    path = tmp_path / "address.pem"
    made = AddressKey.of_file(path)
    assert AddressKey.of_file(path).text == made.text and path.stat().st_mode & 0o077 == 0
    os.chmod(path, 0o644)  # noqa: PTH101
    with pytest.raises(DeniedError, match="others may read"):
        AddressKey.of_file(path)
    path.write_text("rubbish")
    path.chmod(0o600)
    with pytest.raises(DeniedError, match="not a key"):
        AddressKey.of_file(path)
