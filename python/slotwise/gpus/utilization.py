"""How busy GPUs are, as ads for ``STARTD_CRON_<name>_METRICS = SUM:GPUs, PEAK:GPUsMemory``.

Source: manual, monitoring of custom resources: each report has the busy seconds and the peak memory of a device since
the one before, and a SlotMergeConstraint that gives it to the slots that have the device.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from slotwise.gpus.device import gpu_id

_MICRO = 1_000_000
_MIB = 2**20


class Meter(Struct):
    """The samples of one device. ``index``: CUDA's index; ``last_us``: the time of the newest sample."""

    index: int
    uuid: str
    last_us: int = 0
    busy_us: int = 0
    peak_bytes: int = 0

    def take(self, samples: Iterable[tuple[int, int]], used_bytes: int) -> None:
        """Add samples: a time in microseconds, and the percentage of the time since the last sample that it was busy.

        The duration of the very first sample is unknown.
        """
        for time_us, percent in sorted(samples):
            if self.last_us and time_us > self.last_us:
                self.busy_us += (time_us - self.last_us) * percent // 100
            self.last_us = max(self.last_us, time_us)
        self.peak_bytes = max(self.peak_bytes, used_bytes)

    def report(self) -> list[str]:
        """The lines of this device's ad; resets the measurements."""
        names = [f"CUDA{self.index}", gpu_id(self.uuid, short=True), gpu_id(self.uuid, short=False)]
        constraint = " || ".join(f'StringListMember("{name}", AssignedGPUs)' for name in dict.fromkeys(names))
        lines = [
            f"SlotMergeConstraint = {constraint}",
            f"UptimeGPUsSeconds = {self.busy_us / _MICRO:.6f}",
            f"UptimeGPUsMemoryPeakUsage = {-(-self.peak_bytes // _MIB)}",
            f"- GPUsSlot{self.index}",
        ]
        self.busy_us, self.peak_bytes = 0, 0
        return lines
