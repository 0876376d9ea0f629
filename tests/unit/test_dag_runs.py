"""What the runner of DAGs decides and writes, without a pool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from slotwise._native import DagRun
from slotwise.client import Schedd
from slotwise.client.schedd import Keyed
from slotwise.dag import node_jobs, node_log, reading, run_options, run_settings, run_texts, script_line, status_file
from slotwise.dag.acts import Do, Happened, NodeStatus
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.jobstate_file import JobstateFile
from slotwise.dag.node_jobs import DagFacts, NodeFacts
from slotwise.dag.node_log import NodeLog
from slotwise.dag.nodes import Nodes
from slotwise.dag.plan import Plan
from slotwise.dag.records import Record
from slotwise.dag.run_texts import Jobstate
from slotwise.dag.running import Running
from slotwise.dag.status_file import NodeRow
from slotwise.dag.submission import Submissions
from slotwise.errors import PeerUnavailableError, SlotwiseError, UsageError
from slotwise.execution import dagman
from slotwise.model.job_event_reader import parse
from slotwise.release import HTCONDOR

RULES = {
    "max_jobs": 0, "max_submits": 0, "max_idle": 1000, "max_pre": 20, "max_post": 20, "max_hold": 20,
    "submit_attempts": 6, "remove_rest": True, "remove_jobs": True, "rescues": True,
}  # fmt: skip


def run_of(tmp_path: Path, text: str) -> DagRun:
    (tmp_path / "x.dag").write_text(text)
    dag = reading.read(["x.dag"], reading.ReadOptions(str(tmp_path)))
    assert dag.is_valid, reading.problems(dag)
    return DagRun(
        dag,
        {name: RULES.get(name, False) for name in (*RULES, "always_post", "depth_first", "retry_first", "holds_failed")}
        | {"tolerance": 0},
    )


def test_events_in_acts_out(tmp_path: Path) -> None:
    run = run_of(tmp_path, "JOB A a.sub\nJOB B b.sub\nPARENT A CHILD B\n")
    first, second = run.find("A"), run.find("B")
    assert first is not None and second is not None
    assert [act[:2] for act in run.begin()] == [(Do.SUBMIT, first)]
    run.handle("submit", first)
    assert [act[:2] for act in run.handle("terminated", first)] == [(Do.SUBMIT, second)]
    run.handle("submit", second)
    acts = run.handle("terminated", second, 0, -9)
    assert acts[0][0] == Do.RESCUE
    assert acts[-1] == (Do.FINISH, 0, 1, 2)
    assert run.state(second)[:2] == (NodeStatus.ERROR, False)
    with pytest.raises(ValueError, match='no event "odd"'):
        run.handle("odd")
    with pytest.raises(ValueError, match="no node 7"):
        run.handle("submit", 7)


def running(tmp_path: Path, text: str) -> Running:
    run = run_of(tmp_path, text)
    admin, knobs = run_settings.configuration({}, tmp_path, "")
    options = run_options.parse(["-Lockfile", "x.dag.lock", "-Dag", "x.dag"])
    log, nodes = DebugLog(tmp_path / "x.dag.dagman.out"), Nodes(run, tmp_path)
    return Running(
        plan=Plan(tmp_path, ("x.dag",), 7, "x.dag+7", HTCONDOR),
        settings=run_settings.settings(options, str(tmp_path), admin, knobs),
        run=run, nodes=nodes, nodes_log=tmp_path / "x.dag.nodes.log", log=log, jobstate=JobstateFile(None, nodes, log),
    )  # fmt: skip


class _Silent:
    """A schedd that takes submissions and goes away before it answers."""

    def submit_each(self, asked: Sequence[Keyed]) -> list[SlotwiseError]:
        return [PeerUnavailableError("the schedd does not answer") for _ in asked]


def test_a_submission_without_an_answer_is_repeated_unless_the_log_has_its_job(tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text("executable = /bin/true\nqueue\n")
    dag = running(tmp_path, "JOB A a.sub\nJOB B a.sub\n")
    run = dag.run
    submissions = Submissions(dag, cast(Schedd, _Silent()), again=False)
    for act in run.begin():
        submissions.add(act[1])
    assert not submissions.go_on(0.0)
    run.handle("submit", 0)
    submissions.queued(0)
    at = submissions.next_at()
    assert at is not None
    assert submissions.go_on(at).events == [Happened("refused", 1, 0)]
    assert submissions.next_at() is None
    dag.log.close()


def test_the_runners_own_entries_are_read_as_what_they_tell() -> None:
    names = {"A": 0, "B": 1}
    log = NodeLog(names.get)
    written = log.noop("B", "2026-11-30 08:00:00")
    entries = [parse(text, 2026) for text in written.split("...\n") if text]
    told = [log.read(entry) for entry in entries]
    assert [one and one.event for one in told] == [Happened("submit", 1), Happened("terminated", 1)]
    skipped = log.read(parse(log.pre_skip("A", "2026-11-30 08:00:00").removesuffix("...\n"), 2026))
    assert skipped is not None and skipped.event == Happened("pre_skipped", 0)
    assert (skipped.number, skipped.proc, log.noops) == (34, 2147483647, 2)
    for value in (0, 3, -15):
        text = node_log.post_ended("A", -1, -1, value, "2026-11-30 08:00:00")
        ended = log.read(parse(text.removesuffix("...\n"), 2026))
        assert ended is not None and ended.event == Happened("post_ended", 0, 0, value)
    assert text.startswith("016 (-01.-01.-01) ")


def test_entries_of_strangers_tell_nothing() -> None:
    log = NodeLog({"A": 0}.get)
    text = '000 (012.000.000) 2026-11-30 08:00:00 Job submitted from host: <h>\n    [ DAGNodeName = "{}" ]\n'
    assert log.read(parse(text.format("Z"), 2026)) is None
    assert log.read(parse("005 (012.000.000) 2026-11-30 08:00:00 Job terminated.\n", 2026)) is None
    told = log.read(parse(text.format("A"), 2026))
    assert told is not None and (told.cluster, told.event) == (12, Happened("submit", 0))
    held = log.read(parse("012 (012.003.000) 2026-11-30 08:00:00 Job was held.\n", 2026))
    assert held is not None and held.event == Happened("held", 0, 3)


def test_script_lines() -> None:
    values = {"NODE": "A", "RETURN": "-1004"}
    assert script_line.words("p.sh $node x$NODE '$RETURN' $RETURN", values) == [
        "p.sh",
        "A",
        "x$NODE",
        "'$RETURN'",
        "-1004",
    ]
    assert script_line.unknown_macro("p.sh $NODE $JOBID", before_the_job=True) == "$JOBID"
    assert not script_line.unknown_macro("p.sh $NODE $JOBID", before_the_job=False)
    assert script_line.unknown_macro("$SHELL $FROB", before_the_job=False) == "$FROB"


def test_a_record_tells_scripts_what_became_of_the_jobs() -> None:
    record = Record()
    for proc in range(4):
        record.note(Happened("submit", 0, proc), 12, proc)
    record.note(Happened("terminated", 0, 2, 5), 12, 2)
    for proc in (0, 1, 3):
        record.note(Happened("aborted", 0, proc), 12, proc)
    made = record.macros(5)
    assert (made["EXIT_CODES"], made["EXIT_CODE_COUNTS"], made["EXIT_CODE_LIST"]) == ("5", "5:1", "5,")
    assert (made["JOB_COUNT"], made["JOB_ABORT_COUNT"], made["JOBID"], made["SUCCESS"]) == ("4", "3", "12.3", "False")
    assert record.why == "Job proc (12.2.0) failed with status 5"
    record.post_ended(1, 5, final=False)
    assert record.why == "Job exited with status 5 and POST Script failed with status 1"


def test_statements_of_a_nodes_jobs() -> None:
    dag = DagFacts(7, "/d/x.dag.nodes.log", "0,1", "x.dag+7", priority=2)
    node = NodeFacts("A", "job", ["P", "Q"], True, 3, [("one", "1", False), ("+Two", '"2"', True)], 0, 0, 0)
    before, behind = node_jobs.before(dag, node), node_jobs.append(dag, node)
    assert "one = 1" in before and "DAG_PARENT_NAMES = P,Q" in before and "RETRY = 0" in before
    for statement in (
        'MY.Two = "2"', "MY.DAGManJobId = 7", 'MY.DAGNodeName = "A"', 'MY.DAGParentNodeNames = "P,Q"',
        "MY.KeepClaimIdle = 20", "priority = 5", 'MY.DAGManNodesLog = "/d/x.dag.nodes.log"',
    ):  # fmt: skip
        assert statement in behind
    assert (
        len({node_jobs.key(7, "A", 0), node_jobs.key(7, "A", 1), node_jobs.key(8, "A", 0), node_jobs.key(7, "B", 0)})
        == 4
    )
    assert node_jobs.key(7, "A", 0) == node_jobs.key(7, "A", 0)


def test_jobstate_lines_are_written_once_whatever_runner_writes_them() -> None:
    first = Jobstate()
    written = [
        first.internal(1, "DAGMAN_STARTED 7.0"),
        first.line(1, 0, "A", "SUBMIT", "8.0"),
        first.line(2, 1, "B", "SUBMIT", "9.0"),
    ]
    assert written[1:] == ["1 A SUBMIT 8.0 - - 1\n", "2 B SUBMIT 9.0 - - 2\n"]
    again = Jobstate()
    again.resume("".join(written), 7, recovers=True)
    assert again.line(5, 1, "B", "SUBMIT", "9.0") == ""
    assert again.line(5, 1, "B", "EXECUTE", "9.0") == "5 B EXECUTE 9.0 - - 2\n"
    assert again.line(5, 2, "C", "SUBMIT", "10.0") == "5 C SUBMIT 10.0 - - 3\n"
    rescue = Jobstate()
    rescue.resume("".join(written), 11, recovers=False)
    assert rescue.line(9, 1, "B", "SUBMIT", "9.0").endswith(" 3\n")


def test_nodes_that_the_end_finds_at_work_have_failed() -> None:
    row = status_file.caught(NodeRow("A", NodeStatus.SUBMITTED, "idle", queued=1))
    assert (row.status, row.details, row.queued) == (NodeStatus.ERROR, "Was STATUS_SUBMITTED", 0)
    row = NodeRow("A", NodeStatus.READY)
    assert status_file.caught(row) is row
    assert run_texts.overall(4, exit_status=2) == (NodeStatus.ERROR, "removed")
    assert run_texts.overall(2, exit_status=0) == (NodeStatus.DONE, "success")


def test_words_of_the_runner() -> None:
    options = run_options.parse(
        ["-f", "-l", ".", "-Lockfile", "x.lock", "-Dag", "x.dag", "-Dag", "y.dag", "-MaxJobs", "3"]
    )
    assert (options.files, options.lock_file, options.max_jobs) == (["x.dag", "y.dag"], "x.lock", 3)
    for words, text in (
        (["-Frob"], "unknown option -Frob"),
        (["-Dag"], "-Dag needs a value"),
        (["-Dag", "x", "-MaxIdle", "many"], "-MaxIdle many: not a number"),
        (["-Dag", "x", "-SubmitMethod", "0"], "-SubmitMethod 0"),
        ([], "no -Dag FILE"),
    ):
        with pytest.raises(UsageError, match=text):
            run_options.parse(words)


def test_slotwises_own_condor_dagman_is_told_from_htcondors() -> None:
    ours = "/usr/lib/python3/dist-packages/slotwise/condor_names/condor_dagman"
    assert dagman.runs_dags(ours) and not dagman.is_dagman(ours)
    assert dagman.runs_dags("/usr/bin/condor_dagman") and dagman.is_dagman("/usr/bin/condor_dagman")
    assert not dagman.runs_dags("/bin/true")


def test_places_of_jobs_in_the_jobstate_log() -> None:
    assert node_jobs.tag('executable = a\n+pegasus_site = "local"\nqueue\n') == "local"
    assert node_jobs.tag('+job_tag_name = "+place"\n+Place = "far"\n+pegasus_site = "local"\n') == "far"
    assert node_jobs.tag("+pegasus_site = $(site)\n") == node_jobs.tag("queue\n") == "-"


def test_macros_of_the_nodes_log() -> None:
    plan = Plan(Path("/w"), ("d/x.dag",), 7, "x.dag+7", "25.14", owner="ann", node="S")
    assert plan.nodes_log("@(DAG_DIR)/@(DAG_FILE).nodes.log") == Path("/w/d/x.dag.nodes.log")
    assert plan.nodes_log("/l/@(OWNER)-@(NODE_NAME)-@(CLUSTER)") == Path("/l/ann-S-7")
