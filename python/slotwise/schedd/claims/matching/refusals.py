"""Which slots have refused which jobs, and for how long they are not asked again. Pure.

The negotiator matches by the ads that it has; that a slot does not take a job after all, only the access point learns.
Without a memory of that, the same match would be made in every cycle, and the job would wait for ever beside slots that
take it. A slot that refuses the same kind of job twice in a row for the same reason is therefore left out of the
requests for it, for a time that grows with each further refusal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec import Struct

from slotwise.backoff import Backoff
from slotwise.classad import ClassAd, ExprTree, quote
from slotwise.model.reason_codes import CLAIM_WAS_OVER, Vacate

_log = logging.getLogger(__name__)

#: Refusals that do not say anything of the slot and the job: the claim was over, or the job was taken back.
_SAY_NOTHING = CLAIM_WAS_OVER | {int(Vacate.SCHEDD_VACATE)}
#: From so many refusals in a row on, the slot is left out.
_TWICE = 2
#: How many times SLOTWISE_REFUSED_MATCH_DELAY the longest time is.
_LONGEST = 60
#: Refusals remembered at most, and slots that a request leaves out at most: the latest ones.
_MOST, _MOST_OF_REQUEST = 10_000, 50


class _Refusal(Struct):
    reason: str
    in_a_row: int
    until: float


def _log_left_out(slot: str, kind: int | str, refusal: _Refusal, wait_s: float) -> None:
    if isinstance(kind, str):
        what = (slot, wait_s, kind, refusal.in_a_row, refusal.reason)
        _log.info("%s is not asked again for %.0f s for jobs like %s: refused %d times in a row: %s", *what)


class Refusals:
    """The refusals of late, by slot, for each autocluster and each job.

    A job is remembered by itself, too: what a start changes in it may give it another autocluster.
    """

    def __init__(self) -> None:
        self._by_kind: dict[int | str, dict[str, _Refusal]] = {}
        self._count = 0
        #: SLOTWISE_REFUSED_MATCH_DELAY, seconds.
        self.delay_s = 20.0

    def __len__(self) -> int:
        return self._count

    def note(self, kinds: Iterable[int | str], slot: str, reason: str, code: int, now: float) -> float | None:
        """Remember that a slot has refused; returns until when it is left out, None: it is not.

        :param kinds: the autocluster, and the keys of the jobs.
        :param slot: the slot that was matched; of a dynamic slot, its partitionable one.
        :param code: HTCondor's code of the refusal, 0 for none.
        """
        if self.delay_s <= 0 or code in _SAY_NOTHING:
            return None
        waits = Backoff(first_s=self.delay_s, factor=2.0, most_s=self.delay_s * _LONGEST)
        until = 0.0
        for kind in kinds:
            slots = self._by_kind[kind] = self._by_kind.pop(kind, {})  # the kinds that refused last come last
            former = slots.pop(slot, None)
            self._count += former is None
            again = former is not None and former.reason == reason
            in_a_row = former.in_a_row + 1 if former is not None and again else 1
            left_out = now + waits.delay_s(in_a_row - _TWICE + 1) if in_a_row >= _TWICE else 0.0
            slots[slot] = _Refusal(reason, in_a_row, left_out)
            until = max(until, left_out)
            if left_out:
                _log_left_out(slot, kind, slots[slot], left_out - now)
        while self._count > _MOST:
            self._forget_kind(next(iter(self._by_kind)))
        return until or None

    def accepted(self, kinds: Iterable[int | str], slot: str) -> None:
        """A slot takes a job after all: what it said before is forgotten."""
        for kind in kinds:
            slots = self._by_kind.get(kind)
            if slots is not None and slots.pop(slot, None) is not None:
                self._count -= 1
                if not slots:
                    del self._by_kind[kind]

    def left_out(self, kinds: Iterable[int | str], now: float) -> list[str]:
        """The slots that are not asked for these jobs now, the latest to refuse last."""
        found = [
            (refusal.until, slot)
            for kind in kinds
            for slot, refusal in self._by_kind.get(kind, {}).items()
            if refusal.until > now
        ]
        return list(dict.fromkeys(slot for _, slot in sorted(found)))[-_MOST_OF_REQUEST:]

    def constrain(self, request: ClassAd, kinds: Iterable[int | str], now: float) -> None:
        """Restrict a resource request to slots that are asked."""
        slots = self.left_out(kinds, now) if self._count else []
        if slots:
            others = " && ".join(f"TARGET.Name =!= {quote(slot)}" for slot in slots)
            former = request.lookup("Requirements") if "Requirements" in request else "true"
            request["Requirements"] = ExprTree(f"({former}) && {others}")

    def forget_autoclusters(self) -> None:
        """The numbers of autoclusters mean other jobs now."""
        for kind in [kind for kind in self._by_kind if isinstance(kind, int)]:
            self._forget_kind(kind)

    def clear(self) -> None:
        """Every slot is asked again."""
        self._by_kind.clear()
        self._count = 0

    def _forget_kind(self, kind: int | str) -> None:
        self._count -= len(self._by_kind.pop(kind))
