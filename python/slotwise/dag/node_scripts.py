"""Scripts of nodes: their words, their places, and what their ends mean."""

from __future__ import annotations

import time

from slotwise.dag import node_log, script_line
from slotwise.dag.acts import Do, Happened
from slotwise.dag.nodes import Node
from slotwise.dag.running import Effects, Running
from slotwise.dag.scripts import Script, Scripts
from slotwise.model.job_events import stamp


class NodeScripts:
    """Those that run, and those that run again later (DEFER)."""

    def __init__(self, dag: Running) -> None:
        self._dag = dag
        self._scripts = Scripts()
        self._deferred: list[tuple[float, Script]] = []

    def begin(self, number: int, kind: str) -> Effects:
        """Run a script of a node."""
        dag, node = self._dag, self._dag.nodes[number]
        _, line, defer, debug = next(one for one in node.scripts if one[0] == kind)
        if kind == Do.PRE:
            node.record.begin()
        dag.jobstate.script_begins(number, node, kind)
        if kind == Do.PRE and (macro := script_line.unknown_macro(line, before_the_job=True)):
            return Effects(
                error=f"the PRE script of node {node.name} has {macro}, a macro that PRE scripts do not have"
            )
        directory = dag.nodes.place(number)
        output = None if debug is None else (directory / debug[0], debug[1])
        words = script_line.words(line, self._macros(number, node))
        dag.log.write(f"Running {kind.upper()} script of Node {node.name}...")
        return self._start(Script(number, node.name, str(kind), words, directory, defer, output))

    def go_on(self, now: float) -> Effects:
        """Take those that have ended, and run those whose time has come again."""
        effects = Effects()
        for script, value in self._scripts.ended():
            effects += self._ended(script, value)
        for one in [one for one in self._deferred if one[0] <= now]:
            self._deferred.remove(one)
            effects += self._start(one[1])
        return effects

    def next_at(self) -> float | None:
        """When one runs again, on the monotonic clock; None: none does."""
        return min((at for at, _ in self._deferred), default=None)

    def kill(self) -> None:
        """End all of them."""
        self._deferred.clear()
        self._scripts.kill()

    def _macros(self, number: int, node: Node) -> dict[str, str]:
        dag, run = self._dag, self._dag.run
        counts = run.counts()
        values = {
            "NODE": node.name, "JOB": node.name, "RETRY": str(run.state(number)[2]), "MAX_RETRIES": str(node.retries),
            "DAGID": str(dag.plan.cluster), "DAG_STATUS": str(run.status),
            "NODE_COUNT": str(counts["total"]), "DONE_COUNT": str(counts["done"]),
            "FAILED_COUNT": str(counts["failed"]), "FUTILE_COUNT": str(counts["futile"]),
            "QUEUED_COUNT": str(counts["queued"]),
        }  # fmt: skip
        return values | node.record.macros(dag.nodes.result(number))

    def _start(self, script: Script) -> Effects:
        value = self._scripts.start(script)
        return Effects() if value is None else self._ended(script, value)

    def _ended(self, script: Script, value: int) -> Effects:
        log, kind = self._dag.log, script.kind.upper()
        if script.defer is not None and value == script.defer[0]:
            log.write(f"{kind} script of Node {script.name} is deferred for {script.defer[1]} s")
            self._deferred.append((time.monotonic() + script.defer[1], script))
            return Effects()
        node = self._dag.nodes[script.node]
        how = f"exited with status {value}" if value >= 0 else f"died on signal {-value}"
        log.write(f"{kind} Script of Node {script.name} {how}")
        if script.kind == Do.POST:
            record, now = node.record, stamp(time.time())
            return Effects(entries=[node_log.post_ended(script.name, record.cluster, record.proc, value, now)])
        if script.kind == Do.PRE:
            node.record.pre_ended(value)
            self._dag.jobstate.pre_ended(script.node, node, value)
            if value != 0 and value == node.pre_skip:
                node.record.why = ""
            return Effects(events=[Happened("pre_ended", script.node, 0, value)])
        return Effects(events=[Happened("hold_ended", script.node, 0, value)])


__all__ = ["NodeScripts"]
