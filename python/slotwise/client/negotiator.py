"""The negotiator: priorities and usage of submitters, and its cycles; blocking and for asyncio."""

from __future__ import annotations

import json

from slotwise.classad import ClassAd
from slotwise.client.daemon import AsyncClient, BlockingClient
from slotwise.errors import UsageError
from slotwise.wire.gen import common_pb2, negotiator_pb2, negotiator_pb2_grpc

_Edit = negotiator_pb2.AccountingEdit
_SETTINGS = {
    "priority": _Edit.PRIORITY,
    "factor": _Edit.FACTOR,
    "ceiling": _Edit.CEILING,
    "floor": _Edit.FLOOR,
    "usage": _Edit.ACCUMULATED_USAGE,
    "begin_time": _Edit.BEGIN_TIME,
    "last_time": _Edit.LAST_TIME,
}


def setting(submitter: str, name: str, value: float, lease_s: int) -> negotiator_pb2.AccountingEdit:
    """A change of one setting of a submitter.

    :raises UsageError: when there is no such setting.
    """
    if name not in _SETTINGS:
        raise UsageError(f"submitters have no setting {name!r}", hint=f"one of {', '.join(_SETTINGS)}")
    return _Edit(what=_SETTINGS[name], submitter=submitter, value=value, duration_s=lease_s)


def reset(submitter: str | None) -> negotiator_pb2.AccountingEdit:
    """Usage set to nothing: of a submitter, or everybody's."""
    if submitter is None:
        return _Edit(what=_Edit.RESET_ALL)
    return _Edit(what=_Edit.RESET_USAGE, submitter=submitter)


class Negotiator(BlockingClient):
    """The pool's negotiator.

    Submitters are named as in ads: ``user@domain``, or an accounting group. The parameters are those of
    :class:`~slotwise.client.daemon.BlockingClient`.
    """

    daemon = "negotiator"
    stub_class = negotiator_pb2_grpc.NegotiatorStub

    def accounting(self) -> list[ClassAd]:
        """An ad for each submitter and accounting group: priority, factor, usage."""
        return self._ads(self._stub.Accounting, common_pb2.AdQuery(kind="Accounting"))

    def set(self, submitter: str, name: str, value: float, *, lease_s: int = 0) -> None:
        """Set a submitter's ``priority``, ``factor``, ``ceiling``, ``floor``, ``usage`` (weighted slot seconds),
        ``begin_time`` or ``last_time`` (epoch seconds).

        :param lease_s: how long factor, ceiling or floor hold, in seconds; 0: for good.
        :raises UsageError: there is no such setting, or the value is out of range.
        """
        self._ask(self._stub.EditAccounting, setting(submitter, name, value, lease_s))

    def reset_usage(self, submitter: str | None = None) -> None:
        """Set a submitter's usage to nothing; everybody's when None."""
        self._ask(self._stub.EditAccounting, reset(submitter))

    def delete(self, submitter: str) -> None:
        """Forget a submitter: priority, settings and usage."""
        self._ask(self._stub.EditAccounting, _Edit(what=_Edit.DELETE, submitter=submitter))

    def reschedule(self) -> bool:
        """Ask for a cycle soon; whether one was begun."""
        return bool(self._ask(self._stub.Reschedule, negotiator_pb2.RescheduleRequest()).started)

    def last_cycle(self) -> dict[str, object]:
        """The last cycle: its times, counts, and rejections by submitter and autocluster.

        :raises NotFoundError: there was none yet.
        """
        found: dict[str, object] = json.loads(self._ask(self._stub.LastCycle, common_pb2.Empty()).json)
        return found


class AsyncNegotiator(AsyncClient):
    """As :class:`Negotiator`, in coroutines. Make it inside a running event loop."""

    daemon = "negotiator"
    stub_class = negotiator_pb2_grpc.NegotiatorStub

    async def accounting(self) -> list[ClassAd]:
        """An ad for each submitter and accounting group: priority, factor, usage."""
        return await self._ads(self._stub.Accounting, common_pb2.AdQuery(kind="Accounting"))

    async def set(self, submitter: str, name: str, value: float, *, lease_s: int = 0) -> None:
        """Set one of a submitter's settings. See :meth:`Negotiator.set`."""
        await self._ask(self._stub.EditAccounting, setting(submitter, name, value, lease_s))

    async def reset_usage(self, submitter: str | None = None) -> None:
        """Set a submitter's usage to nothing; everybody's when None."""
        await self._ask(self._stub.EditAccounting, reset(submitter))

    async def delete(self, submitter: str) -> None:
        """Forget a submitter: priority, settings and usage."""
        await self._ask(self._stub.EditAccounting, _Edit(what=_Edit.DELETE, submitter=submitter))

    async def reschedule(self) -> bool:
        """Ask for a cycle soon; whether one was begun."""
        return bool((await self._ask(self._stub.Reschedule, negotiator_pb2.RescheduleRequest())).started)

    async def last_cycle(self) -> dict[str, object]:
        """The last cycle. See :meth:`Negotiator.last_cycle`."""
        found: dict[str, object] = json.loads((await self._ask(self._stub.LastCycle, common_pb2.Empty())).json)
        return found
