"""A cycle as polars frames and Parquet files, for people who analyse. Needs the extra ``analysis``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from slotwise.errors import UsageError
from slotwise.matchmaking.snapshot import CycleInput

if TYPE_CHECKING:
    import polars as pl

#: The report of ``slotwise negotiate``; its parts are lists of JSON objects.
Report = Mapping[str, list[dict[str, object]]]


def outcome_frames(report: Report) -> dict[str, pl.DataFrame]:
    """The parts of a report as frames: matches, rejections, submitters, groups.

    :raises UsageError: when polars is not installed.
    """
    polars = _polars()
    matches = [{k: v for k, v in m.items() if k not in ("carve", "evicts")} for m in report["matches"]]
    rejections = [_flat(rejection) for rejection in report["rejections"]]
    submitters = [{k: v for k, v in s.items() if k != "held_back"} for s in report["submitters"]]
    parts = {
        "matches": matches,
        "rejections": rejections,
        "submitters": submitters,
        "groups": report["groups"],
    }
    return {name: _rows_frame(polars, name, rows) for name, rows in parts.items()}


def _flat(rejection: dict[str, object]) -> dict[str, object]:
    """A rejection with its counts of slots as columns."""
    slots = rejection["slots"]
    assert isinstance(slots, dict)
    return {key: value for key, value in rejection.items() if key != "slots"} | slots


#: Columns of parts that may have no row, or nothing in a column, by kind: a reader finds them all the same.
_COLUMNS = {
    "matches": "job:str slot:str preempts:str preemption:str rank:float submitter:str cost:float group:str",
    "rejections": "autocluster:str submitter:str reason:str count:int"
    " protected:int prefer_running:int too_heavy:int limited:int",
    "submitters": "name:str group:str priority:float factor:float effective_priority:float share:float limit:float"
    " matched:int usage:float",
}


def _rows_frame(polars: ModuleType, name: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    kinds = {"str": polars.String, "float": polars.Float64, "int": polars.Int64}
    columns = (column.split(":") for column in _COLUMNS.get(name, "").split())
    schema = {column: kinds[kind] for column, kind in columns}
    if not rows:
        return cast("pl.DataFrame", polars.DataFrame(schema=schema))
    known = {column: kind for column, kind in schema.items() if column in rows[0]}
    return cast("pl.DataFrame", polars.DataFrame(rows, infer_schema_length=None, schema_overrides=known))


def write_parquet(directory: Path, given: CycleInput, report: Report) -> list[Path]:
    """Write slots, jobs and the outcome as Parquet files; returns their paths.

    :raises UsageError: when polars is not installed.
    """
    _polars()
    directory.mkdir(parents=True, exist_ok=True)
    tables = {"slots": given.slots.to_polars(texts=True), "jobs": given.requests.to_polars(texts=True)}
    frames = tables | outcome_frames(report)
    written = []
    for name, frame in frames.items():
        path = directory / f"{name}.parquet"
        frame.write_parquet(path)
        written.append(path)
    return written


def _polars() -> ModuleType:
    try:
        import polars
    except ImportError:
        raise UsageError("this needs polars", hint="pip install 'slotwise[analysis]'") from None
    return polars
