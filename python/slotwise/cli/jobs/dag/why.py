"""``slotwise dag why``: what a node waits for, or what it failed of."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs import analyze
from slotwise.cli.jobs.dag import named
from slotwise.dag import reasons
from slotwise.dag.acts import NodeStatus
from slotwise.errors import SlotwiseError

if TYPE_CHECKING:
    from slotwise.classad import ClassAd
    from slotwise.cli.common.invocation import Invocation
    from slotwise.dag.replay import View

#: What of a job programs are told.
_TOLD = ("JobStatus", "HoldReason", "HoldReasonCode", "RemoteHost", "JobCurrentStartDate")
_IDLE, _RUNNING, _HELD = 1, 2, 5


def main(args: list[str], inv: Invocation) -> int:
    """Print it; 0 whatever the reason is."""
    parser = Parser(
        inv,
        "dag why",
        "Says why a node of a DAG is not done: which parents it waits for, a script, a throttle or a halt; what its "
        "jobs in the queue wait for, as `slotwise analyze` does; why it failed, or what has it never run.",
    )
    named.add_argument(parser)
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="nodes by name; of splices with their names: S+A")
    parser.add_argument("--json", "-json", action="store_true", help="for programs: of each node its state and why")
    options = parser.take(args)
    if options is None:
        return 0
    view = named.view(options.dag, inv)
    numbers = [view.number(name) for name in options.nodes]
    if options.json:
        inv.out(json.dumps([_record(view, number, inv) for number in numbers]))
        return 0
    for place, number in enumerate(numbers):
        if place:
            inv.out()
        for line in reasons.why(view, number):
            inv.out(line)
        if (cluster := _cluster(view, number)) > 0:
            _print_jobs(cluster, inv)
    return 0


def _cluster(view: View, number: int) -> int:
    """Of a node whose jobs are in the queue; 0 of others."""
    is_queued = view.row(number).status == NodeStatus.SUBMITTED
    return max(0, view.node(number).record.cluster) if is_queued else 0


def _record(view: View, number: int, inv: Invocation) -> dict[str, object]:
    """A node as programs read it; ``jobs`` are those in the queue, one of each state."""
    status = view.row(number).status
    record: dict[str, object] = {
        "name": view.node(number).name, "state": status.name.lower(), "why": reasons.why(view, number),
    }  # fmt: skip
    if not (cluster := _cluster(view, number)):
        return record
    try:
        found = _jobs(cluster, inv)
    except SlotwiseError as error:
        return record | {"error": error.message}
    return record | {"jobs": [_job_record(ads, inv) for ads in found]}


def _job_record(ads: list[ClassAd], inv: Invocation) -> dict[str, object]:
    first, name = ads[0], _name(ads[0])
    shown = {attribute: first.get(attribute) for attribute in _TOLD if attribute in first}
    record: dict[str, object] = {"job": name, "count": len(ads), **shown}
    if first.get("JobStatus") == _IDLE:
        said = io.StringIO()
        try:
            analyze.main([name, "--json"], replace(inv, stdout=said))
            record["analysis"] = json.loads(said.getvalue())
        except SlotwiseError as error:
            record["error"] = error.message
    return record


def _name(ad: ClassAd) -> str:
    return f"{ad.get('ClusterId')}.{ad.get('ProcId')}"


def _jobs(cluster: int, inv: Invocation) -> list[list[ClassAd]]:
    """The jobs of a node that are in the queue, by their state: those of one do as the first does."""
    from slotwise.client import Schedd

    with Schedd(env=inv.env) as schedd:
        found = schedd.query(f"ClusterId == {cluster}", limit=1000)
    of_state: dict[object, list[ClassAd]] = {}
    for ad in found:
        of_state.setdefault(ad.get("JobStatus"), []).append(ad)
    return list(of_state.values())


def _print_jobs(cluster: int, inv: Invocation) -> None:
    """What the jobs of a node wait for: of each state one."""
    try:
        found = _jobs(cluster, inv)
    except SlotwiseError as error:
        inv.out(f"Its jobs in the queue could not be asked for: {error.message}")
        return
    if not found:
        inv.out("Its jobs have left the queue; the runner has not taken note of that yet.")
    for ads in found:
        first, job = ads[0], _name(ads[0])
        state = first.get("JobStatus")
        more = f", and {len(ads) - 1} like it" if len(ads) > 1 else ""
        if state == _RUNNING:
            since = time.strftime("%H:%M:%S", time.localtime(int(str(first.get("JobCurrentStartDate", 0)))))
            inv.out(f"Job {job}{more} runs since {since} on {first.get('RemoteHost', 'an unknown slot')}.")
        elif state == _HELD:
            inv.out(f"Job {job}{more} is held: {first.get('HoldReason', 'no reason was given')}")
            inv.out(f"`slotwise release {cluster}` has it run when that is mended.")
        elif state == _IDLE:
            inv.out(f"Job {job}{more} is idle:")
            _analyze(job, inv)
        else:
            inv.out(f"Job {job}{more} is in JobStatus {state}.")


def _analyze(job: str, inv: Invocation) -> None:
    try:
        analyze.main([job], inv)
    except SlotwiseError as error:
        inv.out(f"`slotwise analyze {job}` has no answer: {error.message}")
