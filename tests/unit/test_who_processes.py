"""Which process of this host `who` takes for that of a slot's job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.cli.pool.who import Process, processes


def made(proc: Path, number: int, ad: str) -> Path:
    """A process of a job as it shows in /proc, whose job ad has this path in its own root."""
    entry = proc / str(number)
    (entry / "root" / "scratch").mkdir(parents=True)
    (entry / "cwd").symlink_to("/scratch")
    entries = {"_CONDOR_SLOT": "slot1_1", "_CONDOR_SCRATCH_DIR": "/scratch", "_CONDOR_JOB_AD": ad}
    (entry / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in entries.items()))
    return entry / "root" / "scratch"


def test_the_job_of_a_process_is_told_by_its_ad(tmp_path: Path) -> None:
    (made(tmp_path, 7, "/scratch/.job.ad") / ".job.ad").write_text('Cmd = "x"\nGlobalJobId = "ap#1.0#17"\n')
    (one,) = processes(tmp_path)
    assert one == Process(7, "slot1_1", "/scratch", "/scratch", "ap#1.0#17")
    assert one.serves(ClassAd({"Name": "slot1_1@host", "GlobalJobId": "ap#1.0#17"}))
    assert not one.serves(ClassAd({"Name": "slot1_1@host", "GlobalJobId": "other#1.0#17"})), "of another pool"
    assert not one.serves(ClassAd({"Name": "slot1_2@host", "GlobalJobId": "ap#1.0#17"}))


@pytest.mark.parametrize("what", ["absent", "relative", "pipe", "endless"])
def test_what_a_process_says_may_be_anything(tmp_path: Path, what: str) -> None:
    scratch = made(tmp_path, 7, ".job.ad" if what == "relative" else "/scratch/.job.ad")
    if what == "pipe":
        os.mkfifo(scratch / ".job.ad")
    elif what == "endless":
        (scratch / ".job.ad").symlink_to("/dev/zero")
    (one,) = processes(tmp_path)
    assert one.job == ""
    assert one.serves(ClassAd({"Name": "slot1_1@host", "GlobalJobId": "ap#1.0#17"}))
