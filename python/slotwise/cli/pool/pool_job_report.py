"""``slotwise pool-job-report``: how long jobs ran yesterday, by user (manual page of condor_pool_job_report)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import datetime, timedelta

import grpc

from slotwise.classad import ClassAd, parse_ads
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.common.written_file import write
from slotwise.cli.pool.fetchlog import pieces
from slotwise.cli.render.job_report import Report
from slotwise.errors import SlotwiseError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.status import to_error

_OPTIONS = [Option("help", 1), Option("json", 1), Option("pool", 1, 1), Option("days", 1, 1)]
USAGE = """usage: slotwise pool-job-report [options]
  Asks every machine of the pool for the jobs that ended there yesterday (STARTD_HISTORY, which needs ADMINISTRATOR),
  and reports by user how many there were and how long they took. Writes JobReport and JobReport.csv here, too.
  -days N               of the day N days ago (1); 0: of today
  -json                 the table for programs; nothing is written
  -pool HOST:PORT       of another pool
  Status 1 if a machine did not answer; the report says of how many it is."""
#: How long a machine may take to send its history, in seconds, and how much it may send, in bytes.
_PATIENCE_S, _MOST = 120, 256 << 20


def main(args: list[str], inv: Invocation) -> int:
    """Report on jobs."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(f"no words are expected, not {parsed.words[0]!r}")
    ago = parsed.number("days")
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    day = midnight - timedelta(days=1 if ago is None else ago)
    begin, end = day.timestamp(), (day + timedelta(days=1)).timestamp()
    inv = inv.aimed(parsed.value("pool"))
    report = Report()
    machines = _machines(inv)
    answered = 0
    for machine in machines:
        try:
            sent = pieces(inv.aimed(None, machine), "startd", "STARTD_HISTORY", timeout_s=_PATIENCE_S)
            ads = history(sent)
        except grpc.RpcError as error:
            inv.err(f"{machine}: {to_error(error, peer='the startd')}")
            continue
        except SlotwiseError as error:
            inv.err(f"{machine}: {error}")
            continue
        answered += 1
        report.take(ads, begin, end)
    if parsed.has("json"):
        inv.out(json.dumps(report.rows()))
    else:
        text = report.text(time.strftime("%a %b %d %H:%M:%S %Z %Y"), answered)
        write(inv.path("JobReport"), text)
        write(inv.path("JobReport.csv"), report.csv())
        inv.out(text, end="")
    return 0 if answered == len(machines) else 1


def history(sent: Iterable[bytes], most: int = _MOST) -> list[ClassAd]:
    """The ads of a machine's history.

    :raises SlotwiseError: it is none, or has more than ``most`` bytes.
    """
    data = bytearray()
    for piece in sent:
        data += piece
        if len(data) > most:
            raise SlotwiseError(
                f"STARTD_HISTORY has more than {most} bytes and is not counted",
                hint="lower MAX_HISTORY_LOG or MAX_HISTORY_ROTATIONS there",
            )
    try:
        return list(parse_ads(bytes(data)))
    except (SlotwiseError, ValueError) as error:
        raise SlotwiseError(
            f"STARTD_HISTORY is not a history, and is not counted: {error}",
            hint="look at it with `slotwise fetchlog -startd HOST STARTD_HISTORY`",
        ) from None


def _machines(inv: Invocation) -> list[str]:
    """The names of the pool's machines."""
    stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
    query = common_pb2.AdQuery(kind="Machine", constraint='OpSys == "LINUX"', projection=["Machine"])
    try:
        ads = [ad for chunk in stub.Query(query, timeout=60) if chunk.data for ad in unpack_ads(chunk.data)]
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    return sorted({str(ad.get("Machine")) for ad in ads})
