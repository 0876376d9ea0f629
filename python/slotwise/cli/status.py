"""``slotwise status``: slots and daemons of the pool (manual page of condor_status)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from slotwise.classad import ClassAd, ExprTree, quote
from slotwise.cli.invocation import Invocation
from slotwise.cli.options import REST, Option, Parsed, parse
from slotwise.cli.render import pool as views
from slotwise.cli.render.ads import json_array, json_lines, long_text, read_file
from slotwise.cli.render.autoformat import Columns, PrintfColumn, Shape, lines, printf_lines
from slotwise.cli.render.compact import ATTRIBUTES as COMPACT_ATTRIBUTES
from slotwise.cli.render.compact import compact_text
from slotwise.errors import UsageError
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.status import to_error

OPTIONS = [
    Option("help", 1),
    *(Option(name, least) for name, least in (
        ("slots", 3), ("startd", 5), ("schedd", 2), ("submitters", 3), ("master", 1), ("collector", 2),
        ("negotiator", 3), ("accounting", 3), ("any", 3), ("claimed", 2), ("run", 1), ("avail", 2), ("state", 4),
        ("server", 3), ("compact", 3), ("nocompact", 3), ("total", 3), ("wide", 1), ("long", 1), ("json", 2),
        ("jsonl", 5), ("offline", 3), ("absent", 3), ("gpus", 3), ("java", 4), ("vm", 2), ("expert", 3),
    )),
    Option("autoformat", 5, REST, stands_for="af"),
    Option("af", 2, REST),
    Option("format", 1, 2),
    Option("constraint", 3, 1),
    Option("attributes", 3, 1),
    Option("limit", 3, 1),
    Option("sort", 2, 1),
    Option("subsystem", 4, 1),
    Option("target", 3, 1),
    Option("ads", 3, 1),
    Option("pool", 1, 1),
    Option("name", 1, 1),
    Option("parquet", 4, 1),
]  # fmt: skip
_KINDS = (
    "slots", "startd", "schedd", "submitters", "master", "collector", "negotiator", "accounting", "any", "run",
    "claimed", "state", "server",
)  # fmt: skip
#: Conditions that options add to a view of slots.
_CONDITIONS = {
    "avail": 'State == "Unclaimed" && Cpus > 0',
    "offline": "Offline =?= true",
    "absent": "Absent =?= true",
    "gpus": "(TotalGPUs?:0) > 0",
    "java": "HasJava =?= true",
    "vm": "HasVM =?= true",
}
USAGE = """usage: slotwise status [options] [HOST | SLOT ...]
  -slots (default), -claimed, -run, -avail, -state, -server, -compact     views of slots
  -schedd, -submitters, -master, -collector, -negotiator, -startd, -accounting, -any
  -total                totals only
  -long, -json, -jsonl  whole ads
  -af[:lhVrTYtng,] ATTRIBUTE...    chosen attributes
  -format FORMAT ATTRIBUTE         printf style
  -constraint EXPR, -attributes A,B, -limit N, -sort EXPR, -wide
  -ads FILE             ads from a file instead of the collector
  -parquet FILE         a table for analysis"""


def main(args: list[str], inv: Invocation) -> int:
    """Show slots or daemons."""
    parsed = parse(args, OPTIONS)
    inv = inv.aimed(parsed.value("pool"))
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    kinds = [given.name for given in parsed.options if given.name in _KINDS]
    view = views.VIEWS[kinds[-1] if kinds else "slots"]
    query = common_pb2.AdQuery(kind=_kind(parsed, view), constraint=constraint(parsed, view))
    query.limit = parsed.number("limit") or 0
    names = [name for given in parsed.all("attributes") for name in given.values[0].replace(",", " ").split()]
    query.projection.extend(names)
    try:
        return _show(parsed, view, query, inv)
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None


def _kind(parsed: Parsed, view: views.View) -> str:
    named = parsed.value("subsystem")
    if named is None:
        return view.kind
    known = views.VIEWS.get(named.lower())
    return known.kind if known else named


def constraint(parsed: Parsed, view: views.View) -> str:
    """Which ads the words and options mean."""
    clauses = [view.constraint] if view.constraint else []
    clauses += [text for name, text in _CONDITIONS.items() if parsed.has(name)]
    clauses += [f"({given.values[0]})" for given in parsed.all("constraint")]
    words = [*parsed.words, *(given.values[0] for given in parsed.all("name"))]
    if words:
        named = [f"Name == {quote(word)} || Machine == {quote(word)}" for word in words]
        clauses.append("(" + " || ".join(named) + ")")
    return " && ".join(clauses)


def _show(parsed: Parsed, view: views.View, query: common_pb2.AdQuery, inv: Invocation) -> int:
    source = _Source(parsed, query, inv)
    if parsed.has("parquet"):
        return _parquet(source, inv, parsed.value("parquet") or "")
    af = parsed.all("af")
    if af:
        columns = Columns([name for given in af for name in given.values])
        shape = Shape.parse("".join(given.letters for given in af))
        reads = columns.attributes()
        ads = source.ads(None if reads is None else [*reads, "Name", "Machine"])
        for line in lines(ads, columns, shape, lambda ad: str(ad.get("Name"))):
            inv.stdout.write(line)
        return 0
    if parsed.has("format"):
        printf = [PrintfColumn.parse(*given.values) for given in parsed.all("format")]
        for line in printf_lines(source.ads(None), printf):
            inv.stdout.write(line)
        return 0
    for form in ("long", "json", "jsonl"):
        if parsed.has(form):
            source.whole(form)
            return 0
    if parsed.has("total"):
        return _totals(source, view, inv)
    if parsed.has("compact") and view.kind == "Machine" and not parsed.has("nocompact"):
        ads = source.ads([*COMPACT_ATTRIBUTES, *view.attributes()])
        table = compact_text(ads)
    else:
        ads = source.ads(view.attributes())
        table = views.rows_text(view, ads, wide=parsed.has("wide"))
    if not ads:
        return 0  # nothing at all is printed for nothing, so that scripts may count lines
    heading, _, rest = table.partition("\n")
    inv.stdout.write(f"{heading}\n\n{rest}")
    totals = views.totals_text(view.totals, ads)
    if totals:
        inv.stdout.write("\n" + totals)
    return 0


class _Source:
    """Where the ads come from: the collector, or a file."""

    def __init__(self, parsed: Parsed, query: common_pb2.AdQuery, inv: Invocation) -> None:
        self._query = query
        self._inv = inv
        self._file = parsed.value("ads")
        self._sort = parsed.value("sort")

    def chunks(self, form: common_pb2.AdQuery.Form, projection: Sequence[str] | None) -> Iterator[common_pb2.AdChunk]:
        """The collector's answer."""
        query = common_pb2.AdQuery()
        query.CopyFrom(self._query)
        query.form = form
        if projection is not None and not query.projection:
            query.projection.extend(projection)
        if self._sort is not None:
            query.limit = 0
            if query.projection:
                query.ClearField("projection")
        stub = self._inv.stub(collector_pb2_grpc.CollectorStub, "collector")
        return iter(stub.Query(query, metadata=self._inv.metadata()))

    def ads(self, projection: Sequence[str] | None) -> list[ClassAd]:
        """The ads, in order."""
        if self._file is not None:
            found = self._from_file()
        else:
            found = []
            for chunk in self.chunks(common_pb2.AdQuery.PACK, projection):
                if chunk.data:
                    found += unpack_ads(chunk.data)
        if self._sort is None:
            found.sort(key=views.natural_key)
            return found
        tree = ExprTree(self._sort)
        found.sort(key=lambda ad: (_rank(tree.eval(ad)), views.natural_key(ad)))
        return found[: self._query.limit] if self._query.limit else found

    def _from_file(self) -> list[ClassAd]:
        from slotwise.cli.render.ads import chosen

        assert self._file is not None
        return chosen(read_file(self._inv.path(self._file)), self._query.constraint, self._query.limit or None)

    def whole(self, form: str) -> None:
        """Print whole ads: straight from the collector's text unless an order is asked for."""
        projection = list(self._query.projection)
        if self._file is None and self._sort is None and form != "jsonl":
            wanted = common_pb2.AdQuery.LONG if form == "long" else common_pb2.AdQuery.JSON
            for chunk in self.chunks(wanted, None):
                if chunk.data:
                    self._inv.stdout.write(chunk.data.decode(errors="surrogateescape"))
            return
        ads = self.ads(None)
        if form == "long":
            self._inv.stdout.write(long_text(ads, projection or None))
            return
        array = json_array(ads, projection or None)
        self._inv.stdout.write(array if form == "json" else json_lines(array))


def _rank(value: Any) -> tuple[int, float, str]:
    """Sort key of any value: numbers, then texts, then the undefined."""
    if isinstance(value, bool | int | float):
        return (0, float(value), "")
    if isinstance(value, str):
        return (1, 0.0, value.lower())
    return (2, 0.0, "")


def _totals(source: _Source, view: views.View, inv: Invocation) -> int:
    if not view.totals:
        return 0
    ads = source.ads(view.attributes())
    inv.stdout.write(views.totals_text(view.totals, ads))
    return 0


def _parquet(source: _Source, inv: Invocation, name: str) -> int:
    from slotwise.cli.render.ads import as_table

    try:
        import polars  # noqa: F401 - only to say early that it is missing
    except ImportError:
        raise UsageError("-parquet needs polars", hint="pip install 'slotwise[analysis]'") from None
    as_table(source.ads(None)).to_polars().write_parquet(inv.path(name))
    return 0
