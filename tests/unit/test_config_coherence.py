"""Settings that fit their knob, and neither each other nor what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.accounts import Account
from slotwise.config import check, load, slot_accounts


def told(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "condor_config"
    file.write_text(text)
    config = load(str(file), env={})
    return [str(problem).removeprefix(f"{file}:") for problem in check(config)]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("GROUP_QUOTA_fysics = 10", "did you mean physics?"),
        ("GROUP_QUOTA_physics.cms.prod = 10", "add physics.cms.prod to GROUP_NAMES"),
        ("GROUP_QUOTA_DYNAMIC_chem.x = 0.3", "add chem.x to GROUP_NAMES"),
        ("GROUP_ACCEPT_SURPLUS_phisics.cms = true", "did you mean physics.cms?"),
        ("GROUP_AUTOREGROUP_bio = true", "add bio to GROUP_NAMES"),
        ("NEGOTIATOR.GROUP_PRIO_FACTOR_bio = 3", "add bio to GROUP_NAMES"),
    ],
)
def test_what_is_set_for_a_group_that_is_none_is_told(tmp_path: Path, line: str, hint: str) -> None:
    (problem,) = told(tmp_path, f"GROUP_NAMES = physics, physics.cms\n{line}\n")
    name = line.partition(" ")[0]
    assert problem.startswith(f"2: warning: {name} has no effect: GROUP_NAMES does not name the group ")
    assert problem.endswith(f"({hint})")


def test_groups_that_are_there_and_knobs_about_all_groups_are_right(tmp_path: Path) -> None:
    text = "GROUP_NAMES = a, a.b\nGROUP_QUOTA_A.B = 3\nGROUP_QUOTA_ROUND_ROBIN_RATE = 2\nGROUP_ACCEPT_SURPLUS = true\n"
    assert told(tmp_path, text + "GROUP_QUOTA_MAX_ALLOCATION_ROUNDS = 3\nGROUP_AUTOREGROUP_a = True\n") == []


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        ("GROUP_QUOTA_a = 0\nGROUP_QUOTA_DYNAMIC_a.b = 1", []),
        ("GROUP_QUOTA_a = -5", ["2: warning: GROUP_QUOTA_a = -5 is no quota"]),
        ("GROUP_QUOTA_DYNAMIC_a = 1.5", ["2: error: GROUP_QUOTA_DYNAMIC_a = 1.5 is out of range"]),
        ("GROUP_QUOTA_DYNAMIC_A.B = -0.1", ["2: error: GROUP_QUOTA_DYNAMIC_a.b = -0.1 is out of range"]),
        ("GROUP_QUOTA_a = 3\nGROUP_QUOTA_DYNAMIC_a = 50", []),  # the number of slots counts
        ("GROUP_QUOTA_a = many", ["2: error: GROUP_QUOTA_a must be a number"]),
        ("GROUP_QUOTA_a = 5\nGROUP_QUOTA_A.B = 5", []),
        ("GROUP_QUOTA_a = 5\nGROUP_QUOTA_A.B = 9", []),
        (
            "GROUP_QUOTA_a = 5\nGROUP_QUOTA_A.B = 9\nNEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION = false",
            ["2: warning: GROUP_QUOTA_a = 5, and the groups below a have quotas of 9"],
        ),
    ],
)
def test_quotas_that_none_can_have_are_told(tmp_path: Path, lines: str, problems: list[str]) -> None:
    found = told(tmp_path, f"GROUP_NAMES = a, a.b\n{lines}\n")
    assert [problem[: len(start)] for problem, start in zip(found, problems, strict=True)] == problems


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("SYSTEM_PERIODIC_HOLD_NAMES = A", "SYSTEM_PERIODIC_HOLD_A"),
        ("JOB_TRANSFORM_NAMES = T1 T2\nJOB_TRANSFORM_T1 @=end\nSET A 1\n@end", "JOB_TRANSFORM_T2"),
        ("SCHEDD.SUBMIT_REQUIREMENT_NAMES = Q", "SUBMIT_REQUIREMENT_Q"),
        ("STARTD_CRON_JOBLIST = PROBE", "STARTD_CRON_PROBE_EXECUTABLE"),
    ],
)
def test_names_in_lists_that_nothing_defines_are_told(tmp_path: Path, line: str, lacking: str) -> None:
    (problem,) = told(tmp_path, f"{line}\n")
    assert problem.startswith("1: warning: ") and f" has no effect for what is not defined: {lacking} (" in problem


def test_slots_of_a_type_that_nothing_describes_are_told(tmp_path: Path) -> None:
    (problem,) = told(tmp_path, "SLOT_TYPE_1 = 50%\nNUM_SLOTS_TYPE_1 = 1\nNUM_SLOTS_TYPE_2 = 1\n")
    assert problem.startswith("3: warning: NUM_SLOTS_TYPE_2 is set, and SLOT_TYPE_2 is not")


@pytest.mark.parametrize(
    ("line", "told_of"),
    [
        ("HISTORY =", "warning: DAEMON_LIST has LIBRARIAN, which has nothing to do: HISTORY is empty"),
        ("LIBRARIAN_DATABASE =", "warning: DAEMON_LIST has LIBRARIAN, which has nothing to do: LIBRARIAN_DATABASE is"),
        ("LIBRARIAN_HIGH_WATER_MARK = 1.5", "error: LIBRARIAN_HIGH_WATER_MARK = 1.5 is out of range"),
        ("LIBRARIAN_LOW_WATER_MARK = -0.1", "error: LIBRARIAN_LOW_WATER_MARK = -0.1 is out of range"),
        ("LIBRARIAN_LOW_WATER_MARK = 0.98", "error: LIBRARIAN_LOW_WATER_MARK = 0.98 is above LIBRARIAN_HIGH_WATER"),
        ("LIBRARIAN_MAX_DATABASE_SIZE = 0", "error: LIBRARIAN_MAX_DATABASE_SIZE = 0 is out of range"),
        ("LIBRARIAN_MAX_DATABASE_SIZE = 2GB", "error: LIBRARIAN_MAX_DATABASE_SIZE must be an integer"),
    ],
)
def test_a_librarian_that_cannot_work_is_told(tmp_path: Path, line: str, told_of: str) -> None:
    daemons = "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD\nuse feature : librarian\n"
    assert told(tmp_path, daemons) == []
    (problem,) = told(tmp_path, f"{daemons}{line}\n")
    assert problem.startswith(f"3: {told_of}")


def test_a_group_without_its_parent_is_told(tmp_path: Path) -> None:
    (problem,) = told(tmp_path, "GROUP_NAMES = physics, fysics.cms\n")
    assert problem.startswith("1: warning: GROUP_NAMES has fysics.cms without its parent fysics")
    assert problem.endswith("(did you mean physics?)")


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ("memory=oops", "'oops' is not a share"),
        ("cpus=half", "'half' is not a share"),
        ("swapp=3, cpus=1", "'swapp', which the machine does not have"),
        ("50", "'50' alone names no resource"),
        ("cpus=1/0", "divides by zero"),
        ("memory=2GX", "'2GX' is not a share"),
        ("cpus=150%", "'150%' is more than the machine has"),
        ("disk=5/4", "'5/4' is more than the machine has"),
    ],
)
def test_a_share_that_no_slot_can_have_is_an_error(tmp_path: Path, shares: str, why: str) -> None:
    (problem,) = told(tmp_path, f"NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = {shares}\n")
    assert problem.startswith("2: error: SLOT_TYPE_1") and why in problem


def test_shares_of_what_the_host_may_have_are_right(tmp_path: Path) -> None:
    text = "MACHINE_RESOURCE_licences = 4\nSLOT_TYPE_1 = cpus=2, mem=25%, licences=1, gpus=1\nSLOT_TYPE_2 = 1/4\n"
    assert told(tmp_path, text + "NUM_SLOTS_TYPE_1 = 1\nNUM_SLOTS_TYPE_2 = 1\n") == []


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("START = KeyboardIdl > 900", "KeyboardIdle"),
        ("START = TARGET.RequestMemmory < 1000", "RequestMemory"),
        ("PREEMPT = MY.LoadAvgg > 2", "LoadAvg"),
        ("PREEMPTION_REQUIREMENTS = MY.RemoteUserPriio > 3", "RemoteUserPrio"),
    ],
)
def test_an_attribute_that_is_nearly_a_known_one_is_told(tmp_path: Path, line: str, meant: str) -> None:
    (problem,) = told(tmp_path, f"{line}\n")
    assert problem.startswith(f"1: warning: {line.partition(' ')[0]} asks for ")
    assert problem.endswith(f"(did you mean {meant}?)")


def test_attributes_that_the_configuration_makes_are_right(tmp_path: Path) -> None:
    text = "KeyboardIdles = 3\nSTARTD_ATTRS = KeyboardIdles\nSTART = KeyboardIdles > 1 && Keyboard =?= undefined\n"
    assert told(tmp_path, text + "STARTD_JOB_ATTRS = JobUniversum\nPREEMPT = TARGET.JobUniversum == 3\n") == []


def test_accounts_of_slots_that_are_not_there_are_told(tmp_path: Path) -> None:
    known = {"toor": Account("toor", 0, 0, "/"), "ann": Account("ann", 2000, 2000, "/")}
    file = tmp_path / "condor_config"
    file.write_text("SLOT1_USER = nosuch\nSLOT2_USER = ann@here\nSLOT3_USER = toor\nSLOT1_2_USER = nobody-here\n")
    config = load(str(file), env={})
    problems = slot_accounts.problems(config, is_root=True, find=known.get)
    assert sorted(str(problem).removeprefix(f"{file}:").partition(";")[0] for problem in problems) == [
        "1: warning: SLOT1_USER = nosuch: there is no account nosuch",
        "3: warning: SLOT3_USER = toor: toor is root, as whom no job runs (name an account of this host)",
        "4: warning: SLOT1_2_USER = nobody-here: there is no account nobody-here",
    ]
    assert list(slot_accounts.problems(config, is_root=False, find=known.get)) == []
