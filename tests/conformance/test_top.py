"""`top` on two ads of a schedd of HTCondor 25.14.1, beside what its condor_top printed (top/answers.jsonl).

Rows with the same value in the column that orders them come in the order of the ad's attributes, which HTCondor's
library does not promise: lines are compared as a set, and the order by the column itself.
"""

from __future__ import annotations

import io
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

HERE = Path(__file__).parent / "top"
ANSWERS = [json.loads(line) for line in (HERE / "answers.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = dispatch(list(words), Invocation(HERE, {}, io.StringIO(), out, err))
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: shlex.join(row["words"]))
def test_the_table_is_htcondors(row: dict[str, str]) -> None:
    status, out, _ = _run(*row["words"])
    assert status == int(row["status"])
    ours, theirs = out.splitlines(), row["out"].splitlines()
    assert ours[:8] == theirs[:8]
    assert sorted(ours) == sorted(theirs)


def test_rows_for_programs_come_in_order() -> None:
    _, out, _ = _run("top", "-json", "-sort", "TotalCt", "old.ad", "new.ad")
    rows = json.loads(out)
    counts = [row["TotalCt"] for row in rows]
    assert counts == sorted(counts, reverse=True) and rows[0]["Item"] == "Timer_UpdateIOStats"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("StatsLifetime = 1", "StatsLifetime = 1e300"),
        ("StatsLifetime = -1e308", "StatsLifetime = 1e308"),
        ("StatsLifetime = 1\nDaemonStartTime = 1e300", "StatsLifetime = 2\nDaemonStartTime = 1e300"),
        ("StatsLifetime = 1", "StatsLifetime = 2\nRecentStatsTickTime = -1e300"),
        ("StatsLifetime = 1\nDCXRuntime = -1e308", "StatsLifetime = 2\nDCXRuntime = 1e308"),
    ],
)
def test_numbers_beyond_all_measure_are_shown_as_they_are(old: str, new: str, tmp_path: Path) -> None:
    for name, text, at in (("old", old, 1), ("new", new, 2)):
        start = "" if "DaemonStartTime" in text else "DaemonStartTime = 0\n"
        usual = "" if "DCXRuntime =" in text else f"DCXRuntime = {at}\n"
        (tmp_path / name).write_text(f"{start}{usual}MyCurrentTime = {at}\nDCX = {at}\n{text}\n")
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(tmp_path, {}, io.StringIO(), out, err)
    assert dispatch(["top", "-columns", "all", "old", "new"], inv) == 0, err.getvalue()
    assert " X\n" in out.getvalue()
