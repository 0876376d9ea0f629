"""The runs of a parallel job's nodes, taken together: they begin together, and the end of one may be that of all.

All procs of a cluster of the parallel universe are one job: their nodes are numbered through, and what the event log
says is said of the first proc, as in HTCondor.
"""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.schedd.jobs.decision import RunEnd
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.node_ads import NodeAd
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.parallel.node_ends import outcome


class Node(Struct, eq=False):
    """One node of a parallel job that runs, or has run."""

    gang: Gang
    number: int
    #: The proc that it belongs to.
    job: Job
    #: The id of its run; "" once that is over.
    run_id: str = ""
    #: It executes, or has.
    executes: bool = False
    #: It is out of reach, as far as the job's log is concerned.
    disconnected: bool = False
    #: How its run ended; None while it is not over.
    end: RunEnd | None = None
    #: What its starter reported last of its usage.
    usage: Changes = field(default_factory=dict)

    @property
    def ad(self) -> NodeAd:
        """What makes its ad another than that of its job."""
        return NodeAd(self.number, len(self.gang.nodes), self.gang.spool)


class Gang(Struct, eq=False):
    """The nodes of a parallel job in one of its starts."""

    #: ``cluster.0#start``, which all of its jobs have for the id of their run.
    id: str
    jobs: list[Job]
    born_at: float
    #: ParallelShutdownPolicy is WAIT_FOR_ALL: the job ends with its last node, not with node 0.
    waits_for_all: bool
    #: RemoteSpoolDir.
    spool: str
    nodes: list[Node] = field(default_factory=list)
    #: Nodes whose runs are over, in the order in which they ended.
    ended: list[Node] = field(default_factory=list)
    #: How the job's run ends, once that is known: nodes that are still alive are being ended.
    outcome: RunEnd | None = None
    #: A job whose node 0 exits leaves the queue, whatever its status: it does not start again.
    leaves_on_exit: bool = True
    #: Event 001 is written: all nodes execute.
    executes: bool = False

    @property
    def first(self) -> Job:
        """The job whose event log tells of the gang."""
        return self.jobs[0]

    @property
    def alive(self) -> list[Node]:
        """The nodes whose runs are not over, by number."""
        return [node for node in self.nodes if node.run_id]

    @property
    def is_final(self) -> bool:
        """Whether the job is over with what is known, and does not start again: no node need be waited for."""
        return self.leaves_on_exit and self.outcome is not None and self.outcome.how.by_itself

    @property
    def over(self) -> bool:
        """Whether the runs of all nodes are over."""
        return len(self.ended) == len(self.nodes)

    def note_end(self, node: Node, end: RunEnd) -> None:
        """The run of a node is over."""
        node.run_id, node.disconnected, node.end = "", False, end
        self.ended.append(node)
        if self.outcome is None:
            ends = [(one.number, one.end) for one in self.ended if one.end is not None]
            self.outcome = outcome(ends, len(self.nodes), waits_for_all=self.waits_for_all)

    def note_executing(self) -> bool:
        """Whether all nodes have begun to execute now, and had not before."""
        if self.executes or not all(node.executes for node in self.alive):
            return False
        self.executes = True
        return True
