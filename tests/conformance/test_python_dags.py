"""`htcondor2.dags`: the files that are written, as HTCondor's module writes them.

python-modules/dags.json has what that of HTCondor 25.14.1 wrote for the examples in python-modules/dags.py. It goes
through the children of a node in an order that differs from call to call, so that the lines of DAG files are compared
without regard to theirs; all other files to the byte.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import LIMIT_S

_HERE = Path(__file__).parent / "python-modules"
_OURS = Path(__file__).resolve().parents[2] / "compat" / "src"
_RECORDED = json.loads((_HERE / "dags.json").read_text())

pytestmark = pytest.mark.skipif(not _OURS.exists(), reason="needs the sources of compat")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What our module makes of the examples, in a process of its own: in this one the name is that of HTCondor's."""
    path = os.pathsep.join([str(_OURS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(_HERE / "dags.py"), str(tmp_path_factory.mktemp("dags"))],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def _compared(files: dict[str, str]) -> dict[str, object]:
    return {name: sorted(text.splitlines()) if name == "x.dag" else text for name, text in files.items()}


@pytest.mark.parametrize("example", _RECORDED["files"])
def test_files_of_a_dag(example: str, written: dict[str, Any]) -> None:
    wanted = dict(_RECORDED["files"][example])
    if example == "all_of_a_dag":
        # Limits of categories are written as DAGMan takes them; with CATEGORY it takes the category for a node.
        wanted["x.dag"] = re.sub(r"(?m)^CATEGORY (\w+ \d+)$", r"MAXJOBS \1", wanted["x.dag"])
        # HTCondor's module writes no description of a FINAL node, whose submission then fails.
        wanted["last.sub"] = "executable = /bin/last\nqueue\n"
    assert _compared(written["files"][example]) == _compared(wanted)


def test_a_rescue_file_is_found_and_followed(written: dict[str, Any]) -> None:
    assert written["rescue"] == _RECORDED["rescue"]
    assert written["files"].keys() == _RECORDED["files"].keys()
