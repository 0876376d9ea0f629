"""The nodes of a DAG that runs: what its files say of each, and what became of it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, convert, field

from slotwise._native import DagRun
from slotwise.dag import node_jobs
from slotwise.dag.acts import Do, NodeStatus
from slotwise.dag.node_log import Told
from slotwise.dag.records import Record
from slotwise.dag.status_file import NodeRow

#: Why a node failed that could not be submitted.
NOT_SUBMITTED = "Job submit failed"
#: $RETURN of a node whose PRE script failed.
_SKIPPED = -1004


class Node(Struct):
    """What the files say of a node, read once."""

    name: str
    description: str
    dag_file: str
    directory: str
    kind: str
    noop: bool
    join: bool
    done_by_job: bool
    priority: int
    retries: int
    unless: int
    has_children: bool
    vars: list[tuple[str, str, bool]]
    scripts: list[tuple[str, str, tuple[int, int] | None, tuple[str, str] | None]]
    pre_skip: int | None
    save_point: str | None
    record: Record = field(default_factory=Record)

    @property
    def has_pre(self) -> bool:
        """Whether it has a PRE script."""
        return any(kind == Do.PRE for kind, _, _, _ in self.scripts)

    @property
    def job_id(self) -> str:
        """Its last job, as the jobstate log has it."""
        return f"{self.record.cluster}.{self.record.proc}" if self.record.cluster >= 0 else "-"


class Nodes:
    """By number; each is read when it is first asked for."""

    def __init__(self, run: DagRun, directory: Path) -> None:
        """``directory``: where the DAG runs."""
        self._run, self._directory = run, directory
        self._known: dict[int, Node] = {}
        self._tags: dict[int, str] = {}

    def __getitem__(self, number: int) -> Node:
        found = self._known.get(number)
        if found is None:
            found = self._known[number] = convert(self._run.about(number), Node)
        return found

    def note(self, told: Told) -> Node:
        """Keep what an entry of the nodes log says of a node beside its state; gives the node."""
        number, event = told.event.node, told.event
        node = self[number]
        if event.name == "post_ended":
            final = node.unless != 0 and node.unless == event.value
            node.record.post_ended(event.value, self.result(number), final=final)
        else:
            node.record.note(event, told.cluster, told.proc)
        return node

    def place(self, number: int) -> Path:
        """Where a node's submit file is and its scripts run."""
        return self._directory / self[number].directory

    def description(self, number: int) -> str:
        """The text of a node's submit description.

        :raises OSError: its file cannot be read.
        """
        name = self[number].description
        text = self._run.description(name)
        return (self.place(number) / name).read_text(errors="surrogateescape") if text is None else text

    def tag(self, number: int) -> str:
        """What the jobstate log calls the place of a node's jobs."""
        if number not in self._tags:
            try:
                self._tags[number] = node_jobs.tag(self.description(number))
            except OSError:
                self._tags[number] = "-"
        return self._tags[number]

    def result(self, number: int) -> int:
        """$RETURN: of its jobs, or that there were none because its PRE script failed."""
        record = self[number].record
        return _SKIPPED if record.pre > 0 and not record.jobs else self._run.state(number)[3]

    def row(self, number: int) -> NodeRow:
        """What the node status file says of it."""
        node = self[number]
        status, waits, retries, _, queued, held = self._run.state(number)
        shown = NodeStatus(status)
        if shown == NodeStatus.READY and waits:
            shown = NodeStatus.NOT_READY
        details = ""
        if shown == NodeStatus.ERROR:
            details = node.record.why
            if node.retries and retries >= node.retries and details != NOT_SUBMITTED:
                details += f" (after {retries} node retries)"
        elif shown == NodeStatus.FUTILE:
            details = "Had an ancestor node fail"
        elif shown == NodeStatus.SUBMITTED:
            idle = node.record.jobs > 0 and self._run.is_idle(number, 0)
            details = "idle" if idle else "not_idle"
        elif shown == NodeStatus.DONE and node.done_by_job:
            details = "User defined as DONE"
        return NodeRow(node.name, shown, details, retries, queued, held)


__all__ = ["NOT_SUBMITTED", "Node", "Nodes"]
