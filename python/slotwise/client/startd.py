"""The startd: the slots of one machine, draining and vacating them; blocking and for asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from slotwise.classad import ClassAd
from slotwise.client import past
from slotwise.client.ad_list import AdList
from slotwise.client.call import Call, ads, nothing
from slotwise.client.daemon import AsyncClient, BlockingClient, Client, calls
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2, startd_pb2, startd_pb2_grpc

Schedule = Literal["graceful", "quick", "fast"]
Completion = Literal["nothing", "resume", "exit", "restart", "reconfig"]

#: DrainSchedule: jobs keep their retirement time, their vacate time only, or are killed.
SCHEDULES: Mapping[Schedule, int] = {"graceful": 0, "quick": 10, "fast": 20}


@dataclass(frozen=True)
class Drain:
    """How a machine is drained (manual page of condor_drain).

    :param schedule: ``graceful``: jobs keep their retirement time; ``quick``: their vacate time only; ``fast``: they
        are killed.
    :param on_completion: what the startd does once the machine is empty.
    :param check: must be true for every slot, else the startd refuses.
    :param start: jobs for which it is true may start while others retire.
    :param deadline: epoch seconds, for the machine's policy (DrainingDeadline); 0: none.
    """

    schedule: Schedule = "graceful"
    reason: str = "by Python"
    on_completion: Completion = "nothing"
    check: str = ""
    start: str = ""
    deadline: int = 0

    def request(self) -> startd_pb2.DrainRequest:
        """The message that asks for it."""
        return startd_pb2.DrainRequest(
            schedule=SCHEDULES[self.schedule],
            reason=self.reason,
            on_completion=self.on_completion,
            check=self.check,
            start=self.start,
            deadline=self.deadline,
        )


def slot_query(constraint: str, projection: Sequence[str]) -> common_pb2.AdQuery:
    """A query for the ads of slots."""
    return common_pb2.AdQuery(kind="Machine", constraint=constraint, projection=projection)


class StartdCalls(Client):
    """The calls of a startd."""

    daemon = "startd"
    stub_class = startd_pb2_grpc.StartdStub

    @calls
    def slots(self, constraint: str = "", projection: Sequence[str] = ()) -> Call[AdList]:
        """The slots' ads as the startd has them now; the collector gets them a little later."""
        return ads("Query", slot_query(constraint, projection))

    @calls
    def history(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, since: str = ""
    ) -> Call[AdList]:
        """Jobs that ran on this machine (STARTD_HISTORY), newest first, until ``since`` (a job, a cluster or an
        expression). Needs ADMINISTRATOR.

        :raises NotFoundError: the startd keeps no history.
        """
        return past.history("STARTD_HISTORY", constraint, projection, limit, since)

    @calls
    def drain(self, how: Drain = Drain()) -> Call[str]:
        """Drain the machine; returns the request's id, with which it is cancelled.

        :raises SlotwiseError: the machine drains already, or ``check`` is not true for all slots.
        """
        return Call("Drain", how.request(), lambda reply: str(reply.request_id))

    @calls
    def cancel_drain(self, request_id: str = "") -> Call[None]:
        """Cancel a drain: the one with this id, or the current one."""
        return Call("CancelDrain", startd_pb2.CancelDrainRequest(request_id=request_id), nothing)

    @calls
    def vacate(self, slots: Iterable[str] = (), *, fast: bool = False) -> Call[None]:
        """Vacate slots, all of the machine when none is named; ``fast``: they are killed."""
        return Call("Vacate", startd_pb2.VacateRequest(slots=slots, fast=fast), nothing)

    @calls
    def update_machine_ad(self, attributes: ClassAd) -> Call[None]:
        """Add attributes to the ads of the machine's slots, until its startd restarts."""
        return Call("UpdateMachineAd", common_pb2.AdBatch(pack=pack_ads([attributes])), nothing)


class Startd(StartdCalls, BlockingClient):
    """A machine's startd: this host's, or that of another pool, name or address.

    The parameters are those of :class:`~slotwise.client.daemon.Client`.
    """


class AsyncStartd(StartdCalls, AsyncClient):
    """As :class:`Startd`, in coroutines. Make it inside a running event loop."""
