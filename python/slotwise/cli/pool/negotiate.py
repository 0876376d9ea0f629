"""``slotwise negotiate``: one cycle (or some) of the real negotiator on files, without a pool."""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import NoReturn

from slotwise.cli.common.cycle_input import epoch, read_input
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.parser import HelpFormatter
from slotwise.errors import UsageError
from slotwise.matchmaking.engine import CycleOutcome, Engine
from slotwise.matchmaking.rows import JsonObject, Match, Submitter, json_value
from slotwise.matchmaking.simulate import occupy
from slotwise.matchmaking.snapshot import CycleInput

DESCRIPTION = """Runs the negotiator on slot ads (condor_status -long) and job ads (condor_q -long), and shows who
gets what and why others get nothing. --snapshot replays a directory saved with `slotwise negotiator snapshot`."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint="see `slotwise negotiate --help`")


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
        inv.out(json.dumps(json_value(report)))
    else:
        from slotwise.cli.render.negotiation import render

        inv.out(render(report, inv.width if inv.is_terminal else 160))
    return 0


def run(given: CycleInput, cycles: int, repeat: int, ingest_s: float) -> JsonObject:
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


def _summed(before: list[JsonObject], after: list[JsonObject]) -> list[JsonObject]:
    matched = {row["name"]: row["matched"] for row in before}
    summed = [{**row, "matched": row["matched"] + matched.pop(row["name"], 0)} for row in after]
    names = {row["name"] for row in after}
    return summed + [row for row in before if row["name"] not in names]


def report_of(outcome: CycleOutcome, ingest_s: float) -> JsonObject:
    """One cycle in the form the command prints."""
    timings = outcome.timings()
    report: JsonObject = {
        "matches": [_match(row) for row in outcome.matches()],
        "rejections": [{**row.as_dict(), "slots": row.slots.as_dict()} for row in outcome.rejections()],
        "submitters": [_submitter(row) for row in outcome.submitters()],
        "groups": [row.as_dict() for row in outcome.groups()],
        "reservations": [row.as_dict() for row in outcome.reservations()],
        "statistics": outcome.statistics().as_dict(),
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


def _match(row: Match) -> JsonObject:
    found = row.as_dict()
    kept = ("job", "slot", "preempts", "preemption", "rank", "submitter", "cost", "group")
    match = {key: found[key] for key in kept}
    for key in ("carve", "evicts", "offline"):
        if found[key]:
            match[key] = found[key]
    return match


def _submitter(row: Submitter) -> JsonObject:
    found = row.as_dict()
    del found["held_back"]
    if row.held_back:
        found["held_back"] = {"reason": row.held_back[0], "count": row.held_back[1]}
    return found
