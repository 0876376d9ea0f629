"""Sums over time: how much of something there was in each period, from when each part of it began and ended."""

from __future__ import annotations

import numpy as np
import polars as pl

from slotwise.analysis.periods import Periods


def totals(spans: pl.DataFrame, periods: Periods) -> dict[str, np.ndarray]:
    """For each ``label`` the sum of ``weight`` times the seconds that fall into each period.

    :param spans: columns ``label``, ``begin``, ``end`` (epoch seconds) and ``weight``.

    The work does not depend on how long the spans are: what has begun and not ended is carried from edge to edge.
    """
    edges = np.asarray(periods.edges) - periods.since
    count = len(edges)
    clipped = spans.lazy().filter(
        (pl.col("begin") < periods.until) & (pl.col("end") > periods.since) & (pl.col("end") > pl.col("begin"))
    ).select(
        "label",
        "weight",
        begin=(pl.col("begin") - periods.since).clip(lower_bound=0.0),
        end=(pl.col("end") - periods.since).clip(upper_bound=periods.until - periods.since),
    ).collect()  # fmt: skip
    if clipped.is_empty():
        return {}
    labels = clipped["label"].unique(maintain_order=True)
    rows = clipped["label"].replace_strict(labels, pl.Series(range(len(labels)), dtype=pl.Int64)).to_numpy()
    weight = clipped["weight"].to_numpy()
    open_weight = np.zeros((len(labels), count + 1))
    open_moment = np.zeros((len(labels), count + 1))
    for name, sign in (("begin", 1.0), ("end", -1.0)):
        at = clipped[name].to_numpy()
        # The first edge at or after which it counts.
        place = rows * (count + 1) + np.searchsorted(edges, at, side="left")
        size = open_weight.size
        open_weight += sign * np.bincount(place, weight, size).reshape(open_weight.shape)
        open_moment += sign * np.bincount(place, weight * at, size).reshape(open_moment.shape)
    open_weight, open_moment = open_weight.cumsum(axis=1)[:, :count], open_moment.cumsum(axis=1)[:, :count]
    whole = edges * open_weight - open_moment
    sums = np.diff(whole, axis=1).clip(min=0.0)
    return dict(zip(labels.to_list(), sums, strict=True))


def runs(jobs: pl.DataFrame, until: float) -> pl.DataFrame:
    """When jobs ran: columns of ``jobs`` with ``begin``, ``end`` and ``runtime_s``, a row for the last run of each and
    one for those before it.

    A job's ad has the length of all its runs, but the beginning only of the first and of the last. Earlier runs count
    evenly from the first start to the last: ``runtime_s`` is less than ``end - begin`` where the job waited between.
    A run of less than a second may have no length.
    """
    ran = jobs.lazy().filter(pl.col("started").is_not_null())
    is_running = pl.col("status") == 2
    end = pl.when(is_running).then(pl.lit(until)).otherwise(pl.col("run_started") + pl.col("last_wall_s"))
    last = ran.with_columns(begin=pl.col("run_started"), end=end).with_columns(
        runtime_s=pl.col("end") - pl.col("begin")
    )
    before = pl.when(is_running).then(pl.col("wall_s")).otherwise(pl.col("wall_s") - pl.col("last_wall_s"))
    earlier = ran.with_columns(begin=pl.col("started"), end=pl.col("run_started"), runtime_s=before).filter(
        (pl.col("runtime_s") > 0.5) & (pl.col("end") > pl.col("begin"))
    )
    return pl.concat([last, earlier]).filter(pl.col("end") >= pl.col("begin")).collect()
