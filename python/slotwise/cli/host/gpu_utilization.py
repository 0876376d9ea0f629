"""``slotwise gpu-utilization``: the program of ``use feature : GPUsMonitor`` (condor_gpu_utilization)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.gpus.nvidia import Nvml
    from slotwise.gpus.utilization import Meter

#: NVML keeps at least a hundred samples of a sixth of a second.
_SAMPLE_S = 5.0
_REPORT_S = 10.0


def main(args: list[str], inv: Invocation) -> int:
    """Print the use of every NVIDIA GPU every ten seconds; ends only when it cannot measure, with status 1."""
    parser = Parser(inv, "gpu-utilization", "Measure the use of GPUs and print it for STARTD_CRON, until ended.")
    parser.add_argument("--reports", type=int, metavar="N", help="end after so many reports")
    parser.add_argument("--interval", type=float, metavar="S", default=_REPORT_S, help="seconds between reports (10)")
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.gpus.nvidia import Nvml
    from slotwise.gpus.utilization import Meter

    for name in ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"):
        os.environ.pop(name, None)
    nvml = Nvml.load(lambda line: inv.err(line))
    meters = [Meter(index, uuid) for index, uuid in enumerate(nvml.uuids())] if nvml else []
    if nvml is None or not meters:
        inv.err("ERROR: there is no GPU whose use can be measured")
        return 1
    _measure(nvml, meters)  # what was before does not count
    for meter in meters:
        meter.report()
    done = 0
    while options.reports is None or done < options.reports:
        _wait(nvml, meters, options.interval)
        for meter in meters:
            for line in meter.report():
                inv.out(line)
        inv.stdout.flush()
        done += 1
    return 0


def _wait(nvml: Nvml, meters: list[Meter], seconds: float) -> None:
    """Measure until the next report is due, before NVML forgets samples."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(_SAMPLE_S, left))
        _measure(nvml, meters)


def _measure(nvml: Nvml, meters: list[Meter]) -> None:
    for meter in meters:
        sample = nvml.sample(meter.uuid, meter.last_us)
        if sample is not None:
            meter.take(*sample)
