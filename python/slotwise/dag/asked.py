"""What people ask of a DAG that runs, by files beside it."""

from __future__ import annotations

import time

from slotwise.dag import node_log, orders
from slotwise.dag.acts import Happened
from slotwise.dag.node_log import NodeLog
from slotwise.dag.orders import Do, Order, OrderFile
from slotwise.dag.running import Effects, Running
from slotwise.model.job_events import stamp

#: The longest reason for a halt, in characters.
_REASON = 1000


class Asked:
    """X.halt and X.orders.

    The former, once seen, counts until the DAG is ordered to go on; deleting it does not resume the DAG, as in
    HTCondor.

    :ivar path: the file of orders.
    """

    def __init__(self, dag: Running, entries: NodeLog) -> None:
        self._dag, self._entries = dag, entries
        self.path = dag.plan.directory / orders.file_name(dag.plan.primary)
        self._orders = OrderFile(self.path, dag.plan.cluster)
        self._halt = dag.plan.directory / f"{dag.plan.primary}.halt"
        self.is_halted = False

    def look(self) -> Effects:
        """What is asked for since the last call."""
        effects = Effects()
        if not self.is_halted and self._halt.exists():
            self.is_halted = True
            self._dag.log.write(f"DAG is halted because halt file {self._dag.plan.primary}.halt exists")
            self._log_reason()
            effects.events.append(Happened("halt"))
        self._orders.dealt_with |= self._entries.orders.keys()
        before = self._orders.distrust
        for one in self._orders.take():
            refused = self._refusal(one)
            effects.entries.append(node_log.order(one, stamp(time.time()), refused))
            how = f"refused: {refused}" if refused else "is carried out"
            self._dag.log.write(f"Order {one.id} ({f'{one.do} {one.node}'.rstrip()}) {how}")
            if one.do == Do.RESUME and not refused:
                self.is_halted = False
                effects.events.append(Happened("resume"))
        if self._orders.distrust not in ("", before):
            self._dag.log.write(f"ERROR: {self.path} is not followed: {self._orders.distrust}")
        return effects

    def _log_reason(self) -> None:
        try:
            with self._halt.open(errors="replace") as file:
                reason = file.readline(_REASON).rstrip()
        except OSError:
            return
        if reason:
            self._dag.log.write(f"Halt reason: {reason}")

    def _refusal(self, order: Order) -> str:
        """Why an order cannot be carried out; "" if it can."""
        if order.do == Do.RESUME:
            return "" if self.is_halted else "the DAG is not halted"
        number = self._dag.run.find(order.node)
        return "there is no such node" if number is None else self._dag.run.refusal(order.do, number) or ""


__all__ = ["Asked"]
