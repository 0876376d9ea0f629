"""What was asked for and not used, and work that came to nothing."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from slotwise.analysis.past_jobs import REMOVED
from slotwise.analysis.periods import Periods

_HOUR_S = 3600.0
#: Badput of jobs that were never evicted.
REMOVED_RUNNING, NOT_EVICTED = "Removed", "Other"


class Wasted(Struct, frozen=True):
    """One user's jobs. Times are hours; ``gb_hours`` are GB of memory times hours of runs.

    :param badput_hours: core-hours of runs whose work was lost, by eviction or removal.
    """

    user: str
    jobs: int
    core_hours: float
    cpu_hours: float
    gb_hours: float
    used_gb_hours: float
    evictions: int
    badput_hours: float

    @property
    def idle_core_hours(self) -> float:
        """Core-hours in which nothing was computed."""
        return max(0.0, self.core_hours - self.cpu_hours)


class Lost(Struct, frozen=True):
    """Evictions for one reason, and the core-hours that they cost."""

    reason: str
    evictions: int
    badput_hours: float


class Waste(Struct, frozen=True):
    """Users with the most idle core-hours first; reasons with the most badput first."""

    periods: Periods
    users: tuple[Wasted, ...]
    reasons: tuple[Lost, ...]


def waste(jobs: pl.DataFrame, periods: Periods) -> Waste:
    """Of the jobs that left the queue in these periods: their whole lives.

    Memory that was used is the most that a job used at any time, so what is shown as unused was never used. A job's
    badput is divided among the reasons of its evictions by their numbers.
    """
    col, hours = pl.col, pl.col("wall_s") / _HOUR_S
    # CommittedTime counts whole seconds.
    lost = (col("wall_s").floor() - col("committed_s")).clip(lower_bound=0.0)
    ended = (
        jobs.lazy()
        .filter((col("ended") >= periods.since) & (col("ended") < periods.until))
        .with_columns(badput=lost * col("cores") / _HOUR_S)
    )
    by_user = (
        ended.group_by("user")
        .agg(
            jobs=pl.len(),
            core_hours=(hours * col("cores")).sum(),
            cpu_hours=col("cpu_s").sum() / _HOUR_S,
            gb_hours=(hours * col("asked_mb").fill_null(0.0) / 1024).sum(),
            used_gb_hours=(hours * col("used_mb").fill_null(0.0) / 1024).sum(),
            evictions=col("vacates").sum(),
            badput=col("badput").sum(),
        )
        .collect()
    )
    users = [Wasted(*row) for row in by_user.iter_rows()]
    pairs = (
        ended.filter((col("badput") > 0) | (col("vacates") > 0))
        .select(
            "badput",
            "vacates",
            is_removed=col("status") == REMOVED,
            counts=col("vacated_by").str.extract_all(r"\w{1,60}\s*=\s*\d{1,9}"),
        )
        .with_columns(counts=pl.when(col("counts").list.len() > 0).then(col("counts")).otherwise(pl.lit([""])))
        .with_row_index("job")
        .explode("counts")
        .with_columns(
            reason=col("counts").str.extract(r"(\w+)").fill_null(
                pl.when("is_removed").then(pl.lit(REMOVED_RUNNING)).otherwise(pl.lit(NOT_EVICTED))
            ),
            count=col("counts").str.extract(r"(\d+)$").cast(pl.Int64, strict=False).fill_null(col("vacates")),
        )
        .with_columns(part=pl.max_horizontal("count", 1) / pl.max_horizontal(col("count").sum().over("job"), 1))
        .group_by("reason")
        .agg(evictions=col("count").sum(), badput=(col("badput") * col("part")).sum())
        .collect()
    )  # fmt: skip
    reasons = [Lost(*row) for row in pairs.iter_rows()]
    return Waste(
        periods,
        tuple(sorted(users, key=lambda row: (-row.idle_core_hours, row.user))),
        tuple(sorted(reasons, key=lambda row: (-row.badput_hours, row.reason))),
    )
