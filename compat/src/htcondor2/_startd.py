"""``Startd``: draining machines and vacating slots."""

from __future__ import annotations

from classad2 import ClassAd
from slotwise.wire.gen import startd_pb2, startd_pb2_grpc

from htcondor2 import _pool
from htcondor2._enums import CompletionType, DrainType, VacateType
from htcondor2._errors import HTCondorException


class Startd:
    """This host's startd, or the one of an ad that a collector has given."""

    def __init__(self, location: ClassAd | None = None) -> None:
        self._addr = None if location is None else _pool.address_of(location, "startd")

    def _stub(self) -> startd_pb2_grpc.StartdStub:
        found: startd_pb2_grpc.StartdStub = _pool.stub(startd_pb2_grpc.StartdStub, "startd", self._addr)
        return found

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
        request = startd_pb2.DrainRequest(
            schedule=int(drain_type), reason=reason or "by Python", check=check_expr or "", start=start_expr or "",
            on_completion=CompletionType(on_completion).name.lower(),
        )  # fmt: skip
        return str(_pool.asked("the startd", lambda: self._stub().Drain(request, timeout=60)).request_id)

    def cancelDrainJobs(self, request_id: str | None = None) -> None:
        """End a drain: the one with this id, or whichever there is."""
        request = startd_pb2.CancelDrainRequest(request_id=request_id or "")
        _pool.asked("the startd", lambda: self._stub().CancelDrain(request, timeout=60))

    def vacateSlot(self, slot_name: str | None = None, vacate_fast: VacateType = VacateType.Graceful) -> None:
        """Make one slot give up its job."""
        if not slot_name:
            raise ValueError("slot_name must be a non-empty string")
        self._vacate([slot_name], vacate_fast)

    def vacate(self, vacate_fast: VacateType = VacateType.Graceful) -> None:
        """Make all slots give up their jobs."""
        self._vacate([], vacate_fast)

    def _vacate(self, slots: list[str], how: VacateType) -> None:
        request = startd_pb2.VacateRequest(slots=slots, fast=VacateType(how) is VacateType.Fast)
        _pool.asked("the startd", lambda: self._stub().Vacate(request, timeout=60))

    def history(self, *_: object, **__: object) -> list[ClassAd]:
        """Refused: read the file that STARTD_HISTORY names on the execution point (`slotwise history -startd`).

        :raises HTCondorException: always.
        """
        raise HTCondorException("this startd does not serve its history; read the file STARTD_HISTORY names")
