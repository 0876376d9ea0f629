"""``condor_q -better-analyze`` and its kin as HTCondor prints them, where ``slotwise q`` has a layout of its own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import grpc

from slotwise.classad import ClassAd, ExprTree, quote
from slotwise.classad.values import number, whole
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Parsed
from slotwise.cli.jobs import analyze_local, queues
from slotwise.cli.render import ads as files
from slotwise.cli.render import jobs as tables
from slotwise.cli.render import match_analysis as text
from slotwise.cli.render.match_analysis import Alike, Detail, OfJobs
from slotwise.client.totals import QueueTotals
from slotwise.errors import AdSyntaxError, UsageError
from slotwise.matchmaking.accounting_file import parse_accounting, text_of
from slotwise.matchmaking.fit import emptied, truths
from slotwise.matchmaking.numbered_clauses import Count
from slotwise.matchmaking.slot_verdicts import Mode, PoolSlots, Priorities
from slotwise.table import AdTable, unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, schedd_pb2
from slotwise.wire.status import to_error

_WORDS = ("summary", "reverse", "priority", "noprune", "diagnostic", "show-work", "slot-exprs", "ifthenelse", "memory")
#: Details that may be asked for by number.
_EVERY_STEP, _CHOICES = 4, 8
#: A constraint that has one of these chooses among kinds of slots itself.
_KINDS_OF_SLOTS = ("PartitionableSlot", "DynamicSlot", "SlotType", "DSlotID")
#: Jobs that are the same in these are alike, where ads have no number of their autocluster.
_LIKENESS = (
    "Requirements", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "AccountingGroup",
    "ConcurrencyLimits", "User",
)  # fmt: skip
#: The name under which a clause of an ad is asked of others; no ad has such an attribute.
_LENT = "_SlotwiseStep"


class _MissingFileError(UsageError):
    """A file cannot be read, in the words of HTCondor's tool."""

    bare = True


class _Wish:
    """What is asked for."""

    def __init__(self, parsed: Parsed, inv: Invocation) -> None:
        said = [
            word for name in ("better-analyze", "analyze") for one in parsed.all(name) for word in _words(one.letters)
        ]
        named = {known for word in said for known in _WORDS if known.startswith(word.lower())}
        self.reverse = "reverse" in named or parsed.has("reverse-analyze")
        self.summary = "summary" in named
        self.unmatchable = parsed.has("unmatchable")
        bits = 0
        for word in (*said, *(word for one in parsed.all("reverse-analyze") for word in _words(one.letters))):
            bits |= int(word) if word.isdecimal() else 0
        #: Details of a slot's conditions are asked for.
        self.conditions = parsed.has("better-analyze") or "noprune" in named or bool(bits)
        self.priority = ("priority" in named or parsed.has("userprios")) and not (self.summary or self.reverse)
        self.priority = self.priority and not parsed.has("nouserprios")
        self.inline_limits = "slot-exprs" in named
        self.detail = Detail(
            better=parsed.has("better-analyze"),
            every_step="noprune" in named or bool(bits & _EVERY_STEP),
            choices="ifthenelse" in named or bool(bits & _CHOICES),
            verbose=parsed.has("verbose"),
            width=(queues.width(parsed, inv) or inv.width) if parsed.has("wide") else text.WIDTH,
        )


def _words(letters: str) -> list[str]:
    return [word for part in letters.split(",") for word in part.split(":") if word]


def analyze(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation) -> int:
    """Analyze the jobs that the words and options name."""
    wish = _Wish(parsed, inv)
    slots, machine = slots_of(parsed, inv)
    priorities = _priorities(parsed, slots, inv) if wish.priority else None
    mode = Mode.EVERY if slots.only_dynamic else Mode.WITHOUT_DYNAMIC
    for queue in queues.of(parsed, inv):
        asked = schedd_pb2.JobQuery()
        asked.CopyFrom(query)
        asked.query.form = common_pb2.AdQuery.PACK
        try:
            jobs = sorted(queue.ads(asked), key=lambda job: (whole(job.get("ClusterId")), whole(job.get("ProcId"))))
            source = queue.source()
        except grpc.RpcError as error:
            raise to_error(error, peer="the schedd") from None
        live = queue.shows_tables
        if wish.detail.verbose:
            inv.err(f"Fetching job ads... {len(jobs)} ads" + ("" if live else ".\n"))
        inv.out(f"\n\n-- {source}")
        groups = _groups(jobs, inv, wish) if wish.reverse or wish.summary or wish.unmatchable else []
        if wish.reverse:
            _reverse(jobs, groups, slots, wish, inv)
        elif wish.unmatchable:
            _unmatchable(groups, slots, inv)
        elif wish.summary:
            _summary(groups, slots, machine, wish, parsed, inv)
        else:
            alike = _alike(queue, jobs) if live else {}
            for job in jobs:
                said = alike.get(_likeness(job))
                inv.out(_one(job, slots, machine, mode, priorities, said, wish.detail, inv if live else None), end="")
    return 0


# ------------------------------------------------------------------------------------------------------ one job


def _one(
    job: ClassAd,
    slots: PoolSlots,
    machine: str | None,
    mode: Mode,
    priorities: Priorities | None,
    alike: Alike | None,
    detail: Detail,
    inv: Invocation | None,
) -> str:
    """All about one job. ``inv``: where its access point can be asked."""
    if not isinstance(job.get("Owner"), str):
        return "\n" + text.matches(job, "Nothing here.", alike)
    if analyze_local.runs_here(job):
        schedd = analyze_local.schedd_of(job, inv) if inv is not None else None
        said = text.state(job, text.start_here(job, schedd))
        parts = []
        if detail.better:
            parts.append(_requirements(job, slots, machine, mode, detail, conditions=True) + "\n")
        if schedd is not None:
            parts.append(text.totals_here(job, schedd))
        return "".join([*parts, "\n", text.matches(job, said, alike)])
    found = slots.judge(job, Mode.WITHOUT_DYNAMIC if not detail.better else mode, priorities)
    parts = []
    refused = found.slots > found.accepted
    if detail.better or refused:
        parts.append(_requirements(job, slots, machine, mode, detail, conditions=detail.better or refused) + "\n")
    if found.slots:
        parts.append(text.totals(job, found, priorities, verbose=detail.verbose))
    parts.append("\n" + text.matches(job, text.state(job), alike))
    return "".join(parts)


def _requirements(
    job: ClassAd, slots: PoolSlots, machine: str | None, mode: Mode, detail: Detail, *, conditions: bool
) -> str:
    drained = {} if mode is Mode.EVERY or analyze_local.runs_here(job) else slots.drained(job)
    ads_looked_at = len(slots) + len(drained)
    without_dynamic = ads_looked_at > 1 and mode is Mode.WITHOUT_DYNAMIC
    parts = [text.requirements(job, detail), text.attributes_of_job(job)]
    if machine or ads_looked_at == 1:
        names = text.read_of_others(job)
        for row, slot in enumerate(slots.ads):
            if without_dynamic and "DSlotID" in slot:
                continue
            for ad, when in ((slot, ""), (drained.get(row), " when drained")):
                if ad is not None and (values := text.attributes_of_other(names, ad, job)):
                    parts.append(f"\n{slot.get('Name')} has the following attributes{when}:\n\n{values}")
    parts.append("\n")
    if conditions:
        ads = [slot for slot in slots.ads if not (without_dynamic and "DSlotID" in slot)]
        count = _counting(job, ads, list(drained.values()), slots.now)
        parts.append(text.conditions(job, len(ads) + len(drained), count, drained=bool(drained), detail=detail))
    return "".join(parts) + text.warning_of_universe(job)


def _counting(ad: ClassAd, ads: Sequence[ClassAd], drained: Sequence[ClassAd], now: int) -> Count:
    """Counts expressions of an ad over columns of others."""
    tables = [AdTable.of(ads), AdTable.of(drained)]
    asking = ad.copy()

    def count(tree: ExprTree) -> tuple[int, int]:
        asking[_LENT] = tree
        plain, emptied_ones = (
            sum(truths(table, f"TARGET.{_LENT}", asking, now)) if len(table) else 0 for table in tables
        )
        return plain, emptied_ones

    return count


# ------------------------------------------------------------------------------------------------ jobs that are alike


def _likeness(job: ClassAd) -> tuple[str, ...]:
    return tuple(str(job.lookup(name)) if name in job else "" for name in _LIKENESS)


def _groups(jobs: Sequence[ClassAd], inv: Invocation, wish: _Wish) -> list[tuple[int | None, list[ClassAd]]]:
    """Jobs by autocluster; those without one first, each by itself."""
    single: list[tuple[int | None, list[ClassAd]]] = []
    found: dict[int, list[ClassAd]] = {}
    numbers: dict[tuple[str, ...], int] = {}
    live = not any("AutoClusterId" in job for job in jobs) and any("GlobalJobId" in job for job in jobs)
    for job in jobs:
        group = numbers.setdefault(_likeness(job), len(numbers) + 1) if live else job.get("AutoClusterId")
        if isinstance(group, int):
            found.setdefault(group, []).append(job)
        else:
            single.append((None, [job]))
    if wish.detail.verbose:
        inv.err(
            f"\nBuilding autocluster map of {len(jobs)} Jobs..."
            f"{len(found)} autoclusters and {len(single)} Jobs with no autocluster"
        )
    return [*single, *sorted(found.items())]


def _alike(queue: queues.Queue, jobs: Sequence[ClassAd]) -> dict[tuple[str, ...], Alike]:
    """What the matchmaker said of jobs like these, by likeness: only one of many is told."""
    wanted = {_likeness(job) for job in jobs}
    asked = schedd_pb2.JobQuery()
    asked.query.form = common_pb2.AdQuery.PACK
    found: dict[tuple[str, ...], Alike] = {}
    for ad in queue.ads(asked):
        key = _likeness(ad)
        if key not in wanted:
            continue
        former = found.get(key, Alike())
        rejected = whole(ad.get("LastRejMatchTime"))
        later = rejected > former.rejected_at
        found[key] = Alike(
            rejected_at=rejected if later else former.rejected_at,
            reason=str(ad.get("LastRejMatchReason", "")) if later else former.reason,
            negotiator=str(ad.get("LastRejMatchNegotiator", "")) if later else former.negotiator,
            matched_at=max(former.matched_at, whole(ad.get("LastMatchTime"))),
            running=former.running + (ad.get("JobStatus") == 2),
        )
    return {key: said for key, said in found.items() if said.rejected_at}


def _summary(
    groups: Sequence[tuple[int | None, list[ClassAd]]],
    slots: PoolSlots,
    machine: str | None,
    wish: _Wish,
    parsed: Parsed,
    inv: Invocation,
) -> None:
    owners = True
    inv.out(text.summary_head(len(slots), machine, owners=owners), end="")
    for group, jobs in groups:
        found = slots.judge(jobs[0], Mode.EVERY)
        inv.out(text.summary_row(jobs, group, found, owners=owners, verbose=wish.detail.verbose), end="")


def _unmatchable(groups: Sequence[tuple[int | None, list[ClassAd]]], slots: PoolSlots, inv: Invocation) -> None:
    for group, jobs in groups:
        found = slots.judge(jobs[0], Mode.WITHOUT_DYNAMIC)
        if not found.matches:
            why = "All slots reject" if found.accepted else "No slots match"
            ids = "".join(f" {whole(job.get('ClusterId'))}.{whole(job.get('ProcId'))}" for job in jobs)
            inv.out(f"{why} autocluster {-1 if group is None else group}, jobs :{ids}")


def _reverse(
    jobs: Sequence[ClassAd],
    groups: Sequence[tuple[int | None, list[ClassAd]]],
    slots: PoolSlots,
    wish: _Wish,
    inv: Invocation,
) -> None:
    if not len(slots):
        return
    table = wish.summary or not (wish.conditions or len(slots) == 1)
    width = max(16, *(max(len(str(ad.get("Machine", ""))) + 7, len(str(ad.get("Name", "")))) for ad in slots.ads))
    if table:
        if len(jobs) <= 1:
            for job in jobs:
                inv.out(f"{whole(job.get('ClusterId'))}.{whole(job.get('ProcId'))}: Analyzing matches for 1 job")
        elif wish.detail.verbose:
            inv.out(f"Analyzing {len(jobs)} jobs in {len(groups)} autoclusters")
        else:
            inv.out(f"Analyzing matches for {len(jobs)} jobs")
        inv.out(text.slots_head(width), end="")
    firsts = [members[0] for _, members in groups]
    sizes = [len(members) for _, members in groups]
    judged = AdTable.of(firsts)
    for slot in slots.as_given:
        if slot.get("Offline") is True:
            name = str(slot.get("Name"))
            inv.out(f"{name:<24.24}  is offline")
            continue
        found, drained = _of_jobs(slot, judged, firsts, sizes, slots.now)
        if table:
            inv.out(text.slots_row(slot, found, width), end="")
            continue
        count = _counting(slot, firsts, [], slots.now)
        inv.out(
            text.reversed_(slot, firsts, found, drained, count, wish.detail, inline_limits=wish.inline_limits), end=""
        )


def _of_jobs(
    slot: ClassAd, table: AdTable, jobs: Sequence[ClassAd], sizes: Sequence[int], now: int
) -> tuple[OfJobs, ClassAd | None]:
    """How jobs, one for each that are alike, suit a slot; and the slot drained, where one of them needs that."""

    def sums(ad: ClassAd, places: range) -> tuple[int, int, int]:
        """Both, accepted by the slot, accepting the slot; of the jobs at these places."""
        accepted, accepting = (
            truths(table, condition, ad, now) for condition in ("TARGET.Requirements", "MY.Requirements")
        )
        return (
            sum(sizes[at] for at in places if accepted[at] and accepting[at]),
            sum(sizes[at] for at in places if accepted[at]),
            sum(sizes[at] for at in places if accepting[at]),
        )

    every = range(len(jobs))
    if not jobs:
        return OfJobs(), None
    both, accepted, accepting = sums(slot, every)
    found = OfJobs(sum(sizes), len(jobs), accepted, accepting, both)
    if slot.get("PartitionableSlot") is not True:
        return found, None
    whole_slot = emptied(slot) or slot
    refused = (at for at in every if slot.eval("WithinResourceLimits", jobs[at], now=now) is False)
    # Jobs before the first that is refused are not looked at again.
    if (first := next(refused, None)) is None:
        return found, None
    found.drained = sums(whole_slot, range(first, len(jobs)))
    return found, whole_slot


# ------------------------------------------------------------------------------------------------------ what is read


class Unmatched(queues.Queue):
    """The jobs of another source that no slot matches (``-unmatchable``)."""

    def __init__(self, queue: queues.Queue, slots: PoolSlots) -> None:
        self._queue = queue
        self._slots = slots
        self.name = queue.name

    def ads(self, query: schedd_pb2.JobQuery) -> Iterator[ClassAd]:
        asked = schedd_pb2.JobQuery()
        asked.CopyFrom(query)
        asked.query.projection[:] = []  # which jobs match is told by whole ads
        asked.query.form, asked.query.limit = common_pb2.AdQuery.PACK, 0
        found = (job for job in self._queue.ads(asked) if not self._slots.judge(job, Mode.WITHOUT_DYNAMIC).matches)
        yield from itertools.islice(found, query.query.limit or None)

    def totals(self, query: schedd_pb2.JobQuery, ads: Sequence[ClassAd] | None) -> QueueTotals:
        found = list(self.ads(query)) if ads is None else ads
        return replace(self._queue.totals(query, found), query=tables.counted(found))

    def header(self, totals: QueueTotals) -> str:
        return self._queue.header(totals)

    def source(self) -> str:
        return self._queue.source()

    def footer(self, totals: QueueTotals) -> str:
        return f"\nTotal for query: {tables.sentence(totals.query)} \n\n"


def _is_slot_name(word: str) -> bool:
    plain = all(letter.isalnum() or letter in "-.@_" for letter in word)
    return plain and ("@" in word or word.count(".") > 1)


def slots_of(parsed: Parsed, inv: Invocation) -> tuple[PoolSlots, str | None]:
    """The slots that are looked at, and the name of the one machine or slot if one is named."""
    named = parsed.value("machine")
    constraints = [one.values[0] for one in parsed.all("mconstraint")]
    if constraints and named is None and _is_slot_name(constraints[-1]):
        named, constraints = constraints[-1], constraints[:-1]
    for constraint in constraints:
        try:
            ExprTree(constraint, old=True)
        except AdSyntaxError:
            raise UsageError(f"{constraint!r} is not an expression") from None
    clauses = [f"({clause})" for clause in constraints]
    if named is not None:
        clauses.append(f"(Name == {quote(named)} || Machine == {quote(named)})")
    verbose = parsed.has("verbose")
    if (file := parsed.value("slotads")) is not None:
        path = inv.path(file)
        if not path.exists():
            raise _MissingFileError(f"Can't open file of ClassAds: {file}")
        ads = files.chosen(files.read_file(path), " && ".join(clauses), None)
        if verbose:
            where = " && ".join(clauses)
            inv.err(f"Fetching Slot ads...from file with constraint: {where}\n {len(ads)} ads.")
    else:
        read = {name.lower() for clause in clauses for name in ExprTree(clause, old=True).references().bare}
        whole_machines = not (named and "@" in named) and not any(name.lower() in read for name in _KINDS_OF_SLOTS)
        if whole_machines:
            clauses.append("!(DynamicSlot ?: false)")
        stub = inv.aimed(parsed.value("pool")).reading(collector_pb2_grpc.CollectorStub, "collector")
        try:
            chunks = list(stub.Query(common_pb2.AdQuery(kind="Machine", constraint=" && ".join(clauses))))
        except grpc.RpcError as error:
            raise to_error(error, peer="the collector") from None
        ads = sorted(
            (ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)), key=lambda ad: str(ad.get("Name"))
        )
        if verbose:
            without = "(excluding dynamic slots)..." if whole_machines else ""
            inv.err(f"Fetching Slot ads...{without} {len(ads)} ads.")
    return PoolSlots(ads, int(time.time())), named if named is not None and not constraints else None


def _priorities(parsed: Parsed, slots: PoolSlots, inv: Invocation) -> Priorities:
    """Users' priorities, of the negotiator or a file."""
    table: dict[str, float] = {}
    if (file := parsed.value("userprios")) is not None:
        path = inv.path(file)
        if not path.exists():
            raise _MissingFileError(f"Can't open file of user priorities: {file}")
        lines = text_of(path.read_bytes(), file)
        for name, record in parse_accounting(lines, file).records.items():
            table[name] = (record.get("priority") or 0.0) * (record.get("factor") or 1.0)
    else:
        from slotwise.wire.gen import negotiator_pb2_grpc

        stub = inv.reading(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
        try:
            chunks = list(stub.Accounting(common_pb2.AdQuery(kind="Accounting")))
        except grpc.RpcError as error:
            raise to_error(error, peer="the negotiator") from None
        for ad in (ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)):
            table[str(ad.get("Name"))] = number(ad.get("Priority"))
    if parsed.has("verbose"):
        inv.err(f"Fetching user priorities... {len(table)} submitters")
    return text.priorities_of(table, inv.knobs().get("PREEMPTION_REQUIREMENTS") or "false")
