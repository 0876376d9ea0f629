"""``slotwise q -better-analyze`` and its kin: why the jobs that `q` would show run or do not run."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence

import grpc

from slotwise.classad import ClassAd, quote
from slotwise.classad.values import number
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Parsed
from slotwise.cli.jobs import analyze_local, queues
from slotwise.cli.jobs import match_report as text
from slotwise.cli.render import ads as whole
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.matchmaking.fit import Jobs, Slots
from slotwise.matchmaking.kept_out import kept_back
from slotwise.matchmaking.rows import JsonObject
from slotwise.model.job_status import JobStatus
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

_OPTIONS = ("better-analyze", "analyze", "reverse-analyze", "unmatchable")
_QUALIFIERS = ("priority", "summary", "reverse")


class Wish:
    """Which analysis is meant: qualifiers after a colon, abbreviated or not, and options equal to them."""

    def __init__(self, parsed: Parsed) -> None:
        said = [word for name in _OPTIONS for one in parsed.all(name) for word in one.letters.split(",") if word]
        unknown = [word for word in said if not any(known.startswith(word.lower()) for known in _QUALIFIERS)]
        if unknown:
            raise UsageError(f"there is no analysis {unknown[0]!r}", hint=f"one of {', '.join(_QUALIFIERS)}")
        named = {known for word in said for known in _QUALIFIERS if known.startswith(word.lower())}
        self.reverse = "reverse" in named or parsed.has("reverse-analyze")
        self.summary = "summary" in named
        self.priority = "priority" in named
        self.unmatchable = parsed.has("unmatchable")
        self.better = parsed.has("better-analyze") or self.reverse
        self.verbose = parsed.has("verbose")


def analyze(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation) -> int:
    """Analyze the named jobs; of jobs that are alike the first one.

    :raises NotFoundError: when there are no such jobs, or slots.
    """
    wish = Wish(parsed)
    jobs = _jobs(parsed, query, inv, only_idle=not query.jobs.ids)
    if not jobs:
        if query.jobs.ids and inv.called:
            inv.out(f"\n\n-- Schedd: {who_answers(inv)}")  # no more than whose queue it was
            return 0
        if query.jobs.ids:
            raise NotFoundError(f"there is no job {' '.join(query.jobs.ids)} in the queue")
        inv.out("No idle jobs to analyze.")
        return 0
    here = [job for job in jobs if analyze_local.runs_here(job)]
    for job in here:
        inv.out(analyze_local.explain(job, name_of(job), inv) + "\n")
    if len(here) == len(jobs):
        return 0
    jobs = [job for job in jobs if not analyze_local.runs_here(job)]
    turned_away = _turned_away(jobs, parsed, inv)
    inv = inv.aimed(parsed.value("pool"), None)
    ads, now = _slots(parsed, inv), int(time.time())
    if wish.reverse:
        waiting = Jobs(jobs, now)
        inv.out("\n\n".join(text.reverse(slot, waiting.fit(slot)) for slot in ads))
        return 0
    slots = Slots(ads, now)
    if wish.summary or wish.unmatchable:
        rows = [(name_of(job), str(job.get("Owner")), slots.fit(job)) for job in jobs]
        if wish.unmatchable:
            rows = [row for row in rows if not row[2].matches and not row[2].drained]
        inv.out(text.summary(rows))
    else:
        one = ads[0] if parsed.value("machine") is not None and len(ads) == 1 else None
        for job in jobs:
            report = _report(job, parsed, inv) if wish.priority else None
            alike = turned_away.get(_likeness(job))
            blocks = _one(job, slots, one, wish, report, alike, as_htcondor=bool(inv.called))
            if wish.better and (kept := _kept_out(job, slots, report, parsed, inv)):
                blocks.append(kept)
            inv.out("\n\n".join(blocks) + "\n")
    return 0


def who_answers(inv: Invocation) -> str:
    """Name and address of the schedd, as headings of queues have them."""
    *_, last = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd").Query(schedd_pb2.JobQuery(totals_only=True))
    told = json.loads(last.data)
    return f"{told['Schedd']} : <{told['Address']}>"


def name_of(job: ClassAd) -> str:
    """``cluster.proc``."""
    return f"{job.get('ClusterId')}.{job.get('ProcId')}"


def _one(
    job: ClassAd,
    slots: Slots,
    only: ClassAd | None,
    wish: Wish,
    report: JsonObject | None,
    alike: ClassAd | None,
    *,
    as_htcondor: bool,
) -> list[str]:
    """The blocks about one job."""
    name = name_of(job)
    blocks = [text.state(job, name, alike)]
    if not wish.better and job.get("JobStatus") != 1:
        return blocks  # only the better analysis looks at jobs that are not idle
    found = slots.fit(job)
    if wish.better:
        values = [(f"Job {name}", job)] + ([] if only is None else [(f"Slot {only.get('Name')}", only)])
        blocks.append(text.requirements(job, f"job {name}", values))
        blocks.append(text.conditions(found.steps, f"job {name}", "Slots"))
    blocks.append(text.counts(found, name, report, verbose=wish.verbose, as_htcondor=as_htcondor))
    if not found.matches:
        blocks.append(text.suggestions(slots.hints(job)))
    blocks.append(text.warning(found, name))
    return [block for block in blocks if block]


def _kept_out(job: ClassAd, slots: Slots, report: JsonObject | None, parsed: Parsed, inv: Invocation) -> str:
    """What the negotiator's configuration has in the way of an idle job that slots are willing to run, or its access
    point; empty when there is nothing, and when the negotiator does not answer: the rest holds without it."""
    of_files = parsed.value("slotads") is not None or parsed.value("jobads") is not None
    if of_files or job.get("JobStatus") != JobStatus.IDLE or kept_back(job) or not slots.fit(job).willing:
        return ""
    try:
        report = report or _report(job, parsed, inv)
    except (SlotwiseError, grpc.RpcError):
        return ""
    return str(report.get("kept_out") or report.get("uncounted") or "")


def _report(job: ClassAd, parsed: Parsed, inv: Invocation) -> JsonObject:
    """How the negotiator sees the job: its own input, or that of files."""
    from slotwise.cli.common.cycle_input import read_input
    from slotwise.cli.jobs.analyze import ask_pool
    from slotwise.matchmaking.analysis import analyze as judged

    slots, jobs = parsed.value("slotads"), parsed.value("jobads")
    if slots is None and jobs is None:
        return ask_pool(job, inv)
    if slots is None or jobs is None:
        raise UsageError(
            "priorities need both, slots and jobs, from files", hint="give -slotads and -jobads, or neither"
        )
    asked = argparse.Namespace(
        slots=slots, jobs=jobs, snapshot=None, config=None, accounting=parsed.value("userprios"), now=None
    )
    return judged(read_input(asked, inv), job)


def _jobs(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation, *, only_idle: bool) -> list[ClassAd]:
    """The jobs; of a cluster's jobs with the same Requirements and requests the first one."""
    asked = schedd_pb2.JobQuery()
    asked.CopyFrom(query)
    asked.query.form = common_pb2.AdQuery.PACK
    if only_idle:
        asked.query.constraint = f"({query.query.constraint or 'true'}) && JobStatus == 1"
    first: dict[tuple[str, ...], ClassAd] = {}
    try:
        for queue in queues.of(parsed, inv):
            for ad in queue.ads(asked):
                first.setdefault(_alike(ad, query), ad)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    return list(first.values())


def _turned_away(jobs: list[ClassAd], parsed: Parsed, inv: Invocation) -> dict[tuple[str, ...], ClassAd]:
    """By likeness, the job that was turned away last, for jobs that were not told themselves: only the first is."""
    untold = {job.get("ClusterId") for job in jobs if job.get("JobStatus") == 1 and "LastRejMatchTime" not in job}
    if not untold:
        return {}
    asked = schedd_pb2.JobQuery()
    asked.query.form = common_pb2.AdQuery.PACK
    asked.query.constraint = "JobStatus == 1 && LastRejMatchTime isnt undefined"
    if len(untold) == 1:
        asked.query.constraint += f" && ClusterId == {untold.pop()}"
    found: dict[tuple[str, ...], ClassAd] = {}
    try:
        for queue in queues.of(parsed, inv):
            for ad in queue.ads(asked):
                other = found.setdefault(_likeness(ad), ad)
                if number(ad.get("LastRejMatchTime")) > number(other.get("LastRejMatchTime")):
                    found[_likeness(ad)] = ad
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    return found


def _likeness(job: ClassAd) -> tuple[str, ...]:
    """What jobs of a cluster have in common that the negotiator judges alike."""
    return _texts(job, _LIKENESS)


_NEEDS = ("ClusterId", "JobStatus", "Requirements", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs")
_LIKENESS = (*_NEEDS, "AccountingGroup", "ConcurrencyLimits")


def _alike(job: ClassAd, query: schedd_pb2.JobQuery) -> tuple[str, ...]:
    if name_of(job) in query.jobs.ids:
        return (name_of(job),)
    return _texts(job, _NEEDS)


def _texts(job: ClassAd, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(job.lookup(name)) if name in job else "" for name in names)


def _slots(parsed: Parsed, inv: Invocation) -> list[ClassAd]:
    """The slots that are looked at.

    :raises NotFoundError: when there are none.
    """
    clauses = [f"({text})" for text in parsed.expressions("mconstraint")]
    if (machine := parsed.value("machine")) is not None:
        clauses.append(f"(Machine == {quote(machine)} || Name == {quote(machine)})")
    constraint = " && ".join(clauses)
    if (named := parsed.value("slotads")) is not None:
        found = whole.chosen(whole.read_file(inv.path(named)), constraint, None)
    else:
        stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
        query = common_pb2.AdQuery(kind="Machine", constraint=constraint)
        try:
            chunks = list(stub.Query(query))
        except grpc.RpcError as error:
            raise to_error(error, peer="the collector") from None
        found = [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]
    if not found and not constraint:
        raise NotFoundError("there are no slots to look at", hint="`slotwise ping startd` shows whether one is up")
    if not found:
        raise NotFoundError("there are no such slots", hint="`slotwise status` shows the slots of the pool")
    return sorted(found, key=lambda ad: str(ad.get("Name")))
