"""What a pool looks like after a cycle, when every match is taken up at once: for ``negotiate --cycles``."""

from __future__ import annotations

from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.classad.values import Value, number, whole
from slotwise.matchmaking.engine import CycleOutcome
from slotwise.matchmaking.rows import Match
from slotwise.matchmaking.snapshot import CycleInput
from slotwise.table import AdTable


def occupy(given: CycleInput, outcome: CycleOutcome, seconds: int) -> CycleInput:
    """The input of the next cycle, ``seconds`` later: matched slots are busy, matched jobs run."""
    served: dict[str, int] = {}
    for match in outcome.matches():
        if match.offline:
            continue
        if match.carve:
            _carve(given.slots, match)
        else:
            _claim(given.slots, match.slot, match)
        if match.job and given.submitters is None:
            given.requests.update(match.job, {"JobStatus": 2}, [])
        else:
            served[match.request] = served.get(match.request, 0) + 1
    for key, count in served.items():
        ad = given.requests.get(key)
        if ad is not None:
            left = max(0, whole(ad.eval("ResourceRequestCount")) - count)
            given.requests.update(key, {"ResourceRequestCount": left}, [])
    return replace(given, accounting=outcome.accounting(), now=given.now + seconds)


def _user(match: Match) -> dict[str, Value]:
    owner = match.submitter
    return {
        "State": "Claimed",
        "Activity": "Busy",
        "RemoteUser": owner,
        "RemoteOwner": owner,
        "AccountingGroup": owner,
        "JobId": match.job or "",
        **({"ConcurrencyLimits": match.limits} if match.limits else {}),
    }


def _claim(slots: AdTable, key: str, match: Match) -> None:
    slots.update(key, _user(match), ["PreemptingUser", "PreemptingAccountingGroup", "PreemptingRank"])


def _carve(slots: AdTable, match: Match) -> None:
    """Make a dynamic slot of what the match takes, and leave the rest."""
    parent = slots.get(match.slot)
    if parent is None:
        return
    serial = whole(parent.get("NextDynamicSlot"), 1)
    taken = {name: _whole(amount) for name, amount in match.carve.items()}
    left = {name: _whole(number(parent.eval(name)) - amount) for name, amount in match.carve.items()}
    slots.update(match.slot, {**left, "NextDynamicSlot": serial + 1}, [])
    first, at, host = match.slot.partition("@")
    name = f"{first}_{serial}{at}{host}"
    child = ClassAd(dict(parent.items()))
    for attribute in ("PartitionableSlot", "PslotRollupInformation", "NextDynamicSlot", "NumDynamicSlots"):
        if attribute in child:
            del child[attribute]
    child.update({**taken, **_user(match), "Name": name, "DynamicSlot": True, "SlotType": "Dynamic"})
    slots.upsert(name, child)


def _whole(amount: float) -> int | float:
    return int(amount) if float(amount).is_integer() else amount
