"""The rows of a cycle's outcome, as typed values and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from slotwise._native import (
    ClauseCount,
    ClauseHint,
    CycleStatistics,
    Excess,
    Group,
    JobExplanation,
    KeptMachine,
    Match,
    MatchColumns,
    NearestValue,
    Rejection,
    Request,
    SlotCounts,
    Submitter,
    Waiting,
)

__all__ = [
    "ClaimsToReturn",
    "ClauseCount",
    "ClauseHint",
    "CycleStatistics",
    "Excess",
    "Group",
    "JobExplanation",
    "JsonObject",
    "KeptMachine",
    "Match",
    "MatchColumns",
    "NearestValue",
    "Record",
    "Refusal",
    "Rejection",
    "Request",
    "SlotCounts",
    "Submitter",
    "Waiting",
    "json_value",
]

#: A request that got nothing, or nothing more.
Refusal: TypeAlias = Rejection | Waiting
#: An account between cycles: ``priority``, ``factor``, ``ceiling``, ``floor``, usages in (weighted) slot-seconds and
#: times in epoch seconds. What is missing has its default.
Record: TypeAlias = Mapping[str, float | None]

#: A report, or a part of it, as a JSON object: written for programs, and read back from another daemon's answer.
JsonObject: TypeAlias = dict[str, Any]

_ROWS = (
    CycleStatistics,
    Excess,
    Group,
    KeptMachine,
    Match,
    MatchColumns,
    Rejection,
    Request,
    SlotCounts,
    Submitter,
    Waiting,
)


class ClaimsToReturn(Struct, frozen=True):
    """Claims of a submitter that its access point gives back as their jobs end: the first ones, up to ``weight``."""

    submitter: str
    schedd: str
    slots: Sequence[str]
    #: Of the slots, in their order.
    weights: Sequence[float]
    weight: float
    #: Jobs that end by then may start on the claims, epoch seconds; 0: no job may.
    until: float = 0.0
    reason: str = ""


def json_value(value: object) -> object:
    """The JSON form of rows and of what holds them; an infinite limit becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value
    if isinstance(value, _ROWS):
        return {key: json_value(one) for key, one in value.as_dict().items()}
    if isinstance(value, Mapping):
        return {key: json_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(one) for one in value]
    return value
