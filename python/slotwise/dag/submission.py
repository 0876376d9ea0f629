"""Submits nodes: several in one message, each with a key that is the same when it is sent again."""

from __future__ import annotations

import subprocess
from collections import deque
from pathlib import Path

from slotwise.client import Schedd
from slotwise.client.descriptions import ReadOptions
from slotwise.client.schedd import Keyed
from slotwise.dag import node_jobs
from slotwise.dag.acts import Happened
from slotwise.dag.node_jobs import DagFacts, NodeFacts
from slotwise.dag.node_log import MASK
from slotwise.dag.nodes import NOT_SUBMITTED, Node
from slotwise.dag.running import Effects, Running
from slotwise.errors import HostError, SlotwiseError, SubmitError, UsageError

#: JobSubmitMethod of nodes' jobs.
_METHOD = 1
#: Why a node may have one job only, in HTCondor's words.
_ONE = "Submit generated multiple job procs; disallowed by DAGMAN_PROHIBIT_MULTI_JOBS setting"
_ONE_OF_PROVISIONER = "Submit generated multiple job procs; disallowed for PROVISIONER nodes"
#: Nodes in one message at most: the schedd commits them together, and the log is looked at in between.
_TOGETHER = 64


class Submissions:
    """The nodes that are to be submitted, in their order.

    :ivar again: they may have been sent by a former runner: the schedd then gives the answer of then.
    """

    def __init__(self, dag: Running, schedd: Schedd, *, again: bool) -> None:
        self._dag, self._schedd, self.again = dag, schedd, again
        self._waiting: deque[int] = deque()
        #: Nodes that were refused for now, and when the DAG is told: it submits them again.
        self._refused: list[tuple[float, int]] = []
        self._refusals = 0
        self._not_before = 0.0
        plan, settings = dag.plan, dag.settings
        self._facts = DagFacts(
            cluster=plan.cluster, nodes_log=str(dag.nodes_log), mask=MASK, batch=plan.batch,
            hold_claim_s=settings.hold_claim_s, priority=settings.priority, silent=settings.silent,
            inherited=plan.inherited, suppresses_logs=settings.suppresses_logs, records_retry=settings.records_retry,
            machine_attrs=settings.machine_attrs,
        )  # fmt: skip

    def add(self, number: int) -> None:
        """A node is ready."""
        self._waiting.append(number)

    def queued(self, number: int) -> None:
        """The nodes log has the job of a node: if no answer came to its submission, the schedd had taken it."""
        self._refused = [one for one in self._refused if one[1] != number]

    def withdraw(self) -> Effects:
        """Submit none of them."""
        numbers = [*self._waiting, *(number for _, number in self._refused)]
        self._waiting.clear()
        self._refused.clear()
        return Effects(events=[Happened("withdrawn", number) for number in numbers])

    def next_at(self) -> float | None:
        """When there is something to do, on the monotonic clock; None: not of itself."""
        times = [at for at, _ in self._refused]
        if self._waiting:
            times.append(self._not_before)
        return min(times, default=None)

    def go_on(self, now: float) -> Effects:
        """Do what is due."""
        effects = Effects()
        for one in [one for one in self._refused if one[0] <= now]:
            self._refused.remove(one)
            effects.events.append(Happened("refused", one[1], 0))
        if self._waiting and now >= self._not_before:
            effects += self._send(now)
        return effects

    def _send(self, now: float) -> Effects:
        """Submit the next nodes."""
        effects = Effects()
        sent: list[tuple[int, Node]] = []
        asked: list[Keyed] = []
        while self._waiting and len(asked) < _TOGETHER:
            number = self._waiting[0]
            node = self._dag.nodes[number]
            if node.dag_file and asked:
                break  # what prepares it takes a while
            self._waiting.popleft()
            try:
                asked.append(self._described(number, node))
            except (SlotwiseError, OSError) as error:
                effects += self._failed(number, node, error, now)
            else:
                sent.append((number, node))
                self._dag.log.write(
                    f"Submitting node {node.name} from file {node.description} using direct job submission"
                )
        for (number, node), answer in zip(sent, self._schedd.submit_each(asked), strict=True):
            if isinstance(answer, SlotwiseError):
                effects += self._failed(number, node, answer, now)
            else:
                self._refusals = 0
                self._dag.log.write(f"\tassigned HTCondor ID ({answer.clusters[0]}.0.0) to node {node.name}")
        return effects

    def _described(self, number: int, node: Node) -> Keyed:
        """A node's submission.

        :raises SubmitError: it cannot be submitted, HostError: not now.
        """
        dag, run = self._dag, self._dag.run
        retry = run.state(number)[2]
        facts = NodeFacts(
            name=node.name, kind=node.kind, parents=run.parents(number), has_children=node.has_children,
            priority=node.priority, vars=node.vars, retry=retry, dag_status=run.status,
            failed=run.counts()["failed"], on_hold=run.is_on_hold(number),
        )  # fmt: skip
        directory = dag.nodes.place(number)
        if not directory.is_dir():
            raise HostError(f"there is no directory {directory}")
        if node.dag_file:
            self._prepare_sub_dag(node, directory, again=retry > 0)
        try:
            text = dag.nodes.description(number)
        except OSError as error:
            raise SubmitError(f"{directory / node.description}: {error.strerror}") from None
        options = ReadOptions(
            method=_METHOD, one_cluster=True, name=node.description, directory=str(directory),
            before=node_jobs.before(self._facts, facts), append=node_jobs.append(self._facts, facts), at_least_one=True,
            single=_ONE_OF_PROVISIONER if node.kind == "provisioner" else _ONE if dag.settings.prohibits_many else "",
        )  # fmt: skip
        key = node_jobs.key(dag.plan.cluster, node.name, node.record.submissions)
        return Keyed(text, options, key, self.again)

    def _prepare_sub_dag(self, node: Node, directory: Path, *, again: bool) -> None:
        """Write the submit description of a sub-DAG anew.

        :raises SubmitError: that is refused.
        """
        plan = self._dag.plan
        priority = node.priority + self._dag.settings.priority
        words = [plan.submit_dag, "-no_submit", "-update_submit"]
        words += ["-force"] if plan.force and not again else []
        words += ["-Priority", str(priority)] if priority else []
        done = subprocess.run(
            [*words, *plan.handed_on, node.dag_file], cwd=directory, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="surrogateescape", check=False,
        )  # fmt: skip
        if done.returncode:
            raise SubmitError(f"condor_submit_dag {node.dag_file}: {done.stderr.strip() or done.stdout.strip()}")

    def _failed(self, number: int, node: Node, error: SlotwiseError | OSError, now: float) -> Effects:
        text = error.message if isinstance(error, SlotwiseError) else str(error)
        self._dag.log.write(f"ERROR: submission of node {node.name} failed: {text}")
        node.record.why = NOT_SUBMITTED
        self._dag.jobstate.refused(number, node)
        if isinstance(error, SubmitError | UsageError):
            return Effects(events=[Happened("refused", number, 1)])
        # Others wait as well: what this one met would meet them.
        if self._not_before <= now:
            self._not_before = now + 2.0 ** min(self._refusals, 4)
            self._refusals += 1
        self._refused.append((self._not_before, number))
        return Effects()


__all__ = ["Submissions"]
