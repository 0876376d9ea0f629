"""How many files went each way, by what means: TransferInputStats and TransferOutputStats.

Both are ads of four numbers for each means (``Cedar`` for the pool's own stream, the method of a plugin in capitals):
``FilesCountLastRun``, ``SizeBytesLastRun``, and the same with ``Total`` over all runs of the job.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.classad import ClassAd

#: The pool's own stream, by HTCondor's name for its own.
OWN = "Cedar"
_LAST, _TOTAL = "LastRun", "Total"


class Traffic:
    """Files and bytes moved in one direction in one run."""

    def __init__(self) -> None:
        self._amounts: dict[str, tuple[int, int]] = {}

    def add(self, means: str, files: int, size_bytes: int) -> None:
        """Count files and bytes moved by this means."""
        known_files, known_bytes = self._amounts.get(means, (0, 0))
        self._amounts[means] = (known_files + files, known_bytes + size_bytes)

    def total(self) -> str:
        """For the log."""
        files = sum(pair[0] for pair in self._amounts.values())
        size = sum(pair[1] for pair in self._amounts.values())
        return f"{files} file{'s' * (files != 1)}, {size} bytes"

    def clear(self, means: str) -> None:
        """Discard the counts of a means whose transfer starts again."""
        self._amounts.pop(means, None)

    def to_json(self) -> dict[str, tuple[int, int]]:
        """As it is saved in the run record."""
        return dict(self._amounts)

    def from_json(self, kept: object) -> None:
        """Take over what :meth:`to_json` gave."""
        if isinstance(kept, dict):
            self._amounts = {str(means): (int(pair[0]), int(pair[1])) for means, pair in kept.items()}

    def attributes(self, before: object) -> dict[str, int]:
        """The ad; ``before`` is that of the job's former runs, if it is one."""
        former = _totals(before)
        found = dict(former)
        for means, amounts in self._amounts.items():
            for what, number in zip(("FilesCount", "SizeBytes"), amounts, strict=True):
                found[f"{means}{what}{_LAST}"] = number
                found[f"{means}{what}{_TOTAL}"] = former.get(f"{means}{what}{_TOTAL}", 0) + number
        return found


def _totals(before: object) -> dict[str, int]:
    if not isinstance(before, ClassAd | Mapping):
        return {}
    values = ((name, before.eval(name) if isinstance(before, ClassAd) else before[name]) for name in before)
    return {name: value for name, value in values if name.endswith(_TOTAL) and isinstance(value, int)}
