"""The attributes of a slot's ad. Names and units as in HTCondor (machine ClassAd attributes).

The ad is put together in layers: the host's facts, the knobs that are copied, amounts, state, claim and job. Each
layer is a function from what the startd knows to attributes; nothing here reads the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from slotwise.classad.evaluate import Expr, Value, attribute
from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind, State
from slotwise.startd.policy.slot_knobs import SlotKnobs
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot.events import PolicyEval
from slotwise.startd.slot.retirement import own_remaining
from slotwise.startd.slot.states import Claimed, Preempting, Slot
from slotwise.startd.slot_types.devices import device_attribute

#: Names that users have written.
_REGISTRY = re.compile(r"[a-z0-9.-]+(:[0-9]+)?")
_DOCKER_HUB, _HUB_TOO = "docker.io", ("index.docker.io", "registry-1.docker.io")

#: Attributes of an ad by name; None: not in the ad.
Attributes: TypeAlias = dict[str, Value]


def within_limits(record: SlotRecord, consumption: Mapping[str, str]) -> Expr:
    """WithinResourceLimits: whether a job's requests fit. A request that is not there makes it UNDEFINED: no match."""
    custom = list(record.total.tags)
    if consumption:
        # A job that has been given what the policy takes as its requests (_cp_orig_...) is not charged a second time.
        terms = [
            f"ifThenElse(TARGET._cp_orig_Request{tag} =!= undefined,"
            f" TARGET.Request{tag} <= MY.{tag}, MY.Consumption{tag} <= MY.{tag})"
            for tag in ("Cpus", "Memory", "Disk", *record.total.custom)
        ]
        return Expr(" && ".join(terms))
    terms = []
    for tag in ("Cpus", "Memory", "Disk"):
        fits = f"TARGET.Request{tag} <= MY.{tag}"
        if tag == "Cpus":
            fits = "(TARGET.RequestCpus =?= undefined || TARGET.RequestCpus <= MY.Cpus)"
        terms.append(f"MY.{tag} > 0 && {fits}" if record.kind is SlotKind.PARTITIONABLE else fits)
    for tag in custom:
        terms.append(f"(TARGET.Request{tag} =?= undefined || TARGET.Request{tag} <= MY.{tag})")
    return Expr(" && ".join(f"({term})" for term in terms))


def requirements(
    record: SlotRecord,
    knobs: SlotKnobs,
    *,
    draining_start: str | None,
    to_claim: bool = False,
    registries_offline: Value = None,
) -> Expr | str | bool:
    """What Requirements says in the slot's present state.

    :param to_claim: to the schedd that it was matched with.
    :param registries_offline: ContainerRegistriesOffline of its host.
    """
    slot = record.slot
    if slot.broken:
        return f"The slot is broken: {slot.broken}"
    closed = (State.PREEMPTING,) if to_claim else (State.MATCHED, State.PREEMPTING)
    if slot.state.state in closed or slot.shutdown:
        return False
    if slot.draining and draining_start is None:
        return False
    parts = [*(["Healthy"] if knobs.health else []), *knobs.clauses]
    parts += ["START" if draining_start is None else f"({draining_start})", "WithinResourceLimits"]
    parts += knobs.dynamic_clauses if record.kind is SlotKind.DYNAMIC else knobs.own_clauses
    parts += pulls_elsewhere(registries_offline)
    return Expr(" && ".join(f"({part})" for part in parts))


def pulls_elsewhere(offline: Value) -> list[str]:
    """The clauses that keep jobs away whose images are of registries from which this host pulls none now.

    :param offline: the registries, separated by commas.
    """
    listed = re.split(r"[,\s]+", offline) if isinstance(offline, str) else []
    names = [name for name in listed if _REGISTRY.fullmatch(name)]
    if not names:
        return []
    hub = _DOCKER_HUB in names
    hosts = [*names, *(_HUB_TOO if hub else ())]
    # Without backslashes, which mean one thing in old ClassAds and another in new ones.
    places = [f"{host.replace('.', '[.]')}/" for host in hosts]
    places += ["[^/.:]+/", "[^/]+$"] if hub else []  # names without a registry
    pattern = "|".join(places)
    return [
        f'TARGET.DockerImage =?= undefined || !regexp("^([a-z]+://)?({pattern})", TARGET.DockerImage, "i")',
        f'TARGET.ContainerImage =?= undefined || !regexp("^[a-z]+://({pattern})", TARGET.ContainerImage, "i")',
    ]


def amounts(record: SlotRecord, machine: Resources, free: Resources) -> Attributes:
    """Cpus, Memory and the rest: what is ``free``, what the slot has, what the machine has."""
    whole, lost = record.total, record.withheld.total
    broken = record.slot.broken is not None
    attributes: Attributes = {
        "Cpus": 0 if broken else free.cpus,
        "Memory": 0 if broken else free.memory_mib,
        "Disk": free.disk_kib,
        "VirtualMemory": free.swap_kib,
        "TotalSlotCpus": whole.cpus - lost.cpus,
        "TotalSlotMemory": whole.memory_mib - lost.memory_mib,
        "TotalSlotDisk": float(whole.disk_kib - lost.disk_kib),
        "TotalCpus": float(machine.cpus),
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
        attributes[f"Available{tag}"] = listed_devices(tag, mine)
    if machine.tags:
        attributes["MachineResources"] = " ".join(["Cpus", "Memory", "Disk", "Swap", *machine.tags])
    gone = {"Cpus": lost.cpus, "Memory": lost.memory_mib, "Disk": lost.disk_kib, **lost.custom}
    attributes.update({f"BrokenSlot{tag}": amount for tag, amount in gone.items() if amount})
    return attributes


def available(tag: str, free: Resources) -> Expr:
    """``Available<tag>``: the list of the ads of the devices that are free."""
    return listed_devices(tag, free.devices.get(tag, ()))


def listed_devices(tag: str, names: Iterable[str]) -> Expr:
    """A list that refers to the ads of these devices."""
    return Expr("{ " + ", ".join(dict.fromkeys(device_attribute(tag, name) for name in names)) + " }")


def identity(record: SlotRecord) -> Attributes:
    """Which slot it is."""
    attributes: Attributes = {
        "Name": record.name,
        "SlotID": record.slot_id,
        "SlotType": str(record.kind),
        "SlotTypeID": max(1, record.type_number),  # slots of no configured type count as of the first
        "PartitionableSlot": True if record.kind is SlotKind.PARTITIONABLE else None,
        "PslotRollupInformation": True if record.kind is SlotKind.PARTITIONABLE else None,
        "DynamicSlot": True if record.kind is SlotKind.DYNAMIC else None,
        "BackfillSlot": True if record.backfill else None,
    }
    if record.kind is SlotKind.DYNAMIC:
        attributes["DSlotId"] = record.dslot_id
        attributes["ParentSlotId"] = record.slot_id
    return attributes


def state_of(slot: Slot, now: float) -> Attributes:
    """State, activity, and since when: the attributes that policies refer to most."""
    attributes: Attributes = {
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


def history_of(record: SlotRecord, now: float) -> Attributes:
    """Total times."""
    return {
        f"TotalTime{state}{activity}": int(seconds)
        for (state, activity), seconds in record.slot.time_in(now).items()
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


def _accounting_name(record: SlotRecord, values: Attributes) -> Value:
    """Whom the negotiator charges when the job names an accounting group: the submitter, domain and all."""
    named = values.get("AccountingGroup")
    return (record.terms.submitter or named) if named else None


def claim_of(record: SlotRecord, now: float, policy: PolicyEval | None) -> Attributes:
    """Who claims the slot, what runs, who waits. ``policy``: for the retirement that is left."""
    attributes: Attributes = dict.fromkeys(CLAIM_NAMES)
    attributes["AcceptedWhileDraining"] = False
    if record.kind is SlotKind.PARTITIONABLE:
        attributes["RetirementTimeRemaining"] = 0
    state = record.slot.state
    if not isinstance(state, Claimed | Preempting):
        attributes["CurrentRank"] = 0.0
        return attributes
    job, run = record.job, record.slot.run
    values = job.values if job else {}
    attributes.update(
        RemoteUser=record.terms.submitter or values.get("User"),
        RemoteOwner=values.get("User") or values.get("Owner") or record.terms.submitter or None,
        AccountingGroup=_accounting_name(record, values),
        RemoteGroup=values.get("RemoteGroup") or values.get("AcctGroup") or "<none>",
        RemoteNegotiatingGroup=values.get("RemoteNegotiatingGroup"),
        RemoteAutoregroup=values.get("RemoteAutoregroup"),
        RemoteProject=values.get("ProjectName"),
        ConcurrencyLimits=values.get("ConcurrencyLimits"),
        RemoteScheddName=record.terms.schedd_name,
        ClientMachine=record.terms.schedd_name.rpartition("@")[2],
        CurrentRank=state.claim.rank,
        PublicClaimId=f"{state.claim.claim_id.rpartition('#')[0]}#...",
    )
    if state.claim.fetched:  # no user is charged for it, and no schedd has it: as in HTCondor
        unknown = ("RemoteUser", "RemoteOwner", "AccountingGroup", "RemoteGroup", "RemoteScheddName", "ClientMachine")
        attributes.update(dict.fromkeys(unknown))
    attributes["ClaimEndTime"] = int(state.claim.ends_at) if state.claim.ends_at is not None else 0
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
            LastPeriodicCheckpoint=record.usage.attributes.get("LastCheckpointTime", int(run.activated_at)),
            TotalJobRunTime=int(ran),
            TotalJobSuspendTime=int(stood),
            AcceptedWhileDraining=run.accepted_while_draining,
        )
    if policy is not None and run is not None:
        left = own_remaining(record.slot, policy, run, now)
        attributes["RetirementTimeRemaining"] = int(max(0.0, min(left, 2**31 - 1)))
    else:
        attributes["RetirementTimeRemaining"] = 0
    if state.waiting is not None and record.waiting is not None:
        attributes["PreemptingRank"] = state.waiting.claim.rank
        attributes["PreemptingUser"] = record.waiting.terms.submitter
        attributes["PreemptingOwner"] = record.waiting.job.values.get("Owner")
        attributes["PreemptingConcurrencyLimits"] = record.waiting.job.values.get("ConcurrencyLimits")
    return attributes


def fetches_of(record: SlotRecord) -> Attributes:
    """When hooks were asked for work, and the seconds from then to the next time (-1: not known yet)."""
    tried = record.fetch.attempts
    return {
        "LastFetchWorkSpawned": int(tried.began),
        "LastFetchWorkCompleted": int(tried.ended),
        "NextFetchWorkDelay": tried.delay_s,
    }


def children_of(children: Sequence[SlotRecord], names: Sequence[str]) -> Attributes:
    """``Child<attr>`` lists of a partitionable slot, one entry per dynamic slot."""
    attributes: Attributes = {"NumDynamicSlots": len(children)}
    for name in names:
        attributes[f"Child{name}"] = [child.shown.get(name) for child in children]
    return attributes


def slots_of(slots: Iterable[SlotRecord], me: SlotRecord, names: Sequence[str]) -> Attributes:
    """``slot<n>_<attr>`` of the other slots (STARTD_SLOT_ATTRS)."""
    return {
        f"{other.name.partition('@')[0]}_{name}": other.shown[name]
        for other in slots
        if other is not me
        for name in names
        if name in other.shown
    }


def job_attrs_of(record: SlotRecord, names: Sequence[str], now: float) -> Attributes:
    """What the slot ad repeats of the job: usage as the starter reports it, the rest from its ad."""
    if not isinstance(record.slot.state, Claimed | Preempting):
        return dict.fromkeys(names)
    job = record.job
    attributes: Attributes = {}
    for name in names:
        if name in record.usage.attributes:
            attributes[name] = record.usage.attributes[name]
        elif job is not None and record.slot.run is not None:
            attributes[name] = attribute(job.ad, name, record.ad, now=now)
        else:
            attributes[name] = None
    return attributes
