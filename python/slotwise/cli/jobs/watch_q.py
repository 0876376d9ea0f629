"""``slotwise watch-q``: follow jobs by their event logs, without asking the schedd again (condor_watch_q's page)."""

from __future__ import annotations

import json
import select
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

import grpc
from msgspec import Struct, field

from slotwise.classad import ClassAd, quote
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import REST, Option, Parsed, UnknownOptionError, parse
from slotwise.cli.common.terminal import as_it_is
from slotwise.cli.jobs import job_progress
from slotwise.cli.jobs.job_progress import Group
from slotwise.cli.jobs.tracked_jobs import ACTIVE, COMPLETED, HELD, IDLE, Logs, Tracked
from slotwise.errors import SlotwiseError, UsageError
from slotwise.observe.log import one_line
from slotwise.table import unpack_ads
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

USAGE = """usage: slotwise watch-q [options]
  Follows jobs by their event logs; the schedd is asked once, for the logs. Ends with ^C, or as -exit says.
Which jobs (default: yours)
  -users USER ..., -clusters ID ..., -batches NAME ..., -files LOG ...
  -larger-than ID       clusters from this one on
  -schedd NAME, -collector HOST:PORT     another access point
When it ends
  -exit GROUPER,STATUS[,EXIT_STATUS]     GROUPER: all, any, none; STATUS: active, done, idle, held. Several: any of them
  -exit-on-key-press    with any key (default on a terminal)
  -json                 at once: the groups for programs
What is shown; each with -no- in front to leave it out
  -table, -progress, -row-progress, -summary, -updated-at, -color, -refresh, -display-exited
  -groupby batch|log|cluster             what a row stands for
  -summary-type totals|percentages
  -exited-row-decay TIME[s|m|h|d|w|M|y]  with -no-display-exited: rows go so long after their last job's end (1w)
  -decay-start-at-read  that counts from when the end was read
  -abbreviate           paths by their first letters
  -interval SECONDS     between two looks (0.5)"""
_SWITCHES = {
    "exit-on-key-press": 9, "display-exited": 2, "decay-start-at-read": 3, "table": 1, "progress": 1,
    "row-progress": 1, "summary": 7, "updated-at": 2, "abbreviate": 1, "color": 2, "refresh": 3,
}  # fmt: skip
_OPTIONS = [
    Option("help", 1),
    Option("debug", 3),
    Option("json", 1),
    *(Option(name, least, REST) for name, least in (("users", 2), ("clusters", 2), ("files", 1), ("batches", 1))),
    *(Option(name, least, 1) for name, least in (
        ("larger-than", 1), ("collector", 3), ("schedd", 2), ("interval", 1), ("exit", 4), ("groupby", 1),
        ("exited-row-decay", 7), ("summary-type", 8),
    )),
    *(Option(name, least) for name, least in _SWITCHES.items()),
    *(Option(f"no-{name}", least + 3) for name, least in _SWITCHES.items()),
]  # fmt: skip
_GROUPERS: dict[str, Callable[[Iterable[bool]], bool]] = {
    "all": all,
    "any": any,
    "none": lambda found: not any(found),
}
_STATUSES = {"active": ACTIVE, "done": (COMPLETED,), "idle": (IDLE,), "held": (HELD,)}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "M": 31 * 86400, "y": 365 * 86400}
_HEADINGS = {"batch": "BATCH", "log": "LOG", "cluster": "CLUSTER"}
_ALTERNATE, _NORMAL = "\033[?1049h\033[H", "\033[?1049l"
_PROJECTION = [
    "ClusterId", "Owner", "UserLog", "DAGManNodesLog", "JobBatchName", "Iwd", "DAG_NodesTotal",
    "OtherJobRemoveRequirements", "TotalSubmitProcs",
]  # fmt: skip


class Condition(Struct, frozen=True):
    """One ``-exit``."""

    grouper: str
    status: str
    exit_status: int = 0

    @classmethod
    def parse(cls, text: str) -> Condition:
        """From the option's value.

        :raises UsageError: it is none.
        """
        grouper, *more = text.split(",")
        if len(more) not in (1, 2):
            raise UsageError("invalid -exit specification")
        if grouper not in _GROUPERS:
            raise UsageError(f'invalid GROUPER "{grouper}", must be one of {{{", ".join(_GROUPERS)}}}')
        if more[0] not in _STATUSES:
            raise UsageError(f'invalid JOB_STATUS "{more[0]}", must be one of {{{", ".join(_STATUSES)}}}')
        if len(more) == 1:
            return cls(grouper, more[0])
        try:
            return cls(grouper, more[0], int(more[1]))
        except ValueError:
            raise UsageError(f'exit_status must be an integer, but was "{more[1]}"') from None

    def holds(self, states: Iterable[str]) -> bool:
        """Whether it is fulfilled by jobs in these states."""
        return _GROUPERS[self.grouper](state in _STATUSES[self.status] for state in states)


class Found(Struct):
    """What the queue says of the jobs: their logs and what these do not tell."""

    logs: dict[str, bool] = field(default_factory=dict)  #: path -> whether it may come later
    batches: dict[int, str] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    #: Log of a DAG's nodes -> the cluster of condor_dagman.
    dags_by_log: dict[str, int] = field(default_factory=dict)
    dagmans: set[int] = field(default_factory=set)
    #: Batch -> how many nodes its DAG has.
    nodes: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def take(self, ad: ClassAd) -> None:
        """Take a job's ad in."""
        cluster = ad.get("ClusterId")
        if not isinstance(cluster, int):
            return
        total, batch, nodes = ad.get("TotalSubmitProcs"), ad.get("JobBatchName"), ad.get("DAG_NodesTotal")
        if isinstance(total, int):
            self.totals[cluster] = total
        if isinstance(batch, str):
            self.batches[cluster] = batch
            if isinstance(nodes, int) and nodes:
                self.nodes[batch] = nodes
        of_nodes, own = ad.get("DAGManNodesLog"), ad.get("UserLog")
        path = of_nodes if isinstance(of_nodes, str) else own
        if not isinstance(path, str):
            warning = f"Cluster {cluster} does not have a job event log file (set log=<path> in the submit description)"
            if warning not in self.warnings:
                self.warnings.append(warning)
            return
        path = str(Path(str(ad.get("Iwd", "/"))) / path)
        if isinstance(of_nodes, str):
            self.dags_by_log[path] = cluster
        self.logs[path] = False
        if "OtherJobRemoveRequirements" in ad:
            self.dagmans.add(cluster)
            self.logs.setdefault(path.replace(".dagman.log", ".nodes.log"), True)


def main(args: list[str], inv: Invocation) -> int:
    """Watch jobs."""
    try:
        parsed = parse(args, _OPTIONS)
    except UnknownOptionError as error:
        raise UsageError(_advice(error.word, args) or f"unrecognized arguments: {error.word}") from None
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(_advice(parsed.words[0], args))
    if parsed.has("clusters") and parsed.has("larger-than"):
        inv.err("ERROR: Use of both -clusters and -larger-than flag is prohibited.")
        return 1
    watch = _Watch(parsed, inv)
    if not watch.has_logs:
        inv.err("WARNING: No jobs found, exiting...")
        return 0
    try:
        return watch.run()
    finally:
        watch.close()


def _advice(word: str, args: Sequence[str]) -> str:
    """What somebody may have meant who is used to condor_q."""
    following = [*args[args.index(word) + 1 :]] if word in args else []
    until = next((n for n, text in enumerate(following) if text.startswith("-")), len(following))
    rest = following[:until]
    if word.isdigit():
        ids = " ".join([word, *(text for text in rest if text.isdigit())])
        return f"argument {word}: to track specific cluster IDs, try -clusters {ids}"
    if word.lstrip("-").startswith("total"):
        return f"argument {word}: to only print totals, try -no-table"
    if word.lstrip("-").startswith("userlog"):
        return f"argument {word}: to track jobs from specific event logs, try -files {' '.join(rest)}"
    if word.lstrip("-").startswith("nobatch"):
        return f"argument {word}: to group by something other than batch name, try -groupby {{batch,log,cluster}}"
    if word.startswith("-"):
        return ""
    users = " ".join([word, *(text for text in rest if not text.isdigit())])
    return f"argument {word}: to track jobs from specific users, try -users {users}"


def _many(parsed: Parsed, name: str) -> list[str]:
    return [value for given in parsed.all(name) for value in given.values]


def decay(text: str) -> int:
    """Seconds of a time with a unit, of weeks without one.

    :raises UsageError: it is none.
    """
    unit = "w" if text[-1:].isdigit() else text[-1:]
    if unit not in _UNITS:
        raise UsageError(f"Unknown unit specifier provided for -exited-row-decay: {unit}")
    number = text.removesuffix(unit) if not text[-1:].isdigit() else text
    if not number.isdigit():
        raise UsageError("Invalid time value provided for -exited-row-decay")
    return int(number) * _UNITS[unit]


class _Watch:
    """One call: what is watched and how it is shown."""

    def __init__(self, parsed: Parsed, inv: Invocation) -> None:
        self._parsed = parsed
        self._inv = inv
        self._by = parsed.value("groupby") or "batch"
        if self._by not in _HEADINGS:
            raise UsageError(f"argument -groupby: invalid choice: '{self._by}' (choose from batch, log, cluster)")
        self._percentages = (parsed.value("summary-type") or "totals") == "percentages"
        self._conditions = [Condition.parse(given.values[0]) for given in parsed.all("exit")]
        self._decay_s = decay(parsed.value("exited-row-decay") or "1w")
        try:
            self._interval_s = float(parsed.value("interval") or 0.5)
        except ValueError:
            raise UsageError(f"-interval needs a number, not {parsed.value('interval')!r}") from None
        self._refresh = self._on("refresh", inv.is_terminal) and inv.is_terminal
        self._paint = job_progress.painted if self._on("color", inv.is_terminal) else job_progress.plain
        self._clusters = [int(text) for text in self._numbers("clusters")]
        self._found = self._find()
        only = {*self._clusters, *(self._found.batches if parsed.has("batches") else ())}
        since = parsed.number("larger-than")
        self._tracked = Tracked(frozenset(only) or None, since, self._found.batches, self._found.totals)
        self._logs = Logs(self._tracked, by_reading_time=self._on("decay-start-at-read", False))
        for warning in self._found.warnings:
            inv.err(f"WARNING: {warning}")
        for path, expected in self._found.logs.items():
            if complaint := self._logs.add(path, expected=expected):
                inv.err(f"WARNING: {complaint}")

    @property
    def has_logs(self) -> bool:
        """Whether there is anything to be watched."""
        return bool(self._found.logs)

    def close(self) -> None:
        """Close the logs."""
        self._logs.close()

    def _on(self, name: str, default: bool) -> bool:
        for given in reversed(self._parsed.options):
            if given.name.removeprefix("no-") == name:
                return not given.name.startswith("no-")
        return default

    def _numbers(self, name: str) -> list[str]:
        found = _many(self._parsed, name)
        if odd := next((text for text in found if not text.isdigit()), None):
            raise UsageError(f"{odd!r} is not a cluster's id")
        return found

    def _find(self) -> Found:
        """The logs of the jobs that the options name."""
        parsed, found = self._parsed, Found()
        users, files = _many(parsed, "users"), _many(parsed, "files")
        batches = _many(parsed, "batches")
        if not (users or files or batches or self._clusters):
            users = [self._inv.account]
        for name in files:
            found.logs[str(self._inv.path(name).resolve())] = False
        clauses = [
            *(f"Owner == {quote(user)}" for user in users),
            *(f"ClusterId == {number}" for number in self._clusters),
            *(f"JobBatchName == {quote(name)}" for name in batches),
        ]
        if clauses:
            try:
                for ad in self._ask(" || ".join(clauses)):
                    found.take(ad)
            except SlotwiseError as error:
                found.warnings.append(f"Was not able to query to discover job event logs due to: {error}")
        return found

    def _ask(self, constraint: str) -> list[ClassAd]:
        inv = self._inv.aimed(self._parsed.value("collector"), self._parsed.value("schedd"))
        query = schedd_pb2.JobQuery()
        query.query.constraint, query.query.form = constraint, common_pb2.AdQuery.PACK
        query.query.projection.extend(_PROJECTION)
        try:
            stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
            return [ad for chunk in stub.Query(query, timeout=60) if chunk.data for ad in unpack_ads(chunk.data)]
        except grpc.RpcError as error:
            raise to_error(error, peer="the schedd") from None

    def run(self) -> int:
        """Show the jobs until a condition holds, a key is pressed, or the caller breaks it off."""
        if self._parsed.has("json"):
            self._logs.read(time.time())
            self._inv.out(json.dumps([self._row(group) for group in self._groups(time.time())]))
            return 0
        out = as_it_is(self._inv.stdout)
        with self._screen(out), _keys(self._inv.stdin, self._wants_keys()) as pressed:
            try:
                while True:
                    if (ended := self._look(out)) is not None:
                        break
                    if pressed(self._interval_s):
                        return 0
            except KeyboardInterrupt:
                return 0
        now = datetime.now().strftime("%Y-%m-%d %H:%M:%S")
        what = f"{ended.grouper} {ended.status}"
        self._inv.out(f'Exiting with code {ended.exit_status} because of condition "{what}" at {now}')
        return ended.exit_status

    def _wants_keys(self) -> bool:
        return self._on("exit-on-key-press", self._inv.is_terminal) and self._inv.stdin.isatty()

    @contextmanager
    def _screen(self, out: IO[str]) -> Iterator[None]:
        """The terminal's second screen, if the picture is drawn anew each time."""
        if not self._refresh:
            yield
            return
        out.write(_ALTERNATE)
        try:
            yield
        finally:
            out.write(_NORMAL)
            out.flush()

    def _look(self, out: IO[str]) -> Condition | None:
        """Read, show, and say which condition holds."""
        at = time.time()
        now = datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
        for complaint in self._logs.read(at):
            self._inv.err(f"{now} | ERROR: {complaint}")
        columns = self._inv.env.get("COLUMNS", "")
        lines = self._picture(at, now, int(columns) if columns.isdigit() else self._inv.width)
        if self._refresh:
            lines = lines[: max(shutil.get_terminal_size().lines - 2, 1)]
            out.write("\033[H\033[J")
        else:
            lines.append("...")
        if not self._conditions:
            lines.append("Press any key to exit" if self._wants_keys() else "Press ^C to exit")
        out.write("\n".join(lines) + "\n")
        out.flush()
        return next((one for one in self._conditions if one.holds(self._tracked.states())), None)

    def _picture(self, at: float, now: str, width: int) -> list[str]:
        groups = self._groups(at)
        shown = [
            group
            for group in groups
            if self._on("display-exited", True)
            or any(not c.is_done or c.done_at is None or at - c.done_at < self._decay_s for c in group.clusters)
        ]
        counts, total = job_progress.summed(groups)
        parts: list[list[str]] = []
        if self._on("table", True):
            bars = self._on("row-progress", True)
            heading = _HEADINGS[self._by]
            parts.append(job_progress.table(heading, shown, width, bars=bars, paint=self._paint))
        if self._on("progress", True):
            parts.append(["Total Progress: " + job_progress.bar(counts, total, width - 16, self._paint)])
        if self._on("summary", True):
            text = (
                job_progress.percentages(counts, total)
                if self._percentages
                else job_progress.summary(counts, total, width)
            )
            parts.append([text])
        if self._on("updated-at", True):
            parts.append([f"Updated at {now}"])
        lines: list[str] = []
        for part in parts:
            lines += [*([""] if lines else []), *part]
        return lines

    def _groups(self, at: float) -> list[Group]:
        found: dict[str, Group] = {}
        for cluster in self._tracked.clusters.values():
            dag = self._found.dags_by_log.get(cluster.log)
            if self._by == "batch" and dag is not None:
                name = self._found.batches.get(dag, f"ID: {dag}")
                expected = self._found.nodes.get(name, 0)
            elif self._clusters or cluster.cluster not in self._found.dagmans:
                expected = 0
                name = {"batch": cluster.name, "log": cluster.log, "cluster": str(cluster.cluster)}[self._by]
            else:
                continue
            found.setdefault(name, Group(self._shown_name(name), expected=expected)).clusters.append(cluster)
        return sorted(found.values(), key=lambda group: group.order)

    def _shown_name(self, name: str) -> str:
        if self._by == "log":
            name = _short(Path(name), self._inv)
            if self._on("abbreviate", False):
                name = abbreviated(name)
        return one_line(name) if self._inv.is_terminal else name

    def _row(self, group: Group) -> dict[str, object]:
        ids = sorted(cluster.cluster for cluster in group.clusters)
        return {"Name": group.name, "Clusters": ids, "Total": group.total, **group.counts}


def _short(path: Path, inv: Invocation) -> str:
    """The shortest of a path's forms: whole, from the home directory, from where the caller is."""
    forms = [str(path)]
    for root, sign in ((Path(inv.env.get("HOME", "/nonexistent")), "~"), (inv.cwd.resolve(), ".")):
        if path.is_relative_to(root):
            forms.append(f"{sign}/{path.relative_to(root)}")
    return min(forms, key=len)


def abbreviated(path: str) -> str:
    """A path with directories by their first letters."""
    *directories, name = path.split("/")
    return "/".join([*(part[:1] for part in directories), name])


@contextmanager
def _keys(stdin: IO[str], wanted: bool) -> Iterator[Callable[[float], bool]]:
    """What waits some seconds, and says whether a key was pressed in that time."""
    if not wanted:

        def wait(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield wait
        return
    import termios
    import tty

    before = termios.tcgetattr(stdin.fileno())
    tty.setcbreak(stdin.fileno())
    try:
        yield lambda seconds: bool(select.select([stdin], [], [], seconds)[0])
    finally:
        termios.tcsetattr(stdin.fileno(), termios.TCSADRAIN, before)
