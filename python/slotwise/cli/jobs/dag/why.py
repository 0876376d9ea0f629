"""``slotwise dag why``: what a node waits for, or what it failed of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs import analyze
from slotwise.cli.jobs.dag import named
from slotwise.dag import reasons
from slotwise.dag.acts import NodeStatus
from slotwise.errors import SlotwiseError

if TYPE_CHECKING:
    from slotwise.classad import ClassAd
    from slotwise.cli.common.invocation import Invocation

_ATTRIBUTES = ("ClusterId", "ProcId", "JobStatus", "HoldReason", "RemoteHost", "JobCurrentStartDate", "JobUniverse")
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
    options = parser.take(args)
    if options is None:
        return 0
    view = named.view(options.dag, inv)
    numbers = [view.number(name) for name in options.nodes]
    for place, number in enumerate(numbers):
        if place:
            inv.out()
        for line in reasons.why(view, number):
            inv.out(line)
        if view.row(number).status == NodeStatus.SUBMITTED and (cluster := view.node(number).record.cluster) > 0:
            _jobs(cluster, inv)
    return 0


def _jobs(cluster: int, inv: Invocation) -> None:
    """What the jobs of a node wait for: of each state one, as the others do as it does."""
    from slotwise.client import Schedd

    try:
        with Schedd(env=inv.env) as schedd:
            found = schedd.query(f"ClusterId == {cluster}", limit=1000)
    except SlotwiseError as error:
        inv.out(f"Its jobs in the queue could not be asked for: {error.message}")
        return
    if not found:
        inv.out("Its jobs have left the queue; the runner has not taken note of that yet.")
    of_state: dict[object, list[ClassAd]] = {}
    for ad in found:
        of_state.setdefault(ad.get("JobStatus"), []).append(ad)
    for state, ads in of_state.items():
        first = ads[0]
        job = f"{first.get('ClusterId')}.{first.get('ProcId')}"
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
