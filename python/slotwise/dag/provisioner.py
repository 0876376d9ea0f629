"""The PROVISIONER node of a DAG: its job is asked until it says that what it provides is there."""

from __future__ import annotations

import contextlib

from slotwise.client import Schedd
from slotwise.dag.acts import Happened, NodeStatus
from slotwise.dag.running import Effects, Running
from slotwise.errors import PeerUnavailableError

#: How often its job is asked, seconds.
_AGAIN_S = 1.0
#: ProvisionerState of the job when the rest may begin.
_PROVISIONED = 2


class Provisioner:
    """That of one run, if the DAG has one."""

    def __init__(self, dag: Running, schedd: Schedd) -> None:
        self._dag, self._schedd = dag, schedd
        self._node = dag.run.provisioner
        self._at = 0.0

    def next_at(self) -> float | None:
        """When its job is asked next, on the monotonic clock; None: there is none to ask."""
        if self._node is None or self._dag.run.state(self._node)[0] != NodeStatus.SUBMITTED:
            return None
        return self._at

    def go_on(self, now: float) -> Effects:
        """Ask, if it is time."""
        at = self.next_at()
        if self._node is None or at is None or now < at:
            return Effects()
        self._at = now + _AGAIN_S
        cluster = self._dag.nodes[self._node].record.cluster
        with contextlib.suppress(PeerUnavailableError):
            ready = f"ClusterId == {cluster} && ProvisionerState =?= {_PROVISIONED}"
            if self._schedd.query(ready, ["ClusterId"], limit=1):
                self._node = None
                return Effects(events=[Happened("provisioned")])
        return Effects()


__all__ = ["Provisioner"]
