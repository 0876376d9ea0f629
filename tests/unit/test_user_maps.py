"""User maps and home directories from the configuration, in evaluation, in a cycle and in commands."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from slotwise.classad import UNDEFINED, ExprTree, define_user_map
from slotwise.classad.machine import (
    answer_in_thread,
    enable_user_home,
    forget_user_maps,
    keep_debug_lines,
    take_debug_lines,
)
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.config import load
from slotwise.config.classad_host import take_over
from slotwise.matchmaking.engine import Accounting, Engine, Knobs, read_long
from slotwise.matchmaking.snapshot import CycleInput

from tests.support import host

NOW = 1_800_000_000
SLOT = """Name = "slot1@h"
MyAddress = "<127.0.0.1:1>"
State = "Unclaimed"
Activity = "Idle"
Cpus = 1
Memory = 1000
Requirements = userMap("groups", TARGET.Owner, "bio") == "bio"
"""
JOB = 'ClusterId = {n}\nProcId = 0\nOwner = "{owner}"\nUser = "{owner}@pool"\nJobStatus = 1\nRequirements = true\n\n'


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    forget_user_maps()
    enable_user_home(True)
    keep_debug_lines(False)


def value(text: str) -> object:
    return ExprTree(text).eval()


def configured(where: Path, text: str) -> list[str]:
    (where / "conf").write_text(text)
    return take_over(load(where / "conf", subsystem="SCHEDD", env={}, cwd=where), "SCHEDD")


def test_maps_come_from_data_and_files(tmp_path: Path) -> None:
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "more").write_text("* carol file,two\n@include more\n")
    (tmp_path / "maps" / "main").write_text("# a comment\n@include more\n* /^d(.*)$/ x\\1\n")
    doubts = configured(
        tmp_path,
        f"""SCHEDD_CLASSAD_USER_MAP_NAMES = Trust, File Paths
STARTD_CLASSAD_USER_MAP_NAMES = Other
CLASSAD_USER_MAPDATA_Trust @=end
* bob User
* /^AL.*$/i Admin,User
sub bob inner
@end
CLASSAD_USER_MAPFILE_File = {tmp_path}/maps/main
CLASSAD_USER_MAP_PREFIX_Paths = true
CLASSAD_USER_MAPDATA_Paths = * /home/x near
CLASSAD_USER_MAPDATA_Other = * bob other
""",
    )
    assert doubts == []
    assert value('userMap("trust", "bob")') == "User"
    assert value('userMap("Trust", "alice", "user")') == "User"
    assert value('userMap("Trust.sub", "bob")') == "inner"
    assert value('userMap("Trust", "eve")') is UNDEFINED
    assert value('userMap("Trust", "eve", undefined, "none")') == "none"
    assert value('userMap("File", "carol")') == "file,two"
    assert value('userMap("File", "dave")') == "xave"
    assert value('userMap("Paths", "/home/x/y")') == "near"
    assert value('userMap("Other", "bob")') is UNDEFINED


def test_a_new_configuration_takes_the_place_of_the_old(tmp_path: Path) -> None:
    configured(tmp_path, "SCHEDD_CLASSAD_USER_MAP_NAMES = M\nCLASSAD_USER_MAPDATA_M = * a one\n")
    assert value('userMap("M", "a")') == "one"
    configured(tmp_path, "SCHEDD_CLASSAD_USER_MAP_NAMES = M\nCLASSAD_USER_MAPDATA_M = * a two\n")
    assert value('userMap("M", "a")') == "two"
    configured(tmp_path, "CLASSAD_USER_MAPDATA_M = * a two\n")
    assert value('userMap("M", "a")') is UNDEFINED


def test_faults_of_maps_are_told(tmp_path: Path) -> None:
    doubts = configured(tmp_path, "SCHEDD_CLASSAD_USER_MAP_NAMES = A B\nCLASSAD_USER_MAPFILE_A = /nowhere/at all\n")
    assert ["cannot read /nowhere" in doubts[0], "has neither" in doubts[1]] == [True, True]


def test_homes_are_looked_up_unless_forbidden(tmp_path: Path) -> None:
    assert value('userHome("root")') == "/root"
    assert value('userHome("no such user", "/d")') == "/d"
    configured(tmp_path, "CLASSAD_ENABLE_USER_HOME = false\n")
    assert value('userHome("root")') is UNDEFINED
    assert value('userHome("root", "/d")') == "/d"


def test_a_cycle_asks_the_maps_and_notices_new_ones(tmp_path: Path) -> None:
    jobs = read_long("".join(JOB.format(n=n, owner=o) for n, o in ((1, "ann"), (2, "ben"))).encode(), NOW, "job")
    slots = read_long(SLOT.encode(), NOW)
    given = CycleInput(slots, jobs, None, Knobs(), Accounting(), NOW)
    engine = Engine()

    def matched() -> list[str | None]:
        return [match.job for match in given.run(engine).matches()]

    assert matched() == []
    knobs = "SCHEDD_CLASSAD_USER_MAP_NAMES = groups\nCLASSAD_USER_MAPDATA_groups = * {} physics,bio\n"
    configured(tmp_path, knobs.format("ann"))
    assert matched() == ["1.0"]
    configured(tmp_path, knobs.format("ben"))
    assert matched() == ["2.0"]


def test_commands_read_the_maps_they_need(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("TOOL_CLASSAD_USER_MAP_NAMES = T\nCLASSAD_USER_MAPDATA_T = * a one\n")
    (tmp_path / "ad").write_text('Group = userMap("T", Owner)\nOwner = "a"\n')
    out, err = io.StringIO(), io.StringIO()
    env = {"CONDOR_CONFIG": str(tmp_path / "conf"), "SLOTWISE_HOME": str(tmp_path / "home")}
    inv = Invocation(cwd=tmp_path, env=env, stdin=io.StringIO(), stdout=out, stderr=err)
    assert dispatch(["classad", "eval", 'userMap("t", "a")'], inv) == 0
    forget_user_maps()
    assert dispatch(["classad", "eval", "--my", "ad", "--debug", "debug(Group)"], inv) == 0
    assert out.getvalue().splitlines() == ['"one"', '"one"']
    assert err.getvalue().splitlines()[-1] == "Classad debug: Group --> one"


def test_debug_tells_references_and_calls_only_to_listeners() -> None:
    expr = ExprTree("debug((x + 1 > strcat(y)) ?: a.b) || true")
    assert (expr.eval(), take_debug_lines()) == (True, [])
    keep_debug_lines(True)
    expr.eval()
    told = [line.removeprefix("Classad debug: ") for line in take_debug_lines()]
    assert told == [
        "x --> UNDEFINED",
        "y --> UNDEFINED",
        "strcat(y) --> UNDEFINED",
        "a --> UNDEFINED",
        "a.b --> UNDEFINED",
        "(x + 1 > strcat(y)) ?: a.b --> UNDEFINED",
    ]
    assert take_debug_lines() == []


def test_commands_know_user_maps_wherever_an_expression_stands(tmp_path: Path) -> None:
    """Answers of HTCondor 25.14.1 to the same files."""
    (tmp_path / "knobs").write_text(
        "TOOL_CLASSAD_USER_MAP_NAMES = t\nCLASSAD_USER_MAPDATA_t = * ann staff\n"
        "XFORM_CLASSAD_USER_MAP_NAMES = x\nCLASSAD_USER_MAPDATA_x = * ann xstaff\n"
    )
    owner = 'Owner = "ann"\nOfTool = userMap("t", Owner)\nOfXform = userMap("x", Owner)\n'
    (tmp_path / "jobs").write_text(f"ClusterId = 1\nProcId = 0\nJobStatus = 1\n{owner}")
    (tmp_path / "slots").write_text(f'MyType = "Machine"\nName = "a"\n{owner}')
    (tmp_path / "cpf").write_text('SELECT BARE\nOfTool\nuserMap("t", Owner) PRINTF "%s"\nWHERE OfTool == "staff"\n')
    rules = 'REQUIREMENTS OfXform == "xstaff"\nSET A userMap("x", Owner)\nEVALSET B userMap("x", Owner)\n'
    (tmp_path / "rules").write_text(rules + 'EVALSET C userMap("t", Owner)\nEVALMACRO m OfXform\nSET D "$(m)"\n')

    def told(*words: str) -> list[str]:
        out = io.StringIO()
        inv = Invocation(tmp_path, {"CONDOR_CONFIG": str(tmp_path / "knobs")}, io.StringIO(), out, io.StringIO())
        assert dispatch(list(words), inv) == 0, inv.stderr
        return out.getvalue().split("\n")

    assert told("q", "-jobads", "jobs", "-af", "OfTool", "OfXform") == ["staff undefined", ""]
    assert told("q", "-jobads", "jobs", "-constraint", 'OfTool == "staff"', "-af", "ClusterId") == ["1", ""]
    assert told("q", "-jobads", "jobs", "-print-format", "cpf")[-2] == "staff staff"
    assert told("status", "-ads", "slots", "-sort", "OfTool", "-af", "OfTool") == ["staff", ""]
    made = told("transform-ads", "-rules", "rules", "-long", "jobs")
    assert [line for line in made if line[:3] in ("A =", "B =", "C =", "D =")] == [
        'A = userMap("x",Owner)', 'B = "xstaff"', "C = undefined", 'D = "xstaff"'
    ]  # fmt: skip


def test_a_thread_that_runs_a_command_leaves_the_maps_of_others_alone() -> None:
    asked: list[str] = []

    def read() -> None:
        asked.append("asked")
        define_user_map("own", "* ann mine")

    define_user_map("own", "* ann everyones")
    answer_in_thread(read)
    try:
        assert not asked
        assert value('userMap("own", "ann")') == "mine"
        assert value('userMap("own", "bob")') is UNDEFINED
        with ThreadPoolExecutor(1) as other:
            assert other.submit(value, 'userMap("own", "ann")').result() == "everyones"
        assert asked == ["asked"]
    finally:
        answer_in_thread(None)
    assert value('userMap("own", "ann")') == "everyones"


@pytest.mark.parametrize(
    ("how", "said"),
    [("mode", "everybody may write"), ("pipe", "is not a file"), ("directory", "Is a directory"), ("own", "")],
)
def test_a_map_that_others_write_is_told_and_what_is_no_file_is_not_waited_for(
    tmp_path: Path, how: str, said: str
) -> None:
    file = tmp_path / "map"
    if how == "pipe":
        os.mkfifo(file)
    elif how == "directory":
        file.mkdir()
    else:
        file.write_text("* ann bio\n")
        file.chmod(0o646 if how == "mode" else 0o644)
    doubts = configured(tmp_path, f"SCHEDD_CLASSAD_USER_MAP_NAMES = groups\nCLASSAD_USER_MAPFILE_groups = {file}\n")
    assert all(said in doubt for doubt in doubts) and bool(doubts) == bool(said)


@host.needs(host.root)
def test_a_map_of_another_account_is_told(tmp_path: Path) -> None:
    file = tmp_path / "map"
    file.write_text("* ann bio\n")
    os.chown(file, 12345, 12345)
    doubts = configured(tmp_path, f"SCHEDD_CLASSAD_USER_MAP_NAMES = groups\nCLASSAD_USER_MAPFILE_groups = {file}\n")
    assert doubts == [f"user map groups: uid 12345 owns {file}, and decides what it says of all users"]
