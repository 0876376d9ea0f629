"""``slotwise history``: jobs that have left the queue, newest first (manual page of condor_history)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import grpc
from msgspec.structs import replace

from slotwise.classad import ClassAd, ExprTree, SpecialValue, new_syntax
from slotwise.cli.common.constraints import warn_of_misspelled
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.jobs import queues
from slotwise.cli.jobs.history_files import Source, chosen_types, is_of_runs, read_sources
from slotwise.cli.jobs.q import job_id
from slotwise.cli.render import jobviews, output_format
from slotwise.cli.render.layout import Layout
from slotwise.cli.render.output_format import Form
from slotwise.cli.render.printas import Scene
from slotwise.errors import AdSyntaxError, NotFoundError, UsageError
from slotwise.model.job_id import JobId
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

OPTIONS = [
    *output_format.options(json=4),
    Option("match", 1, 1, stands_for="limit"),
    *(Option(name, least) for name, least in (
        ("help", 1), ("backwards", 1), ("forwards", 4), ("wide", 1), ("local", 2), ("startd", 3), ("schedd", 3),
        ("daemon", 3), ("epochs", 2), ("transfer-history", 2), ("directory", 3), ("debug", 3), ("diagnostic", 4),
        ("stream-results", 6), ("no-librarian", 3), ("inherit", 7),
    )),
    Option("nobackwards", 3, stands_for="forwards"),
    *(Option(name, least, 1) for name, least in (
        ("constraint", 1), ("scanlimit", 4), ("since", 4), ("completedsince", 3), ("file", 2), ("userlog", 1),
        ("search", 3), ("extract", 3), ("parquet", 4), ("name", 1), ("pool", 1), ("type", 2),
    )),
]  # fmt: skip
USAGE = f"""usage: slotwise history [options] [CLUSTER | CLUSTER.PROC | OWNER ...]
Which jobs
  -constraint EXPR      those for which it is true
  -match N              at most N (as -limit); -scanlimit N: N ads are read at most
  -since ID | EXPR | TIME, -completedsince TIME    reading stops there
  -forwards, -backwards oldest or newest (default) first
From where
  -name NAME, -pool HOST:PORT          another access point, also with -epochs, -transfer-history and -daemon; with
                                       -startd another machine. -startd and -daemon need ADMINISTRATOR there
  -file FILE, -search FILE             ads of a file in long form; of that file and its older parts
  -userlog FILE                        jobs as a job event log records them
  -local                               the HISTORY file and its older parts; by the librarian's library where
                                       USING_LIBRARIAN is true, without it with -no-librarian
  -startd, -epochs, -transfer-history[:IOC], -daemon, -type TYPES
                                       the files of STARTD_HISTORY, JOB_EPOCH_HISTORY, SCHEDD_DAEMON_HISTORY;
                                       TYPES: SPAWN, INPUT, OUTPUT, COMMON, EPOCH, TRANSFER (all transfers) or ALL
  -epochs[:d] -directory               files of JOB_EPOCH_HISTORY_DIR, or of -search DIRECTORY; d: deletes them
  -parquet FILE                        write them as a table for analysis and `slotwise report -file`
  -extract FILE                        write the ads to a file (100,000 at most unless -limit says otherwise)
Forms
{output_format.USAGE}
  -wide[:N]             lines are not cut, or at N"""
_EXTRACTED = 100_000
_NO_TABLE, _FORMS = "these ads have no table", "-long, -json, -af ATTRIBUTE... or -print-format FILE"


def main(args: list[str], inv: Invocation) -> int:
    """Show jobs of the past."""
    parsed = parse(args, OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.has("inherit"):
        if inv.called and not inv.env.get("CONDOR_INHERIT"):
            inv.err("could not parse inherited sockets from environment")
            return 1
        raise UsageError(
            "-inherit is for the helpers that HTCondor's schedd starts, and answers in HTCondor's wire protocol",
            hint="-name NAME asks an access point, -file and -search read files of HTCondor",
        )
    form = Form.of(parsed, inv)
    if inv.called and (file := parsed.value("file")) is not None and not inv.path(file).exists():
        if form.kind == "table":
            inv.out(jobviews.VIEWS["history"].text([], Scene(0.0)), end="")
        inv.err(f"Error opening history file {file}: No such file or directory")
        return 1
    if inv.called and (refusal := _refused_by_htcondor(parsed)):
        inv.err(refusal)
        return 1
    if inv.called and (said := _is_of_none(parsed)) is not None:
        if form.kind == "table":
            inv.out(jobviews.VIEWS["history"].text([], Scene(0.0)), end="")
        if said:
            inv.err(said)
        return 1 if said else 0
    source = Source.of(parsed, inv)
    query = _query(parsed, form)
    warn_of_misspelled(parsed.expressions("constraint"), inv)
    if inv.called and parsed.has("diagnostic"):
        inv.err(f"Using effective constraint: {query.query.constraint}")
    if parsed.value("limit") == "0" and not inv.called:  # HTCondor's tool takes 0 for no limit
        return 0
    if parsed.has("parquet"):
        from slotwise.cli.render.parquet import require

        require()
        query.query.projection.extend(form.attributes)
    if source is not None:
        aimed = inv.aimed(parsed.value("pool"), parsed.value("name"))
        try:
            _print(parsed, form, source, read_sources(source, query, aimed), inv)
        except grpc.RpcError as error:
            raise to_error(error, peer=f"the {source.daemon}") from None
        return 0
    if is_of_runs(parsed):
        query.runs = True
        query.kinds.extend(sorted(chosen_types(parsed)))
        if form.kind == "table" and parsed.has("transfer-history"):
            raise UsageError(_NO_TABLE, hint=_FORMS)
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    try:
        stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
    except NotFoundError:
        if inv.called and form.kind == "table":
            inv.out(jobviews.VIEWS["history"].text([], Scene(0.0)), end="")
        raise
    try:
        _show(parsed, form, query, stub.History, inv)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    return 0


def _refused_by_htcondor(parsed: Parsed) -> str:
    """What HTCondor's tool says of options that it does not take so; empty when it takes them. Numbers that are
    none are passed over, as there."""
    for name in ("scanlimit", "completedsince"):
        if parsed.has(name) and not (parsed.value(name) or "").lstrip("-").isdigit():
            parsed.options = [one for one in parsed.options if one.name != name]
    if (since := parsed.value("since")) is not None and JobId.match(since) is None:
        try:
            ExprTree(since, old=True)
        except AdSyntaxError:
            return f"Error: invalid -since constraint: {since}\n\tconstraint must be a job-id, or expression."
    if parsed.has("extract") and not (parsed.words or parsed.has("constraint")):
        return "Error: -extract requires a constraint for which ClassAds to copy"
    return ""


def _is_of_none(parsed: Parsed) -> str | None:
    """Why HTCondor's tool shows no record: its error, empty where it has none; None where it shows what is there.

    Records of jobs have no type that could be asked for; those of runs and transfers have.
    """
    if is_of_runs(parsed):
        return None
    if parsed.has("directory") and not parsed.has("search"):
        return "Error: No search directory found for locating history files."
    elsewhere = any(parsed.has(name) for name in ("file", "search", "userlog", "startd", "daemon"))
    types = chosen_types(parsed)
    return "" if parsed.has("type") and types and "JOB" not in types and not elsewhere else None


def _query(parsed: Parsed, form: Form) -> schedd_pb2.HistoryQuery:
    query = schedd_pb2.HistoryQuery(forwards=parsed.has("forwards"))
    for word in parsed.words:
        if JobId.match(word):
            query.jobs.ids.append(word)
        elif word[:1].isdigit():
            raise UsageError(f"{word!r} is neither a job id nor an owner")
        else:
            query.jobs.owners.append(word)
    clauses = [f"({text})" for text in parsed.expressions("constraint")]
    if form.layout is not None and form.layout.where:
        clauses.append(f"({new_syntax(form.layout.where)})")
    query.query.constraint = " && ".join(clauses)
    query.query.limit = form.limit
    if parsed.has("extract"):
        if not (clauses or query.jobs.ids or query.jobs.owners):
            raise UsageError("-extract needs to know which jobs", hint="-constraint EXPR, an id or an owner")
        query.query.limit = _EXTRACTED if parsed.value("limit") is None else form.limit
    query.scan_limit = parsed.number("scanlimit") or 0
    query.since = new_syntax(parsed.value("since") or "")
    if (when := parsed.value("completedsince")) is not None:
        query.completed_since = _time(when)
    return query


def _time(text: str) -> int:
    """A moment: a date, or an expression that gives seconds since the epoch."""
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        pass
    try:
        value = ExprTree(text, old=True).eval(now=int(time.time()))
    except AdSyntaxError:
        value = None
    if isinstance(value, int | float) and not isinstance(value, bool) and not isinstance(value, SpecialValue):
        return int(value)
    raise UsageError(f"{text!r} is not a time", hint="seconds since the epoch, time() - 3600, or YYYY-MM-DD HH:MM:SS")


def _show(
    parsed: Parsed,
    form: Form,
    query: schedd_pb2.HistoryQuery,
    ask: Callable[[schedd_pb2.HistoryQuery], Iterable[common_pb2.AdChunk]],
    inv: Invocation,
) -> None:
    extract = parsed.value("extract")
    if (form.kind in ("long", "json", "jsonl") and not parsed.has("parquet")) or extract is not None:
        is_long = form.kind == "long" or extract is not None
        query.query.form = common_pb2.AdQuery.LONG if is_long else common_pb2.AdQuery.JSON
        query.query.alone = True
        query.query.projection.extend(form.attributes)
        pieces = (chunk.data.decode(errors="surrogateescape") for chunk in ask(query))
        if extract is not None:
            inv.path(extract).write_text("".join(pieces))
        elif form.kind == "jsonl":
            inv.out(output_format.as_lines("".join(pieces)), end="")
        else:
            for piece in pieces:
                inv.out(piece, end="")
        return
    _print(parsed, form, None, _ads(ask(query)), inv)


def _ads(chunks: Iterable[common_pb2.AdChunk]) -> Iterator[ClassAd]:
    from slotwise.table import unpack_ads

    for chunk in chunks:
        if chunk.data:
            yield from unpack_ads(chunk.data)


def _print(parsed: Parsed, form: Form, source: Source | None, ads: Iterator[ClassAd], inv: Invocation) -> None:
    """The ads in the form asked for; the table line by line, as they come."""
    if (parquet := parsed.value("parquet")) is not None:
        from slotwise.cli.render.parquet import write

        count = write(ads, form.attributes, inv.path(parquet))
        inv.err(f"{count:,} jobs written to {parquet}")
        return
    if (extract := parsed.value("extract")) is not None:
        from slotwise.cli.render.ads import long_text

        inv.path(extract).write_text(long_text(list(ads)))
        return
    if form.kind != "table":
        form.write(ads, inv, job_id, Scene(time.time()))
        return
    layout = source.layout if source is not None else jobviews.VIEWS["history"]
    if inv.called and layout is jobviews.VIEWS["history"]:
        layout = jobviews.of_htcondors_history(named=not parsed.has("userlog"))
    if layout is None:
        raise UsageError(_NO_TABLE, hint=_FORMS)
    _table(layout.with_items(form.more), ads, queues.width(parsed, inv), inv)


def _table(layout: Layout, ads: Iterator[ClassAd], width: int, inv: Invocation) -> None:
    """Heading and lines. The columns are fixed, so that the first lines need not wait for the last ads."""
    scene = Scene(time.time())
    if not inv.called and not width:
        layout = layout.whole()

    def show(shape: Layout, rows: list[ClassAd]) -> None:
        if inv.screen and width == inv.screen:
            inv.draw(shape.on_terminal(rows, scene, width, coloured=inv.has_colours))
        else:
            inv.out(shape.text(rows, scene, width), end="")

    if any(item.left and not item.width for item in layout.items[:-1]):  # a column as wide as its widest cell
        show(layout, list(ads))
        return
    show(layout, [])
    line = replace(layout, headings=False)
    for ad in ads:
        show(line, [ad])
