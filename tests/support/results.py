"""A plugin of pytest that notes each test's begin and end in the file that SLOTWISE_TEST_RESULTS names.

One JSON object a line, written as it happens: ``{"begins": id}``, then ``{"test": id, "outcome": "passed" | "failed" |
"skipped", "seconds": s, "why": text}`` with all phases of the test in it, or ``{"broken": id, "why": text}`` for a file
that cannot be collected. With xdist it is the controlling process that writes. `build_support/testing.py` reads it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TextIO

import pytest

#: Of a failure's text, what is kept: its end, where pytest puts the error.
_KEPT = 20_000


class Results:
    """Writes the lines."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("w")
        self._phases: dict[str, list[pytest.TestReport]] = {}
        self._noted: set[str] = set()

    def _write(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields) + "\n")
        self._file.flush()

    def pytest_unconfigure(self) -> None:
        """The run is over."""
        self._file.close()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._write(begins=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test is over. That of a worker that died is the only one of its test."""
        phases = self._phases.setdefault(report.nodeid, [])
        phases.append(report)
        if report.when not in ("setup", "call", "teardown"):
            self._note(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test is over."""
        self._note(nodeid)

    def _note(self, nodeid: str) -> None:
        phases = self._phases.pop(nodeid, [])
        if not phases:
            return
        outcomes = {report.outcome for report in phases}
        outcome = next((one for one in ("failed", "skipped") if one in outcomes), "passed")
        telling = next((report for report in phases if report.outcome == outcome), phases[-1])
        why = ""
        if outcome == "skipped" and isinstance(telling.longrepr, tuple):
            why = str(telling.longrepr[2]).removeprefix("Skipped: ")
        elif outcome != "passed":
            why = str(telling.longreprtext)[-_KEPT:]
        self._write(test=nodeid, outcome=outcome, seconds=round(sum(report.duration for report in phases), 3), why=why)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected, or that skips itself whole."""
        if report.outcome == "failed":
            self._write(broken=report.nodeid, why=str(report.longreprtext)[-_KEPT:])
        elif report.outcome == "skipped" and isinstance(report.longrepr, tuple) and report.nodeid not in self._noted:
            self._noted.add(report.nodeid)  # each worker of xdist collects it
            why = str(report.longrepr[2]).removeprefix("Skipped: ")
            self._write(test=report.nodeid, outcome="skipped", seconds=0, why=why)


def pytest_configure(config: pytest.Config) -> None:
    """Take part where a file is named, in the process that hears of all tests."""
    path = os.environ.get("SLOTWISE_TEST_RESULTS", "")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(Path(path)), "slotwise-results")
