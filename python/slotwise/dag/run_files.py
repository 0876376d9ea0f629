"""The files that a run writes beside its DAG: rescue files, save points, node status, dot and metrics files."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from msgspec.structs import replace

from slotwise import whole_file
from slotwise.dag import leftovers, run_texts, status_file
from slotwise.dag.acts import NodeStatus
from slotwise.dag.run_texts import MetricsFacts
from slotwise.dag.running import Running
from slotwise.dag.status_file import DagRow

#: The least time between two writes of a node status file that names none, seconds.
_STATUS_S = 60


class RunFiles:
    """Those of one run. What cannot be written is told in the debug log, and stops nothing."""

    def __init__(self, dag: Running) -> None:
        self._dag = dag
        self._started = time.time()
        #: The number of the rescue file of this run; 0: none was written.
        self._rescue = 0
        self._dot_name = ""
        self._shown: dict[str, int] = {}
        self._status_at: float | None = None
        self._status_is_old = True

    def begin(self) -> None:
        """What is written before anything runs."""
        if (dot := self._dag.run.dot) is None:
            return
        self._dot_name = dot[0]
        if not dot[2]:
            number = 0
            while (self._dag.plan.directory / f"{dot[0]}.{number}").exists():
                number += 1
            self._dot_name = f"{dot[0]}.{number}"
        self._write_dot()

    def follow(self, now: float) -> None:
        """Write what follows the DAG while it runs. ``now``: on the monotonic clock."""
        run = self._dag.run
        if run.status_file is None and run.dot is None:
            return
        counts = run.counts()
        if counts != self._shown:
            self._shown = counts
            self._status_is_old = True
            if run.dot is not None and run.dot[1]:
                self._write_dot()
        if (at := self._status_due()) is not None and now >= at:
            self.write_status(NodeStatus.SUBMITTED, "", at_end=False)

    def next_at(self) -> float | None:
        """When the node status file is to be written; None: when something changes."""
        return self._status_due()

    def _status_due(self) -> float | None:
        found = self._dag.run.status_file
        if found is None or not (self._status_is_old or found[2]):
            return None
        least_s = _STATUS_S if found[1] is None else max(1, found[1])
        return 0.0 if self._status_at is None else self._status_at + least_s

    def write_rescue(self) -> None:
        """One for a run: that of before a FINAL node is replaced by that of behind it."""
        plan, settings = self._dag.plan, self._dag.settings
        most = settings.most_rescues
        self._rescue = self._rescue or min(most, leftovers.last_rescue(plan.files, plan.directory, most) + 1)
        name = leftovers.rescue_name(plan.files, self._rescue)
        self._dag.log.write(f"Writing Rescue DAG to {name}...")
        heading = f"# Rescue DAG file, created after running\n#   the {plan.primary} DAG file\n"
        self._write(name, self._dag.run.rescue_text(heading, _created(), settings.keeps_retries))

    def write_save_point(self, number: int) -> None:
        """The nodes that are done, as a node starts; the file of before is kept as ``.old``."""
        node, primary = self._dag.nodes[number], self._dag.plan.primary
        name = leftovers.save_point(primary, node.save_point or f"{node.name}-{Path(primary).name}.save")
        path = self._dag.plan.directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                path.replace(path.with_name(f"{path.name}.old"))
        except OSError as error:
            self._dag.log.write(f"ERROR: cannot write the save point {path}: {error.strerror}")
            return
        heading = f"# Save file written at Start Node {node.name}\n"
        self._write(name, self._dag.run.rescue_text(heading, _created(), keeps_retries=False))

    def write_status(self, status: NodeStatus, how: str, *, at_end: bool) -> None:
        """The node status file, if there is one. ``how``: the word behind the DAG's status, such as "success"."""
        run = self._dag.run
        found = run.status_file
        if found is None:
            return
        rows = [self._dag.nodes.row(number) for number in run.order()]
        counts = run.counts()
        held, idle = counts["jobs_held"], counts["jobs_idle"]
        if at_end:
            rows = [status_file.caught(row) for row in rows]
            held = idle = 0
        now = time.time()
        ended = at_end and how != "aborted"
        following = 0.0 if ended else now + (_STATUS_S if found[1] is None else max(1, found[1]))
        whole = DagRow(self._dag.plan.files, status, how, counts["total"], held, idle)
        self._write(found[0], status_file.text(whole, rows, now, following))
        self._status_at = time.monotonic()
        self._status_is_old = False

    def write_last(self, exit_status: int, status: int) -> None:
        """What is written when the DAG is over. ``status``: DAG_Status."""
        dot = self._dag.run.dot
        if dot is not None and dot[1]:
            self._write_dot()
        shown, how = run_texts.overall(status, exit_status=exit_status)
        self.write_status(shown, how, at_end=True)
        self._write_metrics(exit_status, status)

    def _write_metrics(self, exit_status: int, status: int) -> None:
        run, nodes, plan = self._dag.run, self._dag.nodes, self._dag.plan
        rows = [(nodes.row(number), nodes[number]) for number in (*run.order(), *run.services())]
        if exit_status == 0:  # as HTCondor, which has removed them
            done = NodeStatus.DONE
            rows = [(replace(row, status=done) if node.kind == "service" else row, node) for row, node in rows]
        facts = MetricsFacts(
            plan.version, self._started, time.time(), exit_status, str(plan.cluster), plan.parent,
            plan.rescue, any(node.kind == "final" for _, node in rows), status,
        )  # fmt: skip
        kinds = [(row, node.kind, bool(node.dag_file)) for row, node in rows]
        self._write(f"{plan.primary}.metrics", run_texts.metrics(facts, kinds, run.counts()))

    def _write_dot(self) -> None:
        dot = self._dag.run.dot
        if dot is None:
            return
        header, included = dot[3], None
        if header is not None:
            with contextlib.suppress(OSError):
                included = (header, (self._dag.plan.directory / header).read_text(errors="surrogateescape"))
        self._write(self._dot_name, self._dag.run.dot_text(time.ctime(), included))

    def _write(self, name: str, text: str) -> None:
        path = self._dag.plan.directory / name
        try:
            whole_file.write(path, text)
        except OSError as error:
            self._dag.log.write(f"ERROR: cannot write {path}: {error.strerror}")


def _created() -> str:
    now = time.gmtime()
    return f"{now.tm_mon}/{now.tm_mday}/{now.tm_year} {time.strftime('%H:%M:%S', now)}"


__all__ = ["RunFiles"]
