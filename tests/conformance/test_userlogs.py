"""`userlog` and `check-userlogs` on recorded logs, beside what HTCondor 25.14.1 printed (userlogs/answers.jsonl).

Two things differ. The sums of jobs that HTCondor's condor_userlog prints are 0 always, because it adds to copies; ours
are sums. For a log that cannot be opened, and for an entry that is not finished, HTCondor's condor_check_userlogs
prints messages of its internals on standard error.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

LOGS = Path(__file__).parent / "userlogs"
ANSWERS = [json.loads(line) for line in (LOGS / "answers.jsonl").read_text().splitlines()]
#: A line of sums by job, or the total, all of it 0.
_SUM = re.compile(r"^(\d+\.\d+|Total) +0\+00:00   0\+00:00   0\+00:00   0\+00:00   0\+00:00    0\.0%   0\.0%$", re.M)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = dispatch(list(words), Invocation(LOGS, {}, io.StringIO(), out, err))
    return status, out.getvalue(), err.getvalue()


def _without_sums(text: str) -> str:
    """The text with the sums by job cut down to their names."""
    head, mark, tail = text.partition("Host/Job")
    lines = tail.split("\n\n")
    if mark and len(lines) > 2:
        tail = "\n\n".join([*lines[:2], *(re.sub(r"^(\S+) .*$", r"\1", part, flags=re.M) for part in lines[2:])])
    return head + mark + tail


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: shlex.join(row["words"]))
def test_logs_are_told_as_htcondor_tells_them(row: dict[str, str]) -> None:
    status, out, err = _run(*row["words"])
    assert status == int(row["status"])
    if "usage" in row["err"].lower():
        assert out == row["out"]
        assert "usage" in err.lower()
        return
    assert _without_sums(out) == _without_sums(row["out"])
    theirs = re.sub(r"^\d\d/\d\d/\d\d .*\n", "", row["err"], flags=re.M)
    if "Error monitoring" in theirs:
        assert err.startswith(theirs.split(": ")[0])
    else:
        assert err == theirs


def test_sums_of_jobs_are_sums() -> None:
    assert sum(bool(_SUM.search(row["out"])) for row in ANSWERS) > 10, "HTCondor's are 0"
    _, out, _ = _run("userlog", "-total", "runs.log")
    assert out.splitlines()[6:] == [
        "7.0               1+05:00   1+05:00   1+02:10   1+05:00   0+00:00  100.0%  90.2%",
        "7.1               0+04:45   0+02:00   0+01:36   0+01:11   0+00:55   42.1%  80.0%",
        "",
        "Total             1+09:45   1+07:00   1+03:46   0+06:45   0+00:55   91.9%  89.5%",
    ]


def test_runs_and_findings_for_programs() -> None:
    _, out, _ = _run("userlog", "-json", "-j", "7.0", "runs.log")
    (run,) = json.loads(out)
    assert (run["ClusterId"], run["ProcId"], run["Host"], run["Evicted"]) == (7, 0, "10.0.0.21", False)
    assert (run["WallTime"], run["GoodTime"], run["CpuTime"]) == (104459, 104459, 94200)
    status, out, err = _run("check-userlogs", "-json", "good.log")
    assert (status, err) == (0, "")
    assert json.loads(out) == {"Okay": True, "Events": 6, "Submitted": 1, "Findings": []}
    status, out, _ = _run("check-userlogs", "-json", "orders.log")
    assert status == 1 and "BAD EVENT: job (31.0.0) executing, submit count < 1 (0)" in json.loads(out)["Findings"]


def test_a_log_that_cannot_be_read_is_a_failure() -> None:
    status, _, err = _run("userlog", "none.log")
    assert status == 1 and "none.log" in err
    assert not (LOGS / "none.log").exists()
    assert _run("userlog")[0] == 2
    assert _run("check-userlogs", "none.log")[0] == 1
    assert not (LOGS / "none.log").exists(), "HTCondor's makes the file"


def test_entries_that_nobody_can_reckon_with_are_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "hostile.log"
    digits = "1" * 5000
    heads = [
        "001 (1.0.0) 2026-99-01 13:00:00 Job executing on host: <10.0.0.1:1>",
        "001 (1.0.0) 2026-11-01 13:00:00xyz Job executing on host: <10.0.0.1:1>",
        f"001 ({digits}.0.0) 2026-11-01 13:00:00 Job executing on host: <10.0.0.1:1>",
        "001 (1.0.0) 2026-11-01 13:00:00 Job executing on host: <10.0.0.1:1>",
        f"012 (1.0.0) 2026-11-01 13:01:00 Job was held.\n\twhy\n\tCode {digits} Subcode 0",
        f"005 (1.0.0) 2026-11-01 13:05:00 Job terminated.\n\t(1) Normal termination (return value 0)\n"
        f"\t\tUsr {digits} 00:00:00, Sys 0 00:00:00  -  Run Remote Usage",
    ]
    log.write_text("".join(f"{head}\n...\n" for head in heads))
    status, out, err = _run("userlog", "-json", str(log))
    assert (status, err) == (0, "")
    (run,) = json.loads(out)
    assert (run["WallTime"], run["CpuTime"]) == (300, 0)
    _, out, _ = _run("check-userlogs", "-json", str(log))
    assert json.loads(out)["Events"] == 3


def test_a_pipe_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    status, _, err = _run("check-userlogs", str(tmp_path / "pipe"))
    assert status == 1 and "not a regular file" in err


def test_superscripts_are_no_job_id() -> None:
    status, _, err = _run("userlog", "-j", "²", "runs.log")
    assert status == 2 and "is not a job id" in err
