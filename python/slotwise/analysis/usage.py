"""What groups or users used over time, against their quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct

from slotwise.analysis import spans
from slotwise.analysis.periods import Periods

Per = Literal["group", "user"]
#: What jobs outside all groups are listed under.
NO_GROUP = "(no group)"
_HOUR_S = 3600.0
#: Columns of jobs that this goes by, beside who they count for.
_COLUMNS = ("job", "status", "started", "run_started", "wall_s", "last_wall_s", "cores", "gpus")


class Used(Struct, frozen=True):
    """What one group or user used.

    :param cores: cores in use on average in each period.
    :param with_below: the same with the groups below it, whose use its quota is for, too.
    :param quota: cores it may count on; None where it has none.
    :param core_hours: of the whole time; ``gpu_hours`` likewise.
    """

    name: str
    cores: tuple[float, ...]
    core_hours: float
    gpu_hours: float
    jobs: int
    with_below: tuple[float, ...]
    quota: float | None = None

    @property
    def peak(self) -> float:
        """Cores in the fullest period."""
        return max(self.cores, default=0.0)


class Usage(Struct, frozen=True):
    """Who used what, the largest first."""

    periods: Periods
    per: Per
    rows: tuple[Used, ...]

    @property
    def cores(self) -> tuple[float, ...]:
        """Cores in use on average in each period, of all together."""
        return tuple(sum(at) for at in zip(*(row.cores for row in self.rows), strict=True)) or (0.0,) * len(
            self.periods.seconds
        )


def usage(jobs: pl.DataFrame, periods: Periods, per: Per, quotas: Mapping[str, float]) -> Usage:
    """The cores that were in use, by group (with ``quotas``, in cores) or user.

    A job counts for the group that it names, and in ``with_below`` for those above that, too.
    """
    label = pl.when(pl.col("group") == "").then(pl.lit(NO_GROUP)).otherwise("group") if per == "group" else "user"
    named = jobs.with_row_index("job").select(*_COLUMNS, label=label)
    ran = spans.runs(named, periods.until)
    rate = pl.col("runtime_s") / (pl.col("end") - pl.col("begin"))
    of_cores = spans.totals(ran.with_columns(weight=pl.col("cores") * rate), periods)
    of_gpus = spans.totals(ran.filter(pl.col("gpus") > 0).with_columns(weight=pl.col("gpus") * rate), periods)
    within = ran.filter((pl.col("begin") < periods.until) & (pl.col("end") > periods.since))
    counts = dict(within.group_by("label").agg(pl.col("job").n_unique()).iter_rows())
    nothing, seconds = np.zeros(len(periods.seconds)), np.asarray(periods.seconds)
    names = of_cores.keys() | counts.keys() | (quotas.keys() if per == "group" else set())
    rows = []
    for name in names:
        own = of_cores.get(name, nothing)
        below = (sums for other, sums in of_cores.items() if per == "group" and other.startswith(f"{name}."))
        rows.append(
            Used(
                name,
                tuple((own / seconds).tolist()),
                float(own.sum()) / _HOUR_S,
                float(of_gpus.get(name, nothing).sum()) / _HOUR_S,
                int(counts.get(name, 0)),
                tuple((sum(below, own) / seconds).tolist()),
                quotas.get(name) if per == "group" else None,
            )
        )
    return Usage(periods, per, tuple(sorted(rows, key=lambda row: (-row.core_hours, row.name))))
