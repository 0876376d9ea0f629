"""``slotwise rm, hold, release, suspend, continue, vacate-job``: act on jobs in the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping

import grpc
from msgspec import Struct

from slotwise.cli.common.constraints import warn_of_misspelled
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, UnknownOptionError, parse
from slotwise.client.totals import QueueTotals
from slotwise.errors import UsageError
from slotwise.model.job_id import JobId
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

_ACT = schedd_pb2.ActRequest


class Verb(Struct, frozen=True):
    """How a command speaks of what it does."""

    name: str
    action: _ACT.Action
    past: str
    infinitive: str


_RM = Verb("rm", _ACT.REMOVE, "marked for removal", "remove")
_TRANSFER = Verb("rm", _ACT.TRANSFER_AND_REMOVE, "marked for removal after file transfer", "remove")
_FORCE = Verb("rm", _ACT.REMOVE_FORCE, "removed locally (remote state unknown)", "remove")
_HOLD = Verb("hold", _ACT.HOLD, "held", "hold")
_RELEASE = Verb("release", _ACT.RELEASE, "released", "release")
_SUSPEND = Verb("suspend", _ACT.SUSPEND, "suspended", "suspend")
_CONTINUE = Verb("continue", _ACT.CONTINUE, "continued", "continue")
_VACATE = Verb("vacate-job", _ACT.VACATE, "vacated", "vacate")
_FAST = Verb("vacate-job", _ACT.VACATE_FAST, "fast-vacated", "fast-vacate")

COMMON = [
    Option("help", 1),
    Option("all", 2),
    Option("constraint", 3, 1),
    Option("totals", 3),
    Option("long", 1),
    Option("name", 1, 1),
    Option("pool", 2, 1),
    Option("address", 2, 1),
    Option("debug", 1),
    Option("json"),
]
_REASON = Option("reason", 3, 1)
_HELD = [Option("held", 3), Option("hold", 3, stands_for="held")]

_RESULTS_IN_ORDER = (
    "error",
    "success",
    "not_found",
    "bad_status",
    "already_done",
    "permission_denied",
    "limit_exceeded",
)
#: Words of ``-totals``, which has none for a limit that is exceeded, as in HTCondor.
_RESULTS = {
    "success": "Succeeded",
    "error": "Failed",
    "not_found": "Not Found",
    "bad_status": "Bad Status",
    "already_done": "Already Done",
    "permission_denied": "Permission Denied",
}


def _counts(totals: Mapping[str, int]) -> str:
    """The line of ``-totals``. HTCondor's has no count of what exceeded a limit: it is there where there is one."""
    shown = [key for key in _RESULTS if key != "limit_exceeded" or totals.get(key)]
    return ", ".join(f"{totals.get(key, 0)} {_RESULTS[key]}" for key in shown)


#: In HTCondor's words; the knob's name is SYSTEM_MAX_RELEASES.
_RELEASED_ENOUGH = "cannot be released again, has reached SYSTEM_PERIODIC_RELEASES limit"

_PLACES = """-totals (counts by result), -long (the result as an ad), -json (for programs),
           -name SCHEDD, -pool HOST:PORT, -address ADDRESS (another access point)"""
_OPTIONS_OF = {
    "rm": "  options: -reason TEXT, -held (only held jobs), -forcex (drop jobs that are being removed),\n"
    f"           -transfer (outputs come back first), {_PLACES}",
    "hold": f"  options: -reason TEXT, -subcode N, {_PLACES}",
    "release": f"  options: -reason TEXT, -held, {_PLACES}",
    "suspend": f"  options: {_PLACES}",
    "continue": f"  options: {_PLACES}",
    "vacate-job": f"  options: -fast, {_PLACES}",
}


def rm(args: list[str], inv: Invocation) -> int:
    """Remove jobs; ``-forcex`` drops those being removed already, ``-transfer`` has outputs come back first."""
    parsed = parse(args, [*COMMON, _REASON, *_HELD, Option("forcex", 6), Option("transfer", 2)])
    return _act(_FORCE if parsed.has("forcex") else _TRANSFER if parsed.has("transfer") else _RM, parsed, inv)


def hold(args: list[str], inv: Invocation) -> int:
    """Hold jobs."""
    return _act(_HOLD, parse(args, [*COMMON, _REASON, Option("subcode", 3, 1)]), inv)


def release(args: list[str], inv: Invocation) -> int:
    """Release held jobs."""
    return _act(_RELEASE, parse(args, [*COMMON, _REASON, *_HELD]), inv)


def suspend(args: list[str], inv: Invocation) -> int:
    """Suspend running jobs."""
    return _act(_SUSPEND, parse(args, COMMON), inv)


def continue_(args: list[str], inv: Invocation) -> int:
    """Continue suspended jobs."""
    return _act(_CONTINUE, parse(args, COMMON), inv)


def vacate_job(args: list[str], inv: Invocation) -> int:
    """Send running jobs back to the queue."""
    parsed = parse(args, [*COMMON, Option("fast", 1)])
    return _act(_FAST if parsed.has("fast") else _VACATE, parsed, inv)


def refuse_json_of_htcondor(parsed: Parsed, inv: Invocation) -> None:
    """HTCondor's tools that change jobs have no ``-json``.

    :raises UnknownOptionError: it was given under a name of theirs.
    """
    if inv.called and parsed.has("json"):
        raise UnknownOptionError("-json")


def result_json(totals: Mapping[str, int], jobs: Mapping[str, str], background: int = 0) -> str:
    """What became of jobs, for programs: how many by result, and the result of each id that was named.

    ``background``: the number of the action that goes on, 0 for none.
    """
    found: dict[str, object] = {"Totals": dict(totals), "Jobs": dict(jobs)}
    return json.dumps(found | ({"BackgroundAction": background} if background else {}))


def selection(parsed: Parsed, name: str, words: list[str], inv: Invocation) -> schedd_pb2.JobSelection:
    """Which jobs the words and options mean.

    :raises UsageError: when none are meant.
    """
    chosen = schedd_pb2.JobSelection(all=parsed.has("all"))
    for word in words:
        if inv.called and word.startswith("-"):
            raise UnknownOptionError(word)
        if JobId.match(word):
            chosen.ids.append(word)
        elif word[:1].isdigit() and not inv.called:
            raise UsageError(f"{word!r} is neither a job id nor a user")
        else:
            chosen.owners.append(word)
    constraints = parsed.expressions("constraint")
    warn_of_misspelled(parsed.expressions("constraint"), inv)
    if constraints and any("." in word for word in chosen.ids) and not parsed.has("jobids"):
        inv.err("Warning: full job ids cannot be mixed with -constraint; the ids are ignored")
        kept = [word for word in chosen.ids if "." not in word]
        del chosen.ids[:]
        chosen.ids.extend(kept)
    if parsed.has("held"):
        constraints.append("JobStatus == 5")
        chosen.all = False
    chosen.constraint = " && ".join(f"({text})" for text in constraints)
    if not (chosen.all or chosen.ids or chosen.owners or chosen.constraint):
        inv.err("You did not specify any jobs")
        who = inv.called or f"slotwise {name}"
        inv.err(f"usage: {who} [options] CLUSTER | CLUSTER.PROC | USER | -constraint EXPR | -all")
        raise NothingNamedError
    return chosen


class NothingNamedError(Exception):
    """No jobs were named; the usage was shown."""


def _act(verb: Verb, parsed: Parsed, inv: Invocation) -> int:
    refuse_json_of_htcondor(parsed, inv)
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if parsed.has("help"):
        inv.out(f"usage: slotwise {verb.name} [options] CLUSTER | CLUSTER.PROC | USER | -constraint EXPR | -all")
        inv.out(_OPTIONS_OF[verb.name])
        return 0
    if inv.called and parsed.has("subcode") and not (parsed.value("subcode") or "").isdigit():
        inv.err(f"Invalid -subcode {parsed.value('subcode')}!")
        return 1
    try:
        if inv.called and parsed.has("constraint") and (full := [word for word in parsed.words if _is_job(word)]):
            inv.err("Warning, -constraint is ignored for fully qualified job ids")
            others = [word for word in parsed.words if word not in full]
            by_constraint = _send(verb, parsed, selection(parsed, verb.name, others, inv), inv)
            return max(by_constraint, _send(verb, parsed, schedd_pb2.JobSelection(ids=full), inv))
        chosen = selection(parsed, verb.name, parsed.words, inv)
    except NothingNamedError:
        return 1
    if inv.called and chosen.all and (chosen.ids or chosen.owners or parsed.has("constraint")):
        inv.err(f"{inv.called}: can't mix -all with other constraints")
        return 1
    if inv.called and not parsed.has("constraint"):
        return max(_send(verb, parsed, one, inv) for one in _one_by_one(chosen))
    return _send(verb, parsed, chosen, inv)


def _one_by_one(chosen: schedd_pb2.JobSelection) -> list[schedd_pb2.JobSelection]:
    """What HTCondor's tool asks for one after the other: single jobs, clusters, and each user's jobs."""
    jobs = [one for one in chosen.ids if "." in one]
    clusters = [one for one in chosen.ids if "." not in one]
    parts = [schedd_pb2.JobSelection(ids=jobs, constraint=chosen.constraint)] if jobs else []
    if clusters:
        parts.append(schedd_pb2.JobSelection(ids=clusters, constraint=chosen.constraint))
    parts += [schedd_pb2.JobSelection(owners=[owner], constraint=chosen.constraint) for owner in chosen.owners]
    return parts or [chosen]


def _is_job(word: str) -> bool:
    job = JobId.match(word)
    return job is not None and job.proc is not None


def _send(verb: Verb, parsed: Parsed, chosen: schedd_pb2.JobSelection, inv: Invocation) -> int:
    """Ask the schedd, and say what became of it."""
    request = schedd_pb2.ActRequest(
        action=verb.action,
        jobs=chosen,
        reason=_reason(parsed.value("reason"), inv),
        subcode=parsed.number("subcode") or 0,
    )
    target = stub(parsed, inv)
    try:
        reply = target.Act(request)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    return report(verb, parsed, chosen, reply, inv)


def stub(parsed: Parsed, inv: Invocation) -> schedd_pb2_grpc.ScheddStub:
    """The access point that is meant."""
    address = parsed.value("address")
    return (inv.at(address) if address else inv).stub(schedd_pb2_grpc.ScheddStub, "schedd")


def _reason(text: str | None, inv: Invocation) -> str:
    return text or ""


def report(
    verb: Verb, parsed: Parsed, chosen: schedd_pb2.JobSelection, reply: schedd_pb2.ActReply, inv: Invocation
) -> int:
    """Say what became of the request.

    The exit status is 0 when every job that was named was acted on; of jobs chosen otherwise, at least one, because
    those of other users, or held already, do not count as failures then.
    """
    if inv.called:
        return _report_as_htcondor(verb, parsed, chosen, reply, inv)
    totals = dict(reply.totals)
    done = totals.get("success", 0)
    one_by_one = any("." in one.id for one in reply.jobs)
    status = 0 if done and (len(totals) == 1 or not one_by_one) else 1
    if parsed.has("json"):
        inv.out(result_json(totals, {one.id: one.result for one in reply.jobs}, reply.background))
        return status
    if parsed.has("long"):
        inv.out(_result_ad(verb, reply), end="")
        return status
    if reply.background:
        inv.err(f"{done} jobs: this goes on in the background; `slotwise q -actions` shows how far it is")
    if parsed.has("totals"):
        inv.out(_counts(totals))
        return status
    if reply.jobs:
        return _report_ids(verb, reply, inv)
    what = _what(parsed, chosen)
    if not done:
        inv.err(f"Couldn't find/{verb.infinitive} all {what}")
        for key, count in totals.items():
            inv.err(f"  {count} {_RESULTS.get(key, key)}")
        return 1
    inv.out(f"All {what} have been {verb.past}")
    if denied := totals.get("permission_denied", 0):
        inv.err(f"Warning: {denied} jobs of other users were left as they are")
    return 0


#: Numbers of actions and of results in the ads of ``-long``.
_ACTIONS = {"hold": 1, "release": 2, "remove": 3, "vacate": 5, "fast-vacate": 6, "suspend": 8, "continue": 9}
_CODES = {name: code for code, name in enumerate(_RESULTS_IN_ORDER)}


def _result_ad(verb: Verb, reply: schedd_pb2.ActReply) -> str:
    """The result as an ad in long form: how many jobs of each result, and the result of each id that was named."""
    lines = [f"JobAction = {4 if verb is _FORCE else _ACTIONS[verb.infinitive]}"]
    lines += [f"job_{one.id.replace('.', '_')} = {_CODES.get(one.result, 0)}" for one in reply.jobs]
    lines += [f"result_total_{code} = {reply.totals.get(name, 0)}" for name, code in _CODES.items()]
    lines += [f"BackgroundAction = {reply.background}"] if reply.background else []
    return "\n".join(sorted(lines, key=str.lower)) + "\n"


def _queue_totals(inv: Invocation, parsed: Parsed) -> QueueTotals:
    """The counts of the queue, and what the caller is there."""
    *_, last = stub(parsed, inv).Query(schedd_pb2.JobQuery(totals_only=True))
    return QueueTotals.parse(last.data)


def _result_ad_of_htcondor(verb: Verb, reply: schedd_pb2.ActReply, queue: QueueTotals, removes: bool) -> str:
    """The same as HTCondor's schedd answers: results by id where ids were named, else totals.

    ``removes``: jobs that were removed just now count among those of the queue."""
    by_id = any("." in one.id for one in reply.jobs)
    lines = [
        f"ActionResult = {int('success' in reply.totals)}",
        f"ActionResultType = {int(by_id)}",
        *(["IsQueueSuperUser = true"] if queue.superuser else []),
        f"JobAction = {4 if verb is _FORCE else _ACTIONS[verb.infinitive]}",
    ]
    lines.append(f"TotalJobAds = {queue.everyone.jobs + (reply.totals.get('success', 0) if removes else 0)}")
    if by_id:
        lines += [f"job_{one.id.replace('.', '_')} = {_CODES.get(one.result, 0)}" for one in reply.jobs]
    else:
        lines += [f"result_total_{code} = {reply.totals.get(name, 0)}" for name, code in _CODES.items()]
    return "\n".join(lines) + "\n"


def _what(parsed: Parsed, chosen: schedd_pb2.JobSelection) -> str:
    jobs = "held jobs" if parsed.has("held") else "jobs"
    if constraints := [one.values[0] for one in parsed.all("constraint")]:
        return f"{jobs} matching constraint {' && '.join(f'({text})' for text in constraints)}"
    if chosen.owners:
        return f"{jobs} of user " + ", ".join(f'"{owner}"' for owner in chosen.owners)
    if chosen.ids:
        return f"{jobs} in cluster {', '.join(chosen.ids)}"
    return jobs


def _report_as_htcondor(
    verb: Verb, parsed: Parsed, chosen: schedd_pb2.JobSelection, reply: schedd_pb2.ActReply, inv: Invocation
) -> int:
    """The same in HTCondor's order: each thing asked for is reported on its own, and each failure, on standard error,
    makes the status 1."""
    totals = dict(reply.totals)
    if parsed.has("long"):
        inv.out(_result_ad_of_htcondor(verb, reply, _queue_totals(inv, parsed), verb is _RM or verb is _FORCE))
    elif parsed.has("totals"):
        inv.out(_counts(totals))
    told: list[str] = []
    failures: list[str] = []
    whole_failures: list[str] = []
    several = len(reply.jobs) > 1 and all("." not in one.id for one in reply.jobs)
    if several and not parsed.has("held"):  # HTCondor's tool asks for them by one constraint
        what = f"jobs matching constraint ({' || '.join(f'ClusterId == {one.id}' for one in reply.jobs)})"
        if totals.get("success", 0):
            told.append(f"All {what} have been {verb.past}")
        else:
            whole_failures.append(f"Couldn't find/{verb.infinitive} all {what}")
    for one in reply.jobs if not (several and not parsed.has("held")) else ():
        whole = "." not in one.id
        if one.result == "success":
            told.append(
                f"All {_held(parsed)}jobs in cluster {one.id} have been {verb.past}"
                if whole
                else f"Job {one.id} {verb.past}"
            )
        elif whole:
            whole_failures.append(f"Couldn't find/{verb.infinitive} all {_held(parsed)}jobs in cluster {one.id}")
        else:
            failures.append(_failure(one.id, one.result, verb, as_htcondor=True))
    if not reply.jobs:
        what = _what(parsed, chosen)
        if totals.get("success", 0):
            told.append(f"All {what} have been {verb.past}")
        else:
            whole_failures.append(f"Couldn't find/{verb.infinitive} all {what}")
    for line in told:
        inv.out(line)
    if (
        whole_failures
        and not (told or failures)
        and not _queue_totals(inv, parsed).everyone.jobs
        and not (parsed.has("all") or parsed.has("constraint"))
    ):
        inv.err(f"{inv.called}:0:There are no jobs in the queue")
        return 0
    if failures:
        inv.err("\n" * (not told) + "\n".join(failures))
    if whole_failures:
        inv.err("".join(f"\n{line}\n" for line in whole_failures).removesuffix("\n"))
    return 1 if whole_failures or (failures and not told) else 0


def _held(parsed: Parsed) -> str:
    return "held " if parsed.has("held") else ""


def _report_ids(verb: Verb, reply: schedd_pb2.ActReply, inv: Invocation) -> int:
    status = 0
    for one in reply.jobs:
        whole = "." not in one.id
        if one.result == "success":
            inv.out(f"All jobs in cluster {one.id} have been {verb.past}" if whole else f"Job {one.id} {verb.past}")
            continue
        status = 1
        if whole:
            inv.err(f"Couldn't find/{verb.infinitive} all jobs in cluster {one.id}{_why_not(one.result, verb)}")
        else:
            inv.err(_failure(one.id, one.result, verb))
    return status


def _why_not(result: str, verb: Verb) -> str:
    """Why no job of a cluster was changed, after a colon; empty without a reason."""
    return {
        "permission_denied": ": permission denied",
        "bad_status": f": none is {_state_for(verb)}",
        "already_done": f": already {verb.past}",
        "limit_exceeded": f": {_RELEASED_ENOUGH}",
    }.get(result, "")


def _failure(job: str, result: str, verb: Verb, *, as_htcondor: bool = False) -> str:
    """The message for one job that was not changed, in the words that scripts look for."""
    if result == "not_found":
        return f"Job {job} not found"
    if result == "permission_denied":
        return f"Permission denied to {'force removal of' if verb is _FORCE else verb.infinitive} job {job}"
    if result == "already_done":
        return f"Job {job} already {verb.past}"
    if result == "bad_status" and verb is _FORCE:
        return f"Job {job} not in `X' state to be forcibly removed"
    if result == "bad_status":
        state = "running" if as_htcondor and verb is _CONTINUE else _state_for(verb)
        return f"Job {job} not {state} to be {verb.past}"
    if result == "limit_exceeded":
        return f"Job {job} {_RELEASED_ENOUGH}"
    return f"Job {job}: {result}"


def _state_for(verb: Verb) -> str:
    """The state in which a job must be for the verb."""
    if verb is _FORCE:
        return "in the state X"
    return {"release": "held", "continue": "suspended", "hold": "queued", "remove": "queued"}.get(
        verb.infinitive, "running"
    )
