"""How long to wait before something that failed is tried again."""

from __future__ import annotations

from msgspec import Struct

#: Factors beyond this power are not computed: no wait is that long.
_POWER_MOST = 64


class Backoff(Struct, frozen=True):
    """Waits that grow by a factor from failure to failure, up to a bound.

    :param first_s: the wait after the first failure, seconds.
    :param factor: how much longer each further wait is, 1 or more.
    :param most_s: the longest wait, seconds.
    :param jitter: the part of a wait, 0 to 1, that chance may take away, so that those who failed together do not all
        return together.
    """

    first_s: float
    factor: float
    most_s: float
    jitter: float = 0.0

    def delay_s(self, failures: int, chance: float = 0.0) -> float:
        """The wait after so many failures in a row, seconds.

        :param failures: 1 or more.
        :param chance: a random number, 0 to 1, of which the jitter is made.
        """
        full_s = min(self.most_s, self.first_s * self.factor ** min(max(failures, 1) - 1, _POWER_MOST))
        return full_s * (1.0 - self.jitter * chance)
