"""``slotwise analyze JOB``: why a job does not run, from a live pool or from files."""

from __future__ import annotations

import argparse
import json
from typing import NoReturn

from slotwise.classad import ClassAd
from slotwise.cli.common.cycle_input import epoch, read_input
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.parser import HelpFormatter
from slotwise.cli.jobs import analyze_local
from slotwise.cli.render.negotiation import table
from slotwise.errors import NotFoundError, UsageError
from slotwise.matchmaking.analysis import analyze, counted
from slotwise.matchmaking.rows import JsonObject
from slotwise.matchmaking.snapshot import CycleInput
from slotwise.model.job_id import JobId

DESCRIPTION = """Says why a job does not run: each clause of its Requirements with the number of slots that pass, the
clause to relax, the slots that refuse the job and by which of their clauses, and the limits of its submitter. Asks the
pool, or with --slots and --jobs (or --snapshot) the files that `slotwise negotiate` takes."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint="see `slotwise analyze --help`")


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = _Parser(prog="slotwise analyze", description=DESCRIPTION, add_help=False, formatter_class=HelpFormatter)
    made.add_argument("job", nargs="?", help="cluster or cluster.proc")
    made.add_argument("--help", "-help", "-h", action="store_true", help="show this text")
    made.add_argument("--slots", "-slots", metavar="FILE", help="slot ads (condor_status -long)")
    made.add_argument("--jobs", "-jobs", metavar="FILE", help="job ads (condor_q -long)")
    made.add_argument(
        "--snapshot", "-snapshot", metavar="DIR", help="a directory saved with `slotwise negotiator snapshot`"
    )
    made.add_argument("--config", "-config", metavar="FILE", help="negotiator knobs")
    made.add_argument("--accounting", "-accounting", metavar="FILE", help="priorities: JSON, or condor_userprio -long")
    made.add_argument("--now", "-now", metavar="EPOCH", type=epoch, help="time (default: now)")
    made.add_argument("--json", "-json", action="store_true", help="for programs")
    return made


def main(args: list[str], inv: Invocation) -> int:
    """Entry point of the command."""
    asked = parser().parse_args(args)
    if asked.help:
        inv.out(parser().format_help())
        return 0
    if not asked.job:
        raise UsageError("which job?", hint="slotwise analyze 12.0")
    if asked.slots or asked.jobs or asked.snapshot:
        given = read_input(asked, inv)
        report = analyze(given, _job_of_files(given, asked.job))
    else:
        job = _job_of_pool(asked.job, inv)
        if analyze_local.runs_here(job):
            why = analyze_local.explain(job, _proc(asked.job), inv)
            inv.out(json.dumps({"job": _proc(asked.job), "why": why.splitlines()}) if asked.json else why)
            return 0
        report = ask_pool(job, inv)
    inv.out(json.dumps(report) if asked.json else render(report))
    return 0


def _proc(name: str) -> str:
    return str(JobId.parse(name).first)


def _job_of_files(given: CycleInput, name: str) -> ClassAd:
    job = given.requests.get(_proc(name))
    if job is None:
        keys = given.requests.keys()
        for key in keys:
            ad = given.requests.get(key)
            if ad is not None and f"{ad.eval('ClusterId')}.{ad.eval('ProcId')}" == _proc(name):
                return ad
        raise NotFoundError(f"there is no job {_proc(name)} among the job ads")
    return job


def ask_pool(job: ClassAd, inv: Invocation) -> JsonObject:
    """The negotiator looks at its own table: a large pool's ads are not sent around."""
    from slotwise.table import pack_ads
    from slotwise.wire.gen import negotiator_pb2, negotiator_pb2_grpc

    stub = inv.reading(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
    reply = stub.Analyze(negotiator_pb2.AnalyzeRequest(job=pack_ads([job])), timeout=120)
    report: JsonObject = json.loads(reply.json)
    return report


def _job_of_pool(name: str, inv: Invocation) -> ClassAd:
    from slotwise.table import unpack_ads
    from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc

    stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
    query = schedd_pb2.JobQuery()
    query.jobs.ids.append(_proc(name))
    query.query.form = common_pb2.AdQuery.PACK
    for chunk in stub.Query(query):
        if chunk.data:
            for ad in unpack_ads(chunk.data):
                return ad
    raise NotFoundError(f"there is no job {_proc(name)} in the queue")


def render(report: JsonObject) -> str:
    """The analysis as text."""
    needs, slots = report["requirements"], report["matching_slots"]
    parts = [f"Job {report['job']} of {report['submitter']}: {report['verdict']}"]
    if report.get("parallel"):
        parts.append(report["parallel"])
    if held := report.get("held"):
        # What it requires is of no interest before it is released.
        parts.append(f"Hold code {held['code']}, subcode {held['subcode']}.")
        if held["action"]:
            parts.append(f"What to do: {held['action']}.")
        return "\n\n".join(parts)
    if not report["slots"]:
        return "\n\n".join(parts)  # no condition to report
    rows = [[f"[{at}]", str(c["passes"]), str(c["without"]), c["clause"]] for at, c in enumerate(needs["clauses"])]
    head = ["", "PASS", "WITHOUT IT", "CLAUSE"]
    parts.append(table(f"Requirements of the job, over {counted(report['slots'])}", head, rows))
    if needs["unmet"]:
        parts.append("No slot satisfies\n" + "\n".join(clause["excerpt"] for clause in needs["unmet"]))
    if needs.get("valueless"):
        parts.append("What the job asks for has no value\n" + "\n".join(f"  {text}" for text in needs["valueless"]))
    if needs["hints"]:
        parts.append("What slots have instead\n" + "\n".join(f"  {hint['text']}" for hint in needs["hints"]))
    if needs["relax"]:
        relax = needs["relax"]
        parts.append(f"Relax: without {relax['clause']}, {counted(relax['slots'])} would suit the job.")
    counts = f"Slots that suit the job: {needs['job_accepts']}; that accept it: {needs['slots_accept']}; "
    counts += f"both: {needs['matches']}."
    if needs["refused_by"]:
        refused = [[str(r["slots"]), r["clause"]] for r in needs["refused_by"][:20]]
        counts += "\n" + table("Slots that suit the job and refuse it", ["SLOTS", "BY THEIR CLAUSE"], refused)
    parts.append(counts)
    words = {
        "free": "free",
        "held_by_submitter": "held by the submitter itself",
        "protected": "held by others, protected by PREEMPTION_REQUIREMENTS",
        "prefer_running": "held by others, whose jobs the slot ranks higher",
        "preemptable": "held by others, may be preempted",
        "offline": "asleep",
    }
    found = [[str(slots[key]), text] for key, text in words.items() if slots.get(key)]
    found += [[str(count), cause] for cause, count in slots["trimmed"].items()]
    if found:
        parts.append(table("Matching slots", ["SLOTS", "STATE"], found))
    if report["rejections"]:
        causes = [[str(r["count"]), r["reason"]] for r in report["rejections"]]
        parts.append(table("What a cycle says now", ["JOBS", "REASON"], causes))
    parts.append(_limits(report))
    return "\n\n".join(part for part in parts if part)


def _limits(report: JsonObject) -> str:
    mine, group = report["submitter_limits"], report["group"]
    if mine is None:
        return ""
    text = f"{mine['name']}: priority {mine['priority']:.2f} x factor {mine['factor']:g}"
    if mine["share"] is not None:
        text += f", share {mine['share']:.1%}, limit {mine['limit']:.1f}"
    text += f"; a cycle now would give it {mine['matched']}, then it uses {mine['usage']:g}"
    if mine["held_back"] and not report["kept_out"]:
        text += f"; {mine['held_back'][1]} jobs held back: {mine['held_back'][0]}"
    if group:
        text += f"\nGroup {group['name']}: quota {group['quota']:g}, allocated {group['allocated']:g}"
        text += f", uses {group['usage']:g}"
    return text
