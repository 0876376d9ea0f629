"""Submit commands and the job ads that HTCondor makes of them (25.14.1, taken by way of its library).

``submit-ads.json``: the ad of ``executable = prog`` alone, and for each case the commands beside it and the attributes
that differ then; null for one that is gone. ``@DIR@`` is the directory of the submission. Those of the VM universe are
what ``condor_submit -dry-run`` writes.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd
from slotwise.config import Config, load
from slotwise.errors import SubmitError
from slotwise.submit import parse

SAMPLE = json.loads(Path(__file__).with_name("submit-ads.json").read_text())
ENV = {"HOME": "/home/alice", "PATH": "/bin", "FOO": "b a r"}
#: Ids, versions and hosts: what no two pools have in common.
OWN = {
    *("ClusterId", "ProcId", "CondorPlatform", "CondorVersion", "SubmitVersion", "FileSystemDomain"),
    *("JobSubmitMethod", "JobSubmitFile", "Owner", "RootDir", "NumShadowStarts"),
}
#: Old execution points of HTCondor take no RequestDisk; there are none here.
VERSION_CLAUSE = '(versionGE(split(TARGET.CondorVersion)[1],"25.12.0")||(TARGET.Disk>=RequestDisk))'

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the ads name the architecture X86_64")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return load("/dev/null", env={}, cwd=tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("submit")
    (place / "in.txt").write_text("x" * 5000)
    (place / "prog").write_text("#!/bin/sh\n")
    (place / "d" / "e").mkdir(parents=True)
    (place / "d" / "f").write_text("y" * 3000)
    return place


def plain(text: str) -> str:
    """An expression without blanks and without what only HTCondor needs."""
    return text.replace(" ", "").replace(VERSION_CLAUSE, "(TARGET.Disk>=RequestDisk)")


def job_of(commands: list[list[str]], directory: Path, config: Config) -> ClassAd:
    lines = [f"{key} = {value}" for key, value in [["executable", "prog"], *commands]]
    text = "\n".join([*lines, "queue", ""])
    made = parse(text, cwd=directory, env=ENV, owner="alice", now=1_700_000_000, config=config, check_files=False)
    return made.clusters[0].job(0)


@pytest.mark.parametrize("case", SAMPLE["cases"], ids=lambda case: "; ".join(" = ".join(c) for c in case["commands"]))
def test_ad(case: dict[str, Any], directory: Path, config: Config) -> None:
    if case.get("refused"):
        with pytest.raises(SubmitError):
            job_of(case["commands"], directory, config)
        return
    job = job_of(case["commands"], directory, config)
    expected = {**SAMPLE["base"], **case["changes"]}
    got = {name: plain(str(job.lookup(name)).replace(str(directory), "@DIR@")) for name in job if name not in OWN}
    assert got == {name: plain(text) for name, text in expected.items() if text is not None}


@pytest.mark.parametrize("vm_type", ["", "hyperv"])
def test_a_virtual_machine_of_no_kind_is_refused(vm_type: str, directory: Path, config: Config) -> None:
    """HTCondor queues it, and no slot ever matches."""
    commands = [["universe", "vm"], ["vm_type", vm_type], ["vm_memory", "512"], ["vm_disk", "disk.img:vda:w"]]
    with pytest.raises(SubmitError, match="vm_type"):
        job_of(commands, directory, config)
