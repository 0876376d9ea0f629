"""``slotwise negotiate``: one cycle (or some) of the real negotiator on files, without a pool."""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any, NoReturn

from slotwise.cli.common import classad_host
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.parser import HelpFormatter
from slotwise.config import load
from slotwise.errors import SlotwiseError, UsageError
from slotwise.matchmaking.accounting_file import parse_accounting, text_of
from slotwise.matchmaking.engine import Accounting, CycleOutcome, Engine, Knobs, Row, knob_values, read_long_file
from slotwise.matchmaking.reports import finite
from slotwise.matchmaking.simulate import occupy
from slotwise.matchmaking.snapshot import CycleInput, read_snapshot
from slotwise.table import AdTable

DESCRIPTION = """Runs the negotiator on slot ads (condor_status -long) and job ads (condor_q -long), and shows who
gets what and why others get nothing. --snapshot replays a directory saved with `slotwise negotiator snapshot`."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint="see `slotwise negotiate --help`")


def epoch(text: str) -> int:
    """Epoch seconds from a word of the command line; ValueError for what is no time."""
    try:
        return int(float(text))
    except OverflowError:
        raise ValueError(text) from None


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = _Parser(prog="slotwise negotiate", description=DESCRIPTION, add_help=False, formatter_class=HelpFormatter)
    made.add_argument("--help", "-help", "-h", action="store_true", help="show this text")
    made.add_argument("--slots", "-slots", metavar="FILE", help="slot ads")
    made.add_argument("--jobs", "-jobs", metavar="FILE", help="job ads")
    made.add_argument("--snapshot", "-snapshot", metavar="DIR", help="all of these from a saved cycle")
    made.add_argument("--config", "-config", metavar="FILE", help="negotiator knobs, in configuration language")
    made.add_argument("--accounting", "-accounting", metavar="FILE", help="priorities: JSON, or condor_userprio -long")
    made.add_argument("--now", "-now", metavar="EPOCH", type=epoch, help="time of the cycle (default: now)")
    made.add_argument("--cycles", "-cycles", metavar="N", type=int, default=1, help="cycles; matched slots stay busy")
    made.add_argument(
        "--repeat", "-repeat", metavar="N", type=int, default=1, help="run the first cycle N times, for timing"
    )
    made.add_argument("--json", "-json", action="store_true", help="for programs")
    made.add_argument("--table", "-table", action="store_true", help="for people (default)")
    made.add_argument(
        "--parquet", "-parquet", metavar="DIR", help="also write slots, jobs and the outcome as Parquet files"
    )
    return made


def main(args: list[str], inv: Invocation) -> int:
    """Entry point of the command."""
    asked = parser().parse_args(args)
    if asked.help:
        inv.out(parser().format_help())
        return 0
    if asked.cycles < 1 or asked.repeat < 1:
        raise UsageError("--cycles and --repeat must be at least 1")
    began = time.perf_counter()
    given = read_input(asked, inv)
    ingest_s = time.perf_counter() - began
    report = run(given, asked.cycles, asked.repeat, ingest_s)
    if asked.parquet:
        from slotwise.matchmaking.frames import write_parquet

        try:
            write_parquet(inv.path(asked.parquet), given, report)
        except OSError as error:
            raise UsageError(f"cannot write to {asked.parquet}: {error.strerror}") from None
    if asked.json:
        inv.out(json.dumps(finite(report)))
    else:
        from slotwise.cli.render.negotiation import render

        inv.out(render(report, inv.width if inv.is_terminal else 160))
    return 0


def read_input(asked: argparse.Namespace, inv: Invocation) -> CycleInput:
    """The input that the options name.

    :raises UsageError: when files are missing.
    """
    if asked.snapshot:
        directory = inv.path(asked.snapshot)
        if not directory.is_dir():
            raise UsageError(f"{asked.snapshot} is no directory")
        given = read_snapshot({file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()})
        if asked.now is None:
            return given
        return CycleInput(given.slots, given.requests, given.submitters, given.knobs, given.accounting, int(asked.now))
    if not asked.slots or not asked.jobs:
        raise UsageError("--slots FILE and --jobs FILE are needed", hint="or --snapshot DIR")
    now = int(time.time() if asked.now is None else asked.now)
    accounting = Accounting()
    if asked.accounting:
        accounting = parse_accounting(text_of(_read(inv.path(asked.accounting)), asked.accounting), asked.accounting)
    return CycleInput(
        slots=_slots(asked.slots, now, inv),
        requests=_jobs(asked.jobs, now, inv),
        submitters=None,
        knobs=_knobs(asked.config, inv),
        accounting=accounting,
        now=now,
    )


def _ads(name: str, now: int, key: str, inv: Invocation) -> AdTable:
    try:
        return read_long_file(inv.path(name), now, key)
    except OSError as error:
        raise UsageError(f"cannot read {inv.path(name)}: {error.strerror}") from None
    except SlotwiseError as error:
        raise UsageError(f"{name}: {error}", hint="ads as `status -long` and `q -long` print them") from None


def _slots(name: str, now: int, inv: Invocation) -> AdTable:
    """Slot ads; ads of daemons, which `condor_status -any` lists too, are no slots."""
    table = _ads(name, now, "Name", inv)
    table.remove_where('MyType =!= undefined && MyType != "Machine" && MyType != "Slot"')
    _expect(table, name, inv, "slot ad", "slot ads have a Name and the MyType Machine, as `status -long` prints them")
    return table


def _jobs(name: str, now: int, inv: Invocation) -> AdTable:
    table = _ads(name, now, "job", inv)
    _expect(table, name, inv, "job ad", "job ads have a ClusterId, as `q -long` prints them")
    return table


def _expect(table: AdTable, name: str, inv: Invocation, what: str, hint: str) -> None:
    """A file of other ads (the two exchanged, say) is a mistake; an empty one is not."""
    if len(table) == 0 and _read(inv.path(name)).strip():
        raise UsageError(f"{name} has no {what}", hint=hint)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _knobs(name: str | None, inv: Invocation) -> Knobs:
    if name is None:
        return Knobs()
    path = inv.path(name)
    _read(path)
    config = load(path, subsystem="NEGOTIATOR", env={}, cwd=inv.cwd, seed=0)
    classad_host.take_over_from(inv, config, "NEGOTIATOR")
    return Knobs(knob_values(config))


def run(given: CycleInput, cycles: int, repeat: int, ingest_s: float) -> dict[str, Any]:
    """Run the cycles and report in the form the command prints."""
    engine = Engine()
    timings: list[dict[str, float]] = []
    for _ in range(repeat):
        outcome = given.run(engine)
        timings.append(outcome.timings())
    report = report_of(outcome, ingest_s)
    if repeat > 1:
        report["repeats"] = timings
    for cycle in range(1, cycles):
        given = occupy(given, outcome, given.knobs.interval_s)
        outcome = given.run(engine)
        later = report_of(outcome, 0.0)
        for match in later["matches"]:
            match["cycle"] = cycle
        report["matches"] += later["matches"]
        report["timings"]["total_s"] += later["timings"]["total_s"]
        for key in ("rejections", "submitters", "groups", "reservations", "statistics"):
            report[key] = _summed(report[key], later[key]) if key == "submitters" else later[key]
    report["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    return report


def _summed(before: list[Row], after: list[Row]) -> list[Row]:
    matched = {row["name"]: row["matched"] for row in before}
    summed = [{**row, "matched": row["matched"] + matched.pop(row["name"], 0)} for row in after]
    names = {row["name"] for row in after}
    return summed + [row for row in before if row["name"] not in names]


def report_of(outcome: CycleOutcome, ingest_s: float) -> dict[str, Any]:
    """One cycle in the form the command prints."""
    timings = outcome.timings()
    report: dict[str, Any] = {
        "matches": [_match(row) for row in outcome.matches()],
        "rejections": outcome.rejections(),
        "submitters": [_submitter(row) for row in outcome.submitters()],
        "groups": outcome.groups(),
        "reservations": outcome.reservations(),
        "statistics": outcome.statistics(),
        "timings": {
            "ingest_s": ingest_s,
            "prepare_s": timings["prepare_s"],
            "sort_s": timings["sort_s"],
            "match_s": timings["match_s"],
            "total_s": ingest_s + timings["total_s"],
        },
    }
    if outcome.warnings:
        report["warnings"] = outcome.warnings
    return report


def _match(row: Row) -> Row:
    kept = ("job", "slot", "preempts", "preemption", "rank", "submitter", "cost", "group")
    match = {key: row[key] for key in kept}
    for key in ("carve", "evicts", "offline"):
        if row[key]:
            match[key] = row[key]
    return match


def _submitter(row: Row) -> Row:
    held = row["held_back"]
    row = {key: value for key, value in row.items() if key != "held_back"}
    if held:
        row["held_back"] = {"reason": held[0], "count": held[1]}
    return row
