"""``condor_q -better-analyze`` and its kin over files of ads, beside what HTCondor's tool prints of the same files.

``analyze/files.json`` has the files, ``analyze/analyze.jsonl`` what condor_q of HTCondor 25.14.1 printed.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

HERE = Path(__file__).parent / "analyze"
#: Where the answers may differ, and why.
ACCEPTED = {
    "-better-analyze -jobads two.job -slotads slots.ads": "HTCondor counts a drained machine again for each job before",
}


def rows() -> list[dict[str, object]]:
    return [json.loads(line) for line in (HERE / "analyze.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files, and times as in the place of the record."""
    made = tmp_path_factory.mktemp("analyze")
    for name, text in json.loads((HERE / "files.json").read_text()).items():
        (made / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield made
    time.tzset()


def _answer(words: list[str], directory: Path) -> tuple[str, str, int]:
    out, err = io.StringIO(), io.StringIO()
    env = {"TZ": "UTC", "CONDOR_CONFIG": "/dev/null", "SLOTWISE_HOME": str(directory / "home"), "HOME": str(directory)}
    status = dispatch(["condor_q", *words], Invocation(directory, env, io.StringIO(), out, err))
    return out.getvalue(), err.getvalue(), status


def _masked(text: str) -> str:
    return re.sub(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d", "TIME", text)


def test_files_are_analyzed_as_htcondor_analyzes_them(directory: Path) -> None:
    different = []
    for row in rows():
        words = row["words"]
        assert isinstance(words, list)
        out, err, status = _answer(words, directory)
        told = (_masked(str(row["out"])), row["err"], row["status"])
        if (_masked(out), err, status) != told and " ".join(words) not in ACCEPTED:
            different.append(f"== {words}\n-- HTCondor: {told}\n-- ours:     {(out, err, status)}")
    assert not different, "\n".join(different)


def test_accepted_differences_are_differences(directory: Path) -> None:
    told = {" ".join(map(str, row["words"])): row for row in rows()}  # type: ignore[call-overload]
    for words in ACCEPTED:
        assert _answer(words.split(), directory)[0] != told[words]["out"]
