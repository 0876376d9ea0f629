"""Writes the page about HTCondor's tests: ``python -m tests.peer.document``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.peer.expected import Expectation, Row, files, table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "htcondor-tests.md"
_TITLES = {
    Expectation.INTENDED: (
        "Intended",
        "Slotwise differs on purpose.",
    ),
    Expectation.INTERNAL: (
        "Internal",
        "These read logs, files in SPOOL or modules that are inside HTCondor, and are not here; what jobs and users see"
        " may be the same all the same.",
    ),
    Expectation.NOT_YET: (
        "Not yet",
        "What these want is not there.",
    ),
    Expectation.NOT_RUN: (
        "Files that are not run",
        "",
    ),
}
_HEAD = """# HTCondor's own tests

<!-- Written by `python -m tests.peer.document` from tests/peer/functions.tsv. -->

`make test-peer SNAPSHOT=DIRECTORY` runs tests of HTCondor's on pools of Slotwise: those in `src/condor_tests` of a
checkout of its sources (25.14), by `ornithology`, the package there that starts pools, submits jobs and reads logs.
Nothing is changed in them. `FILES="test_x.py test_y.py"` runs some; `JOBS` (3) says how many files at a time, `LIMIT`
(180) how many seconds each may take. Logs are in `build/peer`. As root the tests are run by an account that is made
for them. Some files want the package pytest-httpserver, and are not run without it.

What they need besides is small: a configuration with the knobs that HTCondor's test driver writes, and the events that
ornithology reads in `job_queue.log`, which here come from the pool's event log and from queries
(`tests/peer/harness`).

At its end it says how many functions passed, each that failed without being named below, and each below that passes by
now. {count} files are run. A function that a host without Docker, or other things that a test wants, skips says
nothing.
"""


def page(rows: Sequence[Row]) -> str:
    """The page."""
    parts = [_HEAD.format(count=len(files(rows)))]
    for expectation, (title, text) in _TITLES.items():
        some = [row for row in rows if row.expectation is expectation]
        if not some:
            continue
        heading = f"\n## {title}\n"
        parts.append(f"{heading}\n{text}\n" if text else heading)
        lines = ["| File | Functions | Why |", "| --- | --- | --- |"]
        for row in some:
            functions = "all" if row.functions == "*" else f"`{row.functions}`"
            lines.append(f"| `{row.file}` | {functions} | {row.reason} |")
        parts.append("\n" + "\n".join(lines) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(table()), encoding="utf-8")
