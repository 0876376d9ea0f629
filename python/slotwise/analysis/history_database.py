"""Reads the schedd's database for reports, beside the schedd that writes to it.

A report reads some attributes of millions of jobs: they are picked out of the rows here, many times as fast as the
schedd can build and send whole ads. Only the owner of the database may read it; everybody else asks the schedd.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl

from slotwise.analysis.past_jobs import ATTRIBUTES, NUMBERS, TEXTS, jobs_of, typed
from slotwise.daemon.database import reading
from slotwise.errors import HostError
from slotwise.home import QUEUE
from slotwise.table import AdTable, Picked, picked, unpack_ads

#: Bytes of the file that are mapped instead of copied. SQLite keeps it as long as its readers need it.
_MAPPED_MAX = 1 << 40
#: Columns of the history that a row's numbers come from, as they are named here.
_OWN = ("seq", "cluster", "JobStatus", "CompletionDate")


def readable(spool: Path) -> Path | None:
    """The database of the schedd with this spool, when the caller may read it."""
    path = spool / QUEUE
    return path if os.access(path, os.R_OK) else None


def read(path: Path, since: float, until: float) -> pl.DataFrame:
    """Jobs that left the queue at ``since`` or later and were queued before ``until``, as :mod:`past_jobs` has them.

    :raises HostError: when the database cannot be read.
    """
    try:
        with reading(path) as database:
            database.execute(f"PRAGMA mmap_size={_MAPPED_MAX}")
            rows, packs = _rows(database, int(since))
            clusters = _clusters(database, rows["cluster"])
    except sqlite3.Error as error:
        raise HostError(f"cannot read {path}: {error}", path=str(path)) from None
    frame = rows.join(clusters, on="cluster", how="left", suffix=" of cluster")
    if (deltas := _of_packs(packs, "seq")) is not None:
        frame = frame.join(deltas, on="seq", how="left", suffix=" of delta")
    # A job's own value, else what it was submitted with, else its cluster's.
    merged = frame.select(*(_first(frame, name, "", " of delta", " of cluster") for name in ATTRIBUTES))
    return jobs_of(merged).filter(pl.col("queued") < until)


def _rows(database: sqlite3.Connection, since: int) -> tuple[pl.DataFrame, list[tuple[int, bytes]]]:
    """What the rows of jobs have themselves, and by seq what single jobs were submitted with; in one pass, as most of
    the time goes into reading the file. JobStatus and the time of leaving are columns of their own."""
    found = database.execute(
        "SELECT coalesce(changes, ''), seq, cluster, status, completed, delta FROM history WHERE completed >= ?"
        " ORDER BY seq",
        (since,),
    )
    rows = picked(found, NUMBERS, TEXTS, own=5)
    seq, cluster, status, completed = (_doubles(name, values) for name, values in zip(_OWN, rows.own, strict=False))
    frame = _attributes(rows).with_columns(seq.cast(pl.Int64), cluster.cast(pl.Int64), status, completed)
    return frame, [(int(seq[place]), pack) for place, pack in rows.kept]


def _doubles(name: str, values: bytes) -> pl.Series:
    return pl.Series(name, np.frombuffer(values, dtype=np.float64)).fill_nan(None)


def _attributes(rows: Picked) -> pl.DataFrame:
    """The attributes in texts that :func:`slotwise.schedd.jobs.values.encode` has made, a column each."""
    return pl.DataFrame(
        [
            *(pl.Series(name, values, dtype=pl.String) for name, values in zip(TEXTS, rows.words, strict=True)),
            *(_doubles(name, values) for name, values in zip(NUMBERS, rows.numbers, strict=True)),
        ]
    )


def _clusters(database: sqlite3.Connection, numbers: pl.Series) -> pl.DataFrame:
    """What all jobs of a cluster have: its ad, over which goes what the schedd added.

    Those of other clusters between the least and the greatest of ``numbers`` come with them.
    """
    within = (numbers.min(), numbers.max())
    found = database.execute("SELECT coalesce(common, ''), cluster FROM clusters WHERE cluster BETWEEN ? AND ?", within)
    rows = picked(found, NUMBERS, TEXTS, own=1)
    added = _attributes(rows).with_columns(_doubles("cluster", rows.own[0]).cast(pl.Int64))
    packs = database.execute("SELECT cluster, ad FROM clusters WHERE cluster BETWEEN ? AND ?", within)
    ads = _of_packs(packs, "cluster")
    if ads is None:
        return added
    both = added.join(ads, on="cluster", how="left", suffix=" of ad")
    return both.select("cluster", *(_first(both, name, "", " of ad") for name in ATTRIBUTES))


def _of_packs(rows: Iterable[tuple[int, bytes]], key: str) -> pl.DataFrame | None:
    """The attributes of packs of one ad each, with the number that each comes with; None where there is none.

    Equal packs, as jobs of one kind have them, are read once.
    """
    numbers: list[int] = []
    places: list[int] = []
    known: dict[bytes, int] = {}
    for number, pack in rows:
        numbers.append(number)
        places.append(known.setdefault(pack, len(known)))
    if not known:
        return None
    table = AdTable.of(unpack_ads(pack)[0] for pack in known)
    frame = table.to_polars(projection=ATTRIBUTES, texts=True)
    frame = frame.select(*(typed(frame, name) for name in frame.columns))
    found = frame[places] if frame.width else frame
    return found.with_columns(pl.Series(key, numbers, dtype=pl.Int64))


def _first(frame: pl.DataFrame, name: str, *suffixes: str) -> pl.Expr:
    """The first value of columns with these suffixes, of those that are there."""
    there = [f"{name}{suffix}" for suffix in suffixes if f"{name}{suffix}" in frame.columns]
    return pl.coalesce(*there).alias(name)
