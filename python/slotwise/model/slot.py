"""What a slot is: its kind, names of its states and activities."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The states of a slot, as the attribute ``State`` shows them."""

    OWNER = "Owner"
    UNCLAIMED = "Unclaimed"
    MATCHED = "Matched"
    CLAIMED = "Claimed"
    PREEMPTING = "Preempting"
    BACKFILL = "Backfill"
    DRAINED = "Drained"
    DELETE = "Delete"


class Activity(StrEnum):
    """The activities of a slot, as the attribute ``Activity`` shows them."""

    IDLE = "Idle"
    BENCHMARKING = "Benchmarking"
    BUSY = "Busy"
    SUSPENDED = "Suspended"
    RETIRING = "Retiring"
    CLEANING = "Cleaning"
    VACATING = "Vacating"
    KILLING = "Killing"
    NONE = "None"


class SlotKind(StrEnum):
    """The attribute ``SlotType``."""

    STATIC = "Static"
    PARTITIONABLE = "Partitionable"
    DYNAMIC = "Dynamic"


class VacateCode:
    """Why a job had to leave (VacateReasonCode), as HTCondor numbers it."""

    CLAIM_DEACTIVATED = 1009
    VACATE_COMMAND = 1010
    PREEMPT_EXPRESSION = 1011
    EXCEPTION = 1012
    SHUTDOWN = 1013
    DRAINING = 1014
    HIBERNATE = 1016
    RELEASE_COMMAND = 1017
    PREEMPTED_BY_RANK = 1018
    PREEMPTED_BY_PRIORITY = 1019
    SUCCESSFUL_CHECKPOINT = 1025
    BAD_REQUEST = 1026
    NO_MATCH = 1027
    STILL_CLEANING = 1028
    WORKLIFE_OVER = 1029
    BEING_PREEMPTED = 1030
    BROKEN = 1031
    NOT_IDLE = 1032
    UNCLAIMED = 1033
    CLAIM_NOT_FOUND = 1034
    OLD_CLAIM = 1035
    UNHEALTHY = 1036


class BrokenCode:
    """Why a slot cannot be used (SlotBrokenCode), as HTCondor numbers it."""

    NO_RESOURCES = 1
    NO_DEVICES = 2
    NO_EXECUTE = 3
    UNCLEAN = 4
    UNCLEAN_VOLUME = 5
    HUNG_PROCESS = 6
    HUNG_CGROUP = 7


#: HTCondor's hold code for jobs that WANT_HOLD holds.
HOLD_BY_STARTD = 21
