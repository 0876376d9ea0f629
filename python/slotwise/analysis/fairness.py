"""What users got of the pool against what their priority factors let them expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from slotwise.analysis import spans
from slotwise.analysis.periods import Periods

_HOUR_S = 3600.0


class Part(Struct, frozen=True):
    """What one user got.

    :param got_hours: core-hours that it used; ``due_hours`` what a fair division of all that was used gives it.
    :param wanted_hours: core-hours of its jobs that ran or waited.
    """

    user: str
    factor: float
    got_hours: float
    due_hours: float
    wanted_hours: float

    @property
    def ratio(self) -> float:
        """What it got of what was due to it: 1 is fair."""
        return self.got_hours / self.due_hours if self.due_hours > 0 else 1.0


class Fairness(Struct, frozen=True):
    """All users, those with the most due first. ``index``: Jain's, 1 where everybody got what was due."""

    periods: Periods
    parts: tuple[Part, ...]

    @property
    def index(self) -> float:
        """Jain's fairness index of the ratios, weighted by what was due."""
        weights = np.array([part.due_hours for part in self.parts])
        ratios = np.array([part.ratio for part in self.parts])
        square = float((weights * ratios**2).sum()) * float(weights.sum())
        return float((weights * ratios).sum()) ** 2 / square if square > 0 else 1.0


def fairness(jobs: pl.DataFrame, periods: Periods, factors: Mapping[str, float]) -> Fairness:
    """Divide what was used in each period among those who had jobs then, by their priority factors.

    Nobody is due more than the jobs that it had could have used; the rest goes to the others, as in a cycle of the
    negotiator. Users without a factor in ``factors`` have a factor of 1 where nobody has one, else the commonest.
    """
    ran = spans.runs(jobs.with_columns(label=pl.col("user")), periods.until)
    rate = pl.col("runtime_s") / (pl.col("end") - pl.col("begin"))
    got = spans.totals(ran.with_columns(weight=pl.col("cores") * rate), periods)
    there = jobs.select(
        label="user",
        begin="queued",
        end=pl.coalesce("ended", pl.lit(periods.until)),
        weight="cores",
    )
    wanted = spans.totals(there, periods)
    users = sorted(got.keys() | wanted.keys())
    if not users:
        return Fairness(periods, ())
    nothing = np.zeros(len(periods.seconds))
    used = np.array([got.get(user, nothing) for user in users])
    # A run may be longer than its job was in the queue by some tenths of a second.
    asked = np.maximum(np.array([wanted.get(user, nothing) for user in users]), used)
    usual = float(np.median(list(factors.values()))) if factors else 1.0
    weights = [1.0 / max(1e-9, factors.get(user, usual)) for user in users]
    due = np.array([divided(used[:, at].sum(), asked[:, at], weights) for at in range(used.shape[1])]).T
    parts = [
        Part(user, factors.get(user, usual), float(mine.sum()) / _HOUR_S, float(fair.sum()) / _HOUR_S,
             float(want.sum()) / _HOUR_S)
        for user, mine, fair, want in zip(users, used, due, asked, strict=True)
    ]  # fmt: skip
    return Fairness(periods, tuple(sorted(parts, key=lambda part: (-part.due_hours, part.user))))


def divided(whole: float, wanted: np.ndarray, weights: Sequence[float]) -> np.ndarray:
    """``whole`` by ``weights``, nobody more than it ``wanted``: water fills vessels of these heights and widths."""
    given = np.zeros(len(weights))
    widths = np.asarray(weights, dtype=float)
    left = min(float(whole), float(wanted.sum()))
    thirsty = wanted > 0
    while left > 1e-9 and thirsty.any():
        level = left / widths[thirsty].sum()
        share = np.where(thirsty, widths * level, 0.0)
        full = thirsty & (given + share >= wanted)
        if not full.any():
            return given + share
        left -= float((wanted - given)[full].sum())
        given[full] = wanted[full]
        thirsty &= ~full
    return given
