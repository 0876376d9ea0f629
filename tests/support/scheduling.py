"""Which worker of pytest-xdist runs which tests, and in which order.

A test goes by itself to the next free worker, but tests of a file that makes something once for all of them (a fixture
of scope ``module``, a function with ``@cache``) go there together, and so do those of all files with one mark
``xdist_group``: else each worker would start the file's pool, Docker daemon or libvirt again, and end what others use.
What takes longest begins first, so that no worker has a long one left at the end.

The sources of the tests tell which they are: xdist asks their names, to which it cannot append groups with pytest 9.
``tests/conftest.py`` has the hook.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

#: Whole seconds and name of the tests that take longest, a line each with a tab between. It decides only what begins
#: first; `build_support/testing.py --note-longest` writes it.
LONGEST = Path(__file__).with_name("longest.tsv")
#: What each other test is taken to need, in seconds.
_USUAL_S = 1.0
_MARK = re.compile(r"""\bxdist_group\((?:name=)?["']([^"']+)["']""")
_SHARED = re.compile(
    r"""\bfixture\([^)]*\bscope=["'](?:module|package|session)["']|^@(?:functools\.)?(?:lru_)?cache\b""", re.MULTILINE
)


def group_of(source: str, file: str) -> str:
    """The group of the tests of ``file``; empty where each goes by itself."""
    if mark := _MARK.search(source):
        return mark[1]
    return file if _SHARED.search(source) else ""


def longest() -> dict[str, float]:
    """Seconds by the name of the test."""
    rows = (line.split("\t", 1) for line in LONGEST.read_text().splitlines())
    return {test: float(seconds) for seconds, test in rows}


class Scheduling(LoadScopeScheduling):
    """Hands out tests, files and groups, the longest first.

    :param seconds: what tests take, by name; others take little.
    """

    def __init__(self, config: pytest.Config, log: Producer | None, seconds: Mapping[str, float]) -> None:
        super().__init__(config, log)
        self._seconds = seconds
        self._groups: dict[str, str] = {}
        self._is_ordered = False
        self.workqueue: OrderedDict[str, dict[str, bool]]

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file not in self._groups:
            path = self.config.rootpath / file
            self._groups[file] = group_of(path.read_text(), file) if path.is_file() else ""
        return self._groups[file] or nodeid

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._is_ordered:
            self._is_ordered = True
            self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda unit: -self._length(unit[1])))
        super()._assign_work_unit(node)

    def _length(self, unit: Mapping[str, bool]) -> float:
        return sum(self._seconds.get(test, _USUAL_S) for test in unit)

    def _reschedule(self, node: WorkerController) -> None:
        work = self.assigned_work[node]
        for name in [name for name, unit in work.items() if all(unit.values())]:
            del work[name]
        # A worker begins a test when it knows the next one, or that there is none. More would only wait there.
        while self._pending_of(work) < 2 and not node.shutting_down:
            if self.workqueue:
                self._assign_work_unit(node)
            else:
                node.shutdown()

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker is gone: others do its work, but for the test in which it died, which has failed."""
        work = self.assigned_work.pop(node)
        left = {name: unit for name, unit in work.items() if not all(unit.values())}
        died_in = next((test for unit in left.values() for test, ended in unit.items() if not ended), None)
        for name, unit in left.items():
            if died_in in unit:
                unit[died_in] = True
            if not all(unit.values()):
                self.workqueue[name] = unit
        for other in self.assigned_work:
            self._reschedule(other)
        return died_in
