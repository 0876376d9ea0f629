"""Scenarios recorded from HTCondor's negotiator, replayed through ``slotwise negotiate --json``."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.pool import negotiate

from tests.support.negotiation.recorded import Report, compared, jobs_of, slots_of

HERE = Path(__file__).parent
CASES = sorted(p for p in (HERE / "negotiate").iterdir() if p.is_dir())
#: Pools of random kinds (many of them once decided differently), with what HTCondor made of them however slots
#: and submitters that are alike were ordered, with and without its match list cache.
FOUND = [json.loads(line) for line in (HERE / "negotiate-found.jsonl").read_text().splitlines()]


def replay(folder: Path, *more: str) -> Report:
    out = io.StringIO()
    inv = Invocation(cwd=folder, env={}, stdin=io.StringIO(), stdout=out, stderr=sys.stderr)
    args = ["--slots", "slots.ads", "--jobs", "jobs.ads", "--config", "config", "--accounting", "accounting.json"]
    assert negotiate.main([*args, *more, "--json"], inv) == 0
    report: Report = json.loads(out.getvalue())
    return report


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_outcome_is_that_of_the_reference(case: Path) -> None:
    expected = json.loads((case / "expect.json").read_text())
    report = replay(case, "--now", str(expected["now"]), "--cycles", str(expected["cycles"]))
    got, wanted = compared(report, expected, expected["compare"])
    assert got == wanted


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case["name"])
def test_random_pools_are_decided_like_the_reference_decides_them(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "slots.ads").write_text(slots_of(case))
    (tmp_path / "jobs.ads").write_text(jobs_of(case))
    (tmp_path / "config").write_text(case["config"])
    (tmp_path / "accounting.json").write_text(json.dumps({"submitters": case["accounting"]}))
    got, wanted = compared(replay(tmp_path, "--now", "1795216546"), case, list(case["expect"]))
    assert got == wanted
