"""Rounding, $$(), machine attributes, autoclusters, values, selections, file names."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from slotwise.classad import ClassAd, ExprTree, parse_ads
from slotwise.config import load
from slotwise.errors import ConfigError, UsageError
from slotwise.execution.environment import EnvironmentSettings, Places, build
from slotwise.execution.job_view import SlotView, read_job
from slotwise.home import PoolHome
from slotwise.schedd.jobs.autocluster import Autoclusters
from slotwise.schedd.jobs.match_substitution import UnresolvedError, filled, machine_attributes, provisioned
from slotwise.schedd.jobs.round_attrs import rounded, with_rounded
from slotwise.schedd.jobs.selection import constraint_of, single_jobs
from slotwise.schedd.jobs.values import Changes, Expr, decode, encode, literal
from slotwise.schedd.settings import read_settings
from slotwise.schedd.transfer import spooling
from slotwise.schedd.transfer.files import FilePlan, TransferError, file_plan, input_pieces
from slotwise.schedd.transfer.results import destination
from slotwise.schedd.transfer.spool_directories import Sandbox
from slotwise.schedd.user_files.owner_rights import SCHEDD
from slotwise.starter.job.ads import lookup
from slotwise.transfer.lists import parse_remaps, split_list


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (1, 1), (35, 35), (100, 100), (101, 125), (987, 1000), (1234, 1250)]
)
def test_rounding_by_a_quarter(value: int, expected: int) -> None:
    assert rounded(value) == expected
    assert rounded(expected) == expected or expected < 10


def test_rounding_to_places_keeps_the_exact_value_beside() -> None:
    assert rounded(12345, "3") == 13000
    found = with_rounded({"ImageSize": 101, "Other": 101})
    assert found == {"ImageSize": 125, "ImageSize_RAW": 101, "Other": 101}


def _filled(job: str, slot: str) -> tuple[dict[str, str], Changes]:
    (ad,), (machine,) = parse_ads(job), parse_ads(slot)
    found = filled(ad, machine)
    return {name: str(value) for name, value in found.attributes.items()}, found.kept


def test_dollar_dollar_references() -> None:
    job = 'Args = "run.$$(Arch) $$(Memory)/$$(Nope:none) $$([Memory * (2)])"\nOther = "no $ $$ here"\nN = 3\n'
    attributes, kept = _filled(job, 'Arch = "X86_64"\nMemory = 5\n')
    assert attributes == {"Args": "run.X86_64 5/none 10"}
    assert kept == {
        "MATCH_Arch": "X86_64",
        "MATCH_Memory": 5,
        "MATCH_Nope": "none",
        "MATCH_EXP_Args": "run.X86_64 5/none 10",
    }
    with pytest.raises(UnresolvedError):
        _filled('Args = "$$(Nope)"', "Memory = 5")


@pytest.mark.parametrize("name", ["CondorScratchDir", "condorscratchdir", "CondorScratchDir:/tmp"])
def test_the_starter_fills_in_the_scratch_directory(name: str) -> None:
    attributes, _ = _filled(f'Environment = "V=$$({name})/x"', "Memory = 5")
    ad = ClassAd({"Cmd": "/bin/true", "Iwd": "/", "ClusterId": 1, "ProcId": 0, **attributes})
    view = read_job(lookup(ad), "a@here")
    places = Places(scratch="/here", job_ad="", machine_ad="", iwd="/here")
    env = build(view, SlotView("slot1@h"), places, EnvironmentSettings(), home="", marker="M=1")
    assert env["V"] == "/here/x"


def test_references_are_filled_in_as_by_htcondor() -> None:
    """What 25.14.1 kept of a job: of expressions the text, not the value, and those within expressions, too."""
    recorded = json.loads((Path(__file__).parents[2] / "conformance" / "match-substitution.json").read_text())
    _, kept = _filled("\n".join(recorded["job"]), "\n".join(recorded["slot"]))
    (theirs,) = parse_ads("\n".join(recorded["kept"]))
    ours = ClassAd({name: ExprTree(literal(value)) for name, value in kept.items()})  # names without regard to case
    assert {name.lower(): str(ours.lookup(name)) for name in ours} == {
        name.lower(): str(theirs.lookup(name)) for name in theirs
    }


def test_values_of_earlier_starts_are_no_references() -> None:
    assert _filled('MATCH_EXP_Args = "$$(Memory)"\nmatch_x = "$$(Memory)"', "Memory = 5") == ({}, {})


def test_a_slot_cannot_break_out_of_the_string_that_it_fills() -> None:
    attributes, _ = _filled('A = strcat("<", "$$(Name)", ">")', 'Name = "x\\", Owner, \\""')
    assert attributes == {"A": 'strcat("<","x\\", Owner, \\"",">")'}
    job = ClassAd({"A": ExprTree('strcat("$$(Name)", "$$(Other)")'), "Owner": "me"})
    with pytest.raises(UnresolvedError, match="back-slash"):
        filled(job, ClassAd({"Name": "x\\", "Other": ", Owner) // "}))


def test_a_reference_gives_the_jobs_ad_no_lines_of_its_own() -> None:
    job = ClassAd({"Args": '$$(x\nOwner = "root" ; y:default)', "Other": "$$(Näme:default)"})
    found = filled(job, ClassAd({}))
    assert found.attributes == {"Args": "default", "Other": "default"}
    assert found.kept == {"MATCH_EXP_Args": "default", "MATCH_EXP_Other": "default"}


def test_what_a_slot_gives_is_named_after_its_resources() -> None:
    (slot,) = parse_ads(
        'MachineResources = "Cpus Memory Disk Swap GPUs"\nCpus = 2\nMemory = 10\nDisk = 7\nGPUs = 1\n'
        'AssignedGPUs = "GPU-a"'
    )
    given = provisioned(slot)
    assert given | {"AssignedMemory": None} == given
    assert {name: value for name, value in given.items() if value is not None} == {
        "CpusProvisioned": 2,
        "MemoryProvisioned": 10,
        "DiskProvisioned": 7,
        "GPUsProvisioned": 1,
        "AssignedGPUs": "GPU-a",
    }


def test_machine_attributes_move_up() -> None:
    former = {"MachineAttrCpus0": 1, "MachineAttrCpus1": 2}
    assert machine_attributes(["Cpus"], 3, former.get, lambda name: 9) == {
        "MachineAttrCpus0": 9,
        "MachineAttrCpus1": 1,
        "MachineAttrCpus2": 2,
    }


def test_autoclusters_are_void_when_the_significant_attributes_grow() -> None:
    clusters = Autoclusters()
    first = clusters.id_of("a")
    assert clusters.id_of("a") == first
    assert not clusters.learn(["requirements", "RANK"])
    assert clusters.learn(["Extra"])
    assert "Extra" in clusters.significant
    assert clusters.id_of("a") > first
    fixed = Autoclusters(replaced=["Rank"], removed=["Rank"])
    assert fixed.significant == []
    assert not fixed.learn(["Extra"])


def test_what_is_not_significant_by_itself_tells_apart_the_jobs_that_refer_to_it() -> None:
    """HTCondor's AutoClusterAttrs end in "...,MemoryUsage,ResidentSetSize" for RequestMemory over MemoryUsage."""
    clusters = Autoclusters(removed=["MemoryUsage", "ResidentSetSize"])
    assert not clusters.learn(["MemoryUsage"])  # a negotiator's word does not make it significant
    assert "memoryusage" not in clusters.watched
    first = clusters.id_of("a")
    assert clusters.refer(["MemoryUsage", "Extra"])
    assert "MemoryUsage" not in clusters.significant and "Extra" in clusters.significant
    assert {"memoryusage", "extra", "requestmemory"} <= clusters.watched
    lines = "".join(f"{name.lower()}=1\n" for name in [*clusters.significant, "MemoryUsage"])
    number = clusters.id_of(lines)
    assert number > first
    assert clusters.attrs_of(number) == ",".join([*clusters.significant, "MemoryUsage"])
    assert not clusters.refer(["memoryusage", "extra", "RequestMemory"])
    fixed = Autoclusters(replaced=["RequestMemory"])
    assert fixed.refer(["MemoryUsage"]) and not fixed.refer(["MemoryUsage", "RequestMemory"])
    assert fixed.significant == ["RequestMemory"] and "memoryusage" in fixed.watched


def test_values_as_text_and_back() -> None:
    changes: dict[str, Any] = {"A": 1, "B": 2.5, "C": 'say "x"\n', "D": Expr("A + 1"), "E": True, "F": None}
    assert decode(encode(changes)) == changes
    assert isinstance(decode(encode(changes))["D"], Expr)
    assert literal(3.0) == "3.0"


def test_selections_as_constraints() -> None:
    assert constraint_of([], [], "") == ""
    assert constraint_of(["3", "4.1"], ["al"], "X > 1") == (
        '(ClusterId == 3 || (ClusterId == 4 && ProcId == 1)) && (Owner == "al") && (X > 1)'
    )
    many = [str(number) for number in range(9)]
    assert constraint_of([*many, "3", "9.1"], [], "") == (
        "(member(ClusterId, {0, 1, 2, 3, 4, 5, 6, 7, 8}) || (ClusterId == 9 && ProcId == 1))"
    )
    with pytest.raises(UsageError):
        constraint_of(["4.x"], [], "")


def test_ids_of_single_jobs() -> None:
    assert single_jobs(["10.0", "9.11", "9.2", "9.2"]) == ["9.2", "9.11", "10.0"]
    assert single_jobs(["9.2", "10"]) is None and single_jobs([]) is None
    with pytest.raises(UsageError):
        single_jobs(["4.x"])


def test_remaps_and_lists() -> None:
    assert parse_remaps("a=b; c = d/e ;f\\=g=h\\;i") == {"a": "b", "c": "d/e", "f=g": "h;i"}
    assert split_list(" a, b/,,c d ") == ("a", "b/", "c d")


PLAN = FilePlan(
    owner="root",
    iwd="/home/u",
    stdout="logs/out",
    stderr="/abs/err",
    remaps={"r": "moved/r", "d": "dir2", "url": "https://x/y"},
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_condor_stdout", "/home/u/logs/out"),
        ("_condor_stderr", "/abs/err"),
        ("/abs/err", "/abs/err"),
        ("plain", "/home/u/plain"),
        ("r", "/home/u/moved/r"),
        ("d/inner", "/home/u/dir2/inner"),
        ("url", None),
    ],
)
def test_where_results_go(name: str, expected: str | None) -> None:
    assert destination(PLAN, name) == expected


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x"])
def test_results_do_not_leave_the_directory(name: str) -> None:
    with pytest.raises(TransferError):
        destination(PLAN, name)


def test_the_directories_of_jobs_that_have_left_are_removed(tmp_path: Path) -> None:
    for name in ("1/0", "1/0.new", "2/0", "2/1.new", "3"):
        (tmp_path / name).mkdir(parents=True)
    os.utime(tmp_path / "3", (0, 0))
    spooling._sweep(tmp_path, lambda cluster, proc: cluster == "1" and proc.partition(".")[0] == "0")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["1", "1/0", "1/0.new", "2"]


@pytest.mark.parametrize("step", ["a quarter", "25 %", "-1", "1001%", "3.5"])
def test_a_rounding_that_means_nothing_is_refused(tmp_path: Path, step: str) -> None:
    file = tmp_path / "config"
    file.write_text(f"SCHEDD_ROUND_ATTR_ImageSize = {step}\n")
    config = load(str(file), subsystem="SCHEDD", env={}, home=PoolHome(tmp_path))
    with pytest.raises(ConfigError, match=r"config, line 1: SCHEDD_ROUND_ATTR_ImageSize = "):
        read_settings(config, "h", tmp_path)


def test_a_container_image_that_is_a_directory_is_sent_as_itself(tmp_path: Path) -> None:
    for name in ("sub/image/bin/sh", "data/one"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    image = {"ContainerImage": "image", "ContainerImageFullPath": "sub/image/"}
    ad = {"Iwd": str(tmp_path), "TransferExecutable": False, "TransferInput": "data/,sub/image/", **image}

    def names(**more: str) -> set[str]:
        plan = replace(file_plan(ClassAd({**ad, **more}), "", ""), owner=SCHEDD)
        return {piece.name for piece in input_pieces(plan) if not piece.directory}

    assert names() == {"one", "image/bin/sh"}
    assert names(ContainerImageFullPath="/elsewhere/other/", ContainerImage="other") == {"one", "bin/sh"}
    (tmp_path / "image" / "bin").mkdir(parents=True)
    (tmp_path / "image" / "bin" / "ls").write_text("x")
    assert names(TransferInput="image/") == {"image/bin/ls"}, "as it is spooled"
    assert names(TransferInput="data/,sub/image//", ContainerImageFullPath="sub/image//") == {"one", "image/bin/sh"}
    (tmp_path / "latest").symlink_to("sub/image")
    for name in ("latest", "latest/", f"{tmp_path}/latest/"):
        linked = {"TransferInput": name, "ContainerImage": "latest", "ContainerImageFullPath": name}
        assert names(**linked) == {"latest/bin/sh"}


@pytest.mark.parametrize("given", ["deep", "deep/"])
def test_directories_that_are_nested_too_deep_hold_the_job(tmp_path: Path, given: str) -> None:
    place = tmp_path / "deep"
    for _ in range(6):
        place = place / "/".join(["d"] * 100)
        place.mkdir(parents=True)
    (place / "file").write_text("x")
    ad = ClassAd({"Iwd": str(tmp_path), "Cmd": "/bin/true", "TransferExecutable": False, "TransferInput": given})
    plan = replace(file_plan(ad, "", ""), owner=SCHEDD)
    with pytest.raises(TransferError, match="more than 256 directories deep") as raised:
        list(input_pieces(plan))
    assert (raised.value.hold_code, raised.value.subcode) == (13, errno.ENAMETOOLONG)


def test_names_with_too_many_directories_are_not_taken(tmp_path: Path) -> None:
    name = "d/" * 300 + "file"
    with pytest.raises(TransferError, match="more than 256 directories deep"):
        destination(file_plan(ClassAd({"Iwd": str(tmp_path)}), "", ""), name)
    with pytest.raises(UsageError, match="more than 256 directories deep"):
        Sandbox(str(tmp_path), SCHEDD)._inside(name)
