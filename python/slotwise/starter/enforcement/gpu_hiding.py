"""Which GPUs of the host a job must not open: those of other slots. STARTER_HIDE_GPU_DEVICES.

The driver publishes UUID and minor number of each device in ``/proc/driver/nvidia/gpus/*/information``; the major
number is that of ``/dev/nvidiactl``. The device files stay, opening one is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.execution.job_view import SlotView
from slotwise.starter.job.ads import lookup

#: A character device: major and minor number.
Device = tuple[int, int]
_TAG = "gpus"


def find_gpus(
    gpus: Path = Path("/proc/driver/nvidia/gpus"), control: Path = Path("/dev/nvidiactl")
) -> dict[str, Device]:
    """The host's devices by UUID; none without the driver."""
    found: dict[str, Device] = {}
    with contextlib.suppress(OSError):
        major = os.major(control.stat().st_rdev)
        for information in sorted(gpus.glob("*/information")):
            lines = (line.partition(":") for line in information.read_text().splitlines())
            values = {name.strip(): value.strip() for name, _, value in lines}
            minor = values.get("Device Minor", "")
            if minor.isdigit() and "GPU UUID" in values:
                found[values["GPU UUID"]] = (major, int(minor))
    return found


def assigned_uuids(slot: SlotView, machine_ad: ClassAd) -> list[str]:
    """The slot's GPUs: by UUID where their properties have one, else by the names that they are assigned by."""
    assigned = next((text for tag, text in slot.assigned.items() if tag.lower() == _TAG), "")
    value = lookup(machine_ad)
    found = []
    for name in assigned.replace(",", " ").split():
        properties = value(f"GPUs_{name.replace('-', '_')}")
        uuid = properties.get("DeviceUuid") if isinstance(properties, ClassAd | Mapping) else None
        found.append(str(uuid) if uuid else name)
    return found


def hidden(host: Mapping[str, Device], mine: Iterable[str]) -> tuple[Device, ...]:
    """The devices that are not ``mine``. A name may be the beginning of a UUID (``GPU-6a96bd13``), or lack its
    ``GPU-``; one that fits no device, or several, hides nothing: better a neighbour's device too many than none."""
    left = dict(host)
    for name in mine:
        fitting = [uuid for uuid in host if uuid.removeprefix("GPU-").startswith(name.removeprefix("GPU-"))]
        if len(fitting) != 1:
            return ()
        left.pop(fitting[0], None)
    return tuple(sorted(left.values()))
