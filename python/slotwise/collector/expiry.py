"""When the collector may expire ads that were not renewed. Pure."""

from __future__ import annotations

from msgspec import Struct

#: A check that is this much late means that this process, or the machine, stood still.
_STANDSTILL_S = 10.0
_MOST_S, _LEAST_S = 15.0, 0.5


class Expiry(Struct):
    """How often ads are checked, and whether a check may expire them.

    :param lifetime_s: CLASSAD_LIFETIME.
    :param spare_s: how often senders renew their ads (UPDATE_INTERVAL). After a standstill (a machine that slept, a
        collector that was stopped) no update could arrive, so nothing expires until all senders had time for one.
    """

    lifetime_s: float = 900.0
    spare_s: float = 300.0
    _looked_at: float | None = None
    _spared_until: float = 0.0

    @property
    def interval_s(self) -> float:
        """The time from one check to the next."""
        return max(_LEAST_S, min(_MOST_S, self.lifetime_s / 4))

    def due(self, now: float) -> bool:
        """Note a check at ``now`` (epoch seconds); whether it may expire ads."""
        looked_at, self._looked_at = self._looked_at, now
        if looked_at is not None and now - looked_at > self.interval_s + _STANDSTILL_S:
            self._spared_until = now + min(self.spare_s, self.lifetime_s)
        return now >= self._spared_until
