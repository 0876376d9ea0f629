"""The metrics file, the lines of the jobstate log and the ad's attributes of a DAG that runs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.dag.acts import DagStatus, NodeStatus
from slotwise.dag.status_file import NodeRow

#: Event names of the nodes log in the jobstate log, by number.
_EVENTS = {
    0: "SUBMIT", 1: "EXECUTE", 4: "JOB_EVICTED", 5: "JOB_TERMINATED", 9: "JOB_ABORTED", 12: "JOB_HELD",
    13: "JOB_RELEASED", 16: "POST_SCRIPT_TERMINATED", 34: "PRESKIP",
}  # fmt: skip


def attributes(counts: Mapping[str, int], status: int, *, recovers: bool) -> dict[str, int]:
    """What the DAG's job's ad says."""
    return {
        "DAG_NodesTotal": counts["total"],
        "DAG_NodesDone": counts["done"],
        "DAG_NodesPrerun": counts["pre"],
        "DAG_NodesQueued": counts["queued"],
        "DAG_NodesPostrun": counts["post"],
        "DAG_NodesHoldrun": counts["hold"],
        "DAG_NodesReady": counts["ready"],
        "DAG_NodesUnready": counts["unready"],
        "DAG_NodesFailed": counts["failed"],
        "DAG_NodesFutile": counts["futile"],
        "DAG_Status": status,
        "DAG_InRecovery": int(recovers),
        "DAG_JobsSubmitted": counts["jobs_submitted"],
        "DAG_JobsCompleted": counts["jobs_ended"],
        "DAG_JobsIdle": counts["jobs_idle"],
        "DAG_JobsHeld": counts["jobs_held"],
        "DAG_JobsRunning": max(0, counts["jobs_submitted"] - counts["jobs_ended"] - counts["jobs_idle"]),
    }


class MetricsFacts(Struct, frozen=True):
    """What the metrics file says beside the nodes. Times in seconds since the epoch."""

    version: str
    started: float
    ended: float
    exit: int
    cluster: str
    parent: str
    rescue: int
    has_final: bool
    status: int


def metrics(facts: MetricsFacts, nodes: list[tuple[NodeRow, str, bool]], counts: Mapping[str, int]) -> str:
    """The metrics file. ``nodes``: each with its kind ("job", "service", ...), and whether it is a sub-DAG."""

    def number(kinds: tuple[str, ...], *status: NodeStatus, below: bool = False) -> int:
        return sum(
            kind in kinds and is_dag == below and (not status or row.status in status) for row, kind, is_dag in nodes
        )

    plain, every = ("job", "final", "provisioner"), ("job", "final", "provisioner", "service")
    done, failed = NodeStatus.DONE, NodeStatus.ERROR
    run = sum(row.status in (done, failed) for row, _, _ in nodes)
    return (
        json.dumps(
            {
                "client": "condor_dagman",
                "version": facts.version,
                "type": "metrics",
                "metrics_version": 2,
                "start_time": round(facts.started, 3),
                "end_time": round(facts.ended, 3),
                "duration": round(facts.ended - facts.started, 3),
                "exitcode": facts.exit,
                "dagman_id": facts.cluster,
                "parent_dagman_id": facts.parent,
                "rescue_dag_number": facts.rescue,
                "has_final_node": facts.has_final,
                "nodes": number(plain),
                "nodes_failed": number(plain, failed),
                "nodes_succeeded": number(plain, done),
                "dag_nodes": number(every, below=True),
                "dag_nodes_failed": number(every, failed, below=True),
                "dag_nodes_succeeded": number(every, done, below=True),
                "provisioner_nodes": number(("provisioner",)),
                "service_nodes": number(("service",)),
                "service_nodes_failed": number(("service",), failed),
                "service_nodes_succeeded": number(("service",), done),
                "total_nodes": len(nodes),
                "total_nodes_run": run,
                "jobs_submitted": counts["jobs_submitted"],
                "jobs_succeeded": counts["jobs_ended"],
                "jobs_failed": counts["jobs_submitted"] - counts["jobs_ended"],
                "DagStatus": facts.status,
            },
            indent=4,
        )
        + "\n"
    )


class Jobstate(Struct):
    """Lines of the jobstate log.

    :ivar attempts: the attempts of nodes so far, over all runs that the file tells of.
    :ivar known: what a former runner of this run wrote: node, event and job, and the attempts; it is not written twice.
    """

    attempts: int = 0
    of_node: dict[int, int] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)
    known: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)

    def resume(self, text: str, cluster: int, *, recovers: bool) -> None:
        """Go on behind the file of former runs; with ``recovers`` behind those of this DAG's job."""
        ours = False
        for line in text.splitlines():
            words = line.split(" ")
            if len(words) > 4 and words[1] == "INTERNAL":
                ours = ours or (words[3] == "DAGMAN_STARTED" and words[4] == f"{cluster}.0")
            elif len(words) == 7 and words[6].isdigit():
                self.attempts = max(self.attempts, int(words[6]))
                if ours and recovers:
                    self.known.setdefault((words[1], words[2], words[3]), []).append(int(words[6]))

    def begin(self, node: int) -> None:
        """A node begins an attempt."""
        self.fresh.add(node)

    def line(self, now: float, node: int, name: str, event: str, job: str = "-", tag: str = "-") -> str:
        """What happened to a node; ``job``: its job's id, or its value. "" if that is in the file."""
        if before := self.known.get((name, event, job)):
            self.of_node[node] = before.pop(0)
            self.fresh.discard(node)
            return ""
        if node in self.fresh or node not in self.of_node:
            self.fresh.discard(node)
            self.attempts += 1
            self.of_node[node] = self.attempts
        return f"{int(now)} {name} {event} {job} {tag} - {self.of_node[node]}\n"

    def internal(self, now: float, text: str) -> str:
        """What the runner did."""
        return f"{int(now)} INTERNAL *** {text} ***\n"

    @staticmethod
    def event(number: int) -> str:
        """The name of an entry of the nodes log; "" for those that are not in the jobstate log."""
        return _EVENTS.get(number, "")


def overall(status: int, *, exit_status: int | None) -> tuple[NodeStatus, str]:
    """The status of a DAG in its status file, and the word for it. ``exit_status``: None while it runs."""
    if exit_status is None:
        return NodeStatus.SUBMITTED, ""
    if exit_status == 0:
        return NodeStatus.DONE, "success"
    words = {DagStatus.ABORTED: "aborted", DagStatus.REMOVED: "removed", DagStatus.CYCLE: "cycle"}
    return NodeStatus.ERROR, words.get(DagStatus(status), "failed")


__all__ = ["Jobstate", "MetricsFacts", "attributes", "metrics", "overall"]
