"""A DAG as its files tell: its nodes log replayed with the core that runs it, as a runner does that recovers.

Reads alone, so that it works for a DAG that runs, is held, has ended, or is run by HTCondor's condor_dagman.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field

from slotwise._native import DagData, DagRun
from slotwise.client.event_log import EventLog
from slotwise.dag import leftovers, locate, reading, rescue_edits, run_settings, runner_log
from slotwise.dag.acts import DagStatus, Happened, NodeStatus
from slotwise.dag.locate import Place
from slotwise.dag.node_log import NodeLog, Told
from slotwise.dag.nodes import NOT_SUBMITTED, Node, Nodes
from slotwise.dag.reading import Problem
from slotwise.dag.run_settings import RunSettings
from slotwise.dag.runner_log import RunnerLog, Said
from slotwise.dag.status_file import NodeRow
from slotwise.errors import NotFoundError, SlotwiseError, UsageError


class Times(Struct):
    """When a node's present attempt came how far, in seconds since the epoch; 0: not yet.

    :ivar script: since when its PRE or POST script runs; 0: none does, or it waits.
    """

    submitted: float = 0.0
    executed: float = 0.0
    ended: float = 0.0
    script: float = 0.0

    @property
    def took_s(self) -> float:
        """From its submission to its end, in seconds; 0: it has not ended."""
        return self.ended - self.submitted if self.ended and self.submitted else 0.0


class View(Struct):
    """A DAG at one moment.

    :ivar times: of nodes that were submitted, by number.
    :ivar rescue: the rescue file from which the run goes on, or would; 0: none.
    :ivar newest_rescue: the last rescue file; 0: none.
    :ivar is_running: a runner works at it.
    :ivar was_run: it has been run.
    :ivar is_halted: the halt file is there.
    """

    place: Place
    settings: RunSettings
    run: DagRun
    nodes: Nodes
    times: dict[int, Times]
    rescue: int
    newest_rescue: int
    is_running: bool
    was_run: bool
    is_halted: bool
    orders: dict[str, str] = field(default_factory=dict)
    _rows: dict[int, NodeRow] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The DAG's files."""
        return " ".join(self.place.options.files)

    def node(self, number: int) -> Node:
        """What the files say of a node."""
        return self.nodes[number]

    def row(self, number: int) -> NodeRow:
        """A node's state."""
        found = self._rows.get(number)
        if found is None:
            found = self._rows[number] = self.nodes.row(number)
        return found

    def number(self, name: str) -> int:
        """The node of a name.

        :raises UsageError: there is none.
        """
        found = self.run.find(name)
        if found is None:
            like = [one for one in (self.run.name(n) for n in self.run.order()) if one.lower() == name.lower()]
            inner = [one for one in (self.run.name(n) for n in self.run.order()) if one.endswith(f"+{name}")]
            hint = f"did you mean {' or '.join((like + inner)[:3])}?" if like or inner else "names have letter case"
            raise UsageError(f"{self.name} has no node {name}", hint=hint)
        return found

    @property
    def state(self) -> str:
        """What its job does, in a word or two."""
        ad = self.place.ad
        if self.is_running:
            return "halted" if self.is_halted or self.run.status == DagStatus.HALTED else "running"
        status = None if ad is None else ad.get("JobStatus")
        if status == 5:
            return "held"
        if status == 1:
            return "waits to be started"
        if not self.was_run:
            return "not run yet"
        return "ended"


def view(place: Place, env: Mapping[str, str], home: Path | None) -> View:
    """The DAG of a place as it is now.

    :raises UsageError: its files cannot be run.
    :raises ConfigError: a configuration file is rejected.
    """
    settings, dag = _read(place, env, home)
    log_path = place.nodes_log(settings.nodes_log)
    told = runner_log.read(runner_log.last_run(place.debug_log))
    was_run = log_path.exists() or place.debug_log.exists()
    newest = leftovers.last_rescue(place.options.files, place.directory, settings.most_rescues)
    rescue = told.rescue if was_run else newest
    dag = _rescued(dag, place, settings, rescue)
    run = DagRun(dag, settings.rules)
    nodes, times = Nodes(run, place.directory), dict[int, Times]()
    running = locate.is_running(place)
    made = View(
        place, settings, run, nodes, times, rescue, newest, running, was_run, place.beside("halt").exists(),
    )  # fmt: skip
    run.begin_recovery()
    made.orders = _replay(made, log_path, told)
    if not running and newest > rescue:
        _fail_as_told(made, place.directory / leftovers.rescue_name(place.options.files, newest))
    return made


def _read(place: Place, env: Mapping[str, str], home: Path | None) -> tuple[RunSettings, DagData]:
    own = ""
    while True:
        admin, knobs = run_settings.configuration(env, home, own)
        settings = run_settings.settings(place.options, str(place.directory), admin, knobs)
        dag = reading.read(place.options.files, settings.reading)
        if not dag.is_valid:
            first: Problem = next(one for one in reading.problems(dag) if one.severity == "error")
            raise UsageError(str(first), hint="`slotwise dag check` lists all that is wrong")
        if own or not dag.configs:
            return settings, dag
        own = dag.configs[0]


def _rescued(dag: DagData, place: Place, settings: RunSettings, rescue: int) -> DagData:
    options = place.options
    name = options.rescue_file
    if options.load_save:
        name = leftovers.save_point(options.primary, options.load_save)
    elif rescue:
        name = leftovers.rescue_name(options.files, rescue)
    if not name:
        return dag
    with contextlib.suppress(OSError):
        text = (place.directory / name).read_text(errors="surrogateescape")
        return reading.rescued(dag, name, text, settings.reading)
    return dag


class _Replay:
    """Brings the entries of the nodes log and what the runner's log says beside them into one order: a node's own."""

    def __init__(self, made: View, told: RunnerLog) -> None:
        self._made, self._run = made, made.run
        self._waiting: dict[int, deque[Said]] = {}
        for said in told.said:
            number = self._run.find(said.node)
            if number is not None:
                self._waiting.setdefault(number, deque()).append(said)

    def entry(self, told: Told, at: float) -> None:
        number = told.event.node
        self.say(number, at, or_at_once=told.event.name == "submit")
        node = self._made.node(number)
        times = self._made.times.setdefault(number, Times())
        name = told.event.name
        if name == "submit" and (told.cluster != node.record.cluster or not told.cluster):
            times.submitted, times.executed, times.ended, times.script = at, 0.0, 0.0, 0.0
        elif name == "execute":
            times.executed = times.executed or at
        elif name in ("terminated", "aborted", "post_ended", "pre_skipped"):
            times.ended, times.script = at, 0.0
        self._made.nodes.note(told)
        self._run.handle(*told.event)

    def say(self, number: int, until: float, *, or_at_once: bool) -> None:
        """Tell what the runner's log says of a node before a moment; with ``or_at_once`` in the same second, too."""
        waiting = self._waiting.get(number)
        while waiting and (waiting[0].at < until or (or_at_once and waiting[0].at == until)):
            self._said(number, waiting.popleft())

    def rest(self) -> None:
        """Tell what is left."""
        for number in self._waiting:
            self.say(number, float("inf"), or_at_once=True)

    def _said(self, number: int, said: Said) -> None:
        node, status = self._made.node(number), NodeStatus(self._run.state(number)[0])
        times = self._made.times.setdefault(number, Times())
        if said.what == "pre_begun":
            times.script = said.at if status == NodeStatus.PRERUN else 0.0
        elif said.what == "post_begun":
            times.script = said.at if status == NodeStatus.POSTRUN else 0.0
        elif said.what == "pre_ended":
            node.record.begin()
            node.record.pre_ended(said.value)
            times.script, times.ended = 0.0, said.at
            self._run.handle("pre_ended", number, 0, said.value)
        else:
            node.record.why = NOT_SUBMITTED
            times.ended = said.at
            self._run.handle("refused", number, int(said.what == "refused"))


def _replay(made: View, log_path: Path, told: RunnerLog) -> dict[str, str]:
    """Tell the run what has happened; gives the orders that were dealt with."""
    entries, replay = NodeLog(made.run.find), _Replay(made, told)
    with contextlib.suppress(NotFoundError), EventLog(log_path) as log:
        while True:
            try:
                found = log.next()
            except SlotwiseError:  # an entry that is none; the runner's log tells of it
                continue
            if found is None:
                break
            if (one := entries.read(found[0])) is not None:
                replay.entry(one, datetime.fromisoformat(found[0].time).timestamp())
    replay.rest()
    return entries.orders


def _fail_as_told(made: View, rescue: Path) -> None:
    """Nodes that had failed when the run ended, by its rescue file, though no log says how."""
    try:
        failed = rescue_edits.about(rescue.read_text(errors="surrogateescape")).failed
    except OSError:
        return
    for name in failed:
        number = made.run.find(name)
        if number is None or made.run.state(number)[0] in (NodeStatus.ERROR, NodeStatus.FUTILE, NodeStatus.DONE):
            continue
        made.node(number).record.why = f"failed; {made.place.debug_log.name} says why"
        made.run.handle(*Happened("refused", number, 1))


__all__ = ["Times", "View", "view"]
