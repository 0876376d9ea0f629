"""``classad_eval`` beside what that of HTCondor 25.14.1 printed (classad-eval.jsonl), call by call.

Behind a sentence about what is unreadable ours says where and why; HTCondor's says the sentence alone.
"""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

ANSWERS = [json.loads(line) for line in (Path(__file__).parent / "classad-eval.jsonl").read_text().splitlines()]
#: The files that the calls name.
_FILES = {
    "new.ad": "[ A = 1; B = A + 1 ]\n",
    "target.ad": "[ A = 8; C = 9 ]\n",
    "list.ad": "{\n[ A = 5; ]\n,\n[ A = 6; ]\n}\n",
    "empty.ad": "",
    "old.ad": "A = 1\nB = A + 1\n",
    "bad.ad": "[ A = = 1 ]\n",
}


def run(directory: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = dispatch(["classad_eval", *words], Invocation(directory, {}, io.StringIO(), out, err))
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: shlex.join(row["words"]))
def test_a_call_is_answered_as_by_htcondor(tmp_path: Path, row: dict[str, Any]) -> None:
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text)
    status, out, err = run(tmp_path, *row["words"])
    assert (status, out) == (row["status"], row["out"])
    assert err.startswith(row["err"]) and bool(err) == bool(row["err"])


def test_what_is_unreadable_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.ad").write_text("[ A = = 1 ]\n")
    assert "line 1, column 7" in run(tmp_path, "-file", "bad.ad", "A")[2]
    assert "line 1, column 3" in run(tmp_path, "a b c")[2]
    status, _, err = run(tmp_path, "-file", "none.ad", "A")
    assert status == 1 and "none.ad" in err


def test_help_ends_as_htcondors_does(tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "-help")
    assert (status, err) == (255, "") and "-target-file FILE" in out


def test_debug_lines_are_shown_on_request(tmp_path: Path) -> None:
    assert run(tmp_path, "debug(1 + 2)") == (0, "[  ]\n3\n", "")
    status, out, err = run(tmp_path, "-debug", "debug(1 + 2)")
    assert (status, out) == (0, "[  ]\n3\n") and "1 + 2" in err
