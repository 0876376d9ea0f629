"""``slotwise dag status|why|graph|retry|skip|rescue``: a DAG's state by its files, without a pool."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest
from slotwise._native import DagRun
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.dag import drawing, forecast, node_log, orders, reading, rescue_edits, runner_log
from slotwise.dag.acts import NodeStatus
from slotwise.dag.drawing import Dot
from slotwise.dag.forecast import Work
from slotwise.dag.node_log import NodeLog
from slotwise.dag.orders import Do, Order, OrderFile
from slotwise.errors import HostError
from slotwise.model.job_event_reader import parse

DIAMOND = """JOB A a.sub
JOB B b.sub
JOB C b.sub
JOB D d.sub
PARENT A CHILD B C
PARENT B C CHILD D
RETRY C 2
"""
START = "11/30/26 10:00:00 ** condor_scheduniv_exec.7.0 (CONDOR_DAGMAN) STARTING UP\n"


def called(directory: Path, *words: str, status: int = 0) -> str:
    out, err = io.StringIO(), io.StringIO()
    environment = {"HOME": str(directory), "SLOTWISE_HOME": str(directory / "pool")}
    done = dispatch(["dag", *words], Invocation(directory, environment, io.StringIO(), out, err))
    assert done == status, (out.getvalue(), err.getvalue())
    return out.getvalue() + err.getvalue()


def entry(number: int, cluster: int, second: int, text: str) -> str:
    return f"{number:03} ({cluster:03}.000.000) 2026-11-30 10:{second // 60:02}:{second % 60:02} {text}\n...\n"


def submitted(node: str, cluster: int, second: int) -> str:
    more = f'Job submitted from host: <1.2.3.4>\n    [ DAGNodeName = "{node}" ]'
    return entry(0, cluster, second, more)


def ended(cluster: int, second: int, status: int) -> str:
    return entry(5, cluster, second, f"Job terminated.\n\t(1) Normal termination (return value {status})")


def a_run(directory: Path, *entries: str, dag: str = DIAMOND, log: str = "") -> None:
    (directory / "x.dag").write_text(dag)
    (directory / "x.dag.nodes.log").write_text("".join(entries))
    (directory / "x.dag.dagman.out").write_text(START + log)


def states(directory: Path) -> dict[str, str]:
    told = json.loads(called(directory, "status", "--json", "x.dag"))
    return {node["name"]: node["state"] for node in told["nodes"]}


# ------------------------------------------------------------------------------------------------------------- status


def test_states_follow_from_the_nodes_log(tmp_path: Path) -> None:
    a_run(
        tmp_path, submitted("A", 8, 0), ended(8, 30, 0), submitted("B", 9, 31), submitted("C", 10, 31), ended(9, 61, 1)
    )
    assert states(tmp_path) == {"A": "done", "B": "error", "C": "submitted", "D": "futile"}
    shown = called(tmp_path, "status", "x.dag")
    assert "25.0% done" in shown
    assert "B (x.dag:2): Job proc (9.0.0) failed with status 1" in shown
    assert re.search(r"^C +not_idle|^C +idle", shown, re.M)


def test_the_rescue_file_that_a_run_went_on_from_counts_and_one_that_it_wrote_does_not(tmp_path: Path) -> None:
    a_run(tmp_path, submitted("C", 10, 31), log="11/30/26 10:00:01 Running rescue DAG 1\n")
    (tmp_path / "x.dag.rescue001").write_text("DONE A\n")
    (tmp_path / "x.dag.rescue002").write_text("DONE A\nDONE B\n")
    assert states(tmp_path) == {"A": "done", "B": "ready", "C": "submitted", "D": "not_ready"}


def test_pre_scripts_and_refused_submissions_are_told_by_the_runners_log(tmp_path: Path) -> None:
    a_run(
        tmp_path,
        dag="JOB A a.sub\nSCRIPT PRE A p.sh\nRETRY A 1\nJOB B b.sub\nJOB C c.sub\nPARENT B CHILD C\n",
        log="11/30/26 10:00:01 PRE Script of Node A exited with status 3\n"
        "11/30/26 10:00:02 PRE Script of Node A failed with status 3\n"
        "11/30/26 10:00:02 ERROR: submission of node B failed: b.sub: no such file\n",
    )
    assert states(tmp_path) == {"A": "error", "B": "error", "C": "futile"}
    shown = called(tmp_path, "why", "x.dag", "A", "C")
    assert "PRE Script failed with status 3 (after 1 node retries)" in shown
    assert "B, an ancestor, failed: Job submit failed" in shown
    first, last = json.loads(called(tmp_path, "why", "--json", "x.dag", "A", "C"))
    assert (first["name"], first["state"], last["state"]) == ("A", "error", "futile")
    assert first["why"] + [""] + last["why"] == shown.splitlines()


def test_a_pre_script_that_failed_before_an_attempt_with_a_job_counts_once(tmp_path: Path) -> None:
    a_run(
        tmp_path, submitted("A", 8, 5),
        dag="JOB A a.sub\nSCRIPT PRE A p.sh\nRETRY A 3\n",
        log="11/30/26 10:00:05 PRE Script of Node A exited with status 3\n",
    )  # fmt: skip
    told = json.loads(called(tmp_path, "status", "--json", "x.dag"))
    assert (told["nodes"][0]["state"], told["nodes"][0]["retries"]) == ("submitted", 1)
    (why,) = json.loads(called(tmp_path, "why", "-json", "x.dag", "A"))
    assert why["state"] == "submitted" and "jobs" not in why and why["error"], "there is no pool to ask"


def test_nodes_that_a_rescue_file_names_have_failed_whatever_the_logs_say(tmp_path: Path) -> None:
    a_run(tmp_path, submitted("A", 8, 0), ended(8, 30, 0))
    header = "# Nodes that failed: 1\n#   B,<ENDLIST>\n\nDONE A\n"
    (tmp_path / "x.dag.rescue001").write_text(header)
    assert states(tmp_path) == {"A": "done", "B": "error", "C": "ready", "D": "futile"}


def test_a_dag_that_was_not_submitted_is_shown_as_it_would_begin(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text(DIAMOND)
    shown = called(tmp_path, "status", "x.dag")
    assert shown.startswith("DAG [x.dag] was not run yet.") and "0.0% done" in shown


def test_a_dag_with_errors_or_none_is_refused(tmp_path: Path) -> None:
    assert "there is no DAG file x.dag" in called(tmp_path, "status", "x.dag", status=1)
    (tmp_path / "x.dag").write_text("JOB A\n")
    assert "x.dag:1" in called(tmp_path, "status", "x.dag", status=2)
    (tmp_path / "x.dag").write_text("JOB A a\n")
    assert "did you mean A?" in called(tmp_path, "why", "x.dag", "a", status=2)


# ---------------------------------------------------------------------------------------------------------------- why


def test_why_names_parents_throttles_and_the_line_of_the_file(tmp_path: Path) -> None:
    a_run(
        tmp_path, submitted("A", 8, 0), ended(8, 30, 0), submitted("B", 9, 31),
        dag=DIAMOND + "CATEGORY B few\nCATEGORY C few\nMAXJOBS few 1\n",
    )  # fmt: skip
    shown = called(tmp_path, "why", "x.dag", "D", "C", "A")
    assert "D waits for its parents (x.dag:4)." in shown
    assert "with jobs in the queue: B." in shown and "ready but not submitted: C." in shown
    assert "1 nodes of its category few are submitted, and no more may be (MAXJOBS few 1)." in shown
    assert "30 s after its submission" in shown


def test_why_of_a_failed_node_names_what_can_never_run(tmp_path: Path) -> None:
    a_run(tmp_path, submitted("A", 8, 0), ended(8, 30, 2))
    shown = called(tmp_path, "why", "x.dag", "A")
    assert "failed with status 2" in shown and "Nodes that can never run for it: B, C, D." in shown


# ----------------------------------------------------------------------------------------------------------- forecast


def test_a_forecast_by_nodes_of_the_same_kind() -> None:
    done = NodeStatus.DONE
    nodes = {
        0: Work(done, "a", (), 100.0, 10.0),
        1: Work(done, "b", (0,), 110.0, 100.0),
        2: Work(NodeStatus.SUBMITTED, "b", (0,), 180.0),
        3: Work(NodeStatus.NOT_READY, "a", (1, 2)),
        4: Work(NodeStatus.FUTILE, "b", (0,)),
    }
    told = forecast.forecast(nodes, 200.0)
    assert told.path == (2, 3)
    assert told.path_s == pytest.approx(80.0 + 10.0)
    many = nodes | {number: Work(NodeStatus.READY, "a", (1,)) for number in range(10, 110)}
    told = forecast.forecast(many, 200.0)
    assert told.left_s == pytest.approx((80 + 10 + 100 * 10) / 2), "two nodes at once were the most"
    assert forecast.forecast({0: Work(NodeStatus.READY, "a")}, 0.0) == forecast.Forecast((0,), None, None)
    assert forecast.forecast({0: Work(done, "a", (), 1.0, 1.0)}, 9.0).path == ()


# ------------------------------------------------------------------------------------------------------------ drawing


def test_a_small_dag_has_a_box_a_node_and_a_large_one_a_box_a_kind() -> None:
    waiting, done = NodeStatus.NOT_READY, NodeStatus.DONE
    dots = {0: Dot("A", done), 1: Dot("B<", waiting, (0,)), 2: Dot("C", waiting, (0,)), 3: Dot("D", waiting, (1, 2))}
    drawn = drawing.picture(dots)
    assert [[box.label for box in row] for row in drawn.rows] == [["A"], ["B<", "C"], ["D"]]
    assert ((0, 0), (1, 1)) in drawn.edges and len(drawn.edges) == 4
    assert "B&lt;" in drawing.svg(drawn, "x") and "B<" not in drawing.svg(drawn, "x")
    assert drawing.text(drawn, 80).splitlines()[0] == "0 | # A"
    wide = {0: Dot("A", done)} | {n: Dot(f"w{n}", done if n < 50 else waiting, (0,), "w.sub") for n in range(1, 10_001)}
    drawn = drawing.picture(wide)
    assert [len(row) for row in drawn.rows] == [1, 1] and drawn.edges == {((0, 0), (1, 0))}
    assert drawn.rows[1][0].label == "10000 w.sub" and drawn.rows[1][0].states == {done: 49, waiting: 9951}
    deep = {n: Dot(f"n{n}", waiting, (n - 1,) if n else ()) for n in range(10_000)}
    assert len(drawing.picture(deep).rows) <= drawing.DEEPEST
    assert len(drawing.svg(drawing.picture(deep), "x")) < 100_000


def test_a_bar_shows_every_state_that_occurs() -> None:
    states = {NodeStatus.DONE: 9_998, NodeStatus.ERROR: 1, NodeStatus.NOT_READY: 1}
    assert drawing.bar(states, 10) == "########-!"


def test_levels_of_a_cycle_are_below_all_others() -> None:
    waiting = NodeStatus.NOT_READY
    found = drawing.levels({0: Dot("A", waiting), 1: Dot("B", waiting, (0, 2)), 2: Dot("C", waiting, (1,))})
    assert found[0] == 0 and found[1] == found[2] == 1


def test_graphs_are_written_as_svg_and_for_dot(tmp_path: Path) -> None:
    a_run(tmp_path, submitted("A", 8, 0))
    called(tmp_path, "graph", "x.dag", "--svg", "x.svg")
    assert (tmp_path / "x.svg").read_text().startswith("<svg ")
    assert '"A" -> "B";' in called(tmp_path, "graph", "x.dag", "--dot", "-")
    assert "= A" in called(tmp_path, "graph", "x.dag")
    assert "cannot write no/x.svg" in called(tmp_path, "graph", "x.dag", "--svg", "no/x.svg", status=1)


def test_graphs_for_programs_have_boxes_in_rows_and_what_is_between_them(tmp_path: Path) -> None:
    a_run(tmp_path, submitted("A", 8, 0))
    found = json.loads(called(tmp_path, "graph", "x.dag", "--json"))
    assert found["counts"] == {"submitted": 1, "not_ready": 3} and found["edges_left_out"] == 0
    assert [[box["label"] for box in row] for row in found["rows"]] == [["A"], ["B", "C"], ["D"]]
    assert found["edges"] == [[0, 0, 1, 0], [0, 0, 1, 1], [1, 0, 2, 0], [1, 1, 2, 0]]
    (first,) = found["rows"][0]
    assert (first["job"], first["running"], first["failed"]) == (8, ["A"], [])
    narrow = json.loads(called(tmp_path, "graph", "x.dag", "--json", "--widest", "1"))
    assert narrow["rows"][1][0]["nodes"] == 2 and narrow["rows"][1][0]["states"] == {"not_ready": 2}
    assert "1 or more" in called(tmp_path, "graph", "x.dag", "--widest", "0", status=2)


# ------------------------------------------------------------------------------------------------------------- orders


def test_orders_are_read_once_and_those_of_other_runs_and_of_the_log_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.dag.orders"
    given = orders.new(7, Do.RETRY, ["A", "B"])
    orders.give(path, [*given, *orders.new(6, Do.SKIP, ["C"])])
    file = OrderFile(path, 7, {given[0].id})
    assert list(file.take()) == [given[1]]
    assert list(file.take()) == []
    more = orders.new(7, Do.RESUME)
    orders.give(path, more)
    with path.open("a") as half:
        half.write("7 0123456789ab skip")
    assert list(file.take()) == more


@pytest.mark.parametrize(
    "bad", ["7 0123456789ab rm A", "7 0123456789ab skip A B", "x 0123456789ab skip A", "7 1 skip A"]
)
def test_lines_that_are_no_orders_are_passed_over(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "x.dag.orders"
    path.write_text(f"{bad}\n")
    path.chmod(0o600)
    assert list(OrderFile(path, 7).take()) == []


def test_a_file_that_others_may_write_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "x.dag.orders"
    orders.give(path, orders.new(7, Do.SKIP, ["A"]))
    path.chmod(0o666)
    file = OrderFile(path, 7)
    assert list(file.take()) == [] and file.distrust == "others may write it"
    path.chmod(0o600)
    assert [one.node for one in file.take()] == ["A"]
    path.rename(tmp_path / "aside")
    path.symlink_to(tmp_path / "aside")
    with pytest.raises(HostError, match="cannot write"):
        orders.give(path, orders.new(7, Do.SKIP, ["A"]))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of other accounts")
def test_another_accounts_file_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "x.dag.orders"
    orders.give(path, orders.new(7, Do.SKIP, ["A"]))
    os.chown(path, 65534, 65534)
    file = OrderFile(path, 7)
    assert list(file.take()) == [] and file.distrust == "it is another account's"


def test_entries_of_orders_are_read_as_they_were_written() -> None:
    log = NodeLog({"A": 3}.get)
    when = "2026-11-30 10:00:00"
    texts = [
        node_log.order(Order(7, "0" * 12, Do.RETRY, "A"), when),
        node_log.order(Order(7, "1" * 12, Do.SKIP, "A"), when, "it is done"),
        node_log.order(Order(7, "2" * 12, Do.RESUME), when),
    ]
    told = [log.read(parse(text.removesuffix("...\n"), 2026)) for text in texts]
    assert told[0] is not None and told[0].event[:2] == ("retry", 3)
    assert told[1:] == [None, None]
    assert log.orders == {"0" * 12: "", "1" * 12: "it is done", "2" * 12: ""}


def test_orders_in_the_nodes_log_are_replayed(tmp_path: Path) -> None:
    retry = node_log.order(Order(7, "0" * 12, Do.RETRY, "A"), "2026-11-30 10:00:40")
    skip = node_log.order(Order(7, "1" * 12, Do.SKIP, "B"), "2026-11-30 10:00:41")
    a_run(tmp_path, submitted("A", 8, 0), ended(8, 30, 2), retry, skip)
    assert states(tmp_path) == {"A": "ready", "B": "done", "C": "not_ready", "D": "not_ready"}


# -------------------------------------------------------------------------------------------------------- rescue files


RESCUE = "# Created 11/30/2026 10:00:00 UTC\n# Nodes that failed: 1\n#   B,<ENDLIST>\n\nDONE A\nDONE C\n"


def test_nodes_of_a_dag_that_has_ended_are_marked_in_its_rescue_file(tmp_path: Path) -> None:
    a_run(tmp_path, submitted("A", 8, 0), ended(8, 30, 0))
    assert "has no rescue file" in called(tmp_path, "skip", "x.dag", "B", status=2)
    (tmp_path / "x.dag.rescue001").write_text(RESCUE)
    assert "B: counts as done when x.dag is submitted again" in called(tmp_path, "skip", "x.dag", "B")
    assert rescue_edits.about((tmp_path / "x.dag.rescue001").read_text()).done == ("A", "C", "B")
    called(tmp_path, "retry", "x.dag", "A", "B")
    assert rescue_edits.about((tmp_path / "x.dag.rescue001").read_text()).done == ("C",)
    assert "it did so already" in called(tmp_path, "retry", "x.dag", "A")


def test_rescue_files_are_listed_and_chosen(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text(DIAMOND)
    assert "has no rescue files" in called(tmp_path, "rescue", "x.dag")
    assert json.loads(called(tmp_path, "rescue", "x.dag", "--json")) == []
    for number in (1, 2):
        (tmp_path / f"x.dag.rescue00{number}").write_text(RESCUE)
    shown = called(tmp_path, "rescue", "x.dag")
    assert re.search(r"1 11/30/2026 10:00:00 UTC +2 +1 B", shown) and "goes on from number 2" in shown
    first, second = json.loads(called(tmp_path, "rescue", "x.dag", "--json"))
    assert (first["number"], first["done"], first["failed"], first["is_next"]) == (1, ["A", "C"], ["B"], False)
    assert second["is_next"] and second["file"].endswith("x.dag.rescue002")
    assert "there is no x.dag.rescue009" in called(tmp_path, "rescue", "x.dag", "--use", "9", status=1)
    called(tmp_path, "rescue", "x.dag", "--use", "1")
    assert (tmp_path / "x.dag.rescue002.old").exists() and (tmp_path / "x.dag.rescue001").exists()
    called(tmp_path, "rescue", "x.dag", "--none")
    assert not list(tmp_path.glob("*.rescue00?"))


def test_the_last_run_of_a_runners_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.dag.dagman.out"
    path.write_text(
        f"{START}11/30/26 10:00:01 Running rescue DAG 3\n{START}11/30/26 10:00:01 Found rescue DAG number 4\n"
    )
    assert runner_log.read(runner_log.last_run(path)).rescue == 4
    assert runner_log.last_run(tmp_path / "none") == ""


def test_places_of_nodes_are_those_of_their_commands(tmp_path: Path) -> None:
    (tmp_path / "in.dag").write_text("# inner\nJOB I i.sub\n")
    (tmp_path / "x.dag").write_text("JOB A a.sub\nSPLICE S in.dag\nJOB B b.sub\nPARENT A CHILD S\n")
    dag = reading.read(["x.dag"], reading.ReadOptions(str(tmp_path)))
    names = (
        "max_jobs", "max_idle", "max_pre", "max_post", "max_hold", "submit_attempts", "tolerance",
        "always_post", "depth_first", "retry_first", "remove_rest", "remove_jobs", "rescues",
    )  # fmt: skip
    run = DagRun(dag, {name: 0 if at < 7 else False for at, name in enumerate(names)})
    places = {run.name(number): run.place(number) for number in run.order()}
    assert places == {"A": ("x.dag", 1), "S+I": ("in.dag", 2), "B": ("x.dag", 3)}
    inner = run.find("S+I")
    assert inner is not None and run.dependencies(inner) == [(run.find("A"), False)]
