"""What the ad of the DAG's job says of the DAG while it runs."""

from __future__ import annotations

import time

from slotwise.classad import ExprTree
from slotwise.client import Schedd
from slotwise.dag import run_texts
from slotwise.dag.cycle_times import CycleTimes
from slotwise.dag.running import Running
from slotwise.errors import SlotwiseError

#: DAGMAN_ON_EXIT_REMOVE takes higher exit statuses for those of a runner that is to be started again; ABORT-DAG-ON may
#: name one.
_HIGHEST_END = 2


class JobAd:
    """That of one run. Updates are at least DAGMAN_QUEUE_UPDATE_INTERVAL apart, unless they are urgent. The first one
    is before any submitted job is in the nodes log, and has the next one follow as soon as that was looked at."""

    def __init__(self, dag: Running, schedd: Schedd, times: CycleTimes) -> None:
        self._dag, self._schedd, self._times = dag, schedd, times
        self._told: dict[str, int] = {}
        self._at = 0.0

    def follow(self, now: float) -> None:
        """Tell the schedd what has changed, if it is time. ``now``: on the monotonic clock."""
        if now >= self._at:
            self.tell(now)

    def next_at(self) -> float | None:
        """When the schedd is to be told; None: it knows everything."""
        return self._at if self._attributes() != self._told else None

    def _attributes(self, *, recovers: bool = False) -> dict[str, int]:
        return run_texts.attributes(self._dag.run.counts(), self._dag.run.status, recovers=recovers)

    def tell(self, now: float, *, recovers: bool = False, exit_status: int | None = None) -> None:
        """Tell the schedd what has changed, now. ``recovers``: former events are being read. ``exit_status``: the DAG
        is over."""
        made = self._attributes(recovers=recovers) | ({"DAG_JobsRunning": 0} if exit_status == 0 else {})
        changed = {name: value for name, value in made.items() if self._told.get(name) != value}
        starts_again = exit_status is not None and exit_status > _HIGHEST_END
        if not changed and not starts_again:
            return
        settings = self._dag.settings
        self._at = now + (settings.update_s if self._told else min(settings.update_s, settings.scan_s))
        values: dict[str, object] = dict(changed)
        if not self._told:
            rules, plan = self._dag.settings.rules, self._dag.plan
            values |= {
                "DAGMan_MaxJobs": rules["max_jobs"], "DAGMan_MaxIdle": rules["max_idle"],
                "DAGMan_MaxPreScripts": rules["max_pre"], "DAGMan_MaxPostScripts": rules["max_post"],
                "DAGMan_MaxHoldScripts": rules["max_hold"],
                "DAGMan_MaxSubmitsPerInterval": self._dag.settings.shown_submits, "JobBatchName": plan.batch,
                "JobBatchId": f"{plan.cluster}.0",
            }  # fmt: skip
        if starts_again:
            values["OnExitRemove"] = True
        values["DAG_AdUpdateTime"] = int(time.time())
        values["DAG_Stats"] = ExprTree(self._times.text())
        try:
            self._schedd.edit(f"{self._dag.plan.cluster}.0", values)  # type: ignore[arg-type]
            self._told = made
        except SlotwiseError as error:
            self._dag.log.write(f"WARNING: the DAG's job's ad was not updated: {error.message}")


__all__ = ["JobAd"]
