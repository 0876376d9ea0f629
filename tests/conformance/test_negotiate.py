"""Scenarios recorded from the reference's negotiator, replayed through ``slotwise negotiate --json``."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slotwise.cli import negotiate
from slotwise.cli.invocation import Invocation

CASES = sorted(p for p in (Path(__file__).parent / "negotiate").iterdir() if p.is_dir())

Report = dict[str, Any]


def replay(case: Path, expected: Report) -> Report:
    out = io.StringIO()
    inv = Invocation(cwd=case, env={}, stdin=io.StringIO(), stdout=out, stderr=sys.stderr)
    args = ["--slots", "slots.ads", "--jobs", "jobs.ads", "--config", "config", "--accounting", "accounting.json"]
    args += ["--now", str(expected["now"]), "--cycles", str(expected["cycles"]), "--json"]
    assert negotiate.main(args, inv) == 0
    report: Report = json.loads(out.getvalue())
    return report


def unfold(ranges: list[str]) -> list[str]:
    """``["1.0-2", "3.4"]`` as single job ids."""
    jobs = []
    for item in ranges:
        cluster, procs = item.split(".")
        first, _, last = procs.partition("-")
        jobs += [f"{cluster}.{proc}" for proc in range(int(first), int(last or first) + 1)]
    return jobs


class Seen:
    """A report in the terms of expect.json."""

    def __init__(self, report: Report, expected: Report) -> None:
        self.report = report
        self.matches = report["matches"]
        self.groups = expected["groups"]
        self.first = {job: a["first"] for a in expected["autoclusters"] for job in unfold(a["jobs"])}
        self.autoclusters = expected["autoclusters"]

    def per(self, key: Callable[[Report], str], names: list[str]) -> dict[str, int]:
        counts = Counter(key(match) for match in self.matches)
        return {name: counts.pop(name, 0) for name in names} | dict(counts)

    def part(self, name: str, wanted: Any) -> Any:
        method = getattr(self, f"get_{name}")
        return method(wanted)

    def get_total(self, _wanted: Any) -> int:
        return len(self.matches)

    def get_per_submitter(self, wanted: Report) -> Report:
        return self.per(lambda m: m["submitter"], list(wanted))

    def get_per_group(self, wanted: Report) -> Report:
        return self.per(lambda m: self.groups[m["submitter"]], list(wanted))

    def get_per_autocluster(self, wanted: Report) -> Report:
        return self.per(lambda m: self.first[m["job"]], list(wanted))

    def get_jobs(self, _wanted: Any) -> set[str]:
        return {match["job"] for match in self.matches}

    def get_slots(self, _wanted: Any) -> list[str]:
        return sorted(match["slot"] for match in self.matches)

    def get_pairs(self, _wanted: Any) -> dict[str, list[str]]:
        pairs: dict[str, list[str]] = {}
        for match in self.matches:
            pairs.setdefault(self.first[match["job"]], []).append(match["slot"])
        return {first: sorted(slots) for first, slots in pairs.items()}

    def get_preempted(self, _wanted: Any) -> dict[str, list[str]]:
        return {m["slot"]: [m["preempts"], m["preemption"]] for m in self.matches if m["preempts"]}

    def get_preempted_counts(self, _wanted: Any) -> dict[str, int]:
        return dict(Counter(f"{m['preempts']} {m['preemption']}" for m in self.matches if m["preempts"]))

    def get_rejections(self, _wanted: Any) -> list[list[str]]:
        rows = self.report["rejections"]
        return sorted([r["submitter"], self.first[r["autocluster"]], r["reason"]] for r in rows)

    def get_shares(self, wanted: Report) -> Report:
        return self.noted("share", wanted)

    def get_limits(self, wanted: Report) -> Report:
        return self.noted("limit", wanted)

    def noted(self, key: str, wanted: Report) -> Report:
        rows = {row["name"]: row[key] for row in self.report["submitters"]}
        return {name: pytest.approx(rows[name], abs=1e-3, rel=1e-3) for name in wanted}

    def get_group_quota(self, wanted: Report) -> Report:
        rows = {row["name"]: row["quota"] for row in self.report["groups"]}
        return {name: pytest.approx(rows[name], abs=1e-3, rel=1e-3) for name in wanted}


def shaped(name: str, wanted: Any) -> Any:
    if name == "jobs":
        return set(unfold(wanted))
    if name in ("slots", "rejections"):
        return sorted(wanted)
    if name == "pairs":
        return {first: sorted(slots) for first, slots in wanted.items()}
    return wanted


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_outcome_is_that_of_the_reference(case: Path) -> None:
    expected = json.loads((case / "expect.json").read_text())
    seen = Seen(replay(case, expected), expected)
    wanted = {name: shaped(name, expected["expect"][name]) for name in expected["compare"]}
    got = {name: seen.part(name, wanted[name]) for name in wanted}
    assert got == wanted
