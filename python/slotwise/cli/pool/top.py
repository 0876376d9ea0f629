"""``slotwise top``: what a daemon spends its time on (manual page of condor_top)."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc

from slotwise.classad import ClassAd, parse_ads, quote
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.common.terminal import as_it_is
from slotwise.cli.render import daemon_runtimes as runtimes
from slotwise.errors import NotFoundError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire import address
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, daemon_pb2, daemon_pb2_grpc
from slotwise.wire.status import to_error

_KINDS = {
    "Collector": "Collector", "Negotiator": "Negotiator", "Master": "DaemonMaster", "Schedd": "Scheduler",
    "Startd": "StartDaemon",
}  # fmt: skip
_OPTIONS = [
    Option("help", 1),
    Option("live", 1),
    Option("history", 2),
    Option("json", 1),
    *(Option(name, least, 1) for name, least in (
        ("pool", 1), ("name", 1), ("delay", 1), ("columns", 1), ("sort", 2), ("attrs", 1),
    )),
    *(Option(name.lower(), 3) for name in _KINDS),
]  # fmt: skip
USAGE = """usage: slotwise top [options]
       slotwise top [options] OLD NEW
  What a daemon does with its time: two of its ads, some seconds apart, or from files.
  -schedd, -startd, -collector, -negotiator, -master    which daemon (default: the first of these that runs here)
  -name NAME, -pool HOST:PORT
  -delay SECONDS        between the two ads (STATISTICS_WINDOW_QUANTUM)
  -live                 again and again, on a terminal
  -history              the last two ads of the schedd's history of itself
  -columns default|runtime|count|all, -sort COLUMN, -attrs A,B: further attributes, as counts
  -json                 rows for programs"""


def main(args: list[str], inv: Invocation) -> int:
    """Show where time goes."""
    parsed = parse([_split(word) for word in _spread(args)], _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    view = _View(parsed, inv)
    if parsed.has("history"):
        if parsed.words:
            raise UsageError("-history cannot be combined with ClassAd files.")
        view.show(*_recorded(inv))
        return 0
    if parsed.words:
        if len(parsed.words) != 2:
            raise UsageError("Bad arguments or more/less than 2 files passed:\n" + " ".join(parsed.words))
        old, new = (_of_file(inv.path(name)) for name in parsed.words)
        if (runtimes.number(new, "MyCurrentTime") or 0) < (runtimes.number(old, "MyCurrentTime") or 0):
            old, new = new, old
        view.show(old, new)
        return 0
    return _watch(parsed, view, inv)


def _spread(args: Sequence[str]) -> Iterator[str]:
    """``--name=VALUE`` as two words."""
    for word in args:
        head, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            yield head
            yield value
        else:
            yield word


def _split(word: str) -> str:
    return {"-s": "-sort", "-H": "-history"}.get(word, word)


#: Lines of the table's headings, and what stands above the table on a terminal.
_HEADINGS, _ABOVE = 4, 10


class _View:
    """The columns, their order, and where they go."""

    def __init__(self, parsed: Parsed, inv: Invocation) -> None:
        wanted = (parsed.value("columns") or "default").lower()
        name = wanted if wanted in runtimes.SETS else "default"
        self._names = runtimes.SETS[name]
        sort = (parsed.value("sort") or "").lower()
        usual = "InstRate" if name == "count" else "InstRt"
        self._sort = next((column for column in runtimes.COLUMNS if column.lower() == sort), usual)
        self._more = [word.strip() for word in (parsed.value("attrs") or "").split(",") if word.strip()]
        self._json = parsed.has("json")
        self._inv = inv
        #: Lines of the terminal that the table must fit into; 0: it may be longer.
        self.height = 0

    def show(self, old: ClassAd, new: ClassAd) -> None:
        """Print what happened between two ads."""
        found = runtimes.ordered(runtimes.rows(old, new, self._more), self._sort)
        if self._json:
            self._inv.out(json.dumps(found))
            return
        then, now = (runtimes.moment(at) for at in runtimes.times(old, new))
        busy = runtimes.duty(old, new)
        if busy is None:
            self.recent(new)
        else:
            self._inv.out(f"DC status from {then} to {now}:")
            self._inv.out(f"Duty Cycle: {busy[0]:.2f}%    Ops/second: {busy[1]:.3f}\n")
        self._inv.out(f"Runtime stats from {then} to {now}:")
        lines = runtimes.table(found, self._names)
        if not self._inv.is_terminal:
            self._inv.out("\n".join(lines))
            return
        for line in lines[: max(_HEADINGS + 1, self.height - _ABOVE)] if self.height else lines:
            self._inv.out(line[: self._inv.width])

    def itself(self, kind: str, ad: ClassAd) -> None:
        """Print what the daemon says of itself."""
        if self._json:
            return
        inv = self._inv
        value = {name: runtimes.number(ad, f"MonitorSelf{name}") for name in (
            "Time", "Age", "SysCpuTime", "UserCpuTime", "ImageSize", "ResidentSetSize",
        )}  # fmt: skip
        if (at := value["Time"]) is None:
            return
        inv.out(f"{kind} {ad.get('Name')} status at {runtimes.moment(at)}:")
        if (age := value["Age"]) is not None:
            inv.out(f"Uptime: {runtimes.span(age)}")
        cpu = [
            f"{name}: {runtimes.span(seconds)}"
            for name in ("SysCpuTime", "UserCpuTime")
            if (seconds := value[name]) is not None
        ]
        sizes = [
            f"{label}: {runtimes.memory(kib)}"
            for label, name in (("Memory", "ImageSize"), ("RSS", "ResidentSetSize"))
            if (kib := value[name]) is not None
        ]
        for parts in (cpu, sizes):
            if parts:
                inv.out("    ".join(parts))
        inv.out()

    def recent(self, ad: ClassAd) -> None:
        """Print how busy it was lately, by its own account."""
        if self._json:
            return
        at = runtimes.number(ad, "RecentStatsTickTime") or runtimes.number(ad, "MonitorSelfTime") or 0
        self._inv.out(f"Recent DC status at {runtimes.moment(at)}:")
        duty, life = (runtimes.number(ad, name) for name in ("RecentDaemonCoreDutyCycle", "RecentStatsLifetime"))
        text = ""
        if duty is not None:
            window = "" if life is None else f" (last {life}s)"
            text = f"Duty Cycle{window}: {100 * duty:.2f}%    "
        for span in ("4m", "20m", "4h"):
            if (rate := runtimes.number(ad, f"DCCommandsPerSecond_{span}")) is not None:
                text += f"Ops/second (last {span}): {rate:.3f}"
                break
        self._inv.out(text + "\n")


def _of_file(path: Path) -> ClassAd:
    try:
        found = next(iter(parse_ads(path.read_bytes())), None)
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from None
    if found is None:
        raise UsageError(f"{path} does not contain any (valid) ClassAds")
    return found


def _recorded(inv: Invocation) -> tuple[ClassAd, ClassAd]:
    """The last two ads of the schedd's history of itself that are of one life of the daemon."""
    knobs = inv.knobs()
    path = Path(
        knobs.get("SCHEDD_DAEMON_HISTORY") or Path(knobs.get("SPOOL") or inv.home.spool) / "schedd_daemon_history"
    )
    try:
        ads = list(parse_ads(path.read_bytes()))
    except OSError as error:
        raise NotFoundError(f"Unable to open {path}: {error.strerror}") from None
    if len(ads) < 2:
        raise UsageError(f"History file {path} does not contain 2 ClassAds")
    for older, newer in zip(ads[-2::-1], ads[:0:-1], strict=True):
        if older.get("DaemonStartTime") == newer.get("DaemonStartTime"):
            return older, newer
    return ads[-2], ads[-1]


def _watch(parsed: Parsed, view: _View, inv: Invocation) -> int:
    """Ask for the daemon's ad, wait, and ask again."""
    kind, name = _daemon(parsed, inv), parsed.value("name")
    inv = inv.aimed(parsed.value("pool"))
    delay = parsed.number("delay")
    delay = inv.knobs().get_int("STATISTICS_WINDOW_QUANTUM") if delay is None else delay
    live = parsed.has("live") and inv.is_terminal
    old = _ask(inv, kind, name)
    view.itself(kind, old)
    view.recent(old)
    if not runtimes.items(old):
        inv.err("Did not get any comparable runtime attributes from daemon ClassAd, exiting early.")
        return 0
    try:
        while True:
            _count_down(inv, max(int(delay), 1))
            new = _ask(inv, kind, name)
            if live:
                view.height = _height(inv)
                as_it_is(inv.stdout).write("\033[H\033[2J")
                view.itself(kind, new)
            view.show(old, new)
            if not live:
                return 0
            old = new
    except KeyboardInterrupt:
        return 0


def _count_down(inv: Invocation, seconds: int) -> None:
    """Wait, and tell at a terminal how long."""
    for left in range(seconds, 0, -1):
        if inv.is_terminal:
            inv.stderr.write(f"\rUpdating ClassAd in {left:>5} s")
            inv.stderr.flush()
        time.sleep(1)
    if inv.is_terminal:
        inv.stderr.write(f"\rUpdating ClassAd {'.' * 10}\n\n")


def _height(inv: Invocation) -> int:
    """The lines of the terminal, 0 where they are not known."""
    try:
        return os.get_terminal_size(inv.stdout.fileno()).lines
    except (OSError, ValueError, AttributeError):
        return 0


def _daemon(parsed: Parsed, inv: Invocation) -> str:
    """The kind of daemon that is meant."""
    named = next(
        (given.name.capitalize() for given in reversed(parsed.options) if given.name.capitalize() in _KINDS), ""
    )
    if named or parsed.has("pool"):
        return named or "Collector"
    running = address.published(inv.home)
    order = ("Schedd", "Startd", "Collector", "Negotiator", "Master")
    return next((kind for kind in order if kind.lower() in running), "Master")


def _ask(inv: Invocation, kind: str, name: str | None) -> ClassAd:
    """The daemon's ad: of the one that is named, of this host's, or of any; with what it spends its time on, which it
    tells itself, as now."""
    ad = _advertised(inv, kind, name)
    found = str(ad.get("Name") or "") if name or inv.pool else None
    stub = inv.aimed(None, found).stub(daemon_pb2_grpc.DaemonStub, kind.lower())
    try:
        told = stub.Statistics(daemon_pb2.StatisticsRequest(publish="ALL:2"), timeout=20)
    except grpc.RpcError as error:
        inv.err(f"Warning: the {kind.lower()} itself does not answer, this is of its ad: {to_error(error).message}")
        return ad
    for attribute, value in told.values.items():
        ad[attribute] = value
    return ad


def _advertised(inv: Invocation, kind: str, name: str | None) -> ClassAd:
    stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
    wanted = [f"Name == {quote(name)}"] if name else [f"Machine == {quote(socket.getfqdn())}", ""]
    try:
        for constraint in wanted:
            query = common_pb2.AdQuery(kind=_KINDS[kind], constraint=constraint)
            chunks = stub.Query(query, timeout=20)
            found = [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]
            if found:
                if len(found) > 1:
                    inv.err(
                        f"Warning: Received {len(found)} {kind} ads\nConsider specifying a daemon name with -n NAME."
                    )
                return found[0]
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    raise NotFoundError(f"Did not receive any {kind} ads")
