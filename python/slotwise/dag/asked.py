"""What people ask of a DAG that runs, by files beside it."""

from __future__ import annotations

from slotwise.dag.acts import Happened
from slotwise.dag.running import Effects, Running


class Asked:
    """X.halt. Once seen, it counts for the whole run: deleting it does not resume the DAG, as in HTCondor."""

    def __init__(self, dag: Running) -> None:
        self._dag = dag
        self._halt = dag.plan.directory / f"{dag.plan.primary}.halt"
        self.is_halted = False

    def look(self) -> Effects:
        """What is asked for since the last call."""
        if not self.is_halted and self._halt.exists():
            self.is_halted = True
            self._dag.log.write(f"DAG is halted because halt file {self._dag.plan.primary}.halt exists")
            return Effects(events=[Happened("halt")])
        return Effects()


__all__ = ["Asked"]
