"""The job that runs Snakemake: its words, its description, and what the call looks for before."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.htcondor.snake import has_plugin
from slotwise.cli.main import dispatch
from slotwise.errors import UsageError
from slotwise.execution.arguments import split_new
from slotwise.submit import parse
from slotwise.submit.snakemake import Asked, description, read


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], Asked()),
        (["w/Snakefile"], Asked("w/Snakefile")),
        (["S", "--jobdir", "a", "--jobdir", "b"], Asked("S", "b")),
        (["--jobdir=a", "S", "--", "--jobs", "6", "--", "x"], Asked("S", "a", ("--jobs", "6", "--", "x"))),
        (["--", "--jobdir", "theirs"], Asked(rest=("--jobdir", "theirs"))),
        (["--cores", "4"], Asked(rest=("--cores", "4"))),
        (["S", "all", "--", "x"], Asked("S", rest=("all", "--", "x"))),
    ],
)
def test_words_before_the_dashes_are_the_calls(words: list[str], asked: Asked) -> None:
    assert read(words) == asked


@pytest.mark.parametrize("words", [["--jobdir"], ["--jobdir", "--", "x"], ["--jobdir", "-x"], ["--jobdir="]])
def test_a_directory_has_a_name(words: list[str]) -> None:
    with pytest.raises(UsageError, match="requires a valid directory"):
        read(words)


def test_the_description_means_what_was_asked_for(tmp_path: Path) -> None:
    asked = Asked("my $(x) flow", rest=("--config", 'a="it\'s"'))
    program = tmp_path / "snakemake"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    statements = description(str(program), asked, str(tmp_path / "logs"), "1 GB")
    text = "".join(f"{name} = {value}\n" for name, value in statements.items()) + "queue\n"
    ad = parse(text, cwd=tmp_path, env={}, owner="ann").clusters[0].job(0)
    words = ["-s", "my $(x) flow", "--executor", "htcondor", "--htcondor-jobdir", str(tmp_path / "logs")]
    assert split_new(str(ad["Arguments"])) == [*words, *asked.rest]
    assert (ad["JobUniverse"], ad["RequestMemory"], ad["Cmd"]) == (12, 1024, str(program))


def run(directory: Path, path: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    env = {"HOME": str(directory), "PATH": str(path)}
    inv = Invocation(directory, env, io.StringIO(), out, err)
    return dispatch(["htcondor", "snake", "submit", *words], inv), out.getvalue(), err.getvalue()


def test_what_is_missing_is_named_with_what_to_do(tmp_path: Path) -> None:
    status, _, err = run(tmp_path, tmp_path)
    assert status == 1 and "Could not find 'snakemake' executable" in err
    program = tmp_path / "snakemake"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    status, _, err = run(tmp_path, tmp_path)
    assert status == 1 and "pip install snakemake-executor-plugin-htcondor" in err
    program.write_text("#!/bin/sh\n")
    status, _, err = run(tmp_path, tmp_path, "none")
    assert status == 1 and "Could not find Snakefile: none" in err and not (tmp_path / "logs").exists()
    status, out, _ = run(tmp_path, tmp_path, "-h")
    assert status == 0 and "--jobdir DIR" in out


def test_the_python_of_snakemake_is_asked_for_the_plugin(tmp_path: Path) -> None:
    program = tmp_path / "snakemake"
    program.write_text(f"#!{sys.executable} -s\n")
    assert not has_plugin(str(program), dict(os.environ))
    (tmp_path / "snakemake_executor_plugin_htcondor.py").touch()
    assert has_plugin(str(program), os.environ | {"PYTHONPATH": str(tmp_path)})
