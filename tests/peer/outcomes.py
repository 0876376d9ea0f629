"""What came of the test functions of a run, beside what was expected of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tests.peer.expected import Expectation, Row, expected


class Record(Struct, frozen=True):
    """A line that the plugin in the tests' process writes: a phase of a case, or that it was found."""

    case: str
    phase: str
    outcome: str = ""
    expected_to_fail: bool = False


class Outcome(Struct, frozen=True):
    """A function of a file: ``said`` is pass, fail or skip, which is that of its worst case."""

    file: str
    function: str
    said: str


def outcomes(file: str, records: Iterable[Record]) -> list[Outcome]:
    """The functions of a file. A case that was found and did not come to its end has failed."""
    cases: dict[str, str] = {}
    for record in records:
        if record.phase == "found":
            cases.setdefault(record.case, "fail")
        elif record.expected_to_fail or record.outcome == "skipped":
            cases[record.case] = "skip"
        elif record.outcome == "failed" and record.phase != "teardown":
            cases[record.case] = "fail"
        elif record.phase == "call":
            cases[record.case] = "pass"
    functions: defaultdict[str, set[str]] = defaultdict(set)
    for case, said in cases.items():
        functions[re.sub(r"\[.*$", "", case).partition("::")[2] or "(the file)"].add(said)
    worst = ("fail", "pass", "skip")
    return [Outcome(file, name, next(w for w in worst if w in said)) for name, said in functions.items()]


def summary(rows: Sequence[Row], found: Mapping[str, Sequence[Outcome]], late: Sequence[str] = ()) -> list[str]:
    """Lines that say how many functions passed, what differs from the table, and why the others did not pass.

    ``late``: files that were ended at the limit.
    """
    lines: list[str] = []
    passed = total = 0
    reasons: Counter[tuple[Expectation, str]] = Counter()
    for file, some in found.items():
        if file in late:
            lines.append(f"{file}: ended at the limit")
        if not some:
            lines.append(f"{file}: no test ran; see its log")
        for outcome in some:
            if outcome.said == "skip":
                continue
            row = expected(rows, file, outcome.function)
            total += 1
            passed += outcome.said == "pass"
            where = f"{file} {outcome.function}"
            if outcome.said == "pass" and row.expectation.is_red:
                lines.append(f"{where}: passes, and is {row.expectation} in the table: {row.reason}")
            elif outcome.said == "fail" and row.expectation.is_red:
                reasons[row.expectation, row.reason] += 1
            elif outcome.said == "fail":
                lines.append(f"{where}: failed")
    if reasons:
        lines.append("Did not pass, as the table says:")
        ordered = sorted(reasons.items(), key=lambda item: (item[0][0], -item[1]))
        lines += [f"  {count} {expectation}: {reason}" for (expectation, reason), count in ordered]
    lines.append(f"{passed} of {total} test functions of HTCondor's pass ({len(found)} files)")
    return lines


def is_as_expected(rows: Sequence[Row], found: Mapping[str, Sequence[Outcome]]) -> bool:
    """Whether nothing failed that is expected to pass, and each file ran."""
    return all(some for some in found.values()) and not any(
        outcome.said == "fail" and not expected(rows, file, outcome.function).expectation.is_red
        for file, some in found.items()
        for outcome in some
    )
