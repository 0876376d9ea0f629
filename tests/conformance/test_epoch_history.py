"""`condor_history` reads the history of runs that HTCondor 25.14 has written, and answers as it does.

Recorded of its condor_history with JOB_EPOCH_HISTORY and JOB_EPOCH_HISTORY_DIR: ``@`` stands for their directory.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Result, command

RECORDED = json.loads((Path(__file__).parent / "epoch-history.json").read_text())
_RECORD = re.compile(r".*?\n\*\*\* \w+ ClusterId=(\d+) [^\n]*\n", re.DOTALL)
#: HTCondor does not choose kinds of ads when it reads forwards.
_DIFFERENT = {"-epochs -forwards -af ClusterId RunInstanceID EpochAdType"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    (root / "epochs").write_text(RECORDED["file"])
    (root / "runs").mkdir()
    for record in _RECORD.finditer(RECORDED["file"]):
        with (root / "runs" / f"job.runs.{record[1]}.0.ads").open("a") as stream:
            stream.write(record[0])
    return root


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


async def ask(place: Path, words: list[str]) -> Result:
    knobs = {"_CONDOR_JOB_EPOCH_HISTORY": str(place / "epochs"), "_CONDOR_JOB_EPOCH_HISTORY_DIR": str(place / "runs")}
    placed = [word.replace("@", str(place)) for word in words]
    return await command(place, "condor_history", *placed, more_env=knobs)


@pytest.mark.usefixtures("utc")
async def test_answers_are_those_of_htcondor(place: Path) -> None:
    """In the order of the record: some delete files."""
    different = []
    for case in RECORDED["commands"]:
        words = case["words"]
        if " ".join(words) in _DIFFERENT:
            continue
        result = await ask(place, words)
        if (result.status, bool(result.err)) != (case["status"], bool(case["err"])):
            different.append((words, result.status, result.err))
        elif not case["status"] and result.out.split() != case["out"].split():
            different.append((words, case["out"], result.out))
    assert different == []
    assert sorted(path.name for path in (place / "runs").iterdir()) == RECORDED["left"]


async def test_kinds_are_chosen_forwards_too(place: Path) -> None:
    result = await ask(place, ["-epochs", "-forwards", "-af", "ClusterId", "EpochAdType"])
    assert result.out.split() == ["3", "EPOCH", "4", "EPOCH", "4", "EPOCH", "5", "EPOCH", "6", "EPOCH"]
