"""How long jobs like a given one ran, for expectations of when running ones end. Pure."""

from __future__ import annotations

import math
from collections import OrderedDict, deque

#: Runs that are remembered of each cluster and each submitter, and how many of those.
_RUNS, _KEPT = 20, 5000
#: With fewer runs nothing is expected.
_LEAST = 3


class Durations:
    """Run times of jobs that have ended, by cluster and by submitter."""

    def __init__(self) -> None:
        self._of: OrderedDict[int | str, deque[float]] = OrderedDict()

    def note(self, cluster: int, submitter: str, seconds: float) -> None:
        """A job has run for so long."""
        for key in (cluster, submitter):
            runs = self._of.get(key)
            if runs is None:
                runs = self._of[key] = deque(maxlen=_RUNS)
            runs.append(max(0.0, seconds))
            self._of.move_to_end(key)
        while len(self._of) > _KEPT:
            self._of.popitem(last=False)

    def expected(self, cluster: int, submitter: str) -> int | None:
        """Whole seconds within which nine of ten jobs of the cluster, else of the submitter, have ended."""
        for key in (cluster, submitter):
            runs = self._of.get(key, ())
            if len(runs) >= _LEAST:
                return math.ceil(sorted(runs)[math.ceil(0.9 * len(runs)) - 1])
        return None
