"""When the usage of a run is due to be measured and reported."""

from __future__ import annotations

from msgspec import Struct


class UpdateSchedule(Struct):
    """What is due when, on the monotonic clock."""

    #: The next update for the shadow; None until the job executes.
    shadow_at: float | None = None
    disk_at: float = 0.0
    startd_at: float = 0.0
    #: When its runtime is asked what only it can measure.
    runtime_at: float = 0.0
    #: The disk is being measured.
    measuring: bool = False
