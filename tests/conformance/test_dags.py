"""DAG files that HTCondor refuses, and what condor_submit_dag writes and prints. Recorded with HTCondor 25.14.1."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.htcondor import dag as verb
from slotwise.cli.main import dispatch
from slotwise.dag import reading

CASES = [json.loads(line) for line in (Path(__file__).with_name("dags") / "refused.jsonl").read_text().splitlines()]
#: What the recording keeps of a log.
_KEPT = ("ERROR", "Error", "WARNING", "Warning", "Processing error", "Failed to parse", "DAG marked")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_first_error_is_logged_as_by_htcondor(case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text)
    dag = reading.read(["x.dag"], reading.ReadOptions(str(tmp_path)))
    first = next(problem for problem in reading.problems(dag) if problem.severity == "error")
    logged = [line.replace(str(tmp_path), "@WORK@") for line in first.log if line.startswith(_KEPT)]
    assert logged == case["messages"]


RUN = [json.loads(line) for line in (Path(__file__).with_name("dags") / "read.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", RUN, ids=[case["name"] for case in RUN])
def test_what_htcondor_runs_is_read_with_as_many_nodes(case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case["files"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    options = reading.ReadOptions(str(tmp_path / case["cwd"]), use_dag_dir=case["use_dag_dir"])
    dag = reading.read(case["dags"], options)
    assert dag.is_valid, reading.problems(dag)
    assert dag.node_count == case["nodes"]


# ------------------------------------------------------------------------------------------------ condor_submit_dag

SUBMIT = json.loads((Path(__file__).with_name("dags") / "submit.json").read_text())


def submit_dag(directory: Path, *words: str) -> tuple[int, list[str], list[str]]:
    out, err = io.StringIO(), io.StringIO()
    runner = directory / "bin" / "condor_dagman"
    runner.parent.mkdir(exist_ok=True)
    runner.write_text("#!/bin/sh\n")
    runner.chmod(0o755)
    environment = {"HOME": str(directory), "SLOTWISE_HOME": str(directory / "pool"), "PATH": str(runner.parent)}
    inv = Invocation(directory, environment, io.StringIO(), out, err)
    status = dispatch(["condor_submit_dag", *words], inv)
    return status, out.getvalue().splitlines(), [line for line in err.getvalue().splitlines() if line.strip()]


def description(directory: Path) -> dict[str, str]:
    """The commands of the file that was written, as the recordings have them."""
    found = {}
    for line in (directory / "x.dag.condor.sub").read_text().replace(str(directory), "@WORK@").splitlines():
        if not line.startswith("#"):
            key, _, value = (part.strip() for part in line.partition("="))
            value = (
                "<DAGMAN>" if key == "executable" else re.sub(r"-CsdVersion .*? '\$", "-CsdVersion <VERSION>", value)
            )
            found[key] = re.sub(r'-dagman \S+?(?=[ "])', "-dagman <DAGMAN>", value)
    return found


def test_the_description_of_a_dags_job(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub\n")
    status, out, _ = submit_dag(tmp_path, *SUBMIT["no_submit"]["args"])
    assert (status, out) == (0, SUBMIT["no_submit"]["stdout"])
    assert description(tmp_path) == SUBMIT["no_submit"]["file"]


def test_what_dag_files_say_about_their_job(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text(SUBMIT["of_files"]["dag"])
    (tmp_path / "x.cf").write_text("")
    assert submit_dag(tmp_path, "-no_submit", "x.dag")[0] == 0
    assert description(tmp_path) == SUBMIT["of_files"]["file"]


def test_what_is_refused_before_the_submission(tmp_path: Path) -> None:
    assert submit_dag(tmp_path, "-frobnicate", "x.dag") == (1, SUBMIT["usage"]["stdout"], SUBMIT["usage"]["stderr"])
    assert submit_dag(tmp_path, "x.dag") == (1, [], SUBMIT["missing"])
    (tmp_path / "x.dag").write_text("JOB A a.sub\nFROB A a.sub\n")
    assert submit_dag(tmp_path, "x.dag") == (1, [], SUBMIT["unknown"])
    (tmp_path / "x.dag").write_text("JOB A a.sub\nCONFIG one.cf\nCONFIG two.cf\n")
    assert submit_dag(tmp_path, "x.dag") == (1, [], SUBMIT["two_configs"])
    (tmp_path / "x.dag").write_text("JOB A a.sub\n")
    for suffix in ("condor.sub", "lib.out", "lib.err", "dagman.log"):
        (tmp_path / f"x.dag.{suffix}").write_text('arguments = "-MaxJobs 7 -MaxIdle 2"\n')
    assert submit_dag(tmp_path, "x.dag") == (1, [], SUBMIT["again"])


def test_a_description_that_is_updated_keeps_its_throttles(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub\n")
    (tmp_path / "x.dag.condor.sub").write_text('arguments = "-MaxJobs 7 -MaxIdle 2"\n')
    assert submit_dag(tmp_path, "-no_submit", "-update_submit", "-maxpre", "4", "x.dag")[0] == 0
    assert " -MaxIdle 2 -MaxJobs 7 -MaxPre 4 -CsdVersion " in description(tmp_path)["arguments"]


def test_rescue_files_are_counted_and_put_aside(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub\n")
    for name in ("x.dag.rescue001", "x.dag.rescue002", "x.dag.lib.out", "x.dag.halt"):
        (tmp_path / name).write_text("")
    status, out, _ = submit_dag(tmp_path, "-no_submit", "x.dag")
    assert (status, out[0]) == (0, "Running rescue DAG 2")
    assert not (tmp_path / "x.dag.halt").exists()
    status, _, err = submit_dag(tmp_path, "-no_submit", "-dorescuefrom", "3", "x.dag")
    assert (status, err) == (
        1,
        ["ERROR: -dorescuefrom 3 specified, but rescue DAG file x.dag.rescue003 does not exist!"],
    )
    status, out, _ = submit_dag(tmp_path, "-no_submit", "-f", "x.dag")
    assert (status, out[0]) == (0, "Renaming rescue DAGs newer than number 0")
    assert sorted(path.name for path in tmp_path.glob("x.dag.rescue*")) == [
        "x.dag.rescue001.old",
        "x.dag.rescue002.old",
    ]


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    for words, told in (
        ("-Always -dontalways x.dag", "Both -AlwaysRunPost and -DontAlwaysRunPost can't be used at the same time"),
        ("-load_save f -dorescue 1 x.dag", "-DoRescueFrom can not be used with the following flag: -load_save"),
        ("-maxjobs x x.dag", "-maxjobs (-MaxJobs) additional argument required to be a integer"),
        ("-config -f x.dag", "Option -Config (-config) requires an additional argument"),
    ):  # fmt: skip
        status, out, err = submit_dag(tmp_path, *words.split())
        assert (status, err) == (1, [f"Error: {told}"]) and out[0].startswith("Usage: ")
    assert submit_dag(tmp_path)[2] == ["ERROR: no dag file specified; aborting."]
    status, out, err = submit_dag(tmp_path, "x.dag", "-f")
    assert (status, out[0], err) == (1, "ERROR: no arguments allowed after DAG file name(s)", [])


def test_submission_by_our_own_name_looks_for_errors_first(tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB A a.sub\nRETRY A x\nVARS Z a=1\n")
    out, err = io.StringIO(), io.StringIO()
    environment = {"HOME": str(tmp_path), "SLOTWISE_HOME": str(tmp_path / "pool"), "PATH": str(tmp_path)}
    inv = Invocation(tmp_path, environment, io.StringIO(), out, err)
    assert dispatch(["dag", "submit", "-no_submit", "x.dag"], inv) == 1
    assert [line[:15] for line in err.getvalue().splitlines()[:-1]] == ["ERROR: x.dag:2 ", "ERROR: x.dag:3 "]
    assert not (tmp_path / "x.dag.condor.sub").exists()
    words = ["dag", "submit", "-loose", "-no_submit", "-dagman", "/bin/true", "x.dag"]
    assert dispatch(words, inv) == 0
    assert (tmp_path / "x.dag.condor.sub").exists()


# ------------------------------------------------------------------------------------------------ htcondor dag status

STATUS = json.loads((Path(__file__).with_name("dags") / "status.json").read_text())


@pytest.mark.parametrize("case", STATUS["cases"])
def test_sentences_about_a_dag_are_those_of_htcondors_own_command(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``htcondor dag status`` of 25.14.1 prints of such an ad, on a terminal of 80 columns."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    ad = STATUS["cases"][case]["ad"]
    numbers = {name: ad.get(f"DAG_{name}", 0) for name in verb.NUMBERS}
    try:
        assert list(verb.sentences(ad, numbers, "7", STATUS["now"], 80)) == STATUS["cases"][case]["lines"]
    finally:
        monkeypatch.undo()
        time.tzset()
