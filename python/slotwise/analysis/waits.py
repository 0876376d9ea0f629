"""How long jobs waited for their first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct

from slotwise.analysis.periods import Periods
from slotwise.analysis.usage import NO_GROUP

Per = Literal["request", "user", "group"]
#: Shares of jobs whose waits are told.
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
#: Points of a curve.
_POINTS = 201


class Waited(Struct, frozen=True):
    """Waits of one kind of jobs, in seconds.

    :param quantiles: at :data:`SHARES`.
    :param curve: waits at evenly spaced shares from 0 to 1.
    :param waiting: jobs that had not started at the end.
    """

    name: str
    jobs: int
    mean_s: float
    most_s: float
    quantiles: tuple[float, ...]
    curve: tuple[float, ...]
    waiting: int = 0


class Waits(Struct, frozen=True):
    """Kinds of jobs, the commonest first."""

    periods: Periods
    per: Per
    rows: tuple[Waited, ...]
    all: Waited | None


def waits(jobs: pl.DataFrame, periods: Periods, per: Per) -> Waits:
    """Of the jobs that started for the first time in these periods, by what they ask for, by user or by group.

    The numbers that a schedd gives to autoclusters end with it. What a job asks for, cores, memory and GPUs, tells its
    autocluster to a reader at any time.
    """
    col = pl.col
    named = jobs.lazy().with_columns(label=_label(per))
    within = named.filter((col("started") >= periods.since) & (col("started") < periods.until)).with_columns(
        wait=(col("started") - col("queued")).clip(lower_bound=0.0)
    )
    sorted_waits = within.group_by("label").agg(col("wait").sort()).collect()
    waiting = dict(
        named.filter(col("started").is_null() & col("ended").is_null() & (col("queued") < periods.until))
        .group_by("label").agg(pl.len()).collect().iter_rows()
    )  # fmt: skip
    still = sum(waiting.values())
    rows = [_waited(name, np.asarray(times), waiting.pop(name, 0)) for name, times in sorted_waits.iter_rows()]
    rows += [Waited(name, 0, 0.0, 0.0, (), (), count) for name, count in waiting.items()]
    everyone = None
    if sorted_waits.height:
        everyone = _waited("all", sorted_waits["wait"].explode().sort().to_numpy(), still)
    return Waits(periods, per, tuple(sorted(rows, key=lambda row: (-row.jobs, row.name))), everyone)


def _waited(name: str, ordered: np.ndarray, waiting: int) -> Waited:
    """From waits in ascending order."""
    points = np.linspace(0.0, 1.0, _POINTS)
    places = np.arange(len(ordered)) / max(1, len(ordered) - 1)

    def at(shares: Sequence[float] | np.ndarray) -> tuple[float, ...]:
        return tuple(float(value) for value in np.interp(shares, places, ordered))

    return Waited(name, len(ordered), float(ordered.mean()), float(ordered[-1]), at(SHARES), at(points), waiting)


def _label(per: Per) -> pl.Expr:
    col = pl.col
    if per == "user":
        return col("user")
    if per == "group":
        return pl.when(col("group") == "").then(pl.lit(NO_GROUP)).otherwise(col("group"))
    in_gb = (col("asked_mb") / 1024).round(1)
    memory = pl.when(col("asked_mb").is_null()).then(pl.lit("memory by expression")).otherwise(
        pl.when(col("asked_mb") < 1024)
        .then(pl.concat_str(col("asked_mb").round().cast(pl.Int64), pl.lit(" MB")))
        .otherwise(pl.concat_str(in_gb.cast(pl.String).str.replace(r"\.0$", ""), pl.lit(" GB")))
    )  # fmt: skip
    cores = col("cores").round().cast(pl.Int64)
    gpus = col("gpus").round().cast(pl.Int64)
    return pl.concat_str(
        cores,
        pl.when(cores == 1).then(pl.lit(" core, ")).otherwise(pl.lit(" cores, ")),
        memory,
        pl.when(gpus > 0).then(
            pl.concat_str(pl.lit(", "), gpus, pl.when(gpus == 1).then(pl.lit(" GPU")).otherwise(pl.lit(" GPUs")))
        ).otherwise(pl.lit("")),
    )  # fmt: skip
