"""``slotwise status``: slots and daemons of the pool (manual page of condor_status)."""

from __future__ import annotations

import time
from collections.abc import Sequence

import grpc
from msgspec.structs import replace

from slotwise.classad import ClassAd, ExprTree, new_syntax, quote
from slotwise.cli.common import htcondor_words
from slotwise.cli.common.constraints import warn_of_misspelled
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.pool.pool_ads import PoolAds
from slotwise.cli.render import compact, output_format, pool
from slotwise.cli.render.ads import chosen
from slotwise.cli.render.layout import Layout
from slotwise.cli.render.output_format import Form
from slotwise.cli.render.poolviews import VIEWS, View
from slotwise.cli.render.printas import Scene
from slotwise.errors import AdSyntaxError
from slotwise.wire.gen import common_pb2
from slotwise.wire.status import to_error

#: Options that name a kind of ads or a view of slots.
_NAMED = {
    "slots": 2, "startd": 4, "schedd": 2, "submitters": 4, "master": 1, "collector": 3, "negotiator": 2,
    "accounting": 3, "any": 2, "defrag": 2, "grid": 1, "generic": 2, "storage": 3, "license": 2, "ckptsrvr": 2,
    "claimed": 2, "run": 1, "avail": 2, "cod": 3, "state": 4, "server": 2, "gpus": 3, "java": 1, "vm": 2, "lvm": 3,
    "broken": 4, "healthy": 4, "offline": 2, "absent": 2, "power": 3, "data": 2,
}  # fmt: skip
#: Views that change what another option shows: ``-schedd -run``, ``-startd -gpus``.
_COMBINED = {
    ("schedd", "run"): "schedd-run", ("schedd", "data"): "data", ("startd", "gpus"): "startd-gpus",
    ("startd", "lvm"): "startd-lvm", ("startd", "broken"): "startd-broken", ("startd", "healthy"): "startd-healthy",
}  # fmt: skip
OPTIONS = [
    *output_format.options(xml=1, limit=2),
    *(Option(name, least) for name, least in _NAMED.items()),
    *(Option(name, least) for name, least in (
        ("help", 1), ("compact", 3), ("nocompact", 5), ("totals", 1), ("wide", 3), ("natural", 3), ("expert", 1),
        ("verbose", 0), ("snapshot", 4), ("debug", 2), ("diagnose", 3), ("world", 1), ("version", 3),
    )),
    *(Option(name, least, 1) for name, least in (
        ("pool", 1), ("name", 2), ("direct", 3), ("subsystem", 4), ("constraint", 3), ("sort", 2), ("target", 4),
        ("ads", 2), ("merge", 5), ("group-by", 5), ("statistics", 5), ("annex-name", 10), ("annex-slots", 5),
        ("parquet", 4),
    )),
    Option("annex", 0, 1, stands_for="annex-name"),
]  # fmt: skip
USAGE = f"""usage: slotwise status [options] [HOST | SLOT ...]
Slots (default)
  -avail, -claimed (-run), -state, -server, -gpus, -java, -vm, -cod, -lvm, -offline, -absent, -power, -broken, -healthy
  -compact              one line a machine
Daemons and others
  -startd, -schedd [-run | -data], -submitters, -master, -collector, -negotiator, -accounting, -defrag, -grid,
  -generic, -storage, -license, -any, -subsystem TYPE
Which, and in which order
  -constraint EXPR      several are and-ed; -target FILE: with this ad as TARGET
  -annex NAME, -sort EXPR (several), -natural
  -pool HOST:PORT, -direct HOST [-snapshot] [-statistics SPEC]: ask the startd there
  -ads FILE             ads from a file; -merge FILE: compare the file with the pool
Forms
{output_format.USAGE}
  -totals               totals only
  -wide                 names are not shortened on a terminal
  -parquet FILE         a table for analysis"""


def main(args: list[str], inv: Invocation) -> int:
    """Show slots or daemons."""
    parsed = parse(args, OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.has("version"):
        return htcondor_words.version(inv)
    inv = inv.aimed(parsed.value("pool"))
    warn_of_misspelled(parsed.expressions("constraint"), inv)
    if inv.called and parsed.has("compact") and parsed.has("run"):
        inv.err("Error:  arg (-compact) contradicts arg 1 (-run)")
        return 1
    if inv.called and (refusal := _refused_by_htcondor(parsed, args)):
        inv.err(refusal)
        return 1
    name = view_name(parsed, called=bool(inv.called))
    view = VIEWS[name]
    form = Form.of(parsed, inv)
    if inv.called and (file := parsed.value("ads")) not in (None, "-") and not inv.path(file or "").exists():
        inv.err(f"Can't open file of ClassAds: {file}")
        return 0  # as HTCondor's tool
    if inv.called and name in ("healthy", "startd-healthy") and form.kind == "table":
        query = common_pb2.AdQuery(kind="StartDaemon", constraint=constraint(parsed, form, VIEWS["startd"]))
        _health(PoolAds(parsed, query, inv), parsed, Scene(time.time()), inv)
        return 0
    if inv.called and parsed.has("totals") and parsed.has("compact"):
        inv.err("Warning: ignoring -compact option because -total option is also set")
        view = replace(view, constraint="DynamicSlot =!= true")
    if inv.called and parsed.has("compact") and form.kind == "chosen" and view.kind == "Machine":
        view = replace(view, constraint=" && ".join(filter(None, (view.constraint, "DynamicSlot =!= true"))))
    query = common_pb2.AdQuery(kind=_kind(parsed, view), constraint=constraint(parsed, form, view))
    query.limit = form.limit
    if parsed.has("diagnose"):
        inv.out(f"kind: {query.kind}\nconstraint: {query.constraint or 'true'}")
        return 0
    try:
        return _show(parsed, form, name, PoolAds(parsed, query, inv), inv)
    except grpc.RpcError as error:
        direct = parsed.value("direct")
        raise to_error(error, peer=f"the startd of {direct}" if direct else "the collector") from None


def _refused_by_htcondor(parsed: Parsed, args: list[str]) -> str:
    """What HTCondor's tool says of options that it does not take so; empty when it takes them."""
    kinds = [given.name for given in parsed.options if given.name in ("avail", "claimed")]
    if len(set(kinds)) > 1:
        places = [place for place, word in enumerate(args, start=1) if _is_one_of(word, kinds)]
        return f"Error:  Arg {places[1]} (-{kinds[1]}) contradicts arg {places[0]} (-{kinds[0]})"
    for one in parsed.all("sort"):
        try:
            ExprTree(one.values[0].lstrip("-"), old=True)
        except AdSyntaxError:
            return f"Error:  Parse error of: {one.values[0]}"
    return ""


def _is_one_of(word: str, names: list[str]) -> bool:
    """Whether a word is one of these options, shortened or not."""
    return word.startswith("-") and any(name.startswith(word.lstrip("-").lower()) for name in names)


def view_name(parsed: Parsed, *, called: bool = False) -> str:
    """The view that the options name: the last one, or what two of them mean together."""
    named = [given.name for given in parsed.options if given.name in _NAMED]
    if called and named == ["run"]:
        return "schedd-run"  # of HTCondor's tool -run alone is about access points, and -claimed about slots
    for (first, second), combined in _COMBINED.items():
        if first in named and second in named:
            return combined
    if parsed.has("subsystem"):
        known = (parsed.value("subsystem") or "").lower()
        return known if known in VIEWS else "any"
    return named[-1] if named else "slots"


def _kind(parsed: Parsed, view: View) -> str:
    named = parsed.value("subsystem")
    if named is None:
        return view.kind
    known = VIEWS.get(named.lower())
    return known.kind if known else named


def constraint(parsed: Parsed, form: Form, view: View) -> str:
    """Which ads the words and options mean."""
    everything = view.constraint.startswith("size(HealthExprs)") and any(
        one.letters.startswith("v") for one in parsed.all("healthy")
    )
    compact_view = (
        parsed.has("compact") and not parsed.has("totals") and form.kind != "chosen" and view.kind == "Machine"
    )  # the lines are chosen when they are made
    clauses = [f"({view.constraint})"] if view.constraint and not everything and not compact_view else []
    clauses += [f"({text})" for text in parsed.expressions("constraint")]
    clauses += [f"AnnexName =?= {quote(one.values[0])}" for one in parsed.all("annex-name")]
    if form.layout is not None and form.layout.where:
        clauses.append(f"({new_syntax(form.layout.where)})")
    words = [*parsed.words, *(given.values[0] for given in parsed.all("name"))]
    if words:
        named = [f"Name == {quote(word)} || Machine == {quote(word)}" for word in words]
        clauses.append("(" + " || ".join(named) + ")")
    return " && ".join(clauses)


def _show(parsed: Parsed, form: Form, name: str, source: PoolAds, inv: Invocation) -> int:
    view = VIEWS[name]
    if parsed.has("parquet"):
        return _parquet(source, inv, parsed.value("parquet") or "")
    if (merged := parsed.value("merge")) is not None:
        return _merge(source, view, merged, parsed, inv)
    if form.whole:
        source.whole(form)
        return 0
    scene = Scene(time.time())
    if form.kind == "chosen":
        reads = form.columns.attributes() if form.columns is not None else None
        ads = source.ads(None if reads is None else [*reads, "Name", "Machine"])
        # For HTCondor's tool the letter j asks for the id of a job, which such ads have not.
        form.write(ads, inv, lambda ad: "" if inv.called else str(ad.get("Name")), scene)
        return 0
    if parsed.has("totals"):
        ads = source.ads(["Name", "Machine", *pool.READS.get(view.totals, ())])
        inv.stdout.write(pool.totals_text(view.totals, ads, tell_left_out=bool(inv.called)))
        return 0
    if form.layout is not None:
        rows = form.rows(source.ads(None), scene)
        inv.stdout.write(form.layout.text(rows, scene))
        if form.layout.summary and rows:
            inv.stdout.write("\n" + pool.totals_text(view.totals, rows))
        return 0
    if parsed.has("compact") and not parsed.has("nocompact") and name in compact.VIEWS:
        found = source.ads(compact.ATTRIBUTES)
        screen = 0 if parsed.has("wide") else inv.screen
        text = compact.compact_text(
            found, name, shorten=inv.is_terminal, screen=screen, coloured=bool(screen) and inv.has_colours
        )
        _table(text, view, found, inv, by_system=bool(inv.called), drawn=bool(screen))
        return 0
    wide = parsed.has("wide")
    layout = view.shown(wide=wide, width=inv.width, terminal=inv.is_terminal)
    names = None if form.more else layout.reads()
    found = source.ads(None if names is None else ["Name", "Machine", *names, *pool.READS.get(view.totals, ())])
    if not found:
        return 0
    if inv.screen and not wide:
        text = layout.with_items(form.more).on_terminal(found, scene, inv.screen, coloured=inv.has_colours)
        _table(text, view, found, inv, drawn=True)
    else:
        width = 0 if wide or not inv.is_terminal else inv.width
        _table(layout.with_items(form.more).text(found, scene, width), view, found, inv)
    return 0


def _health(source: PoolAds, parsed: Parsed, scene: Scene, inv: Invocation) -> None:
    """The machines that fail a check, and all by their health, as HTCondor's tool has it."""
    view = VIEWS["startd-healthy"]
    ads = source.ads(None)
    failing = chosen(ads, view.constraint, None)
    layout = view.shown(wide=parsed.has("wide"), width=inv.width, terminal=inv.is_terminal)
    heading, _, rows = layout.text(failing, scene).partition("\n")
    inv.stdout.write(f"{heading}\n\n{rows}\n" + pool.totals_text("health", ads) + "\n")


def _table(
    text: str, view: View, ads: Sequence[ClassAd], inv: Invocation, *, by_system: bool = False, drawn: bool = False
) -> None:
    """Headings, a blank line, rows, totals. Nothing at all is printed for nothing, so that scripts may count lines.

    ``drawn``: the text was made for a terminal, escaped and perhaps with colours.
    """
    if not text:
        return
    heading, _, rest = text.partition("\n")
    (inv.draw if drawn else inv.stdout.write)(f"{heading}\n\n{rest}")
    totals = pool.totals_text(
        view.totals,
        ads,
        tell_left_out=bool(inv.called),
        by_system=by_system,
        terminal_width=inv.screen,
    )
    if totals:
        inv.stdout.write("\n" + totals)


def _merge(source: PoolAds, view: View, file: str, parsed: Parsed, inv: Invocation) -> int:
    """Three tables: ads of the pool only, of both, of the file only. Ads are the same when their sort keys are."""
    from slotwise.cli.render.ads import read_stream

    keys = [one.values[0] for one in parsed.all("sort")] or ["Name"]
    ours = {source.key_of(ad, keys): ad for ad in source.ads(None)}
    theirs = {source.key_of(ad, keys): ad for ad in read_stream(file, inv)}
    parts = (
        ("Only in the pool", [ad for key, ad in ours.items() if key not in theirs]),
        (f"In the pool and in {file}", [ad for key, ad in ours.items() if key in theirs]),
        (f"Only in {file}", [ad for key, ad in theirs.items() if key not in ours]),
    )
    layout: Layout = view.shown(wide=parsed.has("wide"), terminal=inv.is_terminal)
    for title, ads in parts:
        inv.out(f"{title}: {len(ads)}")
        if ads:
            inv.out(layout.text(ads, Scene(time.time())))
    return 0


def _parquet(source: PoolAds, inv: Invocation, name: str) -> int:
    from slotwise.cli.render.parquet import require, write

    require()
    write(source.ads(None), (), inv.path(name))
    return 0
