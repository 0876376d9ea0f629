"""``slotwise history``: jobs that have left the queue, newest first (manual page of condor_history)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import grpc

from slotwise.cli.invocation import Invocation
from slotwise.cli.options import REST, Option, Parsed, parse
from slotwise.cli.q import chosen_lines
from slotwise.errors import UsageError
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

OPTIONS = [
    Option("help", 1),
    Option("backwards", 1),
    Option("forwards", 4),
    Option("limit", 2, 1),
    Option("match", 2, 1, stands_for="limit"),
    Option("scanlimit", 2, 1),
    Option("since", 3, 1),
    Option("completedsince", 3, 1),
    Option("file", 2, 1),
    Option("extract", 3, 1),
    Option("constraint", 3, 1),
    Option("long", 1),
    Option("json", 2),
    Option("jsonl", 5),
    Option("autoformat", 5, REST, stands_for="af"),
    Option("af", 2, REST),
    Option("format", 3, 2),
    Option("attributes", 3, 1),
    Option("wide", 1),
    Option("name", 1, 1),
    Option("pool", 1, 1),
    Option("local", 3),
    Option("schedd", 3),
]
USAGE = """usage: slotwise history [options] [CLUSTER | CLUSTER.PROC | OWNER ...]
  -limit N (-match N), -scanlimit N   stop after N matches, or N ads read
  -since ID | EXPR | TIME             stop reading there; -completedsince TIME
  -forwards, -backwards               oldest or newest (default) first
  -file FILE, -extract FILE           read ads from, or write them to, a file in long form
  -constraint EXPR, -long, -json, -jsonl, -af[:letters] ATTRIBUTE..., -format F ATTRIBUTE, -attributes A,B, -wide"""

_HEADING = " ID     OWNER          SUBMITTED       RUN_TIME ST COMPLETED   CMD\n"
_LETTERS = {1: "I", 2: "R", 3: "X", 4: "C", 5: "H", 6: ">", 7: "S"}


def main(args: list[str], inv: Invocation) -> int:
    """Show jobs of the past."""
    parsed = parse(args, OPTIONS)
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    query = _query(parsed)
    if parsed.value("file") is not None:
        return _from_file(parsed, query, inv)
    stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
    try:
        _show(parsed, query, stub.History, inv)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    return 0


def _query(parsed: Parsed) -> schedd_pb2.HistoryQuery:
    query = schedd_pb2.HistoryQuery(forwards=parsed.has("forwards"))
    for word in parsed.words:
        if re.fullmatch(r"\d+(\.\d+)?", word):
            query.jobs.ids.append(word)
        elif word[:1].isdigit():
            raise UsageError(f"{word!r} is neither a job id nor an owner")
        else:
            query.jobs.owners.append(word)
    query.query.constraint = " && ".join(f"({given.values[0]})" for given in parsed.all("constraint"))
    limit = parsed.number("limit")
    query.query.limit = max(0, limit) if limit is not None else 0
    query.scan_limit = parsed.number("scanlimit") or 0
    query.since = parsed.value("since") or ""
    if (when := parsed.value("completedsince")) is not None:
        query.completed_since = _time(when)
    names = [name for given in parsed.all("attributes") for name in given.values[0].replace(",", " ").split()]
    query.query.projection.extend(names)
    return query


def _time(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        raise UsageError(f"{text!r} is no time", hint="seconds since the epoch, or YYYY-MM-DD HH:MM:SS") from None


def _show(parsed: Parsed, query: schedd_pb2.HistoryQuery, ask: Any, inv: Invocation) -> None:
    if parsed.value("limit") == "0":
        return
    whole = parsed.has("long") or parsed.has("json") or parsed.has("jsonl")
    if whole or parsed.has("extract"):
        is_long = parsed.has("long") or parsed.has("extract")
        query.query.form = common_pb2.AdQuery.LONG if is_long else common_pb2.AdQuery.JSON
        pieces = (chunk.data.decode() for chunk in ask(query, metadata=inv.metadata()))
        if (file := parsed.value("extract")) is not None:
            inv.path(file).write_text("".join(pieces))
        elif parsed.has("jsonl"):
            inv.out("".join(json.dumps(row) + "\n" for row in json.loads("".join(pieces))), end="")
        else:
            for piece in pieces:
                inv.out(piece, end="")
        return
    ads = _ads(ask(query, metadata=inv.metadata()))
    if parsed.has("af") or parsed.has("format"):
        for text in chosen_lines(parsed, ads):
            inv.out(text, end="")
        return
    width = 0 if parsed.has("wide") or not inv.is_terminal else inv.width
    inv.out(_HEADING, end="")
    for ad in ads:
        inv.out(_line(ad, width))


def _ads(chunks: Any) -> Iterator[Any]:
    from slotwise.table import unpack_ads

    for chunk in chunks:
        if chunk.data:
            yield from unpack_ads(chunk.data)


def _line(ad: Any, width: int) -> str:
    from slotwise.cli.render.autoformat import span

    def moment(name: str) -> str:
        value = ad.get(name)
        if not isinstance(value, (int, float)) or value <= 0:
            return "???"
        when = datetime.fromtimestamp(value)
        return f"{when.month:>2}/{when.day:<2} {when:%H:%M}"

    wall = ad.get("RemoteWallClockTime", 0)
    command = ad.get("Cmd")
    arguments = ad.get("Args") or ad.get("Arguments")
    text = f"{command if isinstance(command, str) else ''} {arguments if isinstance(arguments, str) else ''}".rstrip()
    identity = f"{ad.get('ClusterId'):>4}.{ad.get('ProcId'):<3}"
    owner = ad.get("Owner")
    line = (
        f"{identity} {owner if isinstance(owner, str) else '':<14.14} {moment('QDate'):>11} "
        f"{span(wall if isinstance(wall, (int, float)) else 0):>12} {_LETTERS.get(ad.get('JobStatus'), '?'):<2} "
        f"{moment('CompletionDate'):>11} {text}"
    )
    return line[:width] if width else line


def _from_file(parsed: Parsed, query: schedd_pb2.HistoryQuery, inv: Invocation) -> int:
    """Ads of a file in long form, the newest (last) first unless ``-forwards``."""
    from slotwise.cli.render import ads as whole
    from slotwise.schedd.selection import constraint_of

    found = list(whole.read_file(inv.path(parsed.value("file") or "")))
    if not parsed.has("forwards"):
        found.reverse()
    constraint = constraint_of(list(query.jobs.ids), list(query.jobs.owners), query.query.constraint)
    chosen = whole.chosen(found, constraint, query.query.limit or None)
    if parsed.has("af") or parsed.has("format"):
        for text in chosen_lines(parsed, iter(chosen)):
            inv.out(text, end="")
    elif parsed.has("long"):
        inv.out(whole.long_text(chosen), end="")
    elif parsed.has("json"):
        inv.out(whole.json_array(chosen), end="")
    else:
        inv.out(_HEADING, end="")
        for ad in chosen:
            inv.out(_line(ad, 0))
    return 0
