"""The runner of a DAG: carries out what the DAG asks for, and tells it what happens. All decisions are the DAG's.

One thread. What goes on is in the nodes log, which the schedd and the runner write; it is read as soon as something is
written to it. Whatever is done for the first time after a crash is safe to do again: submissions have keys, and
what has no entry in the log has not happened.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, convert, field
from msgspec.structs import replace

from slotwise import durable_files
from slotwise._native import DagData, DagRun
from slotwise.client import EventLog, Schedd
from slotwise.client.descriptions import ReadOptions as DescriptionOptions
from slotwise.dag import leftovers, node_jobs, node_log, node_rows, orders, run_texts, script_line, status_file
from slotwise.dag.acts import Act, DagStatus, Do, Happened, NodeStatus
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.node_jobs import DagFacts, NodeFacts
from slotwise.dag.node_log import NodeLog, Told
from slotwise.dag.options import DagOptions
from slotwise.dag.orders import OrderFile
from slotwise.dag.records import Record
from slotwise.dag.run_settings import RunSettings
from slotwise.dag.run_texts import Jobstate, MetricsFacts
from slotwise.dag.scripts import Script, Scripts
from slotwise.dag.status_file import DagRow, NodeRow
from slotwise.dag.watch import Watch
from slotwise.errors import HostError, PeerUnavailableError, SlotwiseError, SubmitError, UsageError
from slotwise.model.job_events import stamp

#: The exit status of a runner that wants to be started again.
RESTART = 3
#: JobSubmitMethod of nodes' jobs.
_METHOD = 1
#: How often the job of a PROVISIONER node is asked whether it is ready, seconds.
_PROVISIONER_S = 1.0
#: The state of a PROVISIONER node's job in which the rest may begin.
_PROVISIONED = 2


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
    parents: list[str]
    vars: list[tuple[str, str, bool]]
    scripts: list[tuple[str, str, tuple[int, int] | None, tuple[str, str] | None]]
    pre_skip: int | None
    save_point: str | None
    record: Record = field(default_factory=Record)


class Plan(Struct, frozen=True):
    """What a run is of.

    :ivar directory: where the DAG's job runs, absolute.
    :ivar files: the DAG files, as they were named.
    :ivar cluster: of the DAG's job.
    :ivar batch: JobBatchName.
    :ivar version: the release, for the metrics file.
    :ivar parent: cluster of the DAG that this one is a node of; "" for none.
    :ivar rescue: the number of the rescue file that it goes on from; 0 for none.
    :ivar recovers: it goes on where a former runner was ended.
    :ivar inherited: attributes that its jobs get.
    :ivar submit_dag: the program that writes submit descriptions of sub-DAGs, and the options that it is given.
    :ivar force: sub-DAGs begin anew, too.
    """

    directory: Path
    files: tuple[str, ...]
    cluster: int
    batch: str
    version: str
    parent: str = ""
    rescue: int = 0
    recovers: bool = False
    silent: bool = False
    inherited: dict[str, str] = {}
    submit_dag: str = "condor_submit_dag"
    handed_on: tuple[str, ...] = ()
    force: bool = False

    @property
    def primary(self) -> str:
        """The DAG file that gives the other files their names."""
        return self.files[0]


class Runner:
    """One run."""

    def __init__(
        self, plan: Plan, settings: RunSettings, dag: DagData, log: DebugLog, schedd: Schedd, watch: Watch
    ) -> None:
        self._plan, self._settings, self._log, self._schedd, self._watch = plan, settings, log, schedd, watch
        self._run = DagRun(dag, settings.rules)
        self._nodes: dict[int, Node] = {}
        self._entries = NodeLog(self._run.find)
        self._orders = OrderFile(plan.directory / orders.file_name(plan.primary), plan.cluster)
        self._scripts = Scripts()
        self._acts: deque[Act] = deque()
        self._submissions: deque[int] = deque()
        #: Submissions of a run that recovers may have been made before.
        self._again = False
        #: What is to happen when: scripts that run again, submissions that may be tried again.
        self._later: list[tuple[float, Script | int]] = []
        self._refusals = 0
        self._not_before = 0.0
        self._exit: int | None = None
        self._status = 0
        self._halted = False
        self._rescue = 0
        self._jobstate = Jobstate()
        self._started = time.time()
        self._told: dict[str, int] = {}
        self._tell_at = 0.0
        self._status_at = 0.0
        self._status_is_old = True
        self._shown = ""
        self._ask_provisioner_at = 0.0
        self._nodes_log = settings.nodes_log_of(plan.directory, plan.primary, plan.cluster)
        self._facts = DagFacts(
            cluster=plan.cluster, nodes_log=str(self._nodes_log), mask=node_log.MASK, batch=plan.batch,
            hold_claim_s=settings.hold_claim_s, priority=settings.priority, silent=plan.silent,
            inherited=plan.inherited, suppresses_logs=settings.suppresses_logs, records_retry=settings.records_retry,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- the run

    def run(self) -> int:
        """Run the DAG to its end; gives the exit status of its job.

        :raises HostError: the nodes log cannot be written or read.
        """
        try:
            with self._nodes_log.open("a" if self._plan.recovers else "w"):
                pass
        except OSError as error:
            raise HostError(f"cannot write the nodes' log {self._nodes_log}: {error.strerror}") from None
        self._watch.follow(self._nodes_log)
        self._watch.look_into(self._plan.directory)
        if (name := self._run.jobstate_log) is not None:
            with contextlib.suppress(OSError):
                before = (self._plan.directory / name).read_text(errors="surrogateescape")
                self._jobstate.resume(before, self._plan.cluster, recovers=self._plan.recovers)
        self._jobstate_line(self._jobstate.internal(time.time(), f"DAGMAN_STARTED {self._plan.cluster}.0"))
        with EventLog(self._nodes_log) as entries:
            self._begin(entries)
            while self._exit is None:
                if not self._step(entries):
                    self._write_state()
                    self._watch.wait(self._longest_s())
        return self._exit

    def _begin(self, entries: EventLog) -> None:
        self._write_dot(first=True)
        if not self._plan.recovers:
            self._acts.extend(self._run.begin())
            self._perform()
            return
        self._again = True
        self._log.write("Running in RECOVERY mode... >>>>>>>>>>")
        self._jobstate_line(self._jobstate.internal(time.time(), "RECOVERY_STARTED"))
        acts = list(self._run.begin_recovery())
        for told in self._read(entries):
            self._note(told)
            self._jobstate_entry(told)
            acts += self._run.handle(*told.event)
        self._log.write("...done with RECOVERY mode <<<<<<<<<<")
        self._jobstate_line(self._jobstate.internal(time.time(), "RECOVERY_FINISHED"))
        acts += self._run.recovered()
        # Save points of nodes that had started were written then.
        self._acts.extend(act for act in acts if act[0] != Do.SAVE_POINT)
        self._perform()

    def _step(self, entries: EventLog) -> bool:
        """Do what there is to do now; whether there was something."""
        busy = self._take_signals()
        if not self._halted and self._is_halted():
            busy = self._halt() or busy
        busy = self._take_orders() or busy
        for told in self._read(entries):
            busy = True
            self._take(told)
            if self._exit is not None:
                return True
        for script, value in self._scripts.ended():
            busy = True
            self._script_ended(script, value)
        now = time.monotonic()
        due = [one for one in self._later if one[0] <= now]
        for one in due:
            busy = True
            self._later.remove(one)
            if isinstance(one[1], Script):
                self._start_script(one[1])
            else:
                self._tell(Happened("refused", one[1], 0))
        if self._exit is None and self._submissions and now >= self._not_before:
            busy = True
            self._submit(self._submissions.popleft())
        if self._exit is None and self._asks_provisioner(now):
            busy = True
        return busy

    def _longest_s(self) -> float:
        now = time.monotonic()
        times = [at for at, _ in self._later]
        if self._submissions:
            times.append(self._not_before)
        if self._ask_provisioner_at:
            times.append(self._ask_provisioner_at)
        if self._told_is_old():
            times.append(self._tell_at)
        return max(0.0, min([self._settings.scan_s, *(at - now for at in times)]))

    # ------------------------------------------------------------------------------------------------------ the log

    def _read(self, entries: EventLog) -> Iterator[Told]:
        while True:
            try:
                found = entries.next()
            except SlotwiseError as error:
                self._log.write(f"WARNING: {error.message}")
                continue
            if found is None:
                return
            if (told := self._entries.read(found[0])) is not None:
                yield told

    def _append(self, text: str) -> None:
        """Write entries into the nodes log.

        :raises HostError: the disk is full, or the file is gone.
        """
        try:
            fd = os.open(self._nodes_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                os.write(fd, text.encode(errors="surrogateescape"))
            finally:
                os.close(fd)
        except OSError as error:
            raise HostError(f"cannot write the nodes' log {self._nodes_log}: {error.strerror}") from None

    def _note(self, told: Told) -> None:
        """Keep what an entry says beside the node's state."""
        node = self._node(told.event.node)
        if told.event.name == "post_ended":
            state = self._run.state(told.event.node)
            final = node.unless != 0 and node.unless == told.event.value
            node.record.post_ended(told.event.value, self._result(told.event.node, state[3]), final=final)
        else:
            node.record.note(told.event, told.cluster, told.proc)

    def _take(self, told: Told) -> None:
        event = told.event
        node = self._node(event.node)
        self._note(told)
        self._log.write(
            f"Event: {_ULOG.get(told.number, told.number)} for HTCondor Node {node.name} ({told.cluster}.{told.proc}.0)"
        )
        self._jobstate_entry(told)
        self._tell(event)
        most = self._settings.most_holds
        if event.name == "held" and most and node.record.holds == most:
            self._log.write(
                f"Total hold count for node {node.name} has reached DAGMAN_MAX_JOB_HOLDS ({most}); "
                "all its jobs are removed"
            )
            self._remove(f"ClusterId == {told.cluster}", "DAGMAN_MAX_JOB_HOLDS was reached")

    def _jobstate_entry(self, told: Told) -> None:
        """What an entry of the nodes log is in the jobstate log."""
        if self._run.jobstate_log is None:
            return
        now, number, event = time.time(), told.event.node, told.event
        node = self._node(number)
        job = f"{told.cluster}.{told.proc}"
        if event.name == "submit" and node.record.jobs == 1 and not self._has_pre(number):
            self._jobstate.begin(number)
        if name := Jobstate.event(told.number):
            self._jobstate_line(self._jobstate.line(now, number, node.name, name, job))
        if event.name in ("terminated", "aborted"):
            value = event.value if event.name == "terminated" else -1002
            word = "JOB_SUCCESS" if value == 0 else "JOB_FAILURE"
            self._jobstate_line(self._jobstate.line(now, number, node.name, word, str(value)))
        elif event.name == "post_ended":
            word = "POST_SCRIPT_SUCCESS" if event.value == 0 else "POST_SCRIPT_FAILURE"
            self._jobstate_line(self._jobstate.line(now, number, node.name, word, self._job_id(node)))

    @staticmethod
    def _job_id(node: Node) -> str:
        return f"{node.record.cluster}.{node.record.proc}" if node.record.cluster >= 0 else "-"

    # ------------------------------------------------------------------------------------------------------- acts

    def _tell(self, event: Happened) -> None:
        if self._exit is None:
            self._acts.extend(self._run.handle(*event))
            self._perform()

    def _perform(self) -> None:
        while self._acts:
            do, number, first, second = self._acts.popleft()
            if do in (Do.PRE, Do.POST, Do.HOLD):
                self._begin_script(number, do)
            elif do == Do.SUBMIT:
                self._submissions.append(number)
            elif do == Do.NOOP:
                self._append(self._entries.noop(self._run.name(number), self._when()))
            elif do == Do.PRE_SKIP:
                self._append(self._entries.pre_skip(self._run.name(number), self._when()))
            elif do == Do.SAVE_POINT:
                self._write_save_point(number)
            elif do == Do.REMOVE_JOBS:
                self._remove(f"ClusterId == {self._node(number).record.cluster}", "a job of its node has failed")
            elif do == Do.REMOVE_ALL:
                self._remove_all()
            elif do == Do.RESCUE:
                self._write_rescue()
            elif do == Do.FINISH:
                self._finish(first, second)

    @staticmethod
    def _when() -> str:
        return stamp(time.time())

    def _node(self, number: int) -> Node:
        found = self._nodes.get(number)
        if found is None:
            found = self._nodes[number] = convert(self._run.about(number), Node)
        return found

    def _has_pre(self, number: int) -> bool:
        return any(kind == Do.PRE for kind, _, _, _ in self._node(number).scripts)

    # --------------------------------------------------------------------------------------------------- submission

    def _directory(self, node: Node) -> Path:
        return self._plan.directory / node.directory

    def _submit(self, number: int) -> None:
        node = self._node(number)
        try:
            self._send(number, node)
        except (SubmitError, UsageError) as error:
            self._refused(number, node, error.message, for_good=True)
        except (SlotwiseError, OSError) as error:
            text = error.message if isinstance(error, SlotwiseError) else str(error)
            self._refused(number, node, text, for_good=False)
        else:
            self._refusals = 0

    def _send(self, number: int, node: Node) -> None:
        state, counts = self._run.state(number), self._run.counts()
        facts = NodeFacts(
            name=node.name, kind=node.kind, parents=node.parents, has_children=node.has_children,
            priority=node.priority, vars=node.vars, retry=state[2], dag_status=self._run.status,
            failed=counts["failed"],
        )  # fmt: skip
        directory = self._directory(node)
        if not directory.is_dir():
            raise HostError(f"there is no directory {directory}")
        if node.dag_file:
            self._prepare_sub_dag(node, directory, again=state[2] > 0)
        text = self._run.description(node.description)
        if text is None:
            path = directory / node.description
            try:
                text = path.read_text(errors="surrogateescape")
            except OSError as error:
                raise SubmitError(f"{path}: {error.strerror}") from None
        options = DescriptionOptions(
            method=_METHOD, one_cluster=True, name=node.description, directory=str(directory),
            before=node_jobs.before(self._facts, facts), append=node_jobs.append(self._facts, facts), at_least_one=True,
        )  # fmt: skip
        self._log.write(f"Submitting node {node.name} from file {node.description} using direct job submission")
        key = node_jobs.key(self._plan.cluster, node.name, node.record.submissions)
        made = self._schedd.submit(text, None, options, key=key, again=self._again)
        self._log.write(f"\tassigned HTCondor ID ({made.clusters[0]}.0.0)")

    def _prepare_sub_dag(self, node: Node, directory: Path, *, again: bool) -> None:
        """Write the submit description of a sub-DAG anew.

        :raises SubmitError: that is refused.
        """
        priority = node.priority + self._settings.priority
        words = [self._plan.submit_dag, "-no_submit", "-update_submit"]
        words += ["-force"] if self._plan.force and not again else []
        words += ["-Priority", str(priority)] if priority else []
        done = subprocess.run(
            [*words, *self._plan.handed_on, node.dag_file], cwd=directory, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="surrogateescape", check=False,
        )  # fmt: skip
        if done.returncode:
            raise SubmitError(f"condor_submit_dag {node.dag_file}: {done.stderr.strip() or done.stdout.strip()}")

    def _refused(self, number: int, node: Node, text: str, *, for_good: bool) -> None:
        self._log.write(f"ERROR: submission of node {node.name} failed{'' if for_good else ' for now'}: {text}")
        node.record.why = node_rows.NOT_SUBMITTED
        self._jobstate_line(self._jobstate.line(time.time(), number, node.name, "SUBMIT_FAILURE"))
        if for_good:
            self._tell(Happened("refused", number, 1))
            return
        # Others wait as well: what this one met would meet them.
        pause_s = 2.0 ** min(self._refusals, 4)
        self._refusals += 1
        self._not_before = time.monotonic() + pause_s
        self._later.append((self._not_before, number))

    # ------------------------------------------------------------------------------------------------------ removing

    def _remove(self, constraint: str, reason: str) -> None:
        try:
            self._schedd.act("remove", constraint, reason=reason)
        except SlotwiseError as error:
            self._log.write(f"ERROR: removing jobs failed: {error.message}")

    def _remove_all(self) -> None:
        self._submissions.clear()
        self._later.clear()
        self._scripts.kill()
        self._log.write("Removing submitted jobs...")
        self._remove(f"DAGManJobId =?= {self._plan.cluster}", f"DAG {self._plan.cluster} has ended")

    def _take_signals(self) -> bool:
        busy = False
        while self._watch.signals:
            number = self._watch.signals.pop(0)
            busy = True
            if number == signal.SIGUSR1:
                self._log.write("Received SIGUSR1")
                self._tell(Happened("remove"))
            elif number in (signal.SIGTERM, signal.SIGINT):
                self._log.write("Received SIGTERM" if number == signal.SIGTERM else "Received SIGINT")
                self._pause()
        return busy

    def _pause(self) -> None:
        """End so that the DAG goes on later: it is held, or its host goes down."""
        self._scripts.kill()
        self._status = self._run.status
        self._write_status(NodeStatus.SUBMITTED, "held", at_end=False)
        self._jobstate_line(self._jobstate.internal(time.time(), f"DAGMAN_FINISHED {RESTART}"))
        self._exit = RESTART

    def _is_halted(self) -> bool:
        return (self._plan.directory / f"{self._plan.primary}.halt").exists()

    def _halt(self) -> bool:
        self._halted = True
        self._log.write(f"DAG is halted because halt file {self._plan.primary}.halt exists")
        with contextlib.suppress(OSError):
            reason = (self._plan.directory / f"{self._plan.primary}.halt").read_text(errors="replace")[:1000]
            self._log.write(*(f"Halt reason: {line}" for line in reason.splitlines()[:1]))
        withdrawn = [Happened("withdrawn", number) for number in self._submissions]
        self._submissions.clear()
        self._tell(Happened("halt"))
        for event in withdrawn:
            self._tell(event)
        return True

    def _take_orders(self) -> bool:
        """Carry out what the user has ordered since the last look; whether there was something."""
        self._watch.follow(self._orders.path)
        self._orders.dealt_with |= self._entries.orders.keys()
        before = self._orders.distrust
        taken = list(self._orders.take())
        if self._orders.distrust != before and self._orders.distrust:
            self._log.write(f"ERROR: {self._orders.path} is not followed: {self._orders.distrust}")
        for one in taken:
            refused = self._refusal(one)
            self._append(node_log.order(one, self._when(), refused))
            what = f"{one.do} {one.node}".rstrip()
            self._log.write(f"Order {one.id} ({what}) {f'refused: {refused}' if refused else 'is carried out'}")
            if one.do == orders.Do.RESUME and not refused:
                self._halted = False
                self._tell(Happened("resume"))
        return bool(taken)

    def _refusal(self, order: orders.Order) -> str:
        """Why an order cannot be carried out; "" if it can."""
        if order.do == orders.Do.RESUME:
            return "the DAG is not halted" if not self._halted else ""
        number = self._run.find(order.node)
        return "there is no such node" if number is None else self._run.refusal(order.do, number) or ""

    def _asks_provisioner(self, now: float) -> bool:
        if not self._ask_provisioner_at or now < self._ask_provisioner_at:
            return False
        self._ask_provisioner_at = 0.0
        for node in self._nodes.values():
            if node.kind == "provisioner":
                ready = f"ClusterId == {node.record.cluster} && ProvisionerState =?= {_PROVISIONED}"
                with contextlib.suppress(PeerUnavailableError):
                    if self._schedd.query(ready, ["ClusterId"], limit=1):
                        self._tell(Happened("provisioned"))
                        return True
        self._ask_provisioner_at = now + _PROVISIONER_S
        return False

    # ------------------------------------------------------------------------------------------------------- scripts

    def _begin_script(self, number: int, kind: str) -> None:
        node = self._node(number)
        _, line, defer, debug = next(one for one in node.scripts if one[0] == kind)
        if kind == Do.PRE:
            node.record.begin()
            self._jobstate.begin(number)
        if kind != Do.HOLD:
            word = "PRE_SCRIPT_STARTED" if kind == Do.PRE else "POST_SCRIPT_STARTED"
            self._jobstate_line(
                self._jobstate.line(time.time(), number, node.name, word, "-" if kind == Do.PRE else self._job_id(node))
            )
        directory = self._directory(node)
        if kind == Do.PRE and (macro := script_line.unknown_macro(line, before_the_job=True)):
            self._log.write(
                f"ERROR: the PRE script of node {node.name} has {macro}, a macro that PRE scripts do not have"
            )
            self._acts.clear()
            self._write_rescue()
            self._remove_all()
            self._finish(1, DagStatus.ERROR)
            return
        words = script_line.words(line, self._macros(number, node))
        self._log.write(f"Running {kind.upper()} script of Node {node.name}...")
        self._start_script(
            Script(
                number,
                node.name,
                str(kind),
                words,
                directory,
                defer,
                None if debug is None else (directory / debug[0], debug[1]),
            )
        )

    def _macros(self, number: int, node: Node) -> dict[str, str]:
        counts, state = self._run.counts(), self._run.state(number)
        values = {
            "NODE": node.name, "JOB": node.name, "RETRY": str(state[2]), "MAX_RETRIES": str(node.retries),
            "DAGID": str(self._plan.cluster), "DAG_STATUS": str(self._run.status),
            "NODE_COUNT": str(counts["total"]), "DONE_COUNT": str(counts["done"]),
            "FAILED_COUNT": str(counts["failed"]), "FUTILE_COUNT": str(counts["futile"]),
            "QUEUED_COUNT": str(counts["queued"]),
        }  # fmt: skip
        return values | node.record.macros(self._result(number, state[3]))

    def _result(self, number: int, result: int) -> int:
        """$RETURN: of its jobs, or that there were none because its PRE script failed."""
        record = self._node(number).record
        return -1004 if record.pre > 0 and not record.jobs else result

    def _start_script(self, script: Script) -> None:
        value = self._scripts.start(script)
        if value is not None:
            self._script_ended(script, value)

    def _script_ended(self, script: Script, value: int) -> None:
        if script.defer is not None and value == script.defer[0]:
            self._log.write(f"{script.kind.upper()} script of Node {script.name} is deferred for {script.defer[1]} s")
            self._later.append((time.monotonic() + script.defer[1], script))
            return
        node = self._node(script.node)
        how = f"exited with status {value}" if value >= 0 else f"died on signal {-value}"
        self._log.write(f"{script.kind.upper()} Script of Node {script.name} {how}")
        if script.kind == Do.POST:
            self._append(node_log.post_ended(script.name, node.record.cluster, node.record.proc, value, self._when()))
            return
        if script.kind == Do.PRE:
            node.record.pre_ended(value)
            word = "PRE_SCRIPT_SUCCESS" if value == 0 else "PRE_SCRIPT_FAILURE"
            self._jobstate_line(self._jobstate.line(time.time(), script.node, script.name, word))
            if value != 0 and value == node.pre_skip:
                node.record.why = ""
        self._tell(Happened("pre_ended" if script.kind == Do.PRE else "hold_ended", script.node, 0, value))

    # --------------------------------------------------------------------------------------------------------- files

    def _file(self, name: str, text: str) -> None:
        """Write a file beside the DAG; a failure is told, and stops nothing."""
        path = self._plan.directory / name
        fresh = path.with_name(f"{path.name}.tmp")
        try:
            fresh.write_text(text, encoding="utf-8", errors="surrogateescape")
            durable_files.replace(fresh, path)
        except OSError as error:
            self._log.write(f"ERROR: cannot write {path}: {error.strerror}")

    def _created(self) -> str:
        now = time.gmtime()
        return f"{now.tm_mon}/{now.tm_mday}/{now.tm_year} {time.strftime('%H:%M:%S', now)}"

    def _write_rescue(self) -> None:
        asked = DagOptions(files=list(self._plan.files))
        most = self._settings.most_rescues
        # One for a run: that of before a FINAL node is replaced by that of behind it.
        self._rescue = self._rescue or min(most, leftovers.last_rescue(asked, self._plan.directory, most) + 1)
        number = self._rescue
        name = leftovers.rescue_name(asked, number)
        self._log.write(f"Writing Rescue DAG to {name}...")
        heading = f"# Rescue DAG file, created after running\n#   the {self._plan.primary} DAG file\n"
        self._file(name, self._run.rescue_text(heading, self._created(), self._settings.keeps_retries))

    def _write_save_point(self, number: int) -> None:
        node = self._node(number)
        primary = self._plan.primary
        name = leftovers.save_point(primary, node.save_point or f"{node.name}-{Path(primary).name}.save")
        path = self._plan.directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                path.replace(path.with_name(f"{path.name}.old"))
        except OSError as error:
            self._log.write(f"ERROR: cannot write the save point {path}: {error.strerror}")
            return
        heading = f"# Save file written at Start Node {node.name}\n"
        self._file(name, self._run.rescue_text(heading, self._created(), keeps_retries=False))

    def _jobstate_line(self, line: str) -> None:
        name = self._run.jobstate_log
        if name is None or not line:
            return
        try:
            with (self._plan.directory / name).open("a", errors="surrogateescape") as file:
                file.write(line)
        except OSError as error:
            self._log.write(f"ERROR: cannot write {name}: {error.strerror}")

    def _row(self, number: int) -> NodeRow:
        return node_rows.row(self._run, number, self._node(number))

    def _write_status(self, status: NodeStatus, how: str, *, at_end: bool) -> None:
        found = self._run.status_file
        if found is None:
            return
        rows = [self._row(number) for number in self._run.order()]
        counts = self._run.counts()
        held, idle = counts["jobs_held"], counts["jobs_idle"]
        if at_end:
            rows = [status_file.caught(row) for row in rows]
            held = idle = 0
        now = time.time()
        ended = at_end and how != "aborted"
        following = 0.0 if ended else now + (60 if found[1] is None else max(1, found[1]))
        dag = DagRow(self._plan.files, status, how, counts["total"], held, idle)
        self._file(found[0], status_file.text(dag, rows, now, following))
        self._status_at = time.monotonic()
        self._status_is_old = False

    def _write_dot(self, *, first: bool) -> None:
        dot = self._run.dot
        if dot is None:
            return
        name, updates, overwrites, header = dot
        if not first and not updates:
            return
        if first:
            self._dot_name = name
            if not overwrites:
                number = 0
                while (self._plan.directory / f"{name}.{number}").exists():
                    number += 1
                self._dot_name = f"{name}.{number}"
        included = None
        if header is not None:
            with contextlib.suppress(OSError):
                included = (header, (self._plan.directory / header).read_text(errors="surrogateescape"))
        self._file(self._dot_name, self._run.dot_text(time.ctime(), included))

    def _write_state(self) -> None:
        """The files and the ad that follow the DAG while it runs."""
        counts = repr(self._run.counts())
        changed = counts != self._shown
        if changed:
            self._write_dot(first=False)
            self._status_is_old = True
        if (found := self._run.status_file) is not None:
            least_s = 60 if found[1] is None else max(1, found[1])
            due = not self._status_at or time.monotonic() >= self._status_at + least_s
            if due and (self._status_is_old or found[2]):
                self._write_status(NodeStatus.SUBMITTED, "", at_end=False)
        if (provisioner := self._provisioner()) is not None and not self._ask_provisioner_at:
            status = self._run.state(provisioner)[0]
            if status == NodeStatus.SUBMITTED:
                self._ask_provisioner_at = time.monotonic()
        self._shown = counts
        if self._told_is_old() and time.monotonic() >= self._tell_at:
            self._tell_schedd()

    def _provisioner(self) -> int | None:
        if "_provisioner_node" not in self.__dict__:
            found = [number for number in self._run.order() if self._node(number).kind == "provisioner"]
            self._provisioner_node = found[0] if found else None
        return self._provisioner_node

    # ---------------------------------------------------------------------------------------------------- the DAG's ad

    def _attributes(self) -> dict[str, int]:
        made = run_texts.attributes(self._run.counts(), self._run.status, recovers=False, hold_scripts=0)
        return made | {"DAG_JobsRunning": 0} if self._exit == 0 else made

    def _told_is_old(self) -> bool:
        return self._attributes() != self._told

    def _tell_schedd(self) -> None:
        made = self._attributes()
        changed = {name: value for name, value in made.items() if self._told.get(name) != value}
        self._tell_at = time.monotonic() + self._settings.update_s
        values: dict[str, object] = dict(changed)
        if not self._told:
            rules = self._settings.rules
            values |= {
                "DAGMan_MaxJobs": rules["max_jobs"], "DAGMan_MaxIdle": rules["max_idle"],
                "DAGMan_MaxPreScripts": rules["max_pre"], "DAGMan_MaxPostScripts": rules["max_post"],
                "DAGMan_MaxHoldScripts": rules["max_hold"], "JobBatchName": self._plan.batch,
                "JobBatchId": f"{self._plan.cluster}.0",
            }  # fmt: skip
        values["DAG_AdUpdateTime"] = int(time.time())
        try:
            self._schedd.edit(f"{self._plan.cluster}.0", values)  # type: ignore[arg-type]
            self._told = made
        except SlotwiseError as error:
            self._log.write(f"WARNING: the DAG's job's ad was not updated: {error.message}")

    # ----------------------------------------------------------------------------------------------------------- end

    def _finish(self, exit_status: int, status: int) -> None:
        self._exit, self._status = exit_status, status
        self._write_state()
        self._write_dot(first=False)
        how = run_texts.overall(status, exit_status=exit_status)
        self._write_status(*how, at_end=True)
        rows = [(self._row(number), self._node(number)) for number in (*self._run.order(), *self._run.services())]
        if exit_status == 0:  # as HTCondor, which has removed them
            done = NodeStatus.DONE
            rows = [(replace(row, status=done) if node.kind == "service" else row, node) for row, node in rows]
        nodes = [(row, node.kind, bool(node.dag_file)) for row, node in rows]
        facts = MetricsFacts(
            self._plan.version, self._started, time.time(), exit_status, str(self._plan.cluster), self._plan.parent,
            self._plan.rescue, any(node.kind == "final" for _, node in rows), status,
        )  # fmt: skip
        self._file(f"{self._plan.primary}.metrics", run_texts.metrics(facts, nodes, self._run.counts()))
        self._tell_schedd()
        self._jobstate_line(self._jobstate.internal(time.time(), f"DAGMAN_FINISHED {exit_status}"))
        if status == DagStatus.CYCLE:
            self._log.write("ERROR: DAG finished but not all nodes are complete -- checking for a cycle...")
        self._log.write("All jobs Completed!" if exit_status == 0 else "Aborting DAG...")


#: How HTCondor calls the entries of the nodes log.
_ULOG = {
    0: "ULOG_SUBMIT", 1: "ULOG_EXECUTE", 4: "ULOG_JOB_EVICTED", 5: "ULOG_JOB_TERMINATED", 8: "ULOG_GENERIC",
    9: "ULOG_JOB_ABORTED", 12: "ULOG_JOB_HELD", 13: "ULOG_JOB_RELEASED", 16: "ULOG_POST_SCRIPT_TERMINATED",
    34: "ULOG_PRESKIP",
}  # fmt: skip

__all__ = ["RESTART", "Plan", "Runner"]
