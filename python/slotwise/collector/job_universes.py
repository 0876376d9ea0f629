"""Running jobs by universe, for the collector's ad: CurrentJobsRunning<Universe>, and the most of each there were.

A slot whose ad has JobUniverse runs a job of it, as HTCondor's collector counts. Local and scheduler jobs run on no
slot.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from slotwise.classad import Value

#: HTCondor's universes by number.
_NAMES = (
    "Unknown", "Standard", "Pipe", "Linda", "PVM", "Vanilla", "PVMD", "Scheduler", "MPI", "Grid", "Java", "Parallel",
    "Local", "VM",
)  # fmt: skip
_ALL = "All"


class JobUniverses(Struct):
    """The counts, with their peaks since the collector's start."""

    _most: dict[str, int] = field(default_factory=dict)

    def attributes(self, counted: Iterable[tuple[Value, ...]]) -> dict[str, int]:
        """The attributes, from pairs of JobUniverse and a number of slots; numbers of no universe do not count."""
        now = dict.fromkeys((*_NAMES, _ALL), 0)
        for universe, slots in counted:
            known = isinstance(universe, int) and not isinstance(universe, bool) and 0 <= universe < len(_NAMES)
            if known and isinstance(slots, int):
                assert isinstance(universe, int)
                now[_NAMES[universe]] += slots
                now[_ALL] += slots
        self._most = {name: max(count, self._most.get(name, 0)) for name, count in now.items()}
        current = {f"CurrentJobsRunning{name}": count for name, count in now.items()}
        return current | {f"MaxJobsRunning{name}": count for name, count in self._most.items()}
