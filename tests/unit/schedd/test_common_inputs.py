"""What the access point says of the common inputs of a job, and what it sends when."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.schedd.transfer.common_inputs import common_part, own_part, survey
from slotwise.schedd.transfer.files import FilePlan, file_plan, input_pieces


def plan(place: Path, **more: object) -> FilePlan:
    """The plan of a job of this account with two common files and one of its own."""
    values = {"ClusterId": 1, "Iwd": str(place), "TransferInput": "own", "CommonInputFiles": "big, d, http://h/x"}
    ad = ClassAd({**values, "ShouldTransferFiles": "YES", "TransferExecutable": False, **more})
    me = pwd.getpwuid(os.geteuid()).pw_name
    return file_plan(ad, me, me)


def make(place: Path) -> None:
    """The files of the jobs."""
    (place / "d").mkdir()
    for name in ("own", "big", "d/in"):
        (place / name).write_text(name)


def test_the_two_parts_are_the_whole(tmp_path: Path) -> None:
    make(tmp_path)
    whole = plan(tmp_path)
    found = survey(whole, "alice@x")
    assert found.size == len("big") + len("d/in")
    parts = [[piece.name for piece in input_pieces(part)] for part in (common_part(whole), own_part(whole, found))]
    assert parts == [["big", "d", "d/in"], ["own"]]
    assert sorted([*parts[0], *parts[1]]) == sorted(piece.name for piece in input_pieces(whole))


def test_a_digest_is_of_one_state_one_user_and_one_cluster_or_dag(tmp_path: Path) -> None:
    make(tmp_path)
    first = survey(plan(tmp_path), "alice@x").digest
    assert survey(plan(tmp_path, ProcId=7), "alice@x").digest == first
    others = {
        survey(plan(tmp_path), "bob@x").digest,
        survey(plan(tmp_path, ClusterId=2), "alice@x").digest,
        survey(plan(tmp_path, DAGManJobId=1), "alice@x").digest,
        survey(plan(tmp_path, CommonInputFiles="d, big"), "alice@x").digest,
    }
    state = (tmp_path / "big").stat()
    (tmp_path / "big").write_text("BIG")
    os.utime(tmp_path / "big", ns=(state.st_atime_ns, state.st_mtime_ns))
    others.add(survey(plan(tmp_path), "alice@x").digest)
    assert first not in others and len(others) == 5
    dag = survey(plan(tmp_path, DAGManJobId=1, ClusterId=5), "alice@x")
    assert dag == survey(plan(tmp_path, DAGManJobId=1, ClusterId=6), "alice@x")


def test_the_limit_counts_common_files_wherever_they_are(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "big").write_bytes(bytes(1 << 20))
    whole = plan(tmp_path, MaxTransferInputMB=1)
    assert own_part(whole, survey(whole, "alice@x")).max_input_mib == 0
    assert own_part(plan(tmp_path), survey(whole, "alice@x")).max_input_mib == -1
