"""``htcondor dag``: a DAG submitted, its state in sentences and a bar, halted and resumed."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slotwise.classad.values import whole
from slotwise.cli.htcondor.job import read
from slotwise.cli.htcondor.refused import refusing
from slotwise.cli.htcondor.verb import Call, Noun, Verb, time_span
from slotwise.cli.jobs.dag import submit
from slotwise.dag import control, locate
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.execution import dagman

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from slotwise.classad import ClassAd

#: JobSubmitMethod of jobs from ``htcondor dag submit``.
_METHOD = 4
#: Attributes DAG_... of a DAG's job that are numbers.
NUMBERS = (
    "NodesTotal", "NodesDone", "NodesFailed", "NodesPostrun", "NodesPrerun", "NodesQueued", "NodesReady",
    "NodesUnready", "NodesFutile", "JobsSubmitted", "JobsIdle", "JobsHeld", "JobsRunning", "JobsCompleted",
    "InRecovery", "Status", "AdUpdateTime",
)  # fmt: skip
_ATTRIBUTES = [*locate.ATTRIBUTES, *(f"DAG_{name}" for name in NUMBERS)]
_IDLE, _RUNNING, _COMPLETED, _HELD = 1, 2, 4, 5
_STATES = {1: "idle", 3: "removed from the queue", 5: "held", 6: "transfering output", 7: "suspended"}
#: How a DAG is, by DAG_Status.
_HOW = (
    "is running normally.", "had an error occur.", "had at least one node fail.",
    "is aborting because it recieved a DAG abort value.", "has recieved a signal to be remove.",
    "has detected a cycle.", "has been halted.",
)  # fmt: skip
#: An ad that is older than this, in seconds, is told of.
_OLD_S = 600
#: The columns of a caller's terminal, where there is none.
_COLUMNS = 80


def _submit(options: Namespace, call: Call) -> None:
    from slotwise.client.descriptions import ReadOptions

    name = options.dag_filename
    read(call.inv.path(name), name)
    said = io.StringIO()
    quiet = replace(call.inv, stdout=said, stderr=said, called="condor_submit_dag")
    if submit.condor_submit_dag(["-no_submit", name], quiet):
        call.inv.err(said.getvalue().strip())
        raise SlotwiseError(_refusal(said.getvalue()))
    text = read(call.inv.path(f"{name}.condor.sub"), f"{name}.condor.sub")
    with call.schedd() as schedd:
        try:
            result = schedd.submit(text, options=ReadOptions(method=_METHOD, directory=str(call.inv.cwd)))
        except SlotwiseError as error:
            raise SlotwiseError(f"Error submitting DAG:\n{error}") from None
    call.info(f"DAG {result.cluster} was submitted.")


def _refusal(said: str) -> str:
    """The last words about what condor_submit_dag has refused, as HTCondor has them."""
    if "already exist" in said:
        return "Unable to write condor_dagman output files"
    first = next((line for line in said.splitlines() if line.strip()), "")
    return first.removeprefix("ERROR: ")


def _ad(dag_id: object, call: Call) -> ClassAd:
    """The ad of a DAG's job in the queue.

    :raises NotFoundError: there is no such job.
    """
    if not str(dag_id).isdecimal():
        raise NotFoundError(f"No DAG found for ID {dag_id}.", hint="write the cluster of the DAG's job, as in 12")
    with call.schedd() as schedd:
        found = schedd.query(f"ClusterId == {dag_id}", _ATTRIBUTES, limit=1)
    if not found:
        raise NotFoundError(f"No DAG found for ID {dag_id}.")
    return found[0]


def _status(options: Namespace, call: Call) -> None:
    ad = _ad(options.dag_id, call)
    if not dagman.runs_dags(ad.get("Cmd")):
        raise UsageError(f"Job {options.dag_id} is not a DAG")
    numbers = {name: whole(ad.get(f"DAG_{name}", 0)) for name in NUMBERS}
    for line in sentences(ad, numbers, str(options.dag_id), time.time(), call.inv.screen or _COLUMNS):
        call.info(line)


def sentences(
    ad: Mapping[str, object], numbers: Mapping[str, int], dag: str, now: float, columns: int
) -> Iterator[str]:
    """What is to be said of a DAG: since when it runs, its jobs and nodes, and a bar of half the terminal's width.

    ``numbers``: the attributes DAG_... of its ad.
    """
    yield from _state(ad, numbers, dag, now)
    yield from _jobs(numbers)
    yield from _nodes(numbers)
    yield from _bar(numbers, round(columns / 2) - 2)


def _state(ad: Mapping[str, object], numbers: Mapping[str, int], dag: str, now: float) -> Iterator[str]:
    name = str(ad.get("JobBatchName", "UNKNOWN")).rpartition("+")[0] or str(ad.get("JobBatchName", "UNKNOWN"))
    which, state = f"DAG {dag} [{name}]", whole(ad.get("JobStatus", 0))
    entered = whole(ad.get("EnteredCurrentStatus", int(now)))
    cools = whole(ad.get("JobCoolDownExpiration", 0))
    if state == _RUNNING:
        age = now - (numbers["AdUpdateTime"] or now)
        if age > _OLD_S:
            yield f"Warning: DAG information for ID {dag} has not been updated for {_span(age)}."
            yield "         Information may be outdated. This indicates a possible issue with the DAG job."
        if numbers["InRecovery"]:
            yield f"{which} is in recovery mode and attempting to restore previous progress."
            return
        how = "halted" if numbers["Status"] == 6 else "running"
        yield f"{which} has been {how} for {_span(now - whole(ad.get('JobStartDate', int(now))))}"
    elif state == _COMPLETED:
        yield f"{which} completed {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(entered))}"
    elif state == _IDLE and cools >= now:
        yield f"{which} is in cool down. Remaining time: {time_span(cools - now)}"
    else:
        yield f"{which} has been {_STATES.get(state, state)} for {_span(now - entered)}"
        if state == _HELD:
            yield f"Hold Reason: {ad.get('HoldReason', '')}"


def _span(seconds: float) -> str:
    """As HTCondor writes it, with two blanks where there are no days."""
    days, rest = divmod(max(0, int(seconds)), 86400)
    shown = "" if not days else "1 day" if days == 1 else f"{days} days"
    return f"{shown} and {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _verb(count: int, one: str, many: str) -> str:
    return f"{count:3d} {many if count > 1 else one}"


def _jobs(numbers: Mapping[str, int]) -> Iterator[str]:
    known = {name: numbers[f"Jobs{name}"] for name in ("Idle", "Held", "Running", "Completed")}
    failed = numbers["JobsSubmitted"] - sum(known.values())
    yield f"DAG has submitted {numbers['JobsSubmitted']} job(s), of which:"
    for count, past, what in (
        (known["Idle"], False, "submitted and waiting for resources."), (known["Held"], False, "held."),
        (known["Running"], False, "running."), (known["Completed"], True, "completed."), (failed, True, "failed."),
    ):  # fmt: skip
        if count > 0:
            yield f"\t    {_verb(count, 'has' if past else 'is', 'have' if past else 'are')} {what}"


def _nodes(numbers: Mapping[str, int]) -> Iterator[str]:
    yield f"DAG contains {numbers['NodesTotal']} node(s) total, of which:"
    if done := numbers["NodesDone"]:
        yield f"\t[#] {_verb(done, 'has', 'have')} completed."
    parts = [
        f"{numbers[name]} {what}{'s' if numbers[name] > 1 else ''}"
        for name, what in (("NodesPrerun", "pre-script"), ("NodesQueued", "job"), ("NodesPostrun", "post-script"))
        if numbers[name]
    ]
    if parts:
        yield f"\t[=] {_verb(_running(numbers), 'is', 'are')} running: {', '.join(parts)}."
    if ready := numbers["NodesReady"]:
        yield f"\t[»] {_verb(ready, 'is', 'are')} ready to start."
    if unready := numbers["NodesUnready"]:
        yield f"\t[-] {_verb(unready, 'is', 'are')} waiting on other nodes to finish."
    if futile := numbers["NodesFutile"]:
        yield f"\t[!] {futile:3d} will never run."
    if failed := numbers["NodesFailed"]:
        yield f"\t[!] {_verb(failed, 'has', 'have')} failed."


def _running(numbers: Mapping[str, int]) -> int:
    return numbers["NodesPrerun"] + numbers["NodesQueued"] + numbers["NodesPostrun"]


def _bar(numbers: Mapping[str, int], width: int) -> Iterator[str]:
    total = numbers["NodesTotal"]
    if not total:
        yield f"DAG {_HOW[numbers['Status']]}"
        return
    shares = {
        "#": numbers["NodesDone"], "=": _running(numbers), "»": numbers["NodesReady"], "-": numbers["NodesUnready"],
    }  # fmt: skip
    lost = (numbers["NodesFutile"], numbers["NodesFailed"])
    cells = [(mark, math.ceil(count / total * width)) for mark, count in (*shares.items(), *(("!", n) for n in lost))]
    rest = width - sum(count for _, count in cells)
    if rest > 0:  # the widest takes what rounding has left
        widest = max(range(len(cells)), key=lambda at: cells[at][1])
        cells[widest] = (cells[widest][0], cells[widest][1] + rest)
    possible = (1 - sum(lost) / total) * 100
    only = f" Only {possible:.2f}% of the DAG can complete." if possible < 100 else ""
    yield f"DAG {_HOW[numbers['Status']]}{only}"
    bar = "".join(mark * count for mark, count in cells)
    yield f"[{bar}] DAG is {numbers['NodesDone'] / total * 100:.2f}% complete."


def _halt(options: Namespace, call: Call) -> None:
    control.halt(locate.of_job(_ad(options.dag_id, call)), options.reason or "")
    call.info(f"Halted DAG {options.dag_id}")


def _resume(options: Namespace, call: Call) -> None:
    control.resume(locate.of_job(_ad(options.dag_id, call)), call.inv.env, call.inv.home.root)
    call.info(f"Resumed DAG {options.dag_id}")


def _of_dag(parser: ArgumentParser) -> None:
    parser.add_argument("dag_id", help="the id of the DAG's job")


def _of_halt(parser: ArgumentParser) -> None:
    _of_dag(parser)
    parser.add_argument("-r", "--reason", metavar="MESSAGE", help="why")


def _of_submit(parser: ArgumentParser) -> None:
    parser.add_argument("dag_filename", help="a DAG file")


NOUN = Noun(
    "DAGs: submit, status, halt, resume",
    {
        "submit": Verb("Submit a DAG", _submit, _of_submit),
        "status": Verb("The state of a DAG, in sentences and a bar", _status, _of_dag),
        "halt": Verb("Have a DAG begin nothing new", _halt, _of_halt),
        "resume": Verb("Have a DAG that was halted go on", _resume, _of_dag),
        "histogram": refusing("`slotwise dag graph` draws a DAG"),
        "throttle": refusing("throttles are set when a DAG is submitted (-maxjobs, -maxidle), or by DAGMAN_ knobs"),
        "resources": refusing("`slotwise q -dag -nobatch` and `slotwise history` show its jobs"),
    },
)
