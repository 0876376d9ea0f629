"""How long jobs ran, from which to estimate when others like them end. Pure."""

from __future__ import annotations

import math
from collections import OrderedDict, deque

#: The runs kept for each cluster and submitter, and the number of clusters and submitters kept.
_RUNS, _KEPT = 20, 5000
#: With fewer runs there is no estimate.
_LEAST = 3


class Durations:
    """Run times of jobs that have ended, by cluster and by submitter."""

    def __init__(self) -> None:
        self._of: OrderedDict[int | str, deque[float]] = OrderedDict()

    def note(self, cluster: int, submitter: str, seconds: float) -> None:
        """Record the run time of a job."""
        for key in (cluster, submitter):
            runs = self._of.get(key)
            if runs is None:
                runs = self._of[key] = deque(maxlen=_RUNS)
            runs.append(max(0.0, seconds))
            self._of.move_to_end(key)
        while len(self._of) > _KEPT:
            self._of.popitem(last=False)

    def expected(self, cluster: int, submitter: str) -> int | None:
        """The time within which 90 % of the jobs of the cluster, else of the submitter, ended, in whole seconds."""
        for key in (cluster, submitter):
            runs = self._of.get(key, ())
            if len(runs) >= _LEAST:
                return math.ceil(sorted(runs)[math.ceil(0.9 * len(runs)) - 1])
        return None
