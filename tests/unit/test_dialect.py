"""Strings in expressions that people write: a backslash is itself, as in HTCondor."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.classad import ClassAd, ExprTree, new_syntax
from slotwise.config import Config, load
from slotwise.startd.policy.expressions import Policy, Timers
from slotwise.startd.policy.slot_config import SlotConfig
from slotwise.submit import parse

PATTERN = r'regexp("^node\d+\.example$", Machine)'


def load_text(tmp_path: Path, text: str) -> Config:
    (tmp_path / "main").write_text(text)
    return load(str(tmp_path / "main"), env={}, cwd=tmp_path)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"a\b"', r'"a\\b"'),
        (r'"a\\b"', r'"a\\\\b"'),
        (r'strcat("say \"hi\"", x)', r'strcat("say \"hi\"",x)'),
        ('"c:\\"', '"c:\\\\"'),
        ("1 +  2", "1 +  2"),
        ("no expression \\", "no expression \\"),
    ],
)
def test_new_syntax(written: str, meant: str) -> None:
    assert new_syntax(written) == meant


@pytest.mark.parametrize(("machine", "fits"), [("node12.example", True), ("node12xexample", False)])
def test_knobs(tmp_path: Path, machine: str, fits: bool) -> None:
    config = load_text(tmp_path, f"START = {PATTERN}\n")
    ad = ClassAd({"Machine": machine})
    start = config.get_expr("START")
    assert start is not None and start.eval(ad) is fits
    assert ExprTree(Policy(SlotConfig(config, 1), Timers()).texts["START"], old=True).eval(ad) is fits


def test_functions_of_the_configuration(tmp_path: Path) -> None:
    config = load_text(
        tmp_path, 'X = strcat("a\\b", "\\n")\nA = $STRING(X)\nB = $EVAL(X)\nN = size("\\n")\nC = $INT(N)\n'
    )
    assert [config.get(name) for name in "ABC"] == ["a\\b\\n", "a\\b\\n", "2"]


@pytest.mark.parametrize(("machine", "fits"), [("node12.example", True), ("node12xexample", False)])
def test_submit_commands(tmp_path: Path, machine: str, fits: bool) -> None:
    text = f"executable = /bin/true\nrank = {PATTERN}\n+Place = {PATTERN}\nqueue\n"
    made = parse(text, cwd=tmp_path, owner="alice", now=0, config=load_text(tmp_path, ""), check_files=False)
    job = made.clusters[0].job(0)
    for name in ("Rank", "Place"):
        assert ExprTree(str(job.lookup(name))).eval(ClassAd({"Machine": machine})) is fits
