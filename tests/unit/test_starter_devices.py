"""Which GPUs are hidden from a job, and what the machine ad says that does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from slotwise.accounts import Account
from slotwise.classad import ClassAd
from slotwise.config import load
from slotwise.errors import ConfigError
from slotwise.execution.cgroup.probe import V1_WANTED, CgroupHost
from slotwise.execution.job_view import SlotView
from slotwise.home import PoolHome
from slotwise.starter.enforcement.accounts import UserRules, account_problems
from slotwise.starter.enforcement.gpu_hiding import assigned_uuids, find_gpus, hidden
from slotwise.starter.enforcement.privilege import may_make_namespaces
from slotwise.starter.host.capabilities import assess
from slotwise.starter.settings import StarterSettings, for_slot, read_settings

FIRST, SECOND, THIRD = "GPU-6a96bd13-1111", "GPU-6a96bd13-2222", "GPU-0c0ffee0-3333"
HOST = {FIRST: (195, 0), SECOND: (195, 1), THIRD: (195, 2)}


def test_the_driver_tells_the_devices(tmp_path: Path) -> None:
    for number, uuid in enumerate((FIRST, SECOND)):
        place = tmp_path / "gpus" / f"0000:0{number}:00.0"
        place.mkdir(parents=True)
        text = f"Model: \t\t Tesla\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
        (place / "information").write_text(text)
    (tmp_path / "gpus" / "0000:09:00.0").mkdir()
    null = Path("/dev/null")
    assert find_gpus(tmp_path / "gpus", null) == {FIRST: (1, 0), SECOND: (1, 1)}
    assert find_gpus(tmp_path / "gpus", tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("mine", "gone"),
    [
        ([], [0, 1, 2]),
        ([SECOND], [0, 2]),
        (["GPU-0c0ffee0"], [0, 1]),
        (["0c0ffee0"], [0, 1]),
        ([FIRST, SECOND, THIRD], []),
        (["GPU-6a96bd13"], []),  # one of two: who knows which
        (["CUDA0"], []),
        ([SECOND, "MIG-77"], []),
    ],
)
def test_the_devices_of_others_are_hidden(mine: list[str], gone: list[int]) -> None:
    assert hidden(HOST, mine) == tuple((195, minor) for minor in gone)


def test_properties_of_a_device_tell_its_uuid() -> None:
    slot = SlotView("slot1@h", machine_resources=("GPUs",), assigned={"GPUs": "GPU-6a96bd13,CUDA1"})
    ad = ClassAd({"GPUs_GPU_6a96bd13": ClassAd({"DeviceUuid": SECOND})})
    assert assigned_uuids(slot, ad) == [SECOND, "CUDA1"]
    assert assigned_uuids(SlotView("slot1@h"), ad) == []


def settings(tmp_path: Path, text: str) -> StarterSettings:
    (tmp_path / "config").write_text(text + "\n")
    return read_settings(load(tmp_path / "config", env={}), PoolHome(tmp_path), {})


V1 = CgroupHost(1, {name: Path("/") for name in V1_WANTED}, frozenset(V1_WANTED))
V2 = CgroupHost(2, {"": Path("/")}, frozenset({"memory", "pids", "cpu", "io"}))
NONE = CgroupHost()


@pytest.mark.parametrize(
    ("text", "host", "words"),
    [
        ("", V1, None),
        ("", V2, None),
        ("CGROUP_MEMORY_LIMIT_POLICY = strict", V2, "CGROUP_MEMORY_LIMIT_POLICY strict is none of"),
        ("CGROUP_MEMORY_LIMIT_POLICY = custom", V2, "CGROUP_HARD_MEMORY_LIMIT_EXPR has no expression"),
        ("CGROUP_MEMORY_LIMIT_POLICY = soft", V2, "soft means nothing under cgroup version 2"),
        ("CGROUP_MEMORY_LIMIT_POLICY = soft", V1, None),
        ("CGROUP_LOW_MEMORY_LIMIT = 100", V1, "CGROUP_LOW_MEMORY_LIMIT has no effect"),
        ("", replace(V1, swap=False), "DISABLE_SWAP_FOR_JOB has no effect"),
        ("DISABLE_SWAP_FOR_JOB = false", replace(V1, swap=False), None),
        ("", NONE, "memory is measured"),
        ("", NONE, "limited for the account, not for each job"),
        ("CGROUP_MEMORY_LIMIT_POLICY = soft", NONE, "memory is measured"),
        ("USE_GID_PROCESS_TRACKING = true", NONE, "MIN_TRACKING_GID and MAX_TRACKING_GID name no groups"),
        ("USE_GID_PROCESS_TRACKING = true", V2, None),
        ("DEDICATED_EXECUTE_ACCOUNT_REGEXP = slot[0-9", V2, "is not a regular expression"),
        ("DEDICATED_EXECUTE_ACCOUNT_REGEXP = slot[0-9]+", V2, None),
        ('STARTER_JOB_ENVIRONMENT = "A=1 B"', V2, "STARTER_JOB_ENVIRONMENT is left out"),
    ],
)
def test_what_does_not_hold_is_told(tmp_path: Path, text: str, host: CgroupHost, words: str | None) -> None:
    gaps = assess(settings(tmp_path, text), host, root=True, volumes="").gaps
    assert (words is None and gaps == ()) or (words is not None and any(words in gap for gap in gaps)), gaps


def test_accounts_that_jobs_cannot_have_are_told() -> None:
    rules = UserRules(slot_users={"slot1": "nobody-here", "slot2": "toor", "slot3": "ann"})
    known = {"toor": Account("toor", 0, 0, "/root"), "ann": Account("ann", 1001, 1001, "/home/ann")}
    told = account_problems(rules, is_root=True, find=known.get)
    assert [fault.partition(":")[0] for fault in told] == ["SLOT1_USER", "SLOT2_USER"]
    assert account_problems(rules, is_root=False, find=known.get) == []


def test_a_refused_limit_is_told_once() -> None:
    here = assess(StarterSettings(Path("/x")), V2, root=True, volumes="")
    told = here.with_refusal("/sys/fs/cgroup/htcondor/a.slice/memory.swap.max: Invalid argument")
    assert told.gaps == (*here.gaps, "the kernel refuses memory.swap.max: Invalid argument")
    assert told.with_refusal("/sys/fs/cgroup/htcondor/b.slice/memory.swap.max: Invalid argument") is told


def test_private_directories_that_are_not_there_are_told(tmp_path: Path) -> None:
    usual = settings(tmp_path, "MOUNT_UNDER_SCRATCH = /tmp,/nowhere")
    assert usual.fixed_mounts == ("/tmp", "/nowhere")
    gaps = assess(usual, V2, root=True, volumes="", absent=("/nowhere",)).gaps
    assert gaps == ("MOUNT_UNDER_SCRATCH: there is no directory /nowhere",)


def test_what_root_cannot_isolate_is_told(tmp_path: Path) -> None:
    """Root in most containers, which has no CAP_SYS_ADMIN."""
    usual = settings(tmp_path, "MOUNT_UNDER_SCRATCH = /tmp\nUSE_PID_NAMESPACES = true")
    here = assess(usual, V2, root=True, volumes="", absent=("/nowhere",), namespaces=False)
    assert here.attributes()["HasPrivateTmp"] is False is here.attributes()["HasPidNamespaces"]
    assert here.attributes()["HasUserSwitch"] is True
    assert [gap.partition(":")[0] for gap in here.gaps] == [
        "MOUNT_UNDER_SCRATCH has no effect",
        "jobs share /dev/shm and System V memory with all others",
        "USE_PID_NAMESPACES has no effect",
    ]
    assert all(gap.endswith("root lacks CAP_SYS_ADMIN") for gap in here.gaps)


def test_the_capability_for_namespaces_is_read(tmp_path: Path) -> None:
    for held, told in (("000001fffeffffff", True), ("00000000a80425fb", False)):
        (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{held}\nCapBnd:\t{held}\n")
        assert may_make_namespaces(tmp_path / "status") is told


def test_an_expression_for_mounts_must_give_text(tmp_path: Path) -> None:
    usual = settings(tmp_path, 'MOUNT_UNDER_SCRATCH = ifThenElse(TARGET.Wants, "/tmp", "")')
    assert usual.mount_targets(ClassAd({}), ClassAd({"Wants": True})) == ("/tmp",)
    assert usual.mount_targets(ClassAd({}), ClassAd({"Wants": False})) == () == usual.fixed_mounts
    with pytest.raises(ConfigError, match="MOUNT_UNDER_SCRATCH"):
        usual.mount_targets(ClassAd({}), ClassAd({}))


def test_gpus_that_cannot_be_hidden_are_told(tmp_path: Path) -> None:
    usual = settings(tmp_path, "")
    for host, root, told in ((V1, True, True), (V2, True, False), (V2, False, True)):
        gaps = assess(usual, host, root=root, volumes="", gpus=True).gaps
        assert any("GPUs of other slots" in gap for gap in gaps) is told
    off = settings(tmp_path, "STARTER_HIDE_GPU_DEVICES = false")
    assert not any("GPUs" in gap for gap in assess(off, V1, root=True, volumes="", gpus=True).gaps)


def test_an_unknown_policy_is_the_hard_one(tmp_path: Path) -> None:
    usual = settings(tmp_path, "CGROUP_MEMORY_LIMIT_POLICY = strict")
    assert usual.cgroup.memory_policy == "hard"
    assert for_slot(usual, {"CGROUP_MEMORY_LIMIT_POLICY": "Custom"}).cgroup.memory_policy == "custom"
    assert for_slot(usual, {"CGROUP_MEMORY_LIMIT_POLICY": "whatever"}).cgroup.memory_policy == "hard"
