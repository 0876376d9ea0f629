"""Takes over the claims and runs of a former process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from slotwise.clock import Clock
from slotwise.schedd.claims.reconnecting.reconnect_events import ReconnectEvents
from slotwise.schedd.claims.reconnecting.starter_lists import StarterLists
from slotwise.schedd.claims.records import Claim, ClaimTable, Run
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.turn import Turn, Turns
from slotwise.schedd.jobs.decision import Kill, RunEnd
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle import run as lifecycle
from slotwise.schedd.lifecycle.claim_states import Disconnected, Gone
from slotwise.schedd.parallel.gang import Gang, Node
from slotwise.schedd.parallel.node_ends import from_text
from slotwise.schedd.policy.evict_transforms import kill_owed
from slotwise.schedd.storage.run_rows import StoredNode, StoredRun
from slotwise.schedd.storage.store import StoredClaim


class Restored(Struct, frozen=True):
    """What follows from the claims and runs of a former process: what is to be committed, and runs that are to end."""

    turn: Turn
    #: Kills of runs whose jobs were held or removed.
    owed: list[Kill]


class Restoration:
    """Brings stored claims and runs into memory, and opens the links to their startds."""

    def __init__(
        self,
        queue: Queue,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        *,
        links: StartdLinks,
        starters: StarterLists,
        events: ReconnectEvents,
        lease_s: int,
        gang_of: Callable[[list[Job], str, float], Gang],
    ) -> None:
        """
        :param gang_of: makes the gang of the jobs with the id of their run, which began at a time; without nodes.
        :param lease_s: the lease of runs without a claim, seconds.
        """
        self._queue = queue
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._links = links
        self._starters = starters
        self._events = events
        self._lease_s = lease_s
        self._gang_of = gang_of

    def restore(
        self,
        claims: Iterable[StoredClaim],
        runs: Iterable[StoredRun],
        nodes: Iterable[StoredNode],
        starters: Mapping[str, str],
    ) -> Restored:
        """Take over what a former process held; its runs wait until their starters speak."""
        restored = Restored(self._turns.begin(), [])
        moment = self._clock.monotonic()
        self._starters.restore(starters)
        for row in claims:
            claim = Claim(row.claim, row.startd, row.slot, row.submitter, row.lease_s, row.slot_ad, limits=row.limits)
            claim.dedicated = bool(row.dedicated)
            claim.state = Disconnected("", moment + row.lease_s)
            self._claim_table.add(claim)
        for stored in runs:
            job = self._queue.job(stored.cluster, stored.proc)
            if job is not None and not job.cluster.runs_here:
                self._restore_run(stored, job, moment, restored, None)
        self._restore_gangs(sorted(nodes, key=lambda node: node.node), moment, restored)
        for claim in self._claim_table.claims.values():
            self._claim_table.adopt(claim, claim.state)
        # Also those with whom nothing is left to talk about: the message that a claim was given back may be lost.
        for startd in (self._claim_table.startds() | set(starters)) - {""}:
            self._links.open(startd)
        return restored

    def _restore_gangs(self, nodes: Iterable[StoredNode], moment: float, restored: Restored) -> None:
        """Take over the nodes of parallel jobs: those that run, and the ends of those that do not any more."""
        gangs: dict[str, Gang] = {}
        ended: list[tuple[Node, RunEnd]] = []
        for stored in nodes:
            job = self._queue.job(stored.run.cluster, stored.run.proc)
            if job is None or job.run != stored.gang:
                continue
            gang = gangs.get(stored.gang)
            if gang is None:
                gang = gangs[stored.gang] = self._gang_of([job], stored.gang, stored.run.born_at)
            elif job not in gang.jobs:
                gang.jobs.append(job)
            node = Node(gang, stored.node, job)
            gang.nodes.append(node)
            if stored.end:
                ended.append((node, from_text(stored.end)))
            else:
                self._restore_run(stored.run, job, moment, restored, node)
        for node, end in sorted(ended, key=lambda one: one[1].at):
            node.gang.note_end(node, end)
        for gang in gangs.values():
            gang.note_executing()  # event 001 was written with the last of them

    def _restore_run(self, stored: StoredRun, job: Job, moment: float, restored: Restored, node: Node | None) -> None:
        claim = self._claim_table.claims.get(stored.claim)
        gone = claim is None
        if claim is None:
            slot = str((job.changes or {}).get("RemoteHost") or "unknown")  # no event may lack it
            claim = Claim(stored.claim, "", slot, job.submitter, self._lease_s, b"")
        claim.state = Gone(stored.run_id) if gone else Disconnected(stored.run_id)
        executing_at, logged = stored.executing_at, stored.disconnect_logged
        state = lifecycle.restored(executing_at, moment, claim.lease_s, claim_gone=gone, logged=logged)
        run = Run(stored.run_id, job, stored.token, claim, stored.born_at, claim.lease_s, state, node=node)
        run.born = moment - max(0.0, self._clock.now() - stored.born_at)
        if node is not None:
            node.run_id, node.executes, node.disconnected = run.id, executing_at > 0, logged
        if (kill := kill_owed(job)) is not None:
            restored.owed.append(kill)
        self._claim_table.runs[run.id] = run
        if executing_at and not gone and run.goes_on and not logged:
            run.state = replace(state, disconnect_logged=True)
            reason = "Local schedd and job shadow died, schedd now running again"
            self._events.disconnected(run, reason, restored.turn)
