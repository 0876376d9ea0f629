"""`compat`: the modules htcondor2 and classad2 give what HTCondor's own modules give for the same lines.

Both run here, in processes of their own: HTCondor's from its wheel, ours from `compat/src`.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import LIMIT_S

_HERE = Path(__file__).parent / "python-modules"
_OURS = Path(__file__).resolve().parents[2] / "compat" / "src"

pytestmark = pytest.mark.skipif(not _OURS.exists(), reason="needs the sources of compat")

#: Lines for which ours differ on purpose, and why.
_ACCEPTED = {
    'classad.ClassAd({"a":object()})': "TypeError; HTCondor's module ends with a SystemError",
    "classad.ClassAd({5:1})": "TypeError; HTCondor's module ends with a SystemError",
    'classad.ClassAd({"a":10**30})': "OverflowError; HTCondor's module ends with a SystemError",
    'classad.ClassAd({"":1})': "the attribute is kept",
    'pickle.loads(pickle.dumps(classad.ExprTree("a+1")))': "expressions can be pickled",
    'S("a").getQArgs()': "the message names line and remedy",
}


def _look(kind: str, file: str, *, ours: bool) -> list[tuple[str, object]]:
    env = {**os.environ, "TZ": "UTC", "CONDOR_CONFIG": "/dev/null"}
    if ours:
        env["PYTHONPATH"] = os.pathsep.join([str(_OURS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(_HERE / "look.py"), kind, *([str(_HERE / file)] if file else [])],
        env=env, capture_output=True, text=True, check=False, cwd=_HERE, timeout=5 * LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [ast.literal_eval(line) for line in done.stdout.splitlines()]


@pytest.fixture(autouse=True)
def _needs_the_wheel() -> None:
    pytest.importorskip("htcondor2", reason="needs HTCondor's wheel")


@pytest.mark.parametrize(("kind", "file"), [("classad", "classad2.txt"), ("submit", "submit.txt")])
def test_lines_give_what_they_give_with_htcondors_modules(kind: str, file: str) -> None:
    theirs, ours = _look(kind, file, ours=False), _look(kind, file, ours=True)
    assert len(ours) == len(theirs) > 30
    differences = {line: (told, mine) for (line, told), (_, mine) in zip(theirs, ours, strict=True) if told != mine}
    assert not {line: both for line, both in differences.items() if line not in _ACCEPTED}
    stale = {line for line in _ACCEPTED if any(line == asked for asked, _ in theirs)} - set(differences)
    assert not stale, "no longer different"


#: Public names that ours have not, and parameters that ours do not take, with the reason.
_WITHOUT = {
    "htcondor2.htcondor2_impl": "HTCondor's own extension module",
    "classad2.classad2_impl": "HTCondor's own extension module",
    "htcondor2.Optional": "a name of typing that HTCondor's module imports",
    "htcondor2.load_a_config_usermap_file": "a helper of HTCondor's own classes",
    "htcondor2.reload_config_usermaps": "a helper of HTCondor's own classes",
    "htcondor2.DAGMan.Command": "numbers that are sent to condor_dagman, which ours does not call",
    "htcondor2.DAGMan.ContactInfo": "a secret of condor_dagman, which ours does not call",
    "htcondor2.DAGMan.Failure": "numbers of failures of calls that ours does not make",
    "htcondor2.SubmitResult.__init__": "programs get results, and make none",
    "htcondor2.dags.utils": "a module of helpers of HTCondor's own",
    "htcondor2.personal.logger": "a variable of HTCondor's module",
}


def test_every_public_name_is_there_with_its_parameters_or_value_or_has_a_reason() -> None:
    theirs, ours = _look("names", "", ours=False), dict(_look("names", "", ours=True))
    assert len(theirs) > 600
    missing = {}
    for name, parameters in theirs:
        if name in _WITHOUT:
            continue
        mine = ours.get(name)
        taken = (
            isinstance(parameters, list)
            and isinstance(mine, list)
            and ("*" in mine or set(parameters) - {"*"} <= set(mine))
        )
        is_value = isinstance(parameters, str) and parameters != "name"
        if name not in ours or (isinstance(parameters, list) and not taken) or (is_value and mine != parameters):
            missing[name] = (parameters, mine)
    assert not missing
    names = dict(theirs)
    assert all(name in names for name in _WITHOUT), "no longer a name of HTCondor's"


def test_events_have_the_attributes_that_htcondors_reader_gives() -> None:
    theirs, ours = _look("events", "events.log", ours=False), _look("events", "events.log", ours=True)
    assert len(ours) == len(theirs) > 25
    for (head, told), (mine_head, mine) in zip(theirs, ours, strict=True):
        assert isinstance(told, dict)
        assert isinstance(mine, dict)
        assert mine_head == head
        # HTCondor's reader loses the amount of a resource whose assigned devices stand behind it, and these.
        mine.pop("GPUs", None)
        mine.pop("AssignedGPUs", None)
        assert mine == told, head
