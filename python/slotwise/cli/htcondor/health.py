"""How well daemons do: from 0 to 100 points, by how busy they are and how long transfers of jobs wait."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.classad.values import number

#: Points of a daemon that does well.
BEST = 100
#: Of a schedd's points, those for its transfers.
_TRANSFERS = 28
#: From which share of the points on a word holds.
_WORDS = ((0.75, "Good"), (0.5, "Decent"), (0.25, "Poor"))
#: A transfer queue that is longer than this, in MB, and waits longer than that, in seconds, costs points.
_WAITING_MB, _WAITING_S = 100, 300


def points(ad: ClassAd) -> float:
    """The points of the daemon that advertises an ad. A duty cycle below 95 % is well, and one of 98 % is not; the line
    between is HTCondor's (htcondor_cli/convert_ad.py)."""
    busy = min(1.0, max(0.0, number(ad.eval("RecentDaemonCoreDutyCycle"))))
    free = min(1.0, max(0.0, 31.0334 - 0.95 / 0.03 * busy))
    if ad.get("MyType") != "Scheduler":
        return BEST * free
    return (BEST - _TRANSFERS) * free + _TRANSFERS * _transfers(ad)


def _transfers(ad: ClassAd) -> float:
    """The share of the queues of transfers, up and down, that move, and that do not wait too long."""
    share = 0.0
    for way in ("Upload", "Download"):
        moving = number(ad.eval(f"TransferQueueNum{way}ing"))
        if not moving or number(ad.eval(f"FileTransfer{way}BytesPerSecond_1m")):
            share += 0.25
        waiting = number(ad.eval(f"TransferQueueNumWaitingTo{way}"))
        amount = number(ad.eval(f"FileTransferMBWaitingTo{way}"))
        waited_s = number(ad.eval(f"TransferQueue{way}WaitTime"))
        if not waiting or amount < _WAITING_MB or waited_s / waiting < _WAITING_S:
            share += 0.25
    return share


def word(total: float, daemons: int) -> str:
    """The points of some daemons as a word."""
    share = total / (BEST * max(1, daemons))
    return next((text for least, text in _WORDS if share >= least), "Bad")
