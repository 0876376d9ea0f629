"""What is found out about control groups, and what a job gets."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from slotwise.execution.cgroup.plan import CgroupRules, find_leftovers, group_name, memory_limit_mib, plan
from slotwise.execution.cgroup.probe import CgroupHost, probe
from slotwise.execution.keeper_spec import CgroupPlan

V1 = CgroupHost(
    1,
    {name: Path(f"/cg/{name}/htcondor") for name in ("memory", "cpu", "cpuacct", "freezer", "pids")},
    frozenset({"memory", "cpu", "cpuacct", "freezer", "pids"}),
)
V2 = CgroupHost(2, {"": Path("/cg/htcondor")}, frozenset({"memory", "pids", "cpu", "io"}))


def made(host: CgroupHost, rules: CgroupRules, memory_mib: int = 100, cpus: float = 2) -> dict[str, str]:
    found = plan(host, rules, name="job", cpus=cpus, memory_mib=memory_mib, user=True)
    return {setting.path: setting.value for setting in found.settings}


@pytest.mark.parametrize(
    ("policy", "hard", "limit"),
    [("hard", None, 100), ("custom", 7, 7), ("custom", None, None), ("soft", None, None), ("none", None, None)],
)
def test_each_policy_gives_its_limit(policy: str, hard: int | None, limit: int | None) -> None:
    rules = CgroupRules(memory_policy=policy, hard_mib=hard)
    assert memory_limit_mib(rules, 100) == limit
    settings = made(V2, rules)
    assert settings.get("/cg/htcondor/job.slice/memory.max") == (None if limit is None else str(limit << 20))
    settings = made(V1, rules)
    assert settings.get("/cg/memory/htcondor/job/memory.limit_in_bytes") == (
        None if limit is None else str(limit << 20)
    )


def test_swap_goes_with_the_memory_limit_only() -> None:
    assert made(V2, CgroupRules())["/cg/htcondor/job.slice/memory.swap.max"] == "0"
    assert made(V1, CgroupRules())["/cg/memory/htcondor/job/memory.memsw.limit_in_bytes"] == str(100 << 20)
    for rules in (CgroupRules(disable_swap=False), CgroupRules(memory_policy="none")):
        assert not any("swap" in path or "memsw" in path for host in (V1, V2) for path in made(host, rules))


def test_shares_and_counts() -> None:
    rules = CgroupRules(max_processes=9, low_mib=3)
    v1, v2 = made(V1, rules), made(V2, rules)
    assert v1["/cg/cpu/htcondor/job/cpu.shares"] == v2["/cg/htcondor/job.slice/cpu.weight"] == "200"
    assert v1["/cg/pids/htcondor/job/pids.max"] == v2["/cg/htcondor/job.slice/pids.max"] == "9"
    assert v2["/cg/htcondor/job.slice/memory.low"] == str(3 << 20)
    assert v2["/cg/htcondor/job.slice/memory.oom.group"] == "1"


def test_a_missing_memory_limit_forbids_the_run_other_limits_are_reported() -> None:
    for host in (V1, V2):
        found = plan(host, CgroupRules(max_processes=1), name="job", cpus=1, memory_mib=1, user=True)
        required = {Path(s.path).name for s in found.settings if s.required}
        assert required <= {"memory.max", "memory.limit_in_bytes"} and len(required) == 1


def test_places_of_version_2() -> None:
    found = plan(V2, CgroupRules(), name="job", cpus=1, memory_mib=1, user=True)
    assert found.make == ("/cg/htcondor/job.slice", "/cg/htcondor/job.slice/job.scope")
    assert found.join == found.own == ("/cg/htcondor/job.slice/job.scope",)
    assert found.freezer == found.memory == "/cg/htcondor/job.slice"


def test_without_cgroups_there_is_no_plan() -> None:
    assert plan(CgroupHost(), CgroupRules(), name="j", cpus=1, memory_mib=1, user=True) == CgroupPlan()


def test_names_are_the_slot_s_alone() -> None:
    assert group_name("/var/lib/x", "slot1_2@h") == "_var_lib_x_slot1_2@h"


def test_leftovers_are_of_this_execute_only(tmp_path: Path) -> None:
    host = CgroupHost(2, {"": tmp_path}, frozenset({"memory"}))
    ours = ["slot1@h.slice", "slot12_34@h.slice"]
    others = ["b_slot1_1@h.slice", "2_slot1@h.slice", "slot1_slot2@h.slice", "x"]
    for name in ours + others:
        (tmp_path / f"_scratch_{name}").mkdir()
    (tmp_path / "_other_slot1@h.slice").mkdir()
    found = {path.name for path in find_leftovers(host, Path("/scratch"))}
    assert found == {f"_scratch_{name}" for name in ours}
    (tmp_path / "_scratch_my_node3@h.slice").mkdir()
    assert [path.name for path in find_leftovers(host, Path("/scratch"), "my_node")] == ["_scratch_my_node3@h.slice"]


def test_devices_are_denied_by_file_or_by_program() -> None:
    rules = CgroupRules(deny=((195, 0), (195, 2)))
    first = CgroupHost(1, {**V1.bases, "devices": Path("/cg/devices/htcondor")}, V1.controllers)
    found = plan(first, rules, name="job", cpus=1, memory_mib=1, user=True)
    assert [s.value for s in found.settings if s.path == "/cg/devices/htcondor/job/devices.deny"] == [
        "c 195:0 rwm",
        "c 195:2 rwm",
    ]
    assert "/cg/devices/htcondor/job" in found.join
    assert plan(V2, rules, name="job", cpus=1, memory_mib=1, user=True).deny == rules.deny
    # Nothing to hide: no group for it.
    assert not any(
        "devices" in path for path in plan(first, CgroupRules(), name="j", cpus=1, memory_mib=1, user=True).make
    )


def tree(root: Path, *, v2: str = "", v1: tuple[str, ...] = ()) -> tuple[Path, Path]:
    """Mounts and own groups of a pretended host; plain directories take the place of cgroup file systems."""
    lines = []
    if v2:
        top = root / "unified"
        top.mkdir()
        (top / "cgroup.controllers").write_text(v2)
        (top / "cgroup.subtree_control").write_text("")
        (top / "htcondor").mkdir()
        (top / "htcondor" / "cgroup.controllers").write_text(v2)
        (top / "htcondor" / "cgroup.subtree_control").write_text(v2)
        lines.append(f"cgroup2 {top} cgroup2 rw 0 0")
    for controller in v1:
        (root / controller).mkdir()
        lines.append(f"cgroup {root / controller} cgroup rw,{controller} 0 0")
    mounts, own = root / "mounts", root / "own"
    mounts.write_text("\n".join(lines))
    own.write_text("4:memory:/x\n0::/\n")
    return mounts, own


def as_the_kernel_writes(path: Path, text: str) -> None:
    """A write of ``+name`` adds to what subtree_control reads."""
    path.write_text(f"{path.read_text()} {text.removeprefix('+')}")


def test_version_2_when_it_has_memory_and_pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotwise.execution.cgroup.probe._write", as_the_kernel_writes)
    mounts, own = tree(tmp_path, v2="cpu memory pids", v1=("memory", "freezer"))
    found = probe("htcondor", is_root=True, mounts=mounts, own=own)
    assert found.version == 2
    assert found.controllers == {"cpu", "memory", "pids"}
    assert any("io" in problem for problem in found.problems)


def test_version_1_when_version_2_has_no_controllers(tmp_path: Path) -> None:
    mounts, own = tree(tmp_path, v2="hugetlb", v1=("memory", "freezer"))
    found = probe("htcondor", is_root=True, mounts=mounts, own=own)
    assert found.version == 1 and found.controllers == {"memory", "freezer"}
    assert any("cpu is not mounted" in problem for problem in found.problems)
    assert (tmp_path / "memory" / "htcondor").is_dir()


def test_a_base_that_begins_with_a_slash_is_below_the_root_wherever_the_starter_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotwise.execution.cgroup.probe._write", as_the_kernel_writes)
    mounts, own = tree(tmp_path, v2="cpu memory pids", v1=("memory",))
    own.write_text("4:memory:/x\n0::/system.slice/slotwise.service\n")
    unit = tmp_path / "unified" / "system.slice" / "slotwise-jobs.service"
    for level in (unit.parent, unit, unit / "jobs"):
        level.mkdir()
        (level / "cgroup.controllers").write_text("cpu memory pids")
        (level / "cgroup.subtree_control").write_text("")
    found = probe("/system.slice/slotwise-jobs.service/jobs", is_root=True, mounts=mounts, own=own)
    assert found.version == 2 and found.bases[""] == unit / "jobs"
    assert not (tmp_path / "unified" / "system.slice" / "slotwise.service").exists()
    first = probe("/system.slice/slotwise-jobs.service/jobs", is_root=True, version="1", mounts=mounts, own=own)
    assert first.bases["memory"] == tmp_path / "memory" / "system.slice" / "slotwise-jobs.service" / "jobs"


def below_a_group_that_hands_down(root: Path, handed: str) -> tuple[Path, Path, Path]:
    """A starter in a group of version 2 whose parent hands only some of its controllers down, as an init of a virtual
    machine or a container has it; and what the kernel shows below that when it is told to hand down more."""
    mounts, own = tree(root, v2="cpu io memory pids")
    shutil.rmtree(root / "unified" / "htcondor")
    own.write_text("0::/init/session\n")
    top = root / "unified" / "init" / "session"
    for level, offered in ((top.parent, "cpu io memory pids"), (top, handed), (top / "htcondor", "")):
        level.mkdir()
        (level / "cgroup.controllers").write_text(offered)
        (level / "cgroup.subtree_control").write_text("")
    (top.parent / "cgroup.subtree_control").write_text(handed)
    return mounts, own, top


def as_the_kernel_hands_down(path: Path, text: str) -> None:
    as_the_kernel_writes(path, text)
    for below in path.parent.glob("*/cgroup.controllers"):
        below.write_text(f"{below.read_text()} {text.removeprefix('+')}")


def test_root_has_the_groups_above_hand_controllers_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotwise.execution.cgroup.probe._write", as_the_kernel_hands_down)
    mounts, own, top = below_a_group_that_hands_down(tmp_path, "memory")
    found = probe("htcondor", is_root=True, mounts=mounts, own=own)
    assert (found.version, found.bases[""], found.problems) == (2, top / "htcondor", ())
    assert found.controllers == {"cpu", "io", "memory", "pids"}
    assert (top.parent / "cgroup.subtree_control").read_text().split() == ["memory", "pids", "cpu", "io"]


def test_what_is_not_handed_down_is_named_and_the_rest_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts, own, top = below_a_group_that_hands_down(tmp_path, "memory")

    def refuses(path: Path, text: str) -> None:
        if path.parent == top.parent:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        as_the_kernel_hands_down(path, text)

    monkeypatch.setattr("slotwise.execution.cgroup.probe._write", refuses)
    found = probe("htcondor", is_root=True, mounts=mounts, own=own)
    assert found.version == 2 and found.controllers == {"memory"}
    assert f"cgroup v2: {top.parent} does not hand down pids: Device or resource busy" in found.problems
    # Without root the groups above are none of ours.
    monkeypatch.setattr("slotwise.execution.cgroup.probe._write", as_the_kernel_hands_down)
    user = probe("htcondor", is_root=False, without_root=True, mounts=mounts, own=own)
    assert user.controllers == {"memory"} and "pids" not in (top.parent / "cgroup.subtree_control").read_text()


def test_a_group_whose_processes_fork_while_they_are_moved_is_emptied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts, own, top = below_a_group_that_hands_down(tmp_path, "cpu io memory pids")
    (top / "cgroup.type").write_text("domain")
    (top / "cgroup.procs").write_text("100")
    forks = iter(["101", "102 103"])

    def forking(path: Path, text: str) -> None:
        if path == top / "cgroup.subtree_control" and (top / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if path.name == "cgroup.procs":
            there = (top / "cgroup.procs").read_text().split()
            there.remove(text)
            (top / "cgroup.procs").write_text(" ".join(there) or next(forks, ""))
        else:
            as_the_kernel_hands_down(path, text)

    monkeypatch.setattr("slotwise.execution.cgroup.probe._write", forking)
    found = probe("htcondor", is_root=True, mounts=mounts, own=own)
    assert found.controllers == {"cpu", "io", "memory", "pids"} and not found.problems


def test_version_by_request(tmp_path: Path) -> None:
    mounts, own = tree(tmp_path, v2="hugetlb", v1=("memory",))
    assert probe("htcondor", is_root=True, version="2", mounts=mounts, own=own).version == 2
    assert probe("htcondor", is_root=True, version="none", mounts=mounts, own=own).version == 0


def test_without_root_only_when_allowed(tmp_path: Path) -> None:
    mounts, own = tree(tmp_path, v1=("memory",))
    refused = probe("htcondor", is_root=False, mounts=mounts, own=own)
    assert refused.version == 0 and "CREATE_CGROUP_WITHOUT_ROOT" in refused.problems[0]
    (tmp_path / "memory" / "x").mkdir()
    found = probe("htcondor", is_root=False, without_root=True, mounts=mounts, own=own)
    assert found.bases["memory"] == tmp_path / "memory" / "x" / "htcondor"


def test_a_host_without_cgroups_says_so(tmp_path: Path) -> None:
    mounts, own = tree(tmp_path)
    found = probe("htcondor", is_root=True, mounts=mounts, own=own)
    assert found.version == 0 and found.problems
