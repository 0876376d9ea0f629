"""Where reports get jobs, quotas and priority factors from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import grpc
import polars as pl
from msgspec import Struct

from slotwise.analysis import history_database
from slotwise.analysis.past_jobs import ATTRIBUTES, jobs_of, jobs_of_ads
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Parsed
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire.gen import common_pb2, negotiator_pb2_grpc, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

if TYPE_CHECKING:
    from slotwise.analysis.periods import Periods
    from slotwise.classad import ClassAd

#: Which jobs of the queue belong to a report: none, those that have run, or all.
Queue = Literal["none", "started", "all"]
_CONSTRAINTS = {"started": "JobStartDate isnt undefined", "all": ""}


class Source(Protocol):
    """What a report is made from."""

    def jobs(self, *, queue: Queue) -> pl.DataFrame:
        """Jobs that may count for the time of the report, as :mod:`slotwise.analysis.past_jobs` has them."""

    def quotas(self) -> dict[str, float]:
        """Quotas of accounting groups in cores, where they are known."""

    def factors(self) -> dict[str, float]:
        """Priority factors of submitters, where they are known."""


def source(parsed: Parsed, inv: Invocation, when: Periods, now: float) -> Source:
    """What the options name.

    :raises UsageError: when they contradict each other.
    """
    files = [given.values[0] for given in parsed.all("file")]
    if files:
        if parsed.has("name") or parsed.has("pool"):
            raise UsageError("-file reads files, and -name or -pool asks an access point", hint="omit one")
        return _Files(tuple(inv.path(name) for name in files), when)
    elsewhere = parsed.has("name") or parsed.has("pool")
    pool = inv.aimed(parsed.value("pool"))
    named = inv.aimed(parsed.value("pool"), parsed.value("name"))
    return _AccessPoint(named, pool, when, None if elsewhere else _local(inv))


def _local(inv: Invocation) -> Path | None:
    """The database of this host's access point, when the caller may read it."""
    return history_database.readable(inv.home_of(inv.knobs()).spool)


class _Files(Struct, frozen=True):
    """Files of `slotwise history -parquet`."""

    paths: tuple[Path, ...]
    when: Periods

    def jobs(self, *, queue: Queue) -> pl.DataFrame:
        """The jobs of all files."""
        return pl.concat([of_file(path) for path in self.paths]).filter(
            (pl.col("queued") < self.when.until) & (pl.col("ended").is_null() | (pl.col("ended") >= self.when.since))
        )

    def quotas(self) -> dict[str, float]:
        """None: files have no quotas."""
        return {}

    def factors(self) -> dict[str, float]:
        """None: files have no factors."""
        return {}


def of_file(path: Path) -> pl.DataFrame:
    """The jobs of a file of `slotwise history -parquet`.

    :raises SlotwiseError: when it cannot be read as one.
    """
    try:
        there = pl.scan_parquet(path)
        names = set(there.collect_schema().names())
        if not {"QDate", "JobStatus"} <= names:
            raise UsageError(f"{path} has no jobs", hint="`slotwise history -parquet FILE` writes such a file")
        return jobs_of(there.select(name for name in ATTRIBUTES if name in names).collect())
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UsageError(
            f"cannot read {path} as Parquet: {str(error).splitlines()[0]}",
            hint="`slotwise history -parquet FILE` writes such a file",
        ) from None


class _AccessPoint(Struct, frozen=True):
    """A schedd, with the history from its ``database`` where that can be read, and the pool's negotiator."""

    inv: Invocation
    pool: Invocation
    when: Periods
    database: Path | None

    def jobs(self, *, queue: Queue) -> pl.DataFrame:
        """Past jobs and those of the queue."""
        frames = [self._past()]
        if queue != "none":
            frames.append(self._queue(_CONSTRAINTS[queue]))
        return pl.concat(frames)

    def _past(self) -> pl.DataFrame:
        if self.database is not None:
            return history_database.read(self.database, self.when.since, self.when.until)
        query = schedd_pb2.HistoryQuery(completed_since=int(self.when.since))
        query.query.projection.extend(ATTRIBUTES)
        query.query.constraint = f"QDate < {int(self.when.until) + 1}"
        try:
            stub = self.inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
            return jobs_of_ads(_ads(stub.History(query)))
        except grpc.RpcError as error:
            raise to_error(error, peer="the schedd") from None

    def _queue(self, constraint: str) -> pl.DataFrame:
        query = schedd_pb2.JobQuery()
        query.query.constraint = constraint
        query.query.projection.extend(ATTRIBUTES)
        try:
            stub = self.inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
            return jobs_of_ads(_ads(stub.Query(query)))
        except (grpc.RpcError, SlotwiseError) as error:
            found = to_error(error, peer="the schedd") if isinstance(error, grpc.RpcError) else error
            if self.database is None:
                raise found from None
            self.inv.err(f"warning: jobs of the queue are left out: {found}")
            return jobs_of_ads(())

    def quotas(self) -> dict[str, float]:
        """Quotas as of now."""
        found = {}
        for ad in self._accounting():
            quota = ad.get("ConfigQuota")
            if ad.get("IsAccountingGroup") is True and isinstance(quota, int | float) and quota > 0:
                found[str(ad.get("Name"))] = float(quota)
        return found

    def factors(self) -> dict[str, float]:
        """Factors as of now."""
        found = {}
        for ad in self._accounting():
            factor = ad.get("PriorityFactor")
            if ad.get("IsAccountingGroup") is not True and isinstance(factor, int | float) and factor > 0:
                found[str(ad.get("Name"))] = float(factor)
        return found

    def _accounting(self) -> list[ClassAd]:
        try:
            stub = self.pool.reading(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
            return _ads(stub.Accounting(common_pb2.AdQuery(kind="Accounting"), timeout=20))
        except (grpc.RpcError, SlotwiseError) as error:
            found = to_error(error, peer="the negotiator") if isinstance(error, grpc.RpcError) else error
            self.inv.err(f"warning: quotas and priority factors are not known: {found}")
            return []


def _ads(chunks: object) -> list[ClassAd]:
    return [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]  # type: ignore[attr-defined]
