"""How many updates the collector has had, by kind of ad: in all and of late. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slotwise.model.windows import Ring, Window

#: How HTCondor names the kinds in these attributes; other kinds have their own names.
_NAMES = {
    "DaemonMaster": "Master",
    "Machine": "Slot",
    "Scheduler": "Schedd",
    "StartDaemon": "StartD",
    "Submitter": "Submittor",
}


class UpdateStatistics:
    """Counts updates (``UpdatesTotal``) and those that brought a new ad (``UpdatesInitial``)."""

    def __init__(self, window: Window, began: float) -> None:
        #: When the collector began, in epoch seconds.
        self.began = began
        self._totals: Counter[str] = Counter()
        self._ring: Ring[Counter[str]] = Ring(Counter, window)

    def follow(self, window: Window) -> None:
        """Take a new window; what happened of late is forgotten when it differs."""
        if window != self._ring.window:
            self._ring = Ring(Counter, window)

    def add(self, kind: str, total: int, initial: int, now: float) -> None:
        """Count updates of ads of ``kind``."""
        kind = _NAMES.get(kind, kind)
        counts = {"UpdatesTotal": total, "UpdatesInitial": initial}
        counts |= {f"{name}_{kind}": count for name, count in counts.items()}
        self._totals.update(counts)
        self._ring.at(now).update(counts)

    def total(self) -> int:
        """All updates."""
        return self._totals["UpdatesTotal"]

    def attributes(self, now: float) -> dict[str, int | float]:
        """The attributes: all of them, whatever STATISTICS_TO_PUBLISH says, as in HTCondor's collector."""
        recent: Counter[str] = Counter()
        for quantum in self._ring.values(now):
            recent.update(quantum)
        lifetime = max(0, int(now - self.began))
        return {
            "StatsLifetime": lifetime,
            "StatsLastUpdateTime": int(now),
            "RecentStatsLifetime": min(lifetime, int(self._ring.window.seconds)),
            **_with_losses(self._totals),
            **{f"Recent{name}": value for name, value in _with_losses(recent).items()},
        }


def _with_losses(counts: Mapping[str, int]) -> dict[str, int | float]:
    """What is sent over a stream arrives, or the stream breaks and whole ads follow: no update is ever lost."""
    found: dict[str, int | float] = {"UpdatesTotal": 0, "UpdatesInitial": 0, **counts}
    for name in list(found):
        if name.startswith("UpdatesTotal"):
            found[f"UpdatesLost{name.removeprefix('UpdatesTotal')}"] = 0
    return found | {"UpdatesLostMax": 0, "UpdatesLostRatio": 0.0}
