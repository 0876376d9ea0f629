"""The attributes of a slot's ad. Names and units as in HTCondor (machine ClassAd attributes).

The ad is put together in layers: the machine's facts, the knobs that are copied, amounts, state, claim and job. Each
layer is a function from what the startd knows to attributes; nothing here reads the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slotwise.classad.evaluate import Expr, attribute
from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind, State
from slotwise.startd.policy.slot_knobs import SlotKnobs
from slotwise.startd.records.slot_record import Holding
from slotwise.startd.slot.retirement import own_remaining
from slotwise.startd.slot.states import Claimed, Preempting
from slotwise.startd.slot_types.devices import device_attribute


def within_limits(h: Holding, consumption: Mapping[str, str]) -> Expr:
    """WithinResourceLimits: whether a job's requests fit. A request that is not there makes it UNDEFINED: no match."""
    custom = list(h.total.tags)
    if consumption:
        terms = [f"MY.{tag} >= MY.Consumption{tag}" for tag in ("Cpus", "Memory", "Disk", *h.total.custom)]
        return Expr(" && ".join(f"({term})" for term in terms))
    terms = []
    for tag in ("Cpus", "Memory", "Disk"):
        fits = f"TARGET.Request{tag} <= MY.{tag}"
        if tag == "Cpus":
            fits = "(TARGET.RequestCpus =?= undefined || TARGET.RequestCpus <= MY.Cpus)"
        terms.append(f"MY.{tag} > 0 && {fits}" if h.kind is SlotKind.PARTITIONABLE else fits)
    for tag in custom:
        terms.append(f"(TARGET.Request{tag} =?= undefined || TARGET.Request{tag} <= MY.{tag})")
    return Expr(" && ".join(f"({term})" for term in terms))


def requirements(
    h: Holding, knobs: SlotKnobs, *, draining_start: str | None, to_claim: bool = False
) -> Expr | str | bool:
    """What Requirements says in the slot's present state; ``to_claim``: to the schedd that it was matched with."""
    slot = h.slot
    if slot.broken:
        return f"The slot is broken: {slot.broken}"
    closed = (State.PREEMPTING,) if to_claim else (State.MATCHED, State.PREEMPTING)
    if slot.state.state in closed or slot.shutdown:
        return False
    if slot.draining and draining_start is None:
        return False
    parts = [*(["Healthy"] if knobs.health else []), *knobs.clauses]
    parts += ["START" if draining_start is None else f"({draining_start})", "WithinResourceLimits"]
    parts += knobs.dynamic_clauses if h.kind is SlotKind.DYNAMIC else knobs.own_clauses
    return Expr(" && ".join(f"({part})" for part in parts))


def amounts(h: Holding, machine: Resources, free: Resources) -> dict[str, Any]:
    """Cpus, Memory and the rest: what is ``free``, what the slot has, what the machine has."""
    whole, lost = h.total, h.lost
    broken = h.slot.broken is not None
    attributes: dict[str, Any] = {
        "Cpus": 0 if broken else free.cpus,
        "Memory": 0 if broken else free.memory_mib,
        "Disk": free.disk_kib,
        "VirtualMemory": free.swap_kib,
        "TotalSlotCpus": whole.cpus - lost.cpus,
        "TotalSlotMemory": whole.memory_mib - lost.memory_mib,
        "TotalSlotDisk": whole.disk_kib - lost.disk_kib,
        "TotalCpus": machine.cpus,
        "TotalMemory": machine.memory_mib,
        "TotalDisk": machine.disk_kib,
        "TotalVirtualMemory": machine.swap_kib,
    }
    for tag, amount in machine.custom.items():
        attributes[f"Total{tag}"] = amount
        attributes[tag] = 0 if broken else free.custom.get(tag, 0)
        attributes[f"TotalSlot{tag}"] = whole.custom.get(tag, 0) - lost.custom.get(tag, 0)
        if machine.devices.get(tag):
            attributes[f"Assigned{tag}"] = ",".join(whole.devices.get(tag, ())) or None
            attributes[f"Available{tag}"] = available(tag, free)
    for tag, names in machine.shared.items():
        mine = whole.shared.get(tag, ())
        attributes.update({f"Total{tag}": len(names), f"TotalSlot{tag}": len(mine), tag: 0 if broken else len(mine)})
        attributes[f"Assigned{tag}"] = ",".join(mine) or None
        attributes[f"Available{tag}"] = _listed(tag, mine)
    if machine.tags:
        attributes["MachineResources"] = " ".join(["Cpus", "Memory", "Disk", "Swap", *machine.tags])
    gone = {"Cpus": lost.cpus, "Memory": lost.memory_mib, "Disk": lost.disk_kib, **lost.custom}
    attributes.update({f"BrokenSlot{tag}": amount for tag, amount in gone.items() if amount})
    return attributes


def available(tag: str, free: Resources) -> Expr:
    """``Available<tag>``: the list of the ads of the devices that are free."""
    return _listed(tag, free.devices.get(tag, ()))


def _listed(tag: str, names: Iterable[str]) -> Expr:
    return Expr("{ " + ", ".join(dict.fromkeys(device_attribute(tag, name) for name in names)) + " }")


def identity(h: Holding) -> dict[str, Any]:
    """Which slot it is."""
    attributes: dict[str, Any] = {
        "Name": h.name,
        "SlotID": h.slot_id,
        "SlotType": str(h.kind),
        "SlotTypeID": -h.type_number if h.kind is SlotKind.DYNAMIC and h.type_number else h.type_number,
        "PartitionableSlot": True if h.kind is SlotKind.PARTITIONABLE else None,
        "DynamicSlot": True if h.kind is SlotKind.DYNAMIC else None,
        "BackfillSlot": True if h.backfill else None,
    }
    if h.kind is SlotKind.DYNAMIC:
        attributes["DSlotId"] = h.dslot_id
        attributes["ParentSlotId"] = h.slot_id
        attributes["SlotTypeID"] = -max(1, h.type_number)
    return attributes


def state_of(h: Holding, now: float) -> dict[str, Any]:
    """State, activity, and since when; the attributes that policies look at most."""
    slot = h.slot
    attributes: dict[str, Any] = {
        "State": str(slot.state.state),
        "Activity": str(slot.state.activity),
        "EnteredCurrentState": int(slot.entered_state),
        "EnteredCurrentActivity": int(slot.entered_activity),
        "MyCurrentTime": int(now),
    }
    run = slot.run
    if run is not None:
        attributes["TotalJobRunTime"] = int(run.ran(now))
        attributes["TotalJobSuspendTime"] = max(0, int(now - run.activated_at - run.ran(now)))
    return attributes


def history_of(h: Holding, now: float) -> dict[str, Any]:
    """Total times."""
    return {
        f"TotalTime{state}{activity}": int(seconds)
        for (state, activity), seconds in h.slot.time_in(now).items()
        if seconds >= 1
    }


#: Attributes of a claim; taken out of the ad when there is none.
CLAIM_NAMES = (
    "ClientMachine", "RemoteOwner", "RemoteUser", "AccountingGroup", "RemoteScheddName", "JobId", "GlobalJobId",
    "JobStart", "JobUniverse", "CurrentRank", "RetirementTimeRemaining", "PublicClaimId", "PreemptingOwner",
    "PreemptingUser", "PreemptingRank", "TotalJobRunTime", "TotalJobSuspendTime", "AcceptedWhileDraining",
    "ClaimEndTime", "TotalClaimRunTime", "TotalClaimSuspendTime", "RemoteGroup", "RemoteNegotiatingGroup",
    "RemoteAutoregroup", "RemoteProject", "LastPeriodicCheckpoint", "ConcurrencyLimits", "PreemptingConcurrencyLimits",
)  # fmt: skip


def _accounting_name(h: Holding, values: dict[str, Any]) -> str | None:
    """Whom the negotiator charges when the job names an accounting group: the submitter, domain and all."""
    named = values.get("AccountingGroup")
    return (h.terms.submitter or named) if named else None


def claim_of(h: Holding, now: float, policy_facts: Any | None) -> dict[str, Any]:
    """Who holds the slot, what runs, who waits. ``policy_facts``: to tell the retirement that is left."""
    attributes: dict[str, Any] = dict.fromkeys(CLAIM_NAMES)
    state = h.slot.state
    if not isinstance(state, Claimed | Preempting):
        attributes["CurrentRank"] = 0.0
        return attributes
    job, run = h.job, h.slot.run
    values = job.values if job else {}
    attributes.update(
        RemoteUser=h.terms.submitter or values.get("User"),
        RemoteOwner=values.get("User") or values.get("Owner") or h.terms.submitter or None,
        AccountingGroup=_accounting_name(h, values),
        RemoteGroup=values.get("RemoteGroup") or values.get("AcctGroup") or "<none>",
        RemoteNegotiatingGroup=values.get("RemoteNegotiatingGroup"),
        RemoteAutoregroup=values.get("RemoteAutoregroup"),
        RemoteProject=values.get("ProjectName"),
        ConcurrencyLimits=values.get("ConcurrencyLimits"),
        RemoteScheddName=h.terms.schedd_name,
        ClientMachine=h.terms.schedd_name.rpartition("@")[2],
        CurrentRank=state.claim.rank,
        PublicClaimId=f"{state.claim.claim_id.rpartition('#')[0]}#...",
    )
    if state.claim.fetched:  # nobody is charged for it, and no schedd has it: as in HTCondor
        unknown = ("RemoteUser", "RemoteOwner", "AccountingGroup", "RemoteGroup", "RemoteScheddName", "ClientMachine")
        attributes.update(dict.fromkeys(unknown))
    if state.claim.ends_at is not None:
        attributes["ClaimEndTime"] = int(state.claim.ends_at)
    ran = run.ran(now) if run is not None else 0.0
    stood = max(0.0, now - run.activated_at - ran) if run is not None else 0.0
    attributes["TotalClaimRunTime"] = int(state.claim.ran_s + ran)
    attributes["TotalClaimSuspendTime"] = int(state.claim.suspended_s + stood)
    if run is not None:
        attributes.update(
            JobId=job.job_id if job else None,
            GlobalJobId=values.get("GlobalJobId"),
            JobUniverse=values.get("JobUniverse"),
            JobStart=int(run.activated_at),
            LastPeriodicCheckpoint=h.usage.get("LastCheckpointTime", int(run.activated_at)),
            TotalJobRunTime=int(ran),
            TotalJobSuspendTime=int(stood),
            AcceptedWhileDraining=True if run.accepted_while_draining else None,
        )
    if policy_facts is not None and run is not None:
        left = own_remaining(h.slot, policy_facts, run, now)
        attributes["RetirementTimeRemaining"] = int(max(0.0, min(left, 2**31 - 1)))
    else:
        attributes["RetirementTimeRemaining"] = 0
    if state.waiting is not None and h.waiting is not None:
        attributes["PreemptingRank"] = state.waiting.claim.rank
        attributes["PreemptingUser"] = h.waiting_terms.submitter if h.waiting_terms else None
        attributes["PreemptingOwner"] = h.waiting.values.get("Owner")
        attributes["PreemptingConcurrencyLimits"] = h.waiting.values.get("ConcurrencyLimits")
    return attributes


def fetches_of(h: Holding) -> dict[str, Any]:
    """When hooks were asked for work, and the seconds from then to the next time (-1: not known yet)."""
    tried = h.attempts
    return {
        "LastFetchWorkSpawned": int(tried.began),
        "LastFetchWorkCompleted": int(tried.ended),
        "NextFetchWorkDelay": tried.delay_s,
    }


def children_of(children: Sequence[Holding], names: Sequence[str]) -> dict[str, Any]:
    """``Child<attr>`` lists of a partitionable slot, one entry per dynamic slot."""
    attributes: dict[str, Any] = {"NumDynamicSlots": len(children)}
    for name in names:
        attributes[f"Child{name}"] = [child.shown.get(name) for child in children]
    return attributes


def slots_of(holdings: Iterable[Holding], me: Holding, names: Sequence[str]) -> dict[str, Any]:
    """``slot<n>_<attr>`` of the other slots (STARTD_SLOT_ATTRS)."""
    return {
        f"{other.name.partition('@')[0]}_{name}": other.shown[name]
        for other in holdings
        if other is not me
        for name in names
        if name in other.shown
    }


def job_attrs_of(h: Holding, names: Sequence[str], now: float) -> dict[str, Any]:
    """What the slot ad repeats of the job: usage as the starter reports it, the rest from its ad."""
    if not isinstance(h.slot.state, Claimed | Preempting):
        return dict.fromkeys(names)
    job = h.job
    attributes: dict[str, Any] = {}
    for name in names:
        if name in h.usage:
            attributes[name] = h.usage[name]
        elif job is not None and h.slot.run is not None:
            attributes[name] = attribute(job.ad, name, h.ad, now=now)
        else:
            attributes[name] = None
    return attributes
