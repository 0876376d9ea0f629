"""How busy a daemon's event loop is: the share of its time in which it did not wait for anything.

DaemonCoreDutyCycle and RecentDaemonCoreDutyCycle in its ad. Near 1 the daemon answers late, whatever the host's load.
The other statistics of the category DC (DCStatsLifetime, DCSelectWaittime) are published when STATISTICS_TO_PUBLISH or
its list names them.
"""

from __future__ import annotations

import asyncio
import selectors
import time

from slotwise.model.publication import Publication
from slotwise.model.windows import Ring, Window

#: What HTCondor publishes of the category DC without being asked.
DEFAULT = Publication(level=0)


class _Span:
    """Seconds that have gone, and those of them in which the loop waited."""

    def __init__(self) -> None:
        self.gone = 0.0
        self.waited = 0.0


class DutyCycle:
    """What the loop of this process does with its time. Looked at whenever an ad is made."""

    def __init__(self) -> None:
        self.waited = 0.0
        self._began = 0.0
        self._seen = _Span()
        self._ring: Ring[_Span] = Ring(_Span, Window())

    def begin(self, now: float) -> None:
        """The loop runs from ``now`` on, by the clock that nobody sets."""
        self._began = now

    def follow(self, window: Window) -> None:
        """Of late means this from now on."""
        if window != self._ring.window:
            self._ring = Ring(_Span, window)

    def attributes(self, now: float, publication: Publication = DEFAULT) -> dict[str, float]:
        """The share in use, since the beginning and of late, and what ``publication`` shows of the category DC."""
        gone = now - self._began
        if not self._began or gone <= 0:
            return {}
        span = self._ring.at(now)
        span.gone += gone - self._seen.gone
        span.waited += self.waited - self._seen.waited
        self._seen.gone, self._seen.waited = gone, self.waited
        recent = list(self._ring.values(now))
        recent_gone, recent_waited = sum(one.gone for one in recent), sum(one.waited for one in recent)
        found: dict[str, float] = {
            "DaemonCoreDutyCycle": _share(gone, self.waited),
            "RecentDaemonCoreDutyCycle": _share(recent_gone, recent_waited),
        }
        if publication.level:
            found["DCStatsLifetime"] = int(gone)
            if publication.recent:
                found["DCRecentStatsLifetime"] = int(recent_gone)
                if publication.level > 1:
                    found["DCRecentWindowMax"] = int(self._ring.window.seconds)
        return found | publication.select(
            {"DCSelectWaittime": round(self.waited, 6)}, {"DCSelectWaittime": round(recent_waited, 6)}
        )


def _share(gone: float, waited: float) -> float:
    return round(min(1.0, max(0.0, 1.0 - waited / gone)), 6) if gone > 0 else 0.0


#: Of this process; nothing is known of it unless :func:`loop` made its loop.
duty = DutyCycle()


class _Selector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        found = super().select(timeout)
        duty.waited += time.monotonic() - began
        return found


def loop() -> asyncio.AbstractEventLoop:
    """An event loop whose waiting is counted."""
    duty.begin(time.monotonic())
    return asyncio.SelectorEventLoop(_Selector())
