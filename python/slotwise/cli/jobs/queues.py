"""Where `q` finds jobs: a schedd, several of them, a file of ads, or a job event log."""

from __future__ import annotations

import json
import pwd
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import grpc

from slotwise.classad import ClassAd
from slotwise.classad.values import whole as whole_number
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Parsed
from slotwise.cli.render import ads as whole
from slotwise.cli.render import jobs as tables
from slotwise.cli.render.output_format import as_lines
from slotwise.client.totals import JobCounts, QueueTotals
from slotwise.errors import NotFoundError, PeerUnavailableError, UsageError
from slotwise.model.job_id import JobId
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

#: The attribute with the time of the answer, which is of no job.
SERVER_TIME = "ServerTime"


def shows_server_time(names: Sequence[str]) -> bool:
    """Whether ads of these attributes (none: of all) have the time of the answer."""
    return not names or any(name.lower() == SERVER_TIME.lower() for name in names)


class Queue(ABC):
    """A source of jobs."""

    #: Whether it makes the batch view and the table of jobs itself.
    shows_tables = False
    #: The access point's, where there may be several.
    name = ""

    @abstractmethod
    def ads(self, query: schedd_pb2.JobQuery) -> Iterator[ClassAd]:
        """The ads that the query selects."""

    @abstractmethod
    def totals(self, query: schedd_pb2.JobQuery, ads: Sequence[ClassAd] | None) -> QueueTotals:
        """Numbers for header and footer. ``ads``: the selected ones, if they were fetched already."""

    @abstractmethod
    def header(self, totals: QueueTotals) -> str:
        """The line that names the source of the jobs."""

    @abstractmethod
    def source(self) -> str:
        """The source of the jobs, as headings of HTCondor's tool name it."""

    def footer(self, totals: QueueTotals) -> str:
        """The sentences of totals."""
        return tables.footer(totals)

    def now(self) -> float:
        """The time, seconds since the epoch."""
        return time.time()

    def ask(self, query: schedd_pb2.JobQuery) -> Iterator[common_pb2.AdChunk]:
        """Pieces of a ready-made table."""
        raise NotImplementedError

    def whole(self, form: str, query: schedd_pb2.JobQuery, inv: Invocation) -> None:
        """Print whole ads in long form, as a JSON array, or as JSON lines."""
        names = list(query.query.projection) or None
        query.query.projection[:] = []
        found = list(self.ads(query))
        if form == "long":
            inv.out(whole.long_text(found, names), end="")
            return
        array = whole.json_array(found, names)
        if form == "json":
            inv.out(whole.spread(array) if inv.called else array, end="")
        else:
            inv.out(whole.json_lines(array), end="")


class Live(Queue):
    """The queue of a schedd."""

    shows_tables = True

    def __init__(
        self,
        stub: schedd_pb2_grpc.ScheddStub,
        inv: Invocation,
        name: str = "",
        submitter: tuple[str, str] | None = None,
    ) -> None:
        """``submitter``: the one whose jobs are shown, and the machine, as the header names them."""
        self._stub = stub
        self._inv = inv
        self.name = name
        self._submitter = submitter

    def ask(self, query: schedd_pb2.JobQuery) -> Iterator[common_pb2.AdChunk]:
        return iter(self._stub.Query(query))

    def ads(self, query: schedd_pb2.JobQuery) -> Iterator[ClassAd]:
        from slotwise.table import unpack_ads

        for chunk in self.ask(query):
            if chunk.data:
                yield from unpack_ads(chunk.data)

    def totals(self, query: schedd_pb2.JobQuery, ads: Sequence[ClassAd] | None) -> QueueTotals:
        asked = schedd_pb2.JobQuery()
        asked.CopyFrom(query)
        asked.totals_only = True
        *_, last = self.ask(asked)
        return QueueTotals.parse(last.data)

    def header(self, totals: QueueTotals) -> str:
        return tables.header(totals, self._submitter)

    def source(self) -> str:
        *_, last = self.ask(schedd_pb2.JobQuery(totals_only=True))
        told = json.loads(last.data)
        return f"Schedd: {told['Schedd']} : <{told['Address']}>"

    def footer(self, totals: QueueTotals) -> str:
        width = self._inv.screen
        text = tables.footer(totals, own=not (self._inv.called and totals.superuser), width=width)
        return text if self._inv.called else text + tables.unlogged(totals)

    def whole(self, form: str, query: schedd_pb2.JobQuery, inv: Invocation) -> None:
        query.query.form = common_pb2.AdQuery.LONG if form == "long" else common_pb2.AdQuery.JSON
        query.query.alone = True
        pieces: Iterable[str] = (chunk.data.decode(errors="surrogateescape") for chunk in self.ask(query))
        if shows_server_time(query.query.projection):
            pieces = _stamped(pieces, int(self.now()), as_long=form == "long")
        if form == "long" and inv.called and query.query.projection:
            pieces = _as_asked("".join(pieces), query.query.projection)
        if form == "jsonl" or (form == "json" and inv.called):
            text = "".join(pieces)
            # HTCondor's tool prints nothing for no ads.
            inv.out(as_lines(text) if form == "jsonl" else whole.spread(text), end="")
            return
        for piece in pieces:
            inv.out(piece, end="")


def _stamped(pieces: Iterable[str], now: int, *, as_long: bool) -> Iterator[str]:
    """The text of ads, each with ServerTime as its last attribute."""
    for piece in pieces:
        if as_long:
            yield re.sub(r"(?m)^\n", f"{SERVER_TIME} = {now}\n\n", piece)
        else:
            stamp = f'\n  "{SERVER_TIME}": {now}\n}}'
            yield re.sub(r"(?<=\{)\n\}", stamp, re.sub(r"(?<!\{)\n\}", "," + stamp, piece))


def _as_asked(text: str, names: Sequence[str]) -> Iterator[str]:
    """Ads in long form whose names are spelled as HTCondor's tool spells them: as they were asked for."""
    spelled = {name.lower(): name for name in names}
    for line in text.splitlines(keepends=True):
        name, equals, value = line.partition(" = ")
        yield spelled.get(name.lower(), name) + equals + value


class OtherAds(Queue):
    """Other ads of a schedd than those of its jobs. ``view``: which ones, as the schedd calls them."""

    def __init__(self, queue: Queue, view: str) -> None:
        self._queue = queue
        self._view = view

    def ads(self, query: schedd_pb2.JobQuery) -> Iterator[ClassAd]:
        from slotwise.table import unpack_ads

        asked = schedd_pb2.JobQuery()
        asked.CopyFrom(query)
        asked.view = self._view
        *packs, _ = self._queue.ask(asked)
        found = [ad for chunk in packs if chunk.data for ad in unpack_ads(chunk.data)]
        return iter(found[: query.query.limit or None])

    def totals(self, query: schedd_pb2.JobQuery, ads: Sequence[ClassAd] | None) -> QueueTotals:
        asked = schedd_pb2.JobQuery(totals_only=True)
        *_, last = self._queue.ask(asked)
        return QueueTotals.parse(last.data)

    def header(self, totals: QueueTotals) -> str:
        return self._queue.header(totals)

    def source(self) -> str:
        return self._queue.source()


class FromFile(Queue):
    """Job ads of a file, or of an event log."""

    def __init__(self, path: Path, found: Sequence[ClassAd], what: str, name: str, *, called: bool) -> None:
        self._path = path
        self._name = name
        self._called = called
        self._found = found
        self._what = what

    def ads(self, query: schedd_pb2.JobQuery) -> Iterator[ClassAd]:
        constraint = where(query)
        return iter(whole.chosen(self._found, constraint, query.query.limit or None))

    def totals(self, query: schedd_pb2.JobQuery, ads: Sequence[ClassAd] | None) -> QueueTotals:
        chosen = list(self.ads(query)) if ads is None else ads
        nobody = JobCounts()
        return QueueTotals(
            self._path.name, "", self.now(), "", False, query=tables.counted(chosen), mine=nobody, everyone=nobody
        )

    def header(self, totals: QueueTotals) -> str:
        if self._called:
            at = datetime.fromtimestamp(totals.now).strftime("%m/%d/%y %H:%M:%S")
            return f"\n\n-- {self._what}: {self._name} @ {at}\n"
        return f"\n\n-- {self._what}: {self._path}\n"

    def source(self) -> str:
        return f"{self._what}: {self._name}"

    def footer(self, totals: QueueTotals) -> str:
        return f"\nTotal for query: {tables.sentence(totals.query)} \n\n"


class NoSuchFileError(UsageError):
    """A file of jobs does not exist, in the words of HTCondor's tool."""

    bare = True


def where(query: schedd_pb2.JobQuery) -> str:
    """The query's selection as one constraint."""
    ids = [f"({JobId.parse(name).constraint})" for name in query.jobs.ids]
    from slotwise.classad import quote

    owners = [f"{'User' if '@' in name else 'Owner'} == {quote(name)}" for name in query.jobs.owners]
    clauses = [" || ".join(part) for part in (ids, owners) if part]
    if query.query.constraint:
        clauses.append(query.query.constraint)
    return " && ".join(f"({text})" for text in clauses)


def either(query: schedd_pb2.JobQuery) -> str:
    """The condition of jobs that have one of the ids or one of the owners of a query."""
    by_id, by_owner = schedd_pb2.JobQuery(), schedd_pb2.JobQuery()
    by_id.jobs.ids.extend(query.jobs.ids)
    by_owner.jobs.owners.extend(query.jobs.owners)
    return f"{where(by_id)} || {where(by_owner)}"


def of(parsed: Parsed, inv: Invocation) -> Iterator[Queue]:
    """The queues that the options mean.

    :raises NotFoundError: when there is none.
    """
    if (name := parsed.value("jobads")) is not None:
        if name != "-" and inv.called and not inv.path(name).exists():
            raise NoSuchFileError(f"Can't open file of ClassAds: {name}")
        yield FromFile(inv.path(name), list(whole.read_stream(name, inv)), "Jobads", name, called=bool(inv.called))
    elif (name := parsed.value("userlog")) is not None:
        path = inv.path(name)
        if inv.called and not path.exists():
            raise NoSuchFileError(f"Can't open user log: {name}")
        yield FromFile(path, _of_log(path, whole=bool(inv.called)), "Userlog", name, called=bool(inv.called))
    elif (address := parsed.value("address")) is not None:
        yield Live(inv.at(address).stub(schedd_pb2_grpc.ScheddStub, "schedd"), inv)
    elif parsed.has("global") or parsed.has("submitter") or parsed.has("schedd-constraint"):
        yield from _all(parsed, inv.aimed(parsed.value("pool")))
    else:
        aimed = inv.aimed(parsed.value("pool"), parsed.value("direct") or parsed.value("name"))
        yield Live(aimed.stub(schedd_pb2_grpc.ScheddStub, "schedd"), aimed)


def _of_log(path: Path, *, whole: bool) -> list[ClassAd]:
    """The jobs of an event log that are in the queue; with ``whole`` those that have left it, too."""
    from slotwise.cli.jobs.eventlog_ads import job_ads

    found = job_ads(path, left=False, owner=owner_of(path))
    if whole:
        found += job_ads(path, left=True, owner=owner_of(path))
        found.sort(key=lambda ad: (whole_number(ad["ClusterId"]), whole_number(ad["ProcId"])))
    return found


def _all(parsed: Parsed, inv: Invocation) -> Iterator[Queue]:
    """The queues of all access points that the collector knows."""
    from slotwise.table import unpack_ads
    from slotwise.wire import address
    from slotwise.wire.gen import collector_pb2_grpc

    constraint = " && ".join(f"({text})" for text in parsed.expressions("schedd-constraint"))
    query = common_pb2.AdQuery(kind="Scheduler", constraint=constraint, projection=["Name", "MyAddress", "Machine"])
    stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
    try:
        chunks = list(stub.Query(query, timeout=20))
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    ads = [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]
    if not ads:
        raise NotFoundError("the pool has no access point" + (" for which the constraint is true" * bool(constraint)))
    for ad in sorted(ads, key=lambda ad: str(ad.get("Name"))):
        target = str(ad.get("MyAddress"))
        try:
            own = address.lookup(inv.home, "schedd")
            target = own.local if own.reach and own.reach == target else target
        except PeerUnavailableError:
            pass
        submitter = _submitter(parsed, str(ad.get("Machine")), inv)
        yield Live(schedd_pb2_grpc.ScheddStub(inv.open(target, "schedd")), inv, str(ad.get("Name")), submitter)


def _submitter(parsed: Parsed, machine: str, inv: Invocation) -> tuple[str, str] | None:
    """How HTCondor's tool names the submitter of ``-submitter`` and where his jobs are; None without that option."""
    name = parsed.value("submitter")
    if name is None or not inv.called:
        return None
    domain = inv.knobs().get("UID_DOMAIN")
    return (name if "@" in name else f"{name}@{domain}", machine)


def submitted_by(name: str) -> str:
    """The condition of jobs of a submitter: an accounting group, with a user or without, or an owner; with its domain
    or without."""
    from slotwise.classad import quote

    identity = "(AccountingGroup ?: Owner)"
    if "@" in name:
        identity = f'strcat({identity}, "@", splitUserName(User)[1])'
    return f"{identity} == {quote(name)}"


def owner_of(path: Path) -> str:
    """Whose file it is: a log does not name the owner of its jobs."""
    try:
        return pwd.getpwuid(path.stat().st_uid).pw_name
    except (OSError, KeyError):
        return ""


def only_mine(parsed: Parsed, inv: Invocation) -> bool:
    """Whether only the caller's jobs are meant: CONDOR_Q_ONLY_MY_JOBS, unless others' are asked for."""
    if any(parsed.has(name) for name in ("allusers", "global", "submitter")):
        return False
    return inv.knobs().get_bool("CONDOR_Q_ONLY_MY_JOBS") is not False


def one_line_a_job(inv: Invocation) -> bool:
    """Whether the table of jobs, not that of batches, is what people see: CONDOR_Q_DASH_BATCH_IS_DEFAULT."""
    return inv.knobs().get_bool("CONDOR_Q_DASH_BATCH_IS_DEFAULT") is False


def width(parsed: Parsed, inv: Invocation) -> int:
    """How wide lines may be: ``-wide:N``, the terminal, or 0 for no limit."""
    given = [one.letters for one in parsed.all("wide")]
    if given:
        return int(given[-1]) if given[-1].isdigit() else 0
    return inv.width if inv.is_terminal else 0
