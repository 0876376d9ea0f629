"""The tests of `htcondor2.dags`, in a process of their own: in this one the name is that of HTCondor's wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import LIMIT_S

_OURS = Path(__file__).resolve().parents[2] / "compat" / "src"

pytestmark = pytest.mark.skipif(not _OURS.exists(), reason="needs the sources of compat")


def test_graphs_and_their_drivers() -> None:
    path = os.pathsep.join([str(_OURS), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).with_name("htcondor2_dags.py"))]
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
