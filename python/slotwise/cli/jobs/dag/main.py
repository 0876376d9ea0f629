"""``slotwise dag``: DAGs of jobs, by verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.cli.common import verbs
from slotwise.cli.jobs.dag import check, graph, order, rescue, status, submit, why

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

_VERBS = {
    "check": check.main, "submit": submit.main, "status": status.main, "why": why.main, "graph": graph.main,
    "halt": order.halt, "resume": order.resume, "retry": order.retry, "skip": order.skip, "rescue": rescue.main,
}  # fmt: skip


def main(args: list[str], inv: Invocation) -> int:
    """Run one of the verbs."""
    return verbs.run("dag", _VERBS, args, inv)
