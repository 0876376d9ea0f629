"""``Startd``: draining machines and vacating slots."""

from __future__ import annotations

from collections.abc import Sequence

from classad2 import ClassAd, ExprTree
from slotwise.client import Startd as Client
from slotwise.client.startd import SCHEDULES, Completion, Drain, Schedule

from htcondor2 import _past, _pool
from htcondor2._enums import CompletionType, DrainType, VacateType
from htcondor2._errors import HTCondorException
from htcondor2._expressions import as_read

_SCHEDULES: dict[DrainType, Schedule] = {DrainType(number): name for name, number in SCHEDULES.items()}
_COMPLETIONS: dict[CompletionType, Completion] = {
    CompletionType.Nothing: "nothing", CompletionType.Resume: "resume", CompletionType.Exit: "exit",
    CompletionType.Restart: "restart", CompletionType.Reconfig: "reconfig",
}  # fmt: skip


class Startd:
    """This host's startd, or the one of an ad that a collector has given."""

    def __init__(self, location: ClassAd | None = None) -> None:
        self._addr = None if location is None else _pool.address_of(location, "startd")

    def _client(self) -> Client:
        return _pool.client(Client, self._addr)

    def drainJobs(
        self,
        drain_type: DrainType = DrainType.Graceful,
        on_completion: CompletionType = CompletionType.Nothing,
        check_expr: str | None = None,
        start_expr: str | None = None,
        reason: str | None = None,
    ) -> str:
        """Drain the machine; returns the request's id, with which it is cancelled."""
        if check_expr is not None and not isinstance(check_expr, str):
            raise TypeError("check_expr must be a string")
        if start_expr is not None and not isinstance(start_expr, str):
            raise TypeError("start_expr must be a string")
        how = Drain(
            _SCHEDULES[DrainType(drain_type)], reason or "by Python", _COMPLETIONS[CompletionType(on_completion)],
            check_expr or "", start_expr or "",
        )  # fmt: skip
        with _pool.calling("the startd"):
            return self._client().drain(how)

    def cancelDrainJobs(self, request_id: str | None = None) -> None:
        """Cancel a drain: the one with this id, or the current one."""
        with _pool.calling("the startd"):
            self._client().cancel_drain(request_id or "")

    def vacateSlot(self, slot_name: str | None = None, vacate_fast: VacateType = VacateType.Graceful) -> None:
        """Make one slot give up its job."""
        if not slot_name:
            raise ValueError("slot_name must be a non-empty string")
        self._vacate([slot_name], vacate_fast)

    def vacate(self, vacate_fast: VacateType = VacateType.Graceful) -> None:
        """Make all slots give up their jobs."""
        self._vacate([], vacate_fast)

    def _vacate(self, slots: list[str], how: VacateType) -> None:
        with _pool.calling("the startd"):
            self._client().vacate(slots, fast=VacateType(how) is VacateType.Fast)

    def history(
        self,
        constraint: str | ExprTree | None = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: int | str | ExprTree | None = None,
    ) -> list[ClassAd]:
        """Jobs that ran on this machine (STARTD_HISTORY), newest first, until ``since``. Needs ADMINISTRATOR.

        :raises HTCondorException: the startd keeps no history, or refuses.
        """
        if match == 0:
            return []
        wanted = as_read(constraint)
        ends = _past.since_text(since)
        with _pool.calling("the startd"):
            found = self._client().history(wanted, list(projection), limit=max(0, match), since=ends)
        return [ClassAd._of(ad) for ad in found]

    def rehome(self, *_: object, **__: object) -> None:
        """Refused: a machine belongs to the pool that its COLLECTOR_HOST names.

        :raises HTCondorException: always.
        """
        raise HTCondorException("this startd is not lent to schedds: drain it, and set COLLECTOR_HOST")
