"""``slotwise q``: jobs in the queue, as batches, as a table, or as ads (manual page of condor_q)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import grpc
from msgspec.structs import replace

from slotwise.classad import ClassAd, new_syntax
from slotwise.cli.common import htcondor_words
from slotwise.cli.common.constraints import warn_of_misspelled
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Given, Option, Parsed, UnknownOptionError, parse
from slotwise.cli.common.terminal import escaped
from slotwise.cli.jobs import queues
from slotwise.cli.jobs.queues import Queue
from slotwise.cli.render import jobs as tables
from slotwise.cli.render import jobviews, output_format
from slotwise.cli.render.layout import Layout, unique_rows
from slotwise.cli.render.output_format import Form
from slotwise.cli.render.printas import Scene
from slotwise.client.totals import QueueTotals
from slotwise.errors import AdSyntaxError, NotFoundError, UsageError
from slotwise.model.job_id import JobId
from slotwise.wire.gen import common_pb2, schedd_pb2
from slotwise.wire.status import to_error

OPTIONS = [
    *output_format.options(),
    *(Option(name, least) for name, least in (
        ("help", 1), ("global", 1), ("allusers", 2), ("run", 1), ("idle", 3), ("io", 2), ("dag", 2), ("cputime", 2),
        ("currentrun", 3), ("cumulative-time", 3), ("nobatch", 3), ("totals", 3), ("hold", 2), ("hold-codes", 6),
        ("grid", 2), ("batch", 2), ("autocluster", 2), ("factory", 4), ("jobset", 5), ("actions", 2), ("wide", 1),
        ("expert", 1), ("stream-results", 2), ("debug", 3), ("version", 1), ("better-analyze", 2),
        ("reverse-analyze", 3), ("unmatchable", 5), ("verbose", 4), ("nouserprios", 7),
    )),
    Option("all-users", 2, stands_for="allusers"),
    Option("held", 2, stands_for="hold"),
    Option("holdcodes", 5, stands_for="hold-codes"),
    Option("progress", 3, stands_for="batch"),
    Option("better-analyse", 2, stands_for="better-analyze"),
    Option("analyze", 2),
    Option("analyse", 2, stands_for="analyze"),
    *(Option(name, least, 1) for name, least in (
        ("constraint", 1), ("name", 1), ("pool", 1), ("direct", 1), ("address", 1), ("submitter", 1),
        ("schedd-constraint", 5), ("jobads", 1), ("userlog", 1), ("slotads", 1), ("userprios", 5), ("machine", 2),
        ("mconstraint", 2), ("group-by", 2),
    )),
    Option("slotconstraint", 5, 1, stands_for="mconstraint"),
]  # fmt: skip

USAGE = f"""usage: slotwise q [options] [CLUSTER | CLUSTER.PROC | OWNER ...]
Which jobs
  -allusers             jobs of everyone, not only yours
  -constraint EXPR      those for which it is true; several are and-ed
  -submitter NAME       those that a user or an accounting group is charged for, everywhere
  -global               the queues of all access points; -name NAME, -address ADDRESS, -pool HOST:PORT: of one;
                        -schedd-constraint EXPR: of those whose ads it is true for
  -jobads FILE          ads from a file; -userlog FILE: jobs as a job event log records them
Tables
  -batch, -nobatch      one line a batch (default), or one a job; -dag: with the nodes of workflows
  -run, -idle, -hold    running, idle or held jobs, with what matters for them
  -hold-codes           one held job of each kind of reason
  -io, -grid, -factory, -jobset        jobs that move files; grid jobs; late materialization; job sets
  -actions              what was asked of very many jobs and goes on: how many are held, removed ... by now
  -currentrun, -cputime                run time of this run only; CPU time in place of run time
  -autocluster, -group-by A,B          counts of jobs that are alike
  -totals               only the totals
  -wide[:N]             lines are not cut, or at N
Forms
{output_format.USAGE}
Why jobs do not run
  -better-analyze[:Q]   condition by condition, and what became of the slots; Q: priority, summary, reverse
  -analyze[:Q]          the last part of that, of idle jobs; -verbose: with the names of slots
  -reverse-analyze      the slots' conditions over the jobs; -unmatchable: jobs that no slot ever matches
  -machine NAME, -mconstraint EXPR     these slots only
  -slotads FILE, -jobads FILE, -userprios FILE       from files"""

#: Views in the order in which they win when several are asked for.
_VIEWS = ("hold-codes", "hold", "io", "grid", "run", "idle", "factory", "jobset", "actions", "autocluster", "cputime")


def main(args: list[str], inv: Invocation) -> int:
    """Show jobs."""
    parsed = parse(args, OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.has("version"):
        return htcondor_words.version(inv)
    if inv.called and (odd := next((word for word in parsed.words if word[:1] == "-" and len(word) > 1), "")):
        raise UnknownOptionError(odd)
    if inv.called and sum(parsed.has(name) for name in ("run", "idle", "hold")) > 1:
        inv.err("-run and -hold/held or -idle are incompatible")
        htcondor_words.usage(inv, out=True)
        return 1
    if inv.called and (refusal := _refused_by_htcondor(parsed)):
        inv.err(f"Error: {refusal}")
        return 1
    form = Form.of(parsed, inv)
    try:
        query = selection(parsed, inv)
    except AdSyntaxError:
        if not inv.called:
            raise
        from slotwise.cli.jobs.q_analyze import who_answers

        name, _, address = who_answers(inv).partition(" : ")
        inv.err(f"\n-- Failed to fetch ads from: {address} : {name}")
        return 1
    if any(parsed.has(name) for name in ("better-analyze", "analyze", "reverse-analyze", "unmatchable")):
        if not inv.called:
            from slotwise.cli.jobs.q_analyze import analyze

            return analyze(parsed, query, inv)
        from slotwise.cli.jobs import q_analyze_of_htcondor

        if any(parsed.has(name) for name in ("better-analyze", "analyze", "reverse-analyze")):
            return q_analyze_of_htcondor.analyze(parsed, query, inv)
        parsed.options.append(Given("nobatch"))
        slots, _ = q_analyze_of_htcondor.slots_of(parsed, inv)
        sources: Iterable[Queue] = (q_analyze_of_htcondor.Unmatched(queue, slots) for queue in queues.of(parsed, inv))
    else:
        sources = queues.of(parsed, inv)
    status = 0
    if inv.called and parsed.has("submitter") and not any(True for _ in _ids(parsed, query, inv)):
        inv.err("Error: Collector has no record of schedd/submitter")
        return 1
    if inv.called and parsed.has("schedd-constraint"):
        try:
            sources = list(sources)
        except NotFoundError:
            inv.out("All queues are empty")
            return 0
    for queue in sources:
        try:
            _Listing(parsed, form, query, queue, inv).show()
        except grpc.RpcError as failure:
            error = to_error(failure, peer="the schedd")
            if not queue.name:
                raise error from None
            inv.err(f"-- Failed to fetch ads from: {queue.name}: {error}")  # others of the pool may answer
            status = 1
    return status


def _refused_by_htcondor(parsed: Parsed) -> str:
    """What HTCondor's tool says of options that it does not take so; empty when it takes them."""
    if parsed.has("json") and parsed.has("xml"):
        return "Cannot print as both XML and JSON"
    limit = parsed.value("limit")
    if limit is not None and not limit.lstrip("-").isdigit():
        return f"Unable to convert ({limit}) to a number for -limit."
    if limit is not None and int(limit) <= 0:
        return f"{limit} is not a valid for -limit."
    if parsed.has("af") and not any(one.values for one in parsed.all("af")):
        return "-autoformat requires at least one attribute parameter"
    if parsed.has("batch") and (parsed.has("af") or parsed.has("format")):
        return "-batch conflicts with -format and -af"
    analyzed = any(parsed.has(name) for name in ("better-analyze", "analyze", "reverse-analyze"))
    if parsed.has("unmatchable") and not analyzed:
        for name, kinds in (("-batch", ("batch", "nobatch")), ("-autocluster", ("autocluster", "group-by"))):
            if any(parsed.has(kind) for kind in kinds):
                return f"{name} conflicts with -unmatchable"
    shown_by_job = any(parsed.has(name) for name in ("nobatch", *_VIEWS))
    if parsed.has("aaf") and not shown_by_job:
        return "-aaf cannot be used with -batch mode output (the default), did you intend to use -af ?"
    return ""


def selection(parsed: Parsed, inv: Invocation) -> schedd_pb2.JobQuery:
    """Which jobs the words and options mean.

    :raises UsageError: for a word that is neither id nor owner.
    """
    query = schedd_pb2.JobQuery(mine_only=queues.only_mine(parsed, inv))
    for word in parsed.words:
        named = word.removesuffix(".") if inv.called else word
        if JobId.match(named):
            query.jobs.ids.append(named)
        elif word[:1].isdigit() and not inv.called:
            raise UsageError(f"{word!r} is neither a job id nor an owner")
        else:
            query.jobs.owners.append(word)
    if query.jobs.owners:
        query.mine_only = False
    clauses = parsed.expressions("constraint")
    warn_of_misspelled(parsed.expressions("constraint"), inv)
    if parsed.has("submitter"):
        clauses.append(queues.submitted_by(parsed.value("submitter") or ""))
    if inv.called:
        clauses += _of_hold_codes(parsed)
    if inv.called and query.jobs.ids and query.jobs.owners:  # HTCondor's tool shows jobs that are either
        clauses.insert(0, queues.either(query))
        query.ClearField("jobs")
    query.query.constraint = " && ".join(f"({text})" for text in clauses)
    return query


def _of_hold_codes(parsed: Parsed) -> list[str]:
    """The condition that ``-hold:CODE[/SUBCODE],...`` is, if codes are named."""
    clauses = []
    for word in (word for one in parsed.all("hold") for word in one.letters.split(",")):
        code, _, subcode = word.replace("/", ".").partition(".")
        if code.isdigit():
            more = f" && HoldReasonSubCode == {subcode}" if subcode.isdigit() else ""
            clauses.append(f"(HoldReasonCode == {code}{more})")
    return [" || ".join(clauses)] if clauses else []


def _ids(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation) -> Iterator[ClassAd]:
    """The ids of one of the jobs that the query selects, if there is one."""
    first = schedd_pb2.JobQuery()
    first.CopyFrom(query)
    first.query.limit, first.query.form = 1, common_pb2.AdQuery.PACK
    first.query.projection[:] = ["ClusterId", "ProcId"]
    for queue in queues.of(parsed, inv):
        yield from queue.ads(first)


#: Makes the ads of a table's rows of those of jobs.
Rows = Callable[[Sequence[ClassAd], Scene], Sequence[ClassAd]]


class _Listing:
    """One queue, shown in the form that is asked for."""

    def __init__(self, parsed: Parsed, form: Form, query: schedd_pb2.JobQuery, queue: Queue, inv: Invocation) -> None:
        self._parsed = parsed
        self._form = form
        self._queue = queue
        self._inv = inv
        self._query = schedd_pb2.JobQuery()
        self._query.CopyFrom(query)
        self._query.query.limit = form.limit
        self._view = next((name for name in _VIEWS if parsed.has(name)), "")
        others = ("jobset", "actions") if form.kind == "table" else ("jobset", "actions", "factory")
        if self._view in others and queue.shows_tables:
            self._queue = queues.OtherAds(queue, self._view)
        layout = form.layout or (jobviews.VIEWS[self._view] if self._view else None)
        if layout is not None and layout.where:
            clauses = [text for text in (self._query.query.constraint, f"({new_syntax(layout.where)})") if text]
            self._query.query.constraint = " && ".join(clauses)

    def show(self) -> None:
        """Print it."""
        form, parsed = self._form, self._parsed
        if form.kind != "table" and self._view == "autocluster":
            form.write(jobviews.by_autocluster(self._ads()), self._inv, job_id, self._scene())
        elif form.kind in ("long", "json", "jsonl"):
            self._query.query.projection.extend(form.attributes)
            self._queue.whole(form.kind, self._query, self._inv)
        elif form.kind in ("xml", "new", "chosen"):
            reads = form.columns.attributes() if form.columns is not None else None
            names = [*(reads or ()), "ClusterId", "ProcId"] if reads else ()
            form.write(self._ads(names), self._inv, job_id, self._scene())
        elif form.layout is not None:
            self._layout(form.layout, None, form.rows)
        elif parsed.has("totals"):
            self._totals()
        elif parsed.has("group-by"):
            self._group_by()
        elif self._view == "factory":
            self._factories()
        elif self._in_batches():
            self._default()
        elif self._view:
            self._named_view()
        else:
            self._default()

    def _ads(self, names: Sequence[str] = ()) -> Iterator[ClassAd]:
        query = schedd_pb2.JobQuery()
        query.CopyFrom(self._query)
        query.query.form = common_pb2.AdQuery.PACK
        query.query.projection[:] = names
        found = self._queue.ads(query)
        if self._queue.shows_tables and queues.shows_server_time(names):
            return self._stamped(found)
        return found

    def _stamped(self, ads: Iterator[ClassAd]) -> Iterator[ClassAd]:
        """The ads with the time as ServerTime, which HTCondor's schedd adds to what it answers."""
        now = int(self._queue.now())
        for ad in ads:
            ad[queues.SERVER_TIME] = now
            yield ad

    def _scene(self, totals: QueueTotals | None = None) -> Scene:
        now = totals.now if totals else self._queue.now()
        return Scene(now, self._parsed.has("currentrun"), totals.schedd if totals else "")

    def _width(self) -> int:
        found = queues.width(self._parsed, self._inv)
        return found - 1 if found and self._inv.called else found  # HTCondor's tool leaves the last column free

    def _layout(
        self, layout: Layout, names: Sequence[str] | None, rows: Callable[[Sequence[ClassAd], Scene], Sequence[ClassAd]]
    ) -> None:
        """A table of columns, with title and totals as the layout says."""
        ads = list(self._ads(names or ()))
        totals = self._queue.totals(self._query, ads)
        scene = self._scene(totals)
        if layout.title:
            self._inv.out(self._queue.header(totals), end="")
        self._rows(layout, rows(ads, scene), scene)
        if layout.summary:
            self._inv.out(self._queue.footer(totals), end="")

    def _named_view(self) -> None:
        layout = jobviews.VIEWS[self._view].with_items(self._form.more)
        group = {"hold-codes": jobviews.by_hold_code, "autocluster": jobviews.by_autocluster}.get(self._view)

        def rows(ads: Sequence[ClassAd], scene: Scene) -> Sequence[ClassAd]:
            return layout.chosen(group(ads) if group else ads, scene)

        self._layout(layout, None if self._form.more else _reads(layout), rows)

    def _factories(self) -> None:
        """Clusters with late materialization; files and logs have none."""
        from slotwise.table import unpack_ads

        self._query.view = "factory"
        pieces = list(self._queue.ask(self._query)) if self._queue.shows_tables else []
        ads = [ad for chunk in pieces[:-1] if chunk.data for ad in unpack_ads(chunk.data)]
        totals = QueueTotals.parse(pieces[-1].data) if pieces else self._queue.totals(self._query, [])
        layout = jobviews.VIEWS["factory"]
        if self._inv.called:  # HTCondor's schedd makes jobs from a file and tells its name; there is none here
            layout = replace(layout, items=(*layout.items[:-1], jobviews.DIGEST))
        layout = layout.with_items(self._form.more)
        self._inv.out(self._queue.header(totals), end="")
        self._rows(layout, ads, self._scene(totals))

    def _rows(self, layout: Layout, ads: Sequence[ClassAd], scene: Scene) -> None:
        """The lines of a table: as wide as the terminal, or whole."""
        if screen := self._screen():
            self._inv.draw(layout.on_terminal(ads, scene, screen, coloured=self._inv.has_colours))
            return
        self._inv.out((layout if self._inv.called else layout.whole()).text(ads, scene, self._width()), end="")

    def _screen(self) -> int:
        """The columns of the terminal that the table is made for; 0: it is made for none."""
        return 0 if self._parsed.has("wide") else self._inv.screen

    def _group_by(self) -> None:
        from slotwise.cli.render.layout import Item

        names = [name for one in self._parsed.all("group-by") for name in one.values[0].replace(",", " ").split()]
        items = [Item("JobCount", "COUNT", width=5), *(Item(name, name, left=True) for name in names)]
        layout = Layout((*items, Item("JobIds", "JOB_IDS", left=True)), summary=False, unique=True)
        self._layout(layout, None, lambda ads, scene: unique_rows(layout, ads, scene))

    def _totals(self) -> None:
        """The totals alone, of the jobs that a view chooses if one is named."""
        totals = self._queue.totals(self._query, None)
        footer = self._queue.footer(totals)
        self._inv.out(self._queue.header(totals) + (footer.removeprefix("\n") if self._inv.called else footer), end="")

    def _in_batches(self) -> bool:
        """Whether the jobs of a view are shown in batches, as HTCondor's tool does by -batch, and for -cputime."""
        if not self._inv.called or self._form.more or self._parsed.has("nobatch"):
            return False
        return self._view == "cputime" or (bool(self._view) and self._parsed.has("batch"))

    def _default(self) -> None:
        """The batch view, or the table of jobs."""
        parsed = self._parsed
        plain = ("nobatch",) if self._inv.called else ("nobatch", "currentrun", "cumulative-time")
        one_a_job = any(parsed.has(name) for name in plain)
        batches = parsed.has("batch") or not (one_a_job or queues.one_line_a_job(self._inv))
        if self._inv.called and parsed.has("batch") and parsed.has("nobatch"):
            said = [one.name for one in parsed.options if one.name in ("batch", "nobatch")]
            batches = said[-1] == "batch"
        if self._form.more or (parsed.has("currentrun") and not batches) or (parsed.has("dag") and not batches):
            batches = False
        elif self._queue.shows_tables:
            self._ready_made(batches)
            return
        if batches:
            self._batches_of_ads()
            return
        layout = jobviews.VIEWS["dag" if parsed.has("dag") else "nobatch"].with_items(self._form.more)
        names = None if self._form.more else _reads(layout)
        if parsed.has("dag"):
            self._layout(layout, names, lambda ads, scene: jobviews.below_their_dags(layout.chosen(ads, scene)))
        else:
            self._layout(layout, names, layout.chosen)

    def _ready_made(self, batches: bool) -> None:
        """Tables that the schedd makes: it need not send every ad."""
        self._query.batches = batches
        if not batches:
            self._query.view, self._query.width = "nobatch", self._width()
            self._query.whole_names = not self._inv.called and not self._query.width
        *pieces, last = self._queue.ask(self._query)
        totals = QueueTotals.parse(last.data)
        self._inv.out(self._queue.header(totals), end="")
        if batches:
            batches_found = tables.batches_of_reply(b"".join(chunk.data for chunk in pieces))
            if self._inv.called:
                batches_found = [self._as_htcondors(batch) for batch in batches_found]
            self._batch_rows(batches_found)
        else:
            heading = tables.JOBS_HEADING.rstrip("\n")[: self._query.width or None] + "\n"
            lines = "".join(chunk.data.decode(errors="surrogateescape") for chunk in pieces)
            if self._screen() and self._inv.has_colours:
                self._inv.draw(heading + tables.with_colours(escaped(lines)))
            else:
                self._inv.out(heading + lines, end="")
        self._inv.out(self._queue.footer(totals), end="")

    def _batch_rows(self, batches: Sequence[tables.Batch]) -> None:
        if screen := self._screen():
            self._inv.draw(tables.batch_table(batches, screen, screen=True, coloured=self._inv.has_colours))
            return
        self._inv.out(tables.batch_table(batches, self._width(), as_htcondor=bool(self._inv.called)), end="")

    def _as_htcondors(self, batch: tables.Batch) -> tables.Batch:
        """A batch as HTCondor's tool shows it: nodes of a DAG that is not in the queue are named by the first of them,
        which stands for their owner in the view of DAGs, and nothing says how many there are."""
        driver = re.fullmatch(r"DAG: (\d+)", batch.name)
        if driver is None:
            return batch
        query = schedd_pb2.JobQuery()
        query.query.constraint = f"ClusterId == {driver[1]} || DAGManJobId == {driver[1]}"
        query.query.projection[:] = ["ClusterId", "DAGNodeName"]
        ads = list(self._queue.ads(query))
        if not ads or any(ad.get("ClusterId") == int(driver[1]) for ad in ads):
            return batch
        node = str(ads[0].get("DAGNodeName") or "")
        owner = node if self._parsed.has("dag") else batch.owner
        return replace(batch, name=f"NODE: {node}", owner=owner, total=0)

    def _batches_of_ads(self) -> None:
        ads = list(self._ads())
        totals = self._queue.totals(self._query, ads)
        self._inv.out(self._queue.header(totals), end="")
        self._batch_rows(tables.batches_of(ads, as_submitted=bool(self._inv.called)))
        self._inv.out(self._queue.footer(totals), end="")


def _reads(layout: Layout) -> list[str] | None:
    names = layout.reads()
    return None if names is None else ["ClusterId", "ProcId", "JobStatus", *names]


def job_id(ad: ClassAd) -> str:
    """``cluster.proc`` of a job ad."""
    return f"{ad.get('ClusterId')}.{ad.get('ProcId')}"
