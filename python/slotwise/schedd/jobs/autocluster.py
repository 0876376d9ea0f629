"""Autoclusters: jobs with equal significant attributes, which therefore match the same slots.

The significant attributes are those that negotiators and policies name (the set only grows until a reconfig), plus
those that the jobs' own values of them refer to. What REMOVE_SIGNIFICANT_ATTRIBUTES takes out tells those jobs apart
nevertheless whose significant attributes refer to it, and only those, as in HTCondor: a request that grows with
MemoryUsage differs from job to job, and the usage of all other jobs does not matter. A signature is each name with its
unevaluated value, in order. Ids are increasing integers; a change of the set discards all of them.
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
        #: What is not significant by itself, and is referred to by significant attributes of some job.
        self._referred: dict[str, str] = {}
        self._ids: dict[object, int] = {}
        self._attrs: dict[int, str] = {}
        self._next = 1

    @property
    def significant(self) -> list[str]:
        """The significant attributes, sorted without regard to case."""
        return [self._names[key] for key in sorted(self._names) if key not in self._removed]

    @property
    def watched(self) -> set[str]:
        """The attributes, in lower case, that may tell jobs of a cluster apart."""
        return {key for key in self._names if key not in self._removed} | self._referred.keys()

    def refer(self, names: Iterable[str]) -> bool:
        """Note what significant attributes of jobs refer to; true when any of it is new, which discards all ids."""
        lower = {name.lower(): name for name in names}
        own = {key for key in lower if key in self._removed or (self._fixed and key not in self._names)}
        fresh = own - self._referred.keys()
        self._referred.update({key: lower[key] for key in fresh})
        grown = self.learn(name for key, name in lower.items() if key not in own)
        if fresh and not grown:
            self._forget()
        return bool(fresh) or grown

    def learn(self, names: Iterable[str]) -> bool:
        """Add attributes that a negotiator names; true when the set grew, which discards all ids."""
        if self._fixed:
            return False
        fresh = {name.lower(): name for name in names if name.lower() not in self._names}
        if not fresh:
            return False
        self._names.update(fresh)
        if all(key in self._removed for key in fresh):
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        self._ids.clear()
        self._attrs.clear()

    def id_of(self, signature: str) -> int:
        """The id of jobs with this signature: a line ``name=value`` for each significant attribute, then for those
        that these refer to."""
        found = self._ids.get(signature)
        if found is None:
            found = self._ids[signature] = self._next
            self._next += 1
            names = self.significant
            others = (line.partition("=")[0] for line in signature.split("\n")[len(names) :])
            self._attrs[found] = ",".join(
                [*names, *(self._referred[name] for name in others if name in self._referred)]
            )
        return found

    def attrs_of(self, number: int) -> str:
        """The attributes that tell the jobs of an autocluster from others (AutoClusterAttrs)."""
        return self._attrs[number]

    def __len__(self) -> int:
        return len(self._ids)
