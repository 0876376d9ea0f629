"""What the parts of a runner share, and what they ask of its loop. Data."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from slotwise._native import DagRun
from slotwise.dag.acts import Happened
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.jobstate_file import JobstateFile
from slotwise.dag.nodes import Nodes
from slotwise.dag.plan import Plan
from slotwise.dag.run_settings import RunSettings


class Running(Struct, frozen=True):
    """A DAG that runs.

    :ivar nodes_log: the event log of its nodes' jobs, absolute.
    """

    plan: Plan
    settings: RunSettings
    run: DagRun
    nodes: Nodes
    nodes_log: Path
    log: DebugLog
    jobstate: JobstateFile


class Effects(Struct):
    """What has to follow from something that a part did.

    :ivar entries: texts for the nodes log; they come back from there as events.
    :ivar events: what the DAG is told at once.
    :ivar error: why the DAG cannot go on; "" if it can.
    """

    entries: list[str] = field(default_factory=list)
    events: list[Happened] = field(default_factory=list)
    error: str = ""

    def __bool__(self) -> bool:
        return bool(self.entries or self.events or self.error)

    def __iadd__(self, more: Effects) -> Effects:
        self.entries += more.entries
        self.events += more.events
        self.error = self.error or more.error
        return self


__all__ = ["Effects", "Running"]
