"""The negotiator: priorities and usage of submitters, and its cycles; blocking and for asyncio."""

from __future__ import annotations

import json

from slotwise.classad import ClassAd
from slotwise.client.ad_list import AdList
from slotwise.client.call import Call, ads, nothing
from slotwise.client.daemon import AsyncClient, BlockingClient, Client, calls
from slotwise.errors import UsageError
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2, negotiator_pb2, negotiator_pb2_grpc

#: How long an analysis may take, in seconds.
_ANALYSIS_S = 120.0
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

    :raises UsageError: there is no such setting.
    """
    if name not in _SETTINGS:
        raise UsageError(f"submitters have no setting {name!r}", hint=f"one of {', '.join(_SETTINGS)}")
    return _Edit(what=_SETTINGS[name], submitter=submitter, value=value, duration_s=lease_s)


def reset(submitter: str | None) -> negotiator_pb2.AccountingEdit:
    """A reset of the usage of a submitter, or of all."""
    if submitter is None:
        return _Edit(what=_Edit.RESET_ALL)
    return _Edit(what=_Edit.RESET_USAGE, submitter=submitter)


def cycle(reply: negotiator_pb2.LastCycleReply) -> dict[str, object]:
    """The record of a cycle."""
    found: dict[str, object] = json.loads(reply.json)
    return found


def analysis(reply: negotiator_pb2.AnalyzeReply) -> dict[str, object]:
    """An analysis as the negotiator reports it."""
    found: dict[str, object] = json.loads(reply.json)
    return found


class NegotiatorCalls(Client):
    """The calls of a negotiator."""

    daemon = "negotiator"
    stub_class = negotiator_pb2_grpc.NegotiatorStub

    @calls
    def accounting(self) -> Call[AdList]:
        """An ad for each submitter and accounting group: priority, factor, usage."""
        return ads("Accounting", common_pb2.AdQuery(kind="Accounting"))

    @calls
    def set(self, submitter: str, name: str, value: float, *, lease_s: int = 0) -> Call[None]:
        """Set a submitter's ``priority``, ``factor``, ``ceiling``, ``floor``, ``usage`` (weighted slot seconds),
        ``begin_time`` or ``last_time`` (epoch seconds).

        :param lease_s: how long factor, ceiling or floor hold, in seconds; 0: permanently.
        :raises UsageError: there is no such setting, or the value is out of range.
        """
        return Call("EditAccounting", setting(submitter, name, value, lease_s), nothing)

    @calls
    def reset_usage(self, submitter: str | None = None) -> Call[None]:
        """Reset a submitter's usage; that of all if None."""
        return Call("EditAccounting", reset(submitter), nothing)

    @calls
    def delete(self, submitter: str) -> Call[None]:
        """Forget a submitter: priority, settings and usage."""
        return Call("EditAccounting", _Edit(what=_Edit.DELETE, submitter=submitter), nothing)

    @calls
    def reschedule(self) -> Call[bool]:
        """Ask for a cycle soon; whether one was started."""
        return Call("Reschedule", negotiator_pb2.RescheduleRequest(), lambda reply: bool(reply.started))

    @calls
    def last_cycle(self) -> Call[dict[str, object]]:
        """The last cycle: its times, counts, and rejections by submitter and autocluster.

        :raises NotFoundError: there has been none yet.
        """
        return Call("LastCycle", common_pb2.Empty(), cycle)

    @calls
    def analyze(self, job: ClassAd) -> Call[dict[str, object]]:
        """Why a job does not run: its conditions with the slots that pass each, and the limits of its submitter."""
        request = negotiator_pb2.AnalyzeRequest(job=pack_ads([job]))
        return Call("Analyze", request, analysis, timeout_s=_ANALYSIS_S)


class Negotiator(NegotiatorCalls, BlockingClient):
    """The pool's negotiator.

    Submitters are named as in ads: ``user@domain``, or an accounting group. The parameters are those of
    :class:`~slotwise.client.daemon.Client`.
    """


class AsyncNegotiator(NegotiatorCalls, AsyncClient):
    """As :class:`Negotiator`, in coroutines. Make it inside a running event loop."""
