"""Jobs of the past as one frame: a row for each job, with what reports need of its last ad.

The columns, with times in seconds since the epoch:

=============  =====================================================================================
user, group    the submitter (``group.user@domain`` or ``user@domain``) and its accounting group, or ""
status         the last JobStatus
queued         when the job was submitted
started        when its first run began; null: it never ran
run_started    when its last run began
ended          when it left the queue; null: it is still there
wall_s         wall clock time of all runs; ``last_wall_s`` of the last one
committed_s    the part of it whose work was kept (CommittedTime)
cpu_s          CPU time of all runs
cores, gpus    what it asked for; where that is an expression, the cores that it was given
asked_mb       memory that it asked for, and ``used_mb`` the most that it used
vacates        how often it was evicted, and ``vacated_by`` the counts by reason (NumVacatesByReason)
=============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from slotwise.table import AdTable

if TYPE_CHECKING:
    from slotwise.classad import ClassAd

#: Attributes of ads that the columns come from.
TEXTS = ("User", "AccountingGroup", "AcctGroup", "NumVacatesByReason")
NUMBERS = (
    "JobStatus", "QDate", "JobStartDate", "JobCurrentStartDate", "CompletionDate", "EnteredCurrentStatus",
    "RemoteWallClockTime", "LastRemoteWallClockTime", "CommittedTime", "CumulativeRemoteUserCpu",
    "CumulativeRemoteSysCpu", "RequestCpus", "MachineAttrCpus0", "RequestGPUs", "RequestMemory", "ResidentSetSize",
    "NumVacates",
)  # fmt: skip
ATTRIBUTES = (*TEXTS, *NUMBERS)
#: JobStatus of a job that is removed, completed, or runs.
REMOVED, COMPLETED, RUNNING = 3, 4, 2
_LEFT = (REMOVED, COMPLETED)


def jobs_of(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame of jobs from one of attributes, which may lack some of them.

    What is not a number where one is expected counts as missing: users may write anything into their ads.
    """
    raw = frame.select(*(typed(frame, name) for name in ATTRIBUTES)).lazy()
    col = pl.col
    domain = pl.concat_str(pl.lit("@"), col("User").str.extract(r"@(.*)$", 1).fill_null(""))
    submitter = col("AccountingGroup") + pl.when(col("AccountingGroup").str.contains("@", literal=True)).then(
        pl.lit("")
    ).otherwise(domain)
    wall, last = col("RemoteWallClockTime").fill_null(0.0), col("LastRemoteWallClockTime").fill_null(0.0)
    status = col("JobStatus").fill_null(0).cast(pl.Int64)
    left = pl.when(col("CompletionDate") > 0).then(col("CompletionDate")).otherwise(col("EnteredCurrentStatus"))
    return (
        raw.select(
            user=pl.coalesce(submitter, col("User"), pl.lit("?")),
            group=pl.coalesce(col("AcctGroup"), pl.lit("")),
            status=status,
            queued=pl.coalesce("QDate", "JobStartDate", "CompletionDate"),
            started=_moment("JobStartDate"),
            run_started=pl.coalesce(_moment("JobCurrentStartDate"), _moment("JobStartDate")),
            ended=pl.when(status.is_in(_LEFT)).then(left),
            wall_s=wall.clip(lower_bound=0.0),
            last_wall_s=pl.min_horizontal(last, wall).clip(lower_bound=0.0),
            committed_s=col("CommittedTime").fill_null(0.0).clip(lower_bound=0.0),
            cpu_s=(col("CumulativeRemoteUserCpu").fill_null(0.0) + col("CumulativeRemoteSysCpu").fill_null(0.0)).clip(
                0.0
            ),
            cores=pl.coalesce(_amount("RequestCpus"), _amount("MachineAttrCpus0"), pl.lit(1.0)),
            gpus=pl.coalesce(_amount("RequestGPUs"), pl.lit(0.0)),
            asked_mb=_amount("RequestMemory"),
            used_mb=_amount("ResidentSetSize") / 1024.0,
            vacates=col("NumVacates").fill_null(0).clip(lower_bound=0).cast(pl.Int64),
            vacated_by=pl.coalesce("NumVacatesByReason", pl.lit("")),
        )
        .filter(col("queued").is_not_null())
        .collect()
    )


def jobs_of_ads(ads: Iterable[ClassAd]) -> pl.DataFrame:
    """As :func:`jobs_of`, from ads."""
    return jobs_of(AdTable.of(ads).to_polars(projection=ATTRIBUTES, texts=True))


def typed(frame: pl.DataFrame, name: str) -> pl.Expr:
    """An attribute of ``frame`` as a text or number, as it should be; null where it is not, or where there is none."""
    kind = pl.Float64 if name in NUMBERS else pl.String
    if name not in frame.columns:
        return pl.lit(None, dtype=kind).alias(name)
    given = frame.schema[name]
    if kind is pl.Float64 and (given == pl.Boolean or not given.is_numeric()):
        return pl.col(name).cast(pl.String).cast(kind, strict=False)
    found = pl.col(name).cast(kind, strict=False)
    return found.fill_nan(None) if kind is pl.Float64 else found


def _moment(name: str) -> pl.Expr:
    return pl.when(pl.col(name) > 0).then(pl.col(name))


def _amount(name: str) -> pl.Expr:
    """A number that is neither negative nor without end."""
    return pl.when(pl.col(name).is_finite() & (pl.col(name) >= 0)).then(pl.col(name))
