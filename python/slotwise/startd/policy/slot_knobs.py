"""What the configuration adds to the ad of a slot, and how its Requirements are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from slotwise.classad.evaluate import Expression, Value

#: Attributes of the running job that every slot ad repeats (HTCondor's built-in STARTD_JOB_ATTRS).
JOB_ATTRS = (
    "ImageSize", "ExecutableSize", "JobUniverse", "NiceUser", "CpusUsage", "ResidentSetSize", "ProportionalSetSizeKb",
    "MemoryUsage", "DiskUsage", "StdoutMtime", "StderrMtime", "ScratchDirFileCount",
    # How long the job says it runs, or jobs like it ran: by this the negotiator expects when a machine is free.
    "AllowedJobDuration", "AllowedExecuteDuration", "ExpectedRuntime", "EstimatedRuntime",
)  # fmt: skip

#: What a partitionable slot repeats of its dynamic slots, as lists (STARTD_PARTITIONABLE_SLOT_ATTRS).
CHILD_ATTRS = (
    "Name", "DSlotId", "CurrentRank", "RemoteUser", "RemoteOwner", "AccountingGroup", "State", "Activity",
    "EnteredCurrentState", "RetirementTimeRemaining", "Cpus", "Memory", "Disk",
)  # fmt: skip


class SlotKnobs(Struct):
    """What the configuration adds to one slot's ad, per slot because knobs may be."""

    attrs: Mapping[str, Value] = field(default_factory=dict)
    job_attrs: Sequence[str] = JOB_ATTRS
    child_attrs: Sequence[str] = CHILD_ATTRS
    slot_attrs: Sequence[str] = ()
    slot_weight: str = "Cpus"
    consumption: Mapping[str, str] = field(default_factory=dict)
    #: Names that are added to Requirements: of all slots, of those that no other was carved from, of dynamic ones.
    clauses: Sequence[str] = ()
    own_clauses: Sequence[str] = ()
    dynamic_clauses: Sequence[str] = ()
    latches: Mapping[str, Expression] = field(default_factory=dict)
    health: bool = False
