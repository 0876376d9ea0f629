"""DAG files that HTCondor's runner refuses, and the lines that it logs then. Recorded with HTCondor 25.14.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slotwise.dag import reading

CASES = [json.loads(line) for line in (Path(__file__).with_name("dags") / "refused.jsonl").read_text().splitlines()]
#: What the recording keeps of a log.
_KEPT = ("ERROR", "Error", "WARNING", "Warning", "Processing error", "Failed to parse", "DAG marked")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_first_error_is_logged_as_by_htcondor(case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text)
    dag = reading.read(["x.dag"], reading.ReadOptions(str(tmp_path)))
    first = next(problem for problem in reading.problems(dag) if problem.severity == "error")
    logged = [line.replace(str(tmp_path), "@WORK@") for line in first.log if line.startswith(_KEPT)]
    assert logged == case["messages"]
