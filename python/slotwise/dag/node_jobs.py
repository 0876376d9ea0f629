"""How the jobs of a node are described: statements before and behind its submit description. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from slotwise.classad import quote

#: DAGParentNodeNames is cut at about so many characters, as HTCondor cuts it.
_PARENTS_MOST = 2000


class DagFacts(Struct, frozen=True):
    """What all nodes of a DAG share.

    :ivar cluster: of the DAG's job.
    :ivar nodes_log: absolute.
    :ivar mask: the events that go there.
    :ivar batch: JobBatchName.
    :ivar hold_claim_s: DAGMAN_HOLD_CLAIM_TIME, seconds.
    :ivar priority: -priority, which is added to each node's.
    :ivar silent: no mail about its jobs.
    :ivar inherited: attributes of the DAG's job that its nodes' jobs get.
    :ivar suppresses_logs: DAGMAN_SUPPRESS_JOB_LOGS.
    :ivar records_retry: DAGMAN_NODE_RECORD_INFO has Retry.
    :ivar machine_attrs: DAGMAN_RECORD_MACHINE_ATTRS.
    """

    cluster: int
    nodes_log: str
    mask: str
    batch: str
    hold_claim_s: int = 20
    priority: int = 0
    silent: bool = False
    inherited: Mapping[str, str] = {}
    suppresses_logs: bool = False
    records_retry: bool = False
    machine_attrs: Sequence[str] = ()


class NodeFacts(Struct, frozen=True):
    """What a node's jobs are told of it."""

    name: str
    kind: str
    parents: Sequence[str]
    has_children: bool
    priority: int
    vars: Sequence[tuple[str, str, bool]]
    retry: int
    dag_status: int
    failed: int
    on_hold: bool = False


def before(dag: DagFacts, node: NodeFacts) -> list[str]:
    """Statements before the description."""
    macros = {
        "JOB": node.name, "RETRY": str(node.retry), "DAG_STATUS": str(node.dag_status),
        "FAILED_COUNT": str(node.failed), "DAGManJobId": str(dag.cluster),
    }  # fmt: skip
    if node.parents:
        macros["DAG_PARENT_NAMES"] = ",".join(node.parents)
    if dag.machine_attrs:
        macros["job_machine_attrs"] = ",".join(dag.machine_attrs)
        macros["job_ad_information_attrs"] = ",".join(f"MachineAttr{name}0" for name in dag.machine_attrs)
    made = [f"{name} = {value}" for name, value in macros.items()]
    return made + _vars(node, appended=False)


def append(dag: DagFacts, node: NodeFacts) -> list[str]:
    """Statements behind the description, before its queue statement."""
    made = _vars(node, appended=True)
    attributes = {
        "DAGManJobId": str(dag.cluster),
        "DAGNodeName": quote(node.name),
        "DAGParentNodeNames": quote(",".join(node.parents)[:_PARENTS_MOST]),
        "DAGManNodesLog": quote(dag.nodes_log),
        "DAGManNodesMask": quote(dag.mask),
        "JobBatchName": quote(dag.batch),
        "JobBatchId": quote(f"{dag.cluster}.0"),
        **dag.inherited,
    }
    if node.has_children and dag.hold_claim_s > 0:
        attributes["KeepClaimIdle"] = str(dag.hold_claim_s)
    if node.kind == "service":
        attributes["DAGLifetimeJob"] = "true"
    if dag.records_retry and node.retry > 0:
        attributes["DAGManNodeRetry"] = str(node.retry)
    made += [f"MY.{name} = {value}" for name, value in attributes.items()]
    made.append(f"submit_event_notes = DAG Node: {node.name}")
    if priority := node.priority + dag.priority:
        made.append(f"priority = {priority}")
    if node.on_hold:
        made.append("hold = true")
    if dag.silent:
        made.append("notification = never")
    if dag.suppresses_logs:
        made.append("log =")
    return made


def tag(description: str) -> str:
    """What the jobstate log calls the place of the jobs: the attribute that ``+job_tag_name`` names, else
    ``+pegasus_site``; "-" without one, and where it has a macro."""
    values = {}
    for line in description.replace("\\\n", "").splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip().lower()] = value.strip()
    found = values.get(values.get("+job_tag_name", "").strip('"').lower() or "+pegasus_site", "")
    return found.strip('"') if found and "$" not in found else "-"


def _vars(node: NodeFacts, *, appended: bool) -> list[str]:
    found = []
    for name, value, behind in node.vars:
        if behind == appended:
            key = f"MY.{name[1:]}" if name.startswith("+") else name
            found.append(f"{key} = {value}")
    return found


def key(dag_cluster: int, name: str, number: int) -> bytes:
    """The key of a submission: of the DAG, the node, and how many clusters it had before; a repeat has the same."""
    return hashlib.sha256(f"dag {dag_cluster} {number} {name}".encode(errors="surrogateescape")).digest()[:16]


__all__ = ["DagFacts", "NodeFacts", "append", "before", "key", "tag"]
