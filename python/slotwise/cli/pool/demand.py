"""``slotwise demand``: what idle jobs ask for that the negotiator's last cycle could not give them."""

from __future__ import annotations

import json
import re

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.render.table import Column, table
from slotwise.errors import NotFoundError, UsageError
from slotwise.matchmaking.demand import Shape, Supply, shapes_of, supply_for
from slotwise.matchmaking.rows import JsonObject
from slotwise.model.durations import days_and_time
from slotwise.wire.gen import common_pb2, negotiator_pb2_grpc
from slotwise.wire.status import to_error

USAGE = """usage: slotwise demand [-pool HOST:PORT] [-json] [-slots SHAPE]
  Shows what idle jobs ask for that the last negotiation cycle could not give them, by shape: cores, memory and disk in
  MiB, GPUs. `limited` counts jobs that a quota or a limit holds back, which more slots would not help.
  -slots SHAPE   as cpus=8,memory=32G,disk=100G,gpus=1: how many slots of that shape the other jobs need
  -json          for programs"""
_UNITS = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}


def main(args: list[str], inv: Invocation) -> int:
    """Show the demand."""
    parsed = parse(args, [Option("help", 1), Option("json", 1), Option("pool", 1, 1), Option("slots", 1, 1)])
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(f"what is {parsed.words[0]!r}?", hint="see slotwise demand --help")
    wanted = parsed.value("slots")
    slot = None if wanted is None else shape_of_text(wanted)
    inv = inv.aimed(parsed.value("pool"))
    try:
        stub = inv.stub(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
        cycle = json.loads(stub.LastCycle(common_pb2.Empty(), timeout=20).json)
    except grpc.RpcError as error:
        raise to_error(error, peer="the negotiator") from None
    demand = cycle.get("demand")
    if demand is None:
        raise NotFoundError("the negotiator does not tell the demand", hint="it is of an earlier version")
    supply = None if slot is None else supply_for(shapes_of(demand), slot)
    if parsed.has("json"):
        told = {"cycle": cycle["cycle"], **demand}
        if supply is not None:
            told["supply"] = {"slots": supply.slots, "jobs": supply.jobs, "jobs_too_large": supply.too_large}
        inv.out(json.dumps(told, indent=1))
        return 0
    _show(demand, supply, wanted or "", inv)
    return 0


def shape_of_text(text: str) -> Shape:
    """The shape that ``cpus=8,memory=32G`` describes; what it leaves out is without bounds, but for GPUs: none.

    :raises UsageError: it describes none.
    """
    found: dict[str, float] = {"memory": 1 << 40, "disk": 1 << 40, "gpus": 0}
    for word in text.replace(",", " ").split():
        match = re.fullmatch(r"(cpus|memory|disk|gpus)=(\d+(?:\.\d+)?)([KMGT]?)", word, re.IGNORECASE)
        if match is None or (match[3] and match[1].lower() in ("cpus", "gpus")):
            raise UsageError(f"{word!r} is not part of a shape", hint="write cpus=8,memory=32G,disk=100G,gpus=1")
        found[match[1].lower()] = float(match[2]) * _UNITS[match[3].upper()]
    if not found.get("cpus"):
        raise UsageError(f"{text!r} has no cores", hint="write cpus=8,memory=32G,disk=100G,gpus=1")
    return Shape(found["cpus"], int(found["memory"]), int(found["disk"]), found["gpus"])


def _show(demand: JsonObject, supply: Supply | None, wanted: str, inv: Invocation) -> None:
    if not demand["jobs"]:
        inv.out("The last cycle has left no job without a slot")
    else:
        numbers = ("Cpus", "Memory", "Disk", "GPUs", "Jobs", "Limited", "Submitters", "Oldest")
        columns = [*(Column(name, right=True) for name in numbers), Column("Reasons")]
        rows = [
            [
                f"{row['cpus']:g}",
                str(row["memory_mib"]),
                str(row["disk_mib"]),
                f"{row['gpus']:g}",
                str(row["jobs"]),
                str(row["limited_jobs"]),
                str(row["submitters"]),
                days_and_time(row["oldest_wait_s"]),
                ", ".join(f"{count} {label}" for label, count in row["reasons"].items()),
            ]
            for row in demand["shapes"]
        ]
        inv.out(table(columns, rows), end="")
        if demand["shapes_left_out"]:
            inv.out(f"... and {demand['shapes_left_out']} further shapes")
        inv.out(f"{demand['jobs']} jobs of {demand['submitters']} submitters, {demand['limited_jobs']} held by limits")
    if supply is not None:
        inv.out(
            f"{supply.slots} slots of {wanted} would run {supply.jobs} of these jobs"
            + (f"; {supply.too_large} are larger" if supply.too_large else "")
        )
