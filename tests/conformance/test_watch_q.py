"""`watch-q` on recorded logs, beside what HTCondor 25.14.1 printed, 100 columns wide (userlogs/watched.jsonl)."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

LOGS = Path(__file__).parent / "userlogs"
ANSWERS = [json.loads(line) for line in (LOGS / "watched.jsonl").read_text().splitlines()]


def _run(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    env = {"COLUMNS": "100", "SLOTWISE_HOME": str(tmp_path / "no-pool"), "USER": "nobody"}
    status = dispatch(list(words), Invocation(LOGS, env, io.StringIO(), out, err))
    return status, out.getvalue(), err.getvalue()


def _compared(text: str) -> list[str]:
    """The lines, without moments and what stands on standard error; paths without their directories."""
    text = re.sub(r"\x1b\[\d+m\x1b\[0m", "", text)  # nothing, in a colour
    text = re.sub(r" at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", "", text, flags=re.M)
    return [line for line in text.splitlines() if not re.match(r"(WARNING|ERROR|.* \| ERROR):", line)]


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: shlex.join(row["words"]))
def test_jobs_are_followed_as_htcondor_does(row: dict[str, str], tmp_path: Path) -> None:
    status, out, err = _run(tmp_path, *row["words"])
    theirs = row["out"]
    if "error: " in theirs:  # HTCondor's argument parser ends with 2, and the tool with 1 where it gives advice
        assert status == 1
        sentence = theirs.partition("error: ")[2].strip().replace("{{", "{").replace("}}", "}")
        assert sentence in err.replace("{{", "{").replace("}}", "}")
        return
    assert status == int(row["status"])
    assert _compared(out) == _compared(theirs)
    for line in theirs.splitlines():
        if line.startswith("ERROR: Use of"):
            assert line in err


def test_groups_for_programs(tmp_path: Path) -> None:
    status, out, _ = _run(tmp_path, "watch-q", "-json", "-files", "states.log", "-groupby", "cluster")
    first, *others = json.loads(out)
    assert status == 0
    assert first == {
        "Name": "20", "Clusters": [20], "Total": 12, "REMOVED": 1, "HELD": 1, "SUSPENDED": 1, "IDLE": 4, "INPUT": 1,
        "RUN": 2, "OUTPUT": 1, "DONE": 1,
    }  # fmt: skip
    assert [row["Name"] for row in others] == ["21", "22"]


def test_a_name_neither_ends_its_line_nor_turns_it_round_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\r\n\u202eb.log"
    path.write_text((LOGS / "states.log").read_text())
    out, err = io.StringIO(), io.StringIO()
    env = {"COLUMNS": "300", "SLOTWISE_HOME": str(tmp_path / "no-pool"), "USER": "nobody"}
    inv = Invocation(tmp_path, env, io.StringIO(), out, err, is_terminal=True, width=300)
    assert dispatch(["watch-q", "-files", str(path), "-groupby", "log", "-exit", "any,idle"], inv) in (0, 1)
    assert "a\\r\\n\\u202eb.log" in out.getvalue() and "\u202e" not in out.getvalue()
