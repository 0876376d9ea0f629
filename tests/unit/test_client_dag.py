"""``slotwise.client.Dag``: what is written, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.client import Dag, DagJob
from slotwise.errors import UsageError


def test_a_dag_is_written_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTWISE_HOME", str(tmp_path / "pool"))
    (tmp_path / "a.sub").write_text("executable = /bin/true\nqueue\n")
    dag = Dag(max_jobs={"io": 2})
    first = dag.node("A", "a.sub", retries=2, unless_exit=7, vars={"says": 'a "b" \\c'}, category="io")
    second = dag.node("B", {"executable": "/bin/echo", "arguments": "@END"}, after=[first], priority=3, pre_skip=4)
    dag.node("C", Path("a.sub"), after_even_if_failed=[second], noop=True)
    dag.final("last", "executable = /bin/true\nqueue\n")
    assert dag.check("x.dag") == []
    assert set(dag.text.splitlines()) >= {
        "JOB A a.sub", "RETRY A 2 UNLESS-EXIT 7", 'VARS A says="a \\"b\\" \\\\c"', "CATEGORY A io", "MAXJOBS io 2",
        "PARENT A CHILD B", "WEAK PARENT B CHILD C", "JOB C a.sub NOOP", "PRIORITY B 3", "PRE_SKIP B 4",
    }  # fmt: skip
    states = DagJob(Path("x.dag")).states()
    assert {name: node.state for name, node in states.items()} == {
        "A": "ready", "B": "not_ready", "C": "not_ready", "last": "not_ready",
    }  # fmt: skip
    assert DagJob(Path("x.dag")).why("B")[0] == "B waits for its parents (x.dag:5)."


@pytest.mark.parametrize("name", ["", "a b", "S+A", "parent", "ALL_NODES", "a\nJOB b x"])
def test_names_that_no_node_can_have_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a node"):
        Dag().node(name, "a.sub")


def test_values_with_line_ends_are_refused() -> None:
    dag = Dag()
    for at, setting in enumerate(
        ({"pre": "a\nJOB X y"}, {"vars": {"k": "a\nb"}}, {"category": "a\nb"}, {"directory": "a\nb"})
    ):
        with pytest.raises(UsageError, match="more than one line"):
            dag.node(f"n{at}", "a.sub", **setting)  # type: ignore[arg-type]
    other = Dag().node("other", "a.sub")
    with pytest.raises(UsageError, match="another DAG"):
        dag.node("A", "a.sub", after=[other])
    dag.node("A", "a.sub")
    with pytest.raises(UsageError, match="already"):
        dag.node("A", "a.sub")
