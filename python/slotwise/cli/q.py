"""``slotwise q``: jobs in the queue, as batches, as a table, or as ads (manual page of condor_q)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import grpc

from slotwise.cli.invocation import Invocation
from slotwise.cli.options import REST, Option, Parsed, parse
from slotwise.cli.render import jobs as views
from slotwise.cli.render.jobs import batch_table, footer, header
from slotwise.errors import UsageError
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

OPTIONS = [
    Option("help", 1),
    Option("allusers", 2),
    Option("batch", 1),
    Option("nobatch", 3),
    Option("run", 1),
    Option("idle", 1),
    Option("hold", 2),
    Option("held", 3, stands_for="hold"),
    Option("hold-codes", 6),
    Option("totals", 3),
    Option("wide", 1),
    Option("long", 1),
    Option("json", 2),
    Option("jsonl", 5),
    Option("autoformat", 5, REST, stands_for="af"),
    Option("af", 2, REST),
    Option("format", 1, 2),
    Option("constraint", 3, 1),
    Option("attributes", 3, 1),
    Option("limit", 3, 1),
    Option("jobads", 4, 1),
    Option("autocluster", 5),
    Option("submitter", 3, 1),
    Option("name", 1, 1),
    Option("pool", 1, 1),
    Option("global", 1),
    Option("dag", 2),
    Option("currentrun", 6),
    Option("cumulative-time", 3),
    Option("stream-results", 6),
    Option("better-analyze", 2),
    Option("analyze", 2, stands_for="better-analyze"),
]

#: Views that show only jobs of one kind.
_STATES = {
    "run": "(JobStatus == 2 || JobStatus == 6 || JobStatus == 7)",
    "idle": "JobStatus == 1",
    "hold": "JobStatus == 5",
    "hold-codes": "JobStatus == 5",
}
USAGE = """usage: slotwise q [options] [CLUSTER | CLUSTER.PROC | OWNER ...]
  -allusers             jobs of everyone, not only yours
  -batch, -nobatch      one line a batch (default), or one a job
  -run, -idle, -hold    running, idle or held jobs, with what matters for them
  -hold-codes           one held job of each kind of reason
  -autocluster          counts of jobs that are alike
  -totals               only the totals
  -long, -json, -jsonl  whole ads
  -af[:jlhVrTYtng,] ATTRIBUTE...   chosen attributes
  -format FORMAT ATTRIBUTE         printf style
  -better-analyze       why jobs do not run (as `slotwise analyze`)
  -constraint EXPR, -attributes A,B, -limit N, -wide[:N], -jobads FILE"""


def main(args: list[str], inv: Invocation) -> int:
    """Show jobs."""
    parsed = parse(args, OPTIONS)
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    query = selection(parsed)
    if parsed.has("better-analyze"):
        return _analyze(query, inv)
    try:
        if parsed.value("jobads") is not None:
            return _from_file(parsed, inv)
        return _show(parsed, query, inv)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None


def selection(parsed: Parsed) -> schedd_pb2.JobQuery:
    """Which jobs the words and options mean.

    :raises UsageError: for a word that is neither id nor owner.
    """
    query = schedd_pb2.JobQuery(mine_only=not parsed.has("allusers"))
    for word in parsed.words:
        head, dot, tail = word.partition(".")
        if head.isdigit() and (not dot or tail.isdigit()):
            query.jobs.ids.append(word)
        elif head[:1].isdigit():
            raise UsageError(f"{word!r} is neither a job id nor an owner")
        else:
            query.jobs.owners.append(word)
    if parsed.has("submitter"):
        query.jobs.owners.append(parsed.value("submitter") or "")
    if query.jobs.owners:
        query.mine_only = False
    constraints = [f"({given.values[0]})" for given in parsed.all("constraint")]
    constraints += [clause for name, clause in _STATES.items() if parsed.has(name)]
    query.query.constraint = " && ".join(constraints)
    query.query.limit = parsed.number("limit") or 0
    attributes = [name for given in parsed.all("attributes") for name in given.values[0].replace(",", " ").split()]
    query.query.projection.extend(attributes)
    return query


def _show(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation) -> int:
    stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")

    def ask(asked: schedd_pb2.JobQuery) -> Iterator[common_pb2.AdChunk]:
        return stub.Query(asked, metadata=inv.metadata())

    if parsed.has("long") or parsed.has("json") or parsed.has("jsonl"):
        _whole_ads(parsed, query, inv, ask)
    elif parsed.has("af") or parsed.has("format"):
        _chosen(parsed, query, inv, ask)
    elif parsed.has("autocluster"):
        inv.out(views.autoclusters(_ads(query, ask)), end="")
    elif any(parsed.has(name) for name in ("run", "idle", "hold", "hold-codes")):
        _view(parsed, query, inv, ask)
    else:
        _table(parsed, query, inv, ask)
    return 0


_Ask = Callable[[schedd_pb2.JobQuery], Iterator[common_pb2.AdChunk]]


def _whole_ads(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation, ask: _Ask) -> None:
    form = common_pb2.AdQuery.LONG if parsed.has("long") else common_pb2.AdQuery.JSON
    query.query.form = form
    if parsed.has("jsonl"):
        text = b"".join(chunk.data for chunk in ask(query)).decode()
        inv.out("".join(json.dumps(row) + "\n" for row in json.loads(text)), end="")
        return
    for chunk in ask(query):
        inv.out(chunk.data.decode(), end="")


def _ads(query: schedd_pb2.JobQuery, ask: _Ask) -> Iterator[Any]:
    """The ads asked for, one by one."""
    from slotwise.table import unpack_ads

    query.query.form = common_pb2.AdQuery.PACK
    for chunk in ask(query):
        if chunk.data:
            yield from unpack_ads(chunk.data)


def job_id(ad: Any) -> str:
    """``cluster.proc`` of a job ad."""
    return f"{ad.get('ClusterId')}.{ad.get('ProcId')}"


def _chosen(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation, ask: _Ask) -> None:
    for text in chosen_lines(parsed, _ads(query, ask)):
        inv.out(text, end="")


def chosen_lines(parsed: Parsed, ads: Iterator[Any]) -> Iterator[str]:
    """What ``-af`` or ``-format`` print of the ads."""
    from slotwise.cli.render.autoformat import Columns, PrintfColumn, Shape, lines, printf_lines

    if parsed.has("af"):
        given = parsed.all("af")[-1]
        names = [name for one in parsed.all("af") for name in one.values]
        shape = Shape.parse("".join(one.letters for one in parsed.all("af")))
        if set(given.letters) >= set("lrng"):
            from slotwise.cli.render.ads import long_text

            yield long_text(ads, names)
            return
        yield from lines(ads, Columns(names), shape, job_id)
    else:
        columns = [PrintfColumn.parse(given.values[0], given.values[1]) for given in parsed.all("format")]
        yield from printf_lines(ads, columns)


def _view(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation, ask: _Ask) -> None:
    """-run, -idle, -hold: a table of the jobs in that state, and the totals unless running."""
    name = next(n for n in ("run", "idle", "hold-codes", "hold") if parsed.has(n))
    query.query.projection[:] = views.ATTRIBUTES
    ads = list(_ads(query, ask))
    totals = _totals(query, ask)
    inv.out(header(totals), end="")
    width = 0 if parsed.has("wide") else _width(inv)
    inv.out(views.view(name, ads, float(totals["Now"]), width), end="")
    if name != "run":
        inv.out(footer(totals), end="")


def _totals(query: schedd_pb2.JobQuery, ask: _Ask) -> dict[str, Any]:
    asked = schedd_pb2.JobQuery()
    asked.CopyFrom(query)
    asked.totals_only = True
    *_, last = ask(asked)
    found: dict[str, Any] = json.loads(last.data)
    return found


def _analyze(query: schedd_pb2.JobQuery, inv: Invocation) -> int:
    """Why the named jobs do not run; without names, the first idle job of each cluster."""
    from slotwise.cli.analyze import main as analyze

    names = list(query.jobs.ids)
    if not names:
        query.query.constraint = f"({query.query.constraint or 'true'}) && JobStatus == 1"
        query.query.projection[:] = ["ClusterId", "ProcId"]
        stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
        try:
            ads = list(_ads(query, lambda asked: stub.Query(asked, metadata=inv.metadata())))
        except grpc.RpcError as error:
            raise to_error(error, peer="the schedd") from None
        names = list({ad["ClusterId"]: job_id(ad) for ad in reversed(ads)}.values())[::-1]
    return max((analyze([name], inv) for name in names), default=0)


def _width(inv: Invocation) -> int:
    return inv.width if inv.is_terminal else 0


def _table(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation, ask: _Ask) -> None:
    """The batch view, the table of jobs, or the totals alone."""
    widths = [given.letters for given in parsed.all("wide")]
    width = int(widths[-1]) if widths and widths[-1].isdigit() else 0 if widths else _width(inv)
    if parsed.has("totals"):
        totals = _totals(query, ask)
        inv.out(header(totals), end="")
        inv.out(footer(totals), end="")
        return
    batches = not (parsed.has("nobatch") or parsed.has("currentrun") or parsed.has("cumulative-time"))
    query.batches = batches and not parsed.has("nobatch")
    if not query.batches:
        query.view, query.width = "nobatch", width
    *pieces, last = ask(query)
    totals = json.loads(last.data)
    inv.out(header(totals), end="")
    if query.batches:
        rows = json.loads(b"".join(chunk.data for chunk in pieces) or b"[]")
        inv.out(batch_table(rows, width), end="")
    else:
        inv.out(views.JOBS_HEADING + "".join(chunk.data.decode() for chunk in pieces), end="")
    inv.out(footer(totals), end="")


def _from_file(parsed: Parsed, inv: Invocation) -> int:
    """Jobs of a file in long form instead of a schedd's."""
    from slotwise.cli.render import ads as whole

    limit = parsed.number("limit")
    constraint = " && ".join(f"({given.values[0]})" for given in parsed.all("constraint"))
    found = whole.chosen(whole.read_file(inv.path(parsed.value("jobads") or "")), constraint, limit)
    if parsed.has("af") or parsed.has("format"):
        for text in chosen_lines(parsed, iter(found)):
            inv.out(text, end="")
    elif parsed.has("long"):
        inv.out(whole.long_text(found), end="")
    elif parsed.has("json"):
        inv.out(whole.json_array(found), end="")
    else:
        inv.out(views.JOBS_HEADING, end="")
        inv.out(views.jobs(found, datetime.now().timestamp()), end="")
    return 0
