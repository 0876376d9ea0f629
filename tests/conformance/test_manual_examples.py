"""Every configuration example of the manual's chapters on policy loads, passes the check, and gives what the text says.

A case is the text of one example (with the names it takes for granted), and what its knobs give: an expanded text, or
the value of an expression for a machine and a job. Examples of what does not exist are in :data:`NOT_THERE_YET`, and
the check says so. Examples whose printed text is broken get an error at the place.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config, check, load

from tests.support.manual import MACROS, NOW, Example
from tests.support.manual.features import FEATURES
from tests.support.manual.policies import POLICIES

EXAMPLES = POLICIES + FEATURES


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "condor_config"
    path.write_text(text)
    return load(path, subsystem="STARTD", env={})


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example(example: Example, tmp_path: Path) -> None:
    config = read(tmp_path, (MACROS if example.macros else "") + example.text)
    assert not [problem for problem in check(config) if problem.severity == "error"]
    for name, text in example.texts.items():
        value = config.typed(name)
        shown = str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
        assert shown == text, name
    for name, machine, job, expected in example.gives:
        expr = ExprTree(config.get_str(name))
        assert expr.eval(ClassAd(machine), ClassAd(job), now=NOW) == expected, (name, machine, job)


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        # printed without the last parenthesis
        (
            "CPUBusy = (LoadAvg - CondorLoadAvg) >= 0.5\nKeyboardBusy = KeyboardIdle < 60\n"
            "MachineBusy             = ($(CPUBusy) || $(KeyboardBusy)\nSUSPEND = $(MachineBusy)\n",
            4,
            "SUSPEND",
        ),
        # printed without a comparison's right side on the next line
        ("START = ( (KeyboardIdle > 900) \\\n   && ( LoadAvg < 0.3 || \\\n", 2, "START"),
        ('RANK = ifThenElse(Owner == "coltrane", 10\n', 1, "RANK"),
        ('PREEMPT = (Activity == "Suspended) || False\n', 1, "PREEMPT"),
    ],
)
def test_broken_examples_get_an_error_at_their_place(text: str, line: int, name: str, tmp_path: Path) -> None:
    (problem,) = [problem for problem in check(read(tmp_path, text)) if problem.severity == "error"]
    assert problem.origin is not None
    assert (problem.name, problem.origin.line, problem.code) == (name, line, "config-bad-expression")


def test_the_missing_parenthesis_is_named(tmp_path: Path) -> None:
    (problem,) = check(read(tmp_path, "SUSPEND = ((LoadAvg > 0.5) || (KeyboardIdle < 60)\n"))
    assert problem.hint == "1 closing parenthesis missing"
