"""``slotwise negotiator``: the last cycle, and snapshots that ``slotwise negotiate`` replays."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TypedDict

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.render.table import Column, table
from slotwise.errors import UsageError
from slotwise.wire.gen import common_pb2, negotiator_pb2, negotiator_pb2_grpc
from slotwise.wire.status import to_error

USAGE = """usage: slotwise negotiator last [-json]
       slotwise negotiator snapshot [-now] DIRECTORY
  last      the last cycle: times by phase, counts, who got what share, who was rejected and why
  snapshot  what the last cycle with idle jobs was given and decided, as files; with -now what a cycle would be given
            and would decide now (nothing is matched). Replay it with: slotwise negotiate --snapshot DIRECTORY"""


def main(args: list[str], inv: Invocation) -> int:
    """Look into the negotiator."""
    parsed = parse(
        args, [Option("help", 1), Option("json", 2), Option("now", 2), Option("pool", 1, 1), Option("name", 2, 1)]
    )
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    verb = parsed.words[0] if parsed.words else "last"
    try:
        if verb == "last":
            return _last(parsed, inv)
        if verb == "snapshot":
            return _snapshot(parsed, inv)
    except grpc.RpcError as error:
        raise to_error(error, peer="the negotiator") from None
    raise UsageError(f"there is no {verb!r}", hint="last or snapshot")


def _last(parsed: Parsed, inv: Invocation) -> int:
    stub = inv.reading(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
    text = stub.LastCycle(common_pb2.Empty(), timeout=20).json
    cycle = json.loads(text)
    if parsed.has("json"):
        inv.out(json.dumps(cycle, indent=1))
        return 0
    at = datetime.fromtimestamp(cycle["started_at"]).strftime("%Y-%m-%d %H:%M:%S")
    counts, timings = cycle["statistics"], cycle["timings"]
    inv.out(f"Cycle {cycle['cycle']} ({cycle['why']}) at {at}, {cycle['duration_s'] * 1e3:.1f} ms")
    phases = {"gather": cycle["gather_s"]} | {name.removesuffix("_s"): value for name, value in timings.items()}
    phases["dispatch"] = cycle["dispatch_s"]
    inv.out("  " + ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in phases.items()))
    inv.out(
        f"  {counts['total_slots']} slots ({counts['candidate_slots']} candidates), {cycle['schedds']} access points, "
        f"{counts['idle_jobs']} idle jobs, {cycle['matches']} matches, {counts['rejections']} rejections"
    )
    if cycle["submitters"]:
        inv.out("")
        inv.stdout.write(_submitters(cycle["submitters"]))
    if left := [*cycle["rejections"], *cycle.get("waiting", ())]:
        inv.out("")
        inv.stdout.write(_rejections(left))
    if cycle["reservations"]:
        inv.out("")
        inv.stdout.write(_reservations(cycle["reservations"]))
    return 0


class SubmitterRow(TypedDict):
    """A submitter in the negotiator's report of a cycle."""

    name: str
    effective_priority: float
    share: float | None
    limit: float | None
    usage: float
    matched: int


class RejectionRow(TypedDict):
    """Jobs that got nothing, and why."""

    submitter: str
    autocluster: str
    count: int
    reason: str


class ReservationRow(TypedDict):
    """A slot that is kept for a job; ``starts_at``: seconds since the epoch."""

    slot: str
    job: str
    starts_at: float


def _submitters(rows: list[SubmitterRow]) -> str:
    columns = [Column("Submitter"), *(Column(h, True) for h in ("Priority", "Share", "Limit", "Usage", "Matched"))]
    cells = [
        [
            row["name"],
            f"{row['effective_priority']:.2f}",
            "none" if row["share"] is None else f"{row['share']:.1%}",
            "none" if row["limit"] is None else f"{row['limit']:.2f}",
            f"{row['usage']:.2f}",
            str(row["matched"]),
        ]
        for row in rows
    ]
    return table(columns, cells)


def _rejections(rows: list[RejectionRow]) -> str:
    columns = [Column("Submitter"), Column("First job"), Column("Jobs", True), Column("Reason")]
    cells = [[row["submitter"], row["autocluster"], str(row["count"]), row["reason"]] for row in rows]
    return table(columns, cells)


def _reservations(rows: list[ReservationRow]) -> str:
    def cells(row: ReservationRow) -> list[str]:
        at = datetime.fromtimestamp(row["starts_at"]).strftime("%Y-%m-%d %H:%M:%S")
        return [row["slot"], row["job"], at]

    return table([Column("Kept slot"), Column("For job"), Column("Expected ready")], [cells(row) for row in rows])


def _snapshot(parsed: Parsed, inv: Invocation) -> int:
    if len(parsed.words) != 2:
        raise UsageError("snapshot needs a directory to write to")
    directory = inv.path(parsed.words[1])
    stub = inv.stub(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
    files: dict[str, list[bytes]] = {}
    request = negotiator_pb2.SnapshotRequest(dry_run=parsed.has("now"))
    for piece in stub.Snapshot(request):
        files.setdefault(piece.name, []).append(piece.data)
    directory.mkdir(parents=True, exist_ok=True)
    for name, pieces in sorted(files.items()):
        path = directory / name.replace("/", "_")
        with path.open("wb") as stream:
            stream.writelines(pieces)
    inv.out(f"Wrote {', '.join(sorted(files))} to {directory}")
    return 0
