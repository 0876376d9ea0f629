"""JOBSTATE_LOG on disk: a line for each thing that happens to a node."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from slotwise.dag.acts import Do
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.node_log import Told
from slotwise.dag.nodes import Node, Nodes
from slotwise.dag.run_texts import Jobstate

#: What a removed job ends with.
_REMOVED = -1002


class JobstateFile:
    """The file at ``path``; None: the DAG has none, and nothing is written."""

    def __init__(self, path: Path | None, nodes: Nodes, log: DebugLog) -> None:
        self._path, self._nodes, self._log = path, nodes, log
        self._lines = Jobstate()

    def begin(self, cluster: int, *, recovers: bool) -> None:
        """Go on behind what former runs wrote; with ``recovers``, nothing of that is written again."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            self._lines.resume(self._path.read_text(errors="surrogateescape"), cluster, recovers=recovers)
        self.internal(f"DAGMAN_STARTED {cluster}.0")

    def internal(self, text: str) -> None:
        """What the runner did."""
        if self._path is not None:
            self._write(self._lines.internal(time.time(), text))

    def entry(self, told: Told, node: Node) -> None:
        """An entry of the nodes log, which ``node.record`` has taken note of."""
        if self._path is None:
            return
        event, job = told.event, f"{told.cluster}.{told.proc}"
        number = event.node
        if event.name == "submit" and node.record.jobs == 1 and not node.has_pre:
            self._lines.begin(number)
        if name := Jobstate.event(told.number):
            self._line(number, node, name, job)
        if event.name in ("terminated", "aborted"):
            value = event.value if event.name == "terminated" else _REMOVED
            self._line(number, node, "JOB_SUCCESS" if value == 0 else "JOB_FAILURE", str(value))
        elif event.name == "post_ended":
            word = "POST_SCRIPT_SUCCESS" if event.value == 0 else "POST_SCRIPT_FAILURE"
            self._line(number, node, word, node.job_id)

    def refused(self, number: int, node: Node) -> None:
        """A node could not be submitted."""
        if self._path is not None:
            self._line(number, node, "SUBMIT_FAILURE")

    def script_begins(self, number: int, node: Node, kind: str) -> None:
        """A script is about to run; a PRE script begins an attempt."""
        if self._path is None or kind == Do.HOLD:
            return
        if kind == Do.PRE:
            self._lines.begin(number)
            self._line(number, node, "PRE_SCRIPT_STARTED")
        else:
            self._line(number, node, "POST_SCRIPT_STARTED", node.job_id)

    def pre_ended(self, number: int, node: Node, value: int) -> None:
        """A PRE script has ended."""
        if self._path is not None:
            self._line(number, node, "PRE_SCRIPT_SUCCESS" if value == 0 else "PRE_SCRIPT_FAILURE")

    def _line(self, number: int, node: Node, event: str, job: str = "-") -> None:
        self._write(self._lines.line(time.time(), number, node.name, event, job, self._nodes.tag(number)))

    def _write(self, line: str) -> None:
        if self._path is None or not line:
            return
        try:
            with self._path.open("a", errors="surrogateescape") as file:
                file.write(line)
        except OSError as error:
            self._log.write(f"ERROR: cannot write {self._path}: {error.strerror}")


__all__ = ["JobstateFile"]
