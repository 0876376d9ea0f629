"""The event log of a DAG's nodes: what its entries say of which node, and the entries that the runner writes. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.dag.acts import Happened
from slotwise.errors import AdSyntaxError
from slotwise.model import job_events
from slotwise.model.job_event_reader import ending, event_ad
from slotwise.model.job_events import Frame, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from slotwise.dag.orders import Order
    from slotwise.model.job_event_reader import Entry

#: The events of a node's jobs that go into it: DAGManNodesMask.
MASK = "0,1,2,4,5,7,8,9,10,11,12,13,16,17,24,27,35,36"
#: The process number of a node that has no job.
_NOOP_PROC = 2147483647
_NOOP_HOST = "dummy-submit-for-noop-job"
_NODE = "DAG Node: "
#: The first line of an order's entry: its id, and what was done or why not.
_ORDER = re.compile(r"DAG order ([0-9a-f]{12})(?: refused: (.*)|: (retry|skip|resume))")
_FRAME = Frame(0, 0, "", 0)
#: The end of a node that has no job, behind the head of its entry.
_NOOP_ENDED = job_events.terminated(_FRAME, normal=True, code=0, usage=Usage()).removeprefix(_FRAME.head(5))
#: Events without more to say than the job's process.
_PLAIN = {1: "execute", 4: "evicted", 9: "aborted", 12: "held", 13: "released"}


class Told(Struct, frozen=True):
    """An entry of a node: what it tells the DAG, and the job; cluster -1: there was none."""

    event: Happened
    number: int
    cluster: int
    proc: int


class NodeLog(Struct):
    """Which jobs are whose. ``find``: the number of a node's name; None for none."""

    find: Callable[[str], int | None]
    owners: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Nodes without a job that were submitted.
    noops: int = 0
    #: Orders that have been dealt with, by id: why one was refused; "" for one that was carried out.
    orders: dict[str, str] = field(default_factory=dict)

    def read(self, entry: Entry) -> Told | None:
        """What an entry says; None if it is of no node, or changes nothing."""
        if entry.number in (16, 34):
            return self._of_script(entry)
        if entry.number == 8:
            return self._of_order(entry)
        no_job = entry.cluster == 0 and entry.proc == _NOOP_PROC
        key = (0, entry.subproc) if no_job else (entry.cluster, 0)
        proc = 0 if no_job else entry.proc
        name = ""
        if entry.number == 0:
            node = self.find(_named(entry))
            if node is None:
                return None
            self.owners[key] = node
            if no_job:
                self.noops = max(self.noops, entry.subproc)
            name, value = "submit", 0
        elif key not in self.owners:
            return None
        elif entry.number == 5:
            name, value = "terminated", _value(entry)
        elif entry.number == 4 and event_ad(entry).get("TerminatedAndRequeued") is True:
            name, value = "evicted", 0
        elif entry.number in _PLAIN:
            name, value = _PLAIN[entry.number], 0
        else:
            return None
        return Told(Happened(name, self.owners[key], proc, value), entry.number, entry.cluster, entry.proc)

    def _of_script(self, entry: Entry) -> Told | None:
        node = self.find(_named(entry))
        if node is None:
            return None
        if entry.number == 34:
            self.noops = max(self.noops, entry.subproc)
            return Told(Happened("pre_skipped", node), 34, entry.cluster, entry.proc)
        return Told(Happened("post_ended", node, 0, _value(entry)), 16, entry.cluster, max(entry.proc, 0))

    def _of_order(self, entry: Entry) -> Told | None:
        found = _ORDER.fullmatch(entry.title)
        if found is None:
            return None
        self.orders[found[1]] = found[2] or ""
        node = self.find(_named(entry))
        if node is None or found[3] not in ("retry", "skip"):
            return None
        return Told(Happened(found[3], node), 8, entry.cluster, entry.proc)

    def noop(self, name: str, when: str) -> str:
        """The entries of a node that has no job: its submission, and its end."""
        frame = self._next(when)
        return f"{job_events.submitted(frame, _NOOP_HOST, _NODE + name)}{frame.head(5)}{_NOOP_ENDED}"

    def pre_skip(self, name: str, when: str) -> str:
        """The entry of a node that its PRE script has made done."""
        head = self._next(when).head(34)
        return f"{head}PRE script return value is PRE_SKIP value\n    {_NODE}{name}\n{job_events.END}"

    def _next(self, when: str) -> Frame:
        self.noops += 1
        return Frame(0, _NOOP_PROC, when, self.noops)


def post_ended(name: str, cluster: int, proc: int, value: int, when: str) -> str:
    """The entry of a POST script that has ended; a cluster of -1: the node had no job."""
    frame = Frame(cluster, proc, when, 0) if cluster >= 0 else Frame(-1, -1, when, -1)
    how = (
        f"\t(1) Normal termination (return value {value})\n"
        if value >= 0
        else f"\t(0) Abnormal termination (signal {-value})\n"
    )
    return f"{frame.head(16)}POST Script terminated.\n{how}    {_NODE}{name}\n{job_events.END}"


def order(given: Order, when: str, refused: str = "") -> str:
    """The entry that carries out an order of the user, or says why it is refused."""
    said = f" refused: {refused}" if refused else f": {given.do}"
    node = f"    {_NODE}{given.node}\n" if given.node else ""
    return f"{Frame(0, _NOOP_PROC, when).head(8)}DAG order {given.id}{said}\n{node}{job_events.END}"


def _named(entry: Entry) -> str:
    """The node that an entry names."""
    for line in entry.lines:
        if line.startswith(_NODE):
            return line.removeprefix(_NODE)
        if line.startswith("[ DAGNodeName = "):
            try:
                return str(ClassAd(line).get("DAGNodeName", ""))
            except AdSyntaxError:
                return ""
    return ""


def _value(entry: Entry) -> int:
    """An exit status, or the negative number of a signal; that of SIGKILL if the entry does not say."""
    found = ending(entry.lines)
    if found is None:
        return -9
    normal, number = found
    return number if normal else -number


#: How HTCondor calls the entries that tell something.
_ULOG = {
    0: "ULOG_SUBMIT", 1: "ULOG_EXECUTE", 4: "ULOG_JOB_EVICTED", 5: "ULOG_JOB_TERMINATED", 8: "ULOG_GENERIC",
    9: "ULOG_JOB_ABORTED", 12: "ULOG_JOB_HELD", 13: "ULOG_JOB_RELEASED", 16: "ULOG_POST_SCRIPT_TERMINATED",
    34: "ULOG_PRESKIP",
}  # fmt: skip


def ulog_name(number: int) -> str:
    """How HTCondor's own log calls an entry."""
    return _ULOG.get(number, str(number))


__all__ = ["MASK", "NodeLog", "Told", "order", "post_ended", "ulog_name"]
