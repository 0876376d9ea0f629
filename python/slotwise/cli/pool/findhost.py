"""``slotwise findhost``: the slots whose loss costs running jobs least (manual page of condor_findhost)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import grpc
from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree, new_syntax
from slotwise.classad.values import number
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.render.pool import natural_key
from slotwise.errors import UsageError
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.status import to_error

USAGE = """usage: slotwise findhost [options]
  The slots that an interactive user could take with the least harm to running jobs: idle ones, then those that would
  rather run the user's work (Rank), then those whose jobs PREEMPTION_REQUIREMENTS lets go (with Interactive = true in
  the request), by PREEMPTION_RANK. Exit status 0, or one more than were found when there are fewer than wanted.
  -n N                  that many (1)
  -m                    whole machines: those of which all slots can be had
  -c EXPR               only slots for which it is true
  -r EXPR               which are liked better, by the highest value
  -p HOST:PORT          another pool
  -json                 for programs, with rank and what would be preempted"""
_OPTIONS = [
    Option("help", 1),
    Option("m", 1),
    Option("json", 1),
    *(Option(letter, 1, 1) for letter in ("n", "c", "r", "p")),
]
#: The priority of a submitter that the negotiator does not know.
_BEST_PRIORITY = 0.5
#: The priority of the user who asks: better than anybody's.
_OWN_PRIORITY = 0.00001


class Candidate(Struct, frozen=True):
    """A slot that can be had, and what that costs."""

    ad: ClassAd
    #: 2: nothing is preempted; 1: by the slot's rank; 0: by priority.
    preemption: int
    preemption_rank: float
    rank: float

    @property
    def order(self) -> tuple[float, float, float]:
        """The best has the greatest."""
        return (self.preemption, self.preemption_rank, self.rank)


def candidates(request: ClassAd, slots: Sequence[ClassAd], requirements: str, preemption_rank: str) -> list[Candidate]:
    """The slots that ``request`` can have, best first; of equals the first given. Pure.

    :param requirements: PREEMPTION_REQUIREMENTS; empty: whatever runs may be preempted.
    :param preemption_rank: PREEMPTION_RANK.
    """
    allowed = ExprTree(new_syntax(requirements)) if requirements else None
    by_rank = ExprTree(new_syntax(preemption_rank)) if preemption_rank else None
    better, no_worse = ExprTree("MY.Rank > MY.CurrentRank"), ExprTree("MY.Rank >= MY.CurrentRank")
    found = []
    for slot in slots:
        if not request.symmetric_match(slot):
            continue
        preemption = 2
        if isinstance(slot.get("AccountingGroup"), str) or isinstance(slot.get("RemoteUser"), str):
            preemption = 1 if better.eval(slot, request) is True else 0
            if preemption == 0 and (
                (allowed is not None and allowed.eval(slot, request) is not True)
                or no_worse.eval(slot, request) is not True
            ):
                continue
        worth = number(by_rank.eval(slot, request), -1e308) if by_rank is not None and preemption < 2 else -1e308
        rank = number(request.eval("Rank", slot), 0.0)
        found.append(Candidate(slot, preemption, worth, rank))
    found.sort(key=lambda one: one.order, reverse=True)
    return found


def whole_machines(found: Sequence[Candidate]) -> Iterator[Candidate]:
    """Of the candidates those that complete a machine: when as many of its slots are among them as it has."""
    seen: dict[str, int] = {}
    for one in found:
        machine = str(one.ad.get("Machine"))
        slots = one.ad.get("TotalSlots")
        seen[machine] = seen.get(machine, 0) + 1
        if seen[machine] >= (slots if isinstance(slots, int) else 1):
            yield one


def main(args: list[str], inv: Invocation) -> int:
    """Find slots or machines."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    wanted = 1 if parsed.value("n") is None else _number(parsed.value("n") or "")
    inv = inv.aimed(parsed.value("p"))
    knobs = inv.knobs()
    constraint = " && ".join(f"({text})" for text in parsed.expressions("c"))
    try:
        slots = _ads(inv, common_pb2.AdQuery(kind="Machine", constraint=constraint))
        users = _ads(inv, common_pb2.AdQuery(kind="Accounting", projection=["Name", "Priority"]))
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    slots.sort(key=natural_key)
    priorities = {str(ad.get("Name")): number(ad.get("Priority"), _BEST_PRIORITY) for ad in users}
    _note_priorities(slots, priorities)
    found: Sequence[Candidate] = candidates(
        _request(inv, [given.values[0] for given in parsed.all("r")][-1:]),
        slots,
        knobs.get("PREEMPTION_REQUIREMENTS") or "",
        knobs.get("PREEMPTION_RANK") or "",
    )
    by_machine = parsed.has("m")
    if by_machine:
        found = list(whole_machines(found))
    found = found[:wanted]
    attribute = "Machine" if by_machine else "Name"
    if parsed.has("json"):
        inv.out(json.dumps([_row(one, by_machine) for one in found]))
    else:
        for one in found:
            inv.out(str(one.ad.get(attribute)))
    if len(found) < wanted:
        inv.err(f"\nERROR: {wanted} machines not available" if inv.called else f"ERROR: {len(found)} of {wanted} found")
        return len(found) + 1
    return 0


def _number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise UsageError("-n requires another argument which is an integer greater than 0")
    return int(text)


def _ads(inv: Invocation, query: common_pb2.AdQuery) -> list[ClassAd]:
    stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
    return [ad for chunk in stub.Query(query, timeout=60) if chunk.data for ad in unpack_ads(chunk.data)]


def _note_priorities(slots: Sequence[ClassAd], priorities: Mapping[str, float]) -> None:
    """Tell each slot the priority of its user, for PREEMPTION_REQUIREMENTS."""
    for slot in slots:
        user = slot.get("AccountingGroup")
        user = user if isinstance(user, str) else slot.get("RemoteUser")
        if isinstance(user, str):
            slot["RemoteUserPrio"] = priorities.get(user, _BEST_PRIORITY)


def _request(inv: Invocation, rank: list[str]) -> ClassAd:
    """The request of an interactive user, who wants as little as can be wanted of a slot."""
    request = ClassAd(
        {
            "MyType": "Job", "Interactive": True, "SubmitterUserPrio": _OWN_PRIORITY, "Requirements": True,
            "Owner": inv.account, "JobUniverse": 5, "RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1,
            "ImageSize": 0, "ExecutableSize": 0, "DiskUsage": 0,
        }
    )  # fmt: skip
    request["Rank"] = ExprTree(new_syntax(rank[0])) if rank else 0
    return request


def _row(one: Candidate, by_machine: bool) -> dict[str, object]:
    row: dict[str, object] = {} if by_machine else {"Name": one.ad.get("Name")}
    return row | {
        "Machine": one.ad.get("Machine"),
        "Rank": one.rank,
        "Preempts": ("priority", "rank", "nothing")[one.preemption],
    }
