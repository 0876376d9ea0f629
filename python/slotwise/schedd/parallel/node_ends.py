"""What the ends of nodes mean for their parallel job: when it ends, how, and with which usage. Pure.

As in HTCondor, the job ends with its node 0; with ParallelShutdownPolicy = "WAIT_FOR_ALL" when all nodes have ended,
and still with the exit status of node 0. A node that exits earlier ends nothing, whatever its status. A node that is
evicted, lost, held or not started at all ends the job's run: the nodes cannot go on without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from slotwise.model.job_events import Usage
from slotwise.schedd.jobs.decision import RunEnd, RunOutcome
from slotwise.schedd.jobs.values import Changes, Value, decode, encode

#: Attributes of usage that add up over nodes; of all other numbers the largest counts.
_SUMS = frozenset(("remoteusercpu", "remotesyscpu"))
_FIELDS = ("code", "reason", "reason_code", "reason_subcode", "error", "at", "core", "wall_s", "executed_s")
_FIGURES = ("user_s", "system_s", "total_user_s", "total_system_s", "sent", "received", "total_sent", "total_received")


def outcome(ended: Sequence[tuple[int, RunEnd]], nodes: int, *, waits_for_all: bool) -> RunEnd | None:
    """How the job's run ends; None while it goes on.

    :param ended: numbers and ends of nodes whose runs are over, in the order in which they ended.
    :param nodes: how many nodes the job has.
    """
    for number, end in ended:
        if not end.how.by_itself or (number == 0 and not waits_for_all):
            return end
    if len(ended) < nodes:
        return None
    return next(end for number, end in ended if number == 0)


def whole(
    end: RunEnd, of_nodes: Iterable[RunEnd], used_before: tuple[float, float], moved: tuple[float, float]
) -> RunEnd:
    """The end of the job's run: what decided it, with the usage of all nodes.

    :param used_before: CPU seconds of the job's former runs, in user mode and in the kernel.
    :param moved: bytes that these sent and received.
    """
    ends = list(of_nodes)
    user, system = sum(one.usage.user_s for one in ends), sum(one.usage.system_s for one in ends)
    sent, received = sum(one.usage.sent for one in ends), sum(one.usage.received for one in ends)
    usage = replace(
        end.usage,
        user_s=user,
        system_s=system,
        total_user_s=used_before[0] + user,
        total_system_s=used_before[1] + system,
        sent=sent,
        received=received,
        total_sent=moved[0] + sent,
        total_received=moved[1] + received,
    )
    return replace(end, usage=usage, attributes={**combined(one.attributes for one in ends), **_own(end)})


def _own(end: RunEnd) -> Changes:
    """What the deciding end says that is not usage."""
    return {name: value for name, value in end.attributes.items() if not _is_number(value)}


def combined(reports: Iterable[Changes]) -> Changes:
    """The usage of several nodes as that of their job."""
    found: Changes = {}
    for report in reports:
        for name, value in report.items():
            former = found.get(name)
            if isinstance(value, (int, float)) and isinstance(former, (int, float)) and _is_number(value):
                found[name] = former + value if name.lower() in _SUMS else max(former, value)
            else:
                found[name] = value
    return found


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def to_text(end: RunEnd) -> str:
    """The end of a node's run as the store keeps it while other nodes go on."""
    kept: dict[str, object] = {name: getattr(end, name) for name in _FIELDS}
    usage = {name: getattr(end.usage, name) for name in _FIGURES}
    resources = {name: list(row) for name, row in end.usage.resources.items()}
    return json.dumps(
        {**kept, "how": str(end.how), "attributes": encode(end.attributes), "usage": usage, "resources": resources}
    )


def from_text(text: str) -> RunEnd:
    """The end that :func:`to_text` made a text of."""
    kept = json.loads(text)
    resources = {name: tuple(row) for name, row in kept["resources"].items()}
    return RunEnd(
        RunOutcome(kept["how"]),
        attributes=decode(kept["attributes"]),
        usage=Usage(**kept["usage"], resources=resources),
        **{name: kept[name] for name in _FIELDS},
    )
