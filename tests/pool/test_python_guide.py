"""The examples of the guide to Python run as they stand there, but for the names of hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

_GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "python.md"
#: What the examples take for granted.
_BEFORE = """
from slotwise.classad import ClassAd
from slotwise.client import EventLog, Schedd
description = {"executable": "/bin/true", "log": "job.log", "request_memory": "10M", "request_disk": "1M"}
descriptions = [description] * 3
with Schedd() as schedd:
    schedd.submit(description)
with EventLog("job.log") as log:
    next(ad for _, ad in log.events(wait_s=100) if ad["MyType"] == "JobTerminatedEvent")
"""


def test_the_examples_run(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    pool = make_pool("NUM_CPUS = 2\nSTARTD_HISTORY = $(LOG)/startd_history\nSLOTWISE_ALLOW_CLEARTEXT = True\n")
    pool.up()
    (machine,) = pool.json("status", "-startd", "-attributes", "Machine")
    (schedd,) = pool.json("status", "-schedd", "-attributes", "Name")
    names = {
        "cm.example.org:9618": json.loads((pool.home.run / "collector.json").read_text())["tcp"],
        "ap2.example.org": schedd["Name"],
        "node7.example.org": machine["Machine"],
        "wait_s=60": "wait_s=1",
    }
    blocks = re.findall(r"^```python\n(.*?)^```$", _GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    nodes = "".join(f"JOB {name} step.sub\n" for name in "ABCD")
    (tmp_path / "diamond.dag").write_text(f"{nodes}PARENT A CHILD B C\nPARENT B C CHILD D\n")
    (tmp_path / "step.sub").write_text("executable = /bin/true\nqueue\n")
    program = "\n".join([_BEFORE, *blocks, 'print("all")'])
    for name, here in names.items():
        assert name in program, name
        program = program.replace(name, here)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=pool.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
    )
    assert done.returncode == 0 and done.stdout.endswith("all\n"), f"{done.stdout}\n{done.stderr}"
