"""Starts parallel jobs: the runs of all nodes begin in one turn, each on a claim that is held already."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotwise.clock import Clock
from slotwise.schedd.claims.records import Claim, ClaimTable, Run
from slotwise.schedd.claims.starts.new_runs import NewRuns
from slotwise.schedd.claims.transitions import ApplyToClaim
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle import run as run_lifecycle
from slotwise.schedd.parallel.gang import Gang, Node

#: ParallelShutdownPolicy of jobs that end with their last node.
_WAIT_FOR_ALL = "wait_for_all"


class GangStarts:
    """Begins the runs of parallel jobs."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        clock: Clock,
        claim_table: ClaimTable,
        *,
        new_runs: NewRuns,
        apply: ApplyToClaim,
        run_token: Callable[[], str],
        spool_of: Callable[[Job], str],
    ) -> None:
        """
        :param run_token: makes the secret by which a starter proves that a run is its own.
        :param spool_of: the directory at the access point in which nodes may leave files for each other.
        """
        self._queue = queue
        self._ads = ads
        self._clock = clock
        self._claim_table = claim_table
        self._new_runs = new_runs
        self._apply = apply
        self._run_token = run_token
        self._spool_of = spool_of

    def begin(self, nodes: Sequence[tuple[Job, Claim]], turn: Turn) -> None:
        """Decide that a job starts; ``nodes`` has the proc and the claim of each of its nodes."""
        jobs = list(dict.fromkeys(job for job, _ in nodes))
        number, decision = int(jobs[0].number("NumShadowStarts")) + 1, turn.decision
        gang = self.gang_of(jobs, f"{jobs[0].key}#{number}", decision.now)
        turn.batch.delete_nodes(jobs[0].cluster.number)
        everywhere = ",".join(dict.fromkeys(claim.slot_name for _, claim in nodes))
        for job in jobs:
            claims = [claim for proc, claim in nodes if proc is job]
            attributes: Changes = {
                **self._new_runs.attributes(job, claims[0]),
                "CurrentHosts": len(nodes),
                "RemoteHosts": ",".join(claim.slot_name for claim in claims),
                "AllRemoteHosts": everywhere,
            }
            self._queue.runnable.discard(job)
            self._queue.begin_run(job, gang.id, attributes, decision)
        for place, (job, claim) in enumerate(nodes):
            state = run_lifecycle.begun(self._clock.monotonic(), claim.lease_s)
            run_id = f"{job.key}#{number}.{place}"
            run = Run(run_id, job, self._run_token(), claim, decision.now, claim.lease_s, state)
            run.born = self._clock.monotonic()
            run.node = Node(gang, place, job, run_id)
            gang.nodes.append(run.node)
            self._apply(claim, claim_events.RunBegun(run.id), turn)
            self._claim_table.runs[run.id] = run
            turn.batch.put_run(run.row())
            turn.started.append(run)

    def gang_of(self, jobs: list[Job], gang_id: str, born_at: float) -> Gang:
        """The gang of these jobs, without nodes yet."""
        policy = self._ads.text(jobs[0], "ParallelShutdownPolicy") if self._ads.has(jobs[0]) else ""
        gang = Gang(gang_id, jobs, born_at, policy.lower() == _WAIT_FOR_ALL, self._spool_of(jobs[0]))
        gang.leaves_on_exit = self._ads.has(jobs[0]) and self._ads.plain_exit_policy(jobs[0])
        self._claim_table.gangs[gang_id] = gang
        return gang
