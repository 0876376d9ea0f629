"""`htcondor2.dags` and `Submit.from_dag` of compat/: what DAGMan reads. Run by test_htcondor2_dags.py."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def module() -> ModuleType:
    """Our htcondor2, which the path of this process names before HTCondor's wheel."""
    found = importlib.import_module("htcondor2")
    importlib.import_module("htcondor2.dags")
    assert "compat" in str(found.__file__)
    return found


def test_a_dag_is_written_as_dagman_reads_it(module: ModuleType, tmp_path: Path) -> None:
    dags = module.dags
    dag = dags.DAG(dagman_config={"DAGMAN_MAX_JOBS_IDLE": 10}, max_jobs_by_category={"io": 2})
    split = dag.layer(name="split", submit_description=module.Submit({"executable": "/bin/split"}), retries=2)
    work = split.child_layer(name="work", vars=[{"n": number, "say": 'a "b"'} for number in range(2)], category="io")
    merge = work.child_layer(name="merge", vars=[{}, {}], post=dags.Script("check.sh", ["x"], retry=True))
    merge.child_layer(edge=dags.OneToOne(), name="copy", vars=[{}, {}])
    path = dags.write_dag(dag, tmp_path)
    lines = path.read_text().splitlines()
    assert path == tmp_path / "dagfile.dag"
    assert {
        "CONFIG dagman.config",
        "MAXJOBS io 2",
        "JOB split:0 split.sub",
        "RETRY split:0 2",
        'VARS work:1 n="1" say="a \\"b\\""',
        "CATEGORY work:0 io",
        "PARENT split:0 CHILD work:0 work:1",
        "PARENT work:0 work:1 CHILD __JOIN__:0",
        "PARENT __JOIN__:0 CHILD merge:0 merge:1",
        "JOB __JOIN__:0 __JOIN__.sub NOOP",
        "SCRIPT DEFER 1 0 POST merge:1 check.sh x",
        "PARENT merge:1 CHILD copy:1",
    } <= set(lines)
    assert (tmp_path / "split.sub").read_text() == "executable = /bin/split\nqueue\n"
    assert (tmp_path / "dagman.config").read_text() == "DAGMAN_MAX_JOBS_IDLE = 10"


def test_a_rescue_file_marks_what_is_done_and_nothing_else(module: ModuleType, tmp_path: Path) -> None:
    dags = module.dags
    dag = dags.DAG()
    done = dag.layer(name="DONE", vars=[{}, {}])
    other = done.child_layer(name="other", done=True)
    path = dags.write_dag(dag, tmp_path)
    with pytest.raises(dags.exceptions.NoRescueFileFound, match=r"dagfile\.dag"):
        dags.find_rescue_file(tmp_path)
    for number in (1, 2):
        (tmp_path / f"{path.name}.rescue00{number}").write_text(f"# made by DAGMan\n\nDONE DONE:{number - 1}\n")
    dags.rescue(dag, dags.find_rescue_file(tmp_path))
    assert (done.done, other.done) == ({1: True}, {})


def test_edges_that_do_not_fit_their_layers_are_refused(module: ModuleType) -> None:
    dags = module.dags
    dag = dags.DAG()
    three = dag.layer(name="three", vars=[{}, {}, {}])
    three.child_layer(edge=dags.OneToOne(), name="two", vars=[{}, {}])
    with pytest.raises(dags.exceptions.OneToOneEdgeNeedsSameNumberOfVars, match="3 nodes"):
        list(dags.writer.DAGWriter(dag).yield_dag_file_lines())
    three.remove_children(dag.glob("two"))
    three.add_children(dag.glob("two"), edge=dags.Grouper(2))
    with pytest.raises(dags.exceptions.IncompatibleGrouper, match="groups of 2"):
        list(dags.writer.DAGWriter(dag).yield_dag_file_lines())
    with pytest.raises(dags.exceptions.DuplicateNodeName):
        dag.layer(name="two")


def test_a_dag_becomes_the_description_of_its_job(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTWISE_HOME", str(tmp_path / "pool"))
    dag = tmp_path / "my.dag"
    dag.write_text("CONFIG my.config\nSET_JOB_ATTR Told = 5\nJOB A a.sub\n")
    (tmp_path / "my.config").write_text("DAGMAN_MAX_JOBS_IDLE = 10\n")
    driver = tmp_path / "condor_dagman"
    driver.write_text("#!/bin/sh\n")
    driver.chmod(0o755)
    options = {"MaxIdle": 5, "force": True, "batch-name": "mine", "PostRun": False, "AppendLines": "My.Two = 2\n"}
    made = module.Submit.from_dag("my.dag", options | {"DagmanPath": str(driver), "ImportEnv": False})
    assert (made["universe"], made["executable"], made["MY.JobBatchName"]) == ("scheduler", str(driver), '"mine"')
    assert "-Dag my.dag " in made["arguments"] and "-MaxIdle 5 -DontAlwaysRunPost" in made["arguments"]
    assert "-AutoRescue 1" in made["arguments"] and "-import_env" not in made["arguments"]
    assert f"_CONDOR_DAGMAN_CONFIG_FILE={tmp_path / 'my.config'}" in made["environment"]
    assert (made["MY.Told"], made["MY.Two"]) == ("5", "2")
    assert (tmp_path / "my.dag.condor.sub").exists()
    own = module.Submit.from_dag("my.dag", {"UpdateSubmit": True})
    assert own["executable"].endswith("condor_names/condor_dagman")
    (tmp_path / "my.dag.lib.out").touch()
    with pytest.raises(module.HTCondorException, match="already exists"):
        module.Submit.from_dag("my.dag")
    with pytest.raises(module.HTCondorException, match="not an option"):
        module.Submit.from_dag("my.dag", {"NoSuch": 1})
    with pytest.raises(module.HTCondorException, match="does not exist"):
        module.Submit.from_dag("nope.dag")


def test_what_this_pool_does_not_have_is_refused_with_a_remedy(module: ModuleType) -> None:
    with pytest.raises(module.HTCondorException, match="token"):
        module.Placementd()
    with pytest.raises(module.HTCondorException, match="not kept"):
        module.Credd().add_password("secret")
