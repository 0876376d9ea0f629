"""What a broker did for hosts that nobody can connect to, under HTCondor's names. Pure.

HTCondor's collector is the broker and counts (CCB in its manual); here the shared port is, which leaves its counts to
the collector of its host. Every connection is passed on by the broker: each request is one for streaming, too. Nothing
here goes outward or from broker to broker, so that CCBOutbound... and CCBTunnel... have nothing to count.
"""

from __future__ import annotations

from slotwise.model.windows import Tallies, Window

#: Sums since the start and of late.
_COUNTED = (
    "CCBReconnects",
    "CCBRequests",
    "CCBRequestsFailed",
    "CCBRequestsNotFound",
    "CCBRequestsSucceeded",
    "CCBStreamingBytes",
    "CCBStreamingFailed",
    "CCBStreamingRequests",
    "CCBStreamingSessions",
)
#: Those that there are now, and the most that there ever were.
_CURRENT = (
    "CCBEndpointsConnected",
    "CCBEndpointsRegistered",
    "CCBStreamingActive",
    "CCBStreamingHandshakesActive",
)
#: All attributes.
NAMES = frozenset(
    (*_COUNTED, *(f"Recent{name}" for name in _COUNTED), *_CURRENT, *(f"{name}Peak" for name in _CURRENT))
)


class BrokerStatistics:
    """Counts of one broker."""

    def __init__(self, window: Window) -> None:
        self._tallies = Tallies(_COUNTED, window)
        self._current = dict.fromkeys(_CURRENT, 0)
        self._peaks = dict(self._current)

    @property
    def window(self) -> Window:
        """How long "of late" is."""
        return self._tallies.ring.window

    def add(self, now: float, **amounts: int) -> None:
        """Add to sums."""
        self._tallies.add(now, **amounts)

    def move(self, **amounts: int) -> None:
        """More or fewer of what there is now."""
        for name, amount in amounts.items():
            self._current[name] += amount
            self._peaks[name] = max(self._peaks[name], self._current[name])

    def attributes(self, now: float) -> dict[str, int]:
        """The attributes, all of them whatever STATISTICS_TO_PUBLISH says, as in HTCondor's collector."""
        return {
            **self._tallies.totals,
            **{f"Recent{name}": count for name, count in self._tallies.recent(now).items()},
            **self._current,
            **{f"{name}Peak": count for name, count in self._peaks.items()},
        }
