"""How busy a daemon's event loop is: the share of its time in which it did not wait for anything.

DaemonCoreDutyCycle and RecentDaemonCoreDutyCycle in its ad. Near 1 the daemon answers late, whatever the host's load.
The other statistics of the category DC (DCStatsLifetime, DCSelectWaittime, DCPumpCycle...) are published when
STATISTICS_TO_PUBLISH or its list names them.
"""

from __future__ import annotations

import asyncio
import selectors
import time

from slotwise.model.publication import Publication
from slotwise.model.windows import Ring, Window
from slotwise.run_times import RunTime, spent

#: A daemon that starts does nothing but work, for seconds on a loaded host: its first ad, which stays for minutes,
#: would tell that it is overloaded. Shares of so short a life are 0.
SETTLED_S = 10.0
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
        #: The loop's turns, each from one look at what there is to do to the next.
        self.turns = RunTime()
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
        settled = gone >= SETTLED_S
        found: dict[str, float] = {
            "DaemonCoreDutyCycle": _share(gone, self.waited) if settled else 0.0,
            "RecentDaemonCoreDutyCycle": _share(recent_gone, recent_waited) if settled else 0.0,
        }
        if publication.level:
            found["DCStatsLifetime"] = int(gone)
            if publication.recent:
                found["DCRecentStatsLifetime"] = int(recent_gone)
                if publication.level > 1:
                    found["DCRecentWindowMax"] = int(self._ring.window.seconds)
        if publication.level and self.turns.count:
            found |= {"DCPumpCycleCount": self.turns.count, "DCPumpCycleSum": self.turns.total}
            if publication.level > 1:
                found |= {f"DCPumpCycle{kind}": value for kind, value in self.turns.summary().items()}
        return found | publication.select(
            {"DCSelectWaittime": round(self.waited, 6)}, {"DCSelectWaittime": round(recent_waited, 6)}
        )


def _share(gone: float, waited: float) -> float:
    return round(min(1.0, max(0.0, 1.0 - waited / gone)), 6) if gone > 0 else 0.0


#: Of this process; nothing is known of it unless :func:`loop` made its loop.
duty = DutyCycle()


def statistics(now: float, publication: Publication = DEFAULT) -> dict[str, float]:
    """What this process does with its time, as far as ``publication`` shows the category DC."""
    return duty.attributes(now, publication) | spent.attributes(publication)


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self._turned = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        began = time.monotonic()
        duty.turns.add(began - self._turned)
        self._turned = began
        found = super().select(timeout)
        if timeout is not None and timeout <= 0:
            return found
        duty.waited += time.monotonic() - began
        return found


def loop() -> asyncio.AbstractEventLoop:
    """An event loop whose waiting is counted."""
    duty.begin(time.monotonic())
    return asyncio.SelectorEventLoop(_Selector())
