"""``slotwise gpu-discovery`` on calls that HTCondor 25.14's condor_gpu_discovery answered (gpu-discovery.json).

The calls pretend devices (-simulate, -fix-hip-guid:N) or were made on a host without any.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import command

CASES = json.loads(Path(__file__).with_name("gpu-discovery.json").read_text())

FIRST = 'DetectedGPUs="GPU-a0223334"'
#: Where ours differs on purpose: what it prints first (None: it refuses), and why.
DIFFERENT = {
    "-simulate -opencl": (FIRST, "HTCondor fails: it looks for OpenCL's devices and pretends CUDA's"),
    "-simulate -dynamic -opencl": (FIRST, "HTCondor fails, as above"),
    "HIP_VISIBLE_DEVICES -hip -fix-hip-guid:2 74a0": (
        'DetectedGPUs="GPU-22ff74a0"',
        "HTCondor reads HIP_VISIBLE_DEVICES after it has chosen the devices",
    ),
    "-simulate:5 -device 1 -repeat -config": ("DetectedGPUs=", "HTCondor repeats the absence of devices: `, `"),
    "-simulate:1,2 -divide x -prop": (None, "HTCondor takes a word for the number 0"),
}


def name_of(case: dict[str, Any]) -> str:
    return " ".join([*case["env"], *case["args"]])


@pytest.mark.parametrize("case", CASES, ids=name_of)
async def test_reports_what_htcondor_reports(case: dict[str, Any], tmp_path: Path) -> None:
    done = await command(tmp_path, "gpu-discovery", *case["args"], more_env=case["env"])
    first, _reason = DIFFERENT.get(name_of(case), (case["out"].partition("\n")[0], ""))
    if first is None or (case["status"] and name_of(case) not in DIFFERENT):
        assert done.status != 0 and not done.out and done.err
    elif name_of(case) in DIFFERENT:
        assert done.status == 0 and done.out.startswith(first)
    else:
        assert (done.status, done.out) == (0, case["out"])
