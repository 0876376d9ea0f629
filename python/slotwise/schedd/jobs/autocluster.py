"""Autoclusters: jobs with equal significant attributes, which therefore match the same slots.

The significant attributes are those that negotiators and policies name (the set only grows until a reconfig), plus
those that the jobs' own values of them refer to. A signature is each name with its unevaluated value, in order. Ids are
increasing integers; a change of the set discards all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Always significant, whatever the negotiator says.
ALWAYS = (
    "Requirements",
    "Rank",
    "ConcurrencyLimits",
    "FlockTo",
    "JobUniverse",
    "RequestCpus",
    "RequestMemory",
    "RequestDisk",
    "RequestGPUs",
    "RequireGPUs",
    "NiceUser",
    "MachineCount",
    "RemoteGroup",
    "SubmitterGroup",
    "SubmitterNegotiatingGroup",
)
#: Significant where nothing but the job itself says which of its attributes matter.
JOB_ID = ("ClusterId", "ProcId")


class Autoclusters:
    """The ids of signatures."""

    def __init__(self, *, replaced: Iterable[str] = (), added: Iterable[str] = (), removed: Iterable[str] = ()) -> None:
        """``replaced``: SIGNIFICANT_ATTRIBUTES; ``added`` and ``removed``: ADD_ and REMOVE_SIGNIFICANT_ATTRIBUTES."""
        self._fixed = {name.lower(): name for name in replaced}
        self._removed = {name.lower() for name in removed}
        start = self._fixed or {name.lower(): name for name in ALWAYS}
        self._names = {**start, **{name.lower(): name for name in added}}
        self._ids: dict[object, int] = {}
        self._next = 1

    @property
    def significant(self) -> list[str]:
        """The significant attributes, sorted without regard to case."""
        return [self._names[key] for key in sorted(self._names) if key not in self._removed]

    def learn(self, names: Iterable[str]) -> bool:
        """Add attributes that a negotiator names or jobs refer to; true when the set grew, which discards all ids."""
        if self._fixed:
            return False
        fresh = {name.lower(): name for name in names if name.lower() not in self._names}
        if not fresh:
            return False
        self._names.update(fresh)
        if all(key in self._removed for key in fresh):
            return False
        self._ids.clear()
        return True

    def id_of(self, signature: object) -> int:
        """The id of jobs with this signature."""
        found = self._ids.get(signature)
        if found is None:
            found = self._ids[signature] = self._next
            self._next += 1
        return found

    def __len__(self) -> int:
        return len(self._ids)
