"""Claims and the runs on them: builds the parts, each from those before it, and connects them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Protocol

from slotwise import ids
from slotwise.clock import Clock
from slotwise.schedd.claims.claim_effects import ClaimEffects
from slotwise.schedd.claims.ends.idle_claims import IdleClaims
from slotwise.schedd.claims.ends.removed_hosts import RemovedHosts
from slotwise.schedd.claims.ends.run_ends import RunEnds
from slotwise.schedd.claims.faults.faults import Faults
from slotwise.schedd.claims.faults.sweep import Sweep
from slotwise.schedd.claims.matching.refusals import Refusals
from slotwise.schedd.claims.matching.requesting import ClaimRequests
from slotwise.schedd.claims.reconnecting.reconnect import Reconnects
from slotwise.schedd.claims.reconnecting.reconnect_events import ReconnectEvents
from slotwise.schedd.claims.reconnecting.restore import Restoration
from slotwise.schedd.claims.reconnecting.starter_lists import StarterLists
from slotwise.schedd.claims.reconnecting.upkeep import Upkeep
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.claims.run_effects import RunEffects
from slotwise.schedd.claims.settings import ClaimSettings
from slotwise.schedd.claims.startds.claim_reports import ClaimReports
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.startds.startd_reports import StartdReports
from slotwise.schedd.claims.starts.activation import Activation
from slotwise.schedd.claims.starts.dataflow_skips import DataflowSkips
from slotwise.schedd.claims.starts.new_runs import NewRuns
from slotwise.schedd.claims.starts.next_job import NextJob
from slotwise.schedd.claims.starts.now_jobs import NowJobs
from slotwise.schedd.claims.starts.reserved_jobs import ReservedJobs
from slotwise.schedd.claims.starts.start_limits import StartLimits
from slotwise.schedd.claims.starts.starting import Starting
from slotwise.schedd.claims.transitions import ClaimTransitions, RunTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.durations import Durations
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.lifecycle.run_instructions import ShadowInstruction
from slotwise.schedd.parallel.dedicated_scheduler import DedicatedScheduler
from slotwise.schedd.parallel.gang_ends import GangEnds
from slotwise.schedd.parallel.gang_starts import GangStarts
from slotwise.schedd.parallel.leftover_nodes import LeftoverNodes
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.users.running_limits import RunningLimits
from slotwise.wire.credential import Credential


class ShadowSide(Protocol):
    """What claims have the shadow do about runs."""

    def carry_out(self, run: Run, instruction: ShadowInstruction) -> None:
        """Carry out what the life cycle of the run asks of the shadow."""
        ...

    def begun(self, run: Run) -> None:
        """A run is durable, and its claim is about to be activated."""
        ...

    def given_up(self, run: Run) -> None:
        """A run is over without a word of its starter."""
        ...

    def over(self, run: Run) -> None:
        """A run is over."""
        ...


async def _nowhere(slot_name: str) -> str:
    return ""


class Claiming:
    """The parts that have to do with claims. Others take the part that they need, not this."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        settings: ClaimSettings,
        credential: Credential,
        *,
        shadow: Callable[[], ShadowSide],
        assign_autoclusters: Callable[[], None],
        own_ad: Callable[[], Changes],
        runs_here: Callable[[], Container[str]],
        running: RunningLimits,
        removed_hosts: Callable[[], Mapping[str, int]] = dict,
        spool_of: Callable[[Job], str] = lambda job: "",
        run_token: Callable[[], str] = ids.secret,
        find_startd: Callable[[str], Awaitable[str]] = _nowhere,
    ) -> None:
        """What is called is called only after all parts of the schedd are built.

        :param shadow: the shadows of all runs.
        :param assign_autoclusters: makes sure that every runnable job has its autocluster.
        :param own_ad: the schedd's own ad, as START_VANILLA_UNIVERSE sees it.
        :param runs_here: ids of the runs on the access point itself.
        :param running: how many jobs of users and projects may run at a time.
        :param removed_hosts: hosts that were removed from the pool, with the time of that.
        :param spool_of: the directory at the access point in which the nodes of a parallel job may leave files.
        :param run_token: makes the secret by which a starter proves that a run is its own.
        :param find_startd: where the startd with a slot of a name answers, as the collector knows it; empty: nowhere.
        """
        durations = Durations()
        self.claim_table = table = ClaimTable()
        self.reserved = ReservedJobs(queue, committer.tell_new_work)
        self.turns = turns = Turns(committer, clock, self.reserved, lambda runs: self.activation.activate_all(runs))
        self.links = StartdLinks(credential, lambda: self.reports)
        self.starters = StarterLists(committer, clock)
        self.limits = StartLimits(queue, ads, table, own_ad=own_ad, running=running)
        self.refusals = Refusals()
        self.next_job = NextJob(queue, ads, clock, self.limits, durations, assign_autoclusters)
        # The two life cycles: what follows from a step is carried out by parts that are built below.
        self.claims = claims = ClaimTransitions(table, lambda: self._claim_effects)
        self.runs = runs = RunTransitions(lambda run, instruction: self._run_effects.carry_out(run, instruction))
        self.now_jobs = NowJobs(lambda job, slots: self.requests.coalesce(job, slots))
        self.gang_ends = GangEnds(queue, ads, table.forget_gang)
        self.run_ends = RunEnds(
            queue,
            ads,
            clock,
            turns,
            table,
            durations,
            claims=claims,
            now_jobs=self.now_jobs,
            apply=runs.apply,
            node_ended=self.gang_ends.node_ended,
            on_given_up=lambda run: shadow().given_up(run),
            on_over=lambda run: self._run_over(run, shadow()),
            refusals=self.refusals,
        )
        self.sweep = Sweep(queue, ads, committer, clock, turns, table, claims=claims, runs_here=runs_here)
        self.failures = failures = Faults(
            queue,
            committer,
            clock,
            turns,
            table,
            claims=claims,
            apply_to_run=runs.apply,
            links=self.links,
            forget_run=self.run_ends.forget,
            node_ended=self.gang_ends.node_ended,
            on_given_up=lambda run: shadow().given_up(run),
            sweep_soon=self.sweep.soon,
        )
        # Jobs are started, and claims activated.
        self.new_runs = NewRuns(queue, ads, clock, table, durations, apply=claims.apply, run_token=run_token)
        self.starting = Starting(
            ads,
            clock,
            turns,
            apply=claims.apply,
            next_job=self.next_job,
            limits=self.limits,
            reserved=self.reserved,
            new_runs=self.new_runs,
            failures=failures,
            keep_dedicated=lambda: self.dedicated.keep(),
        )
        gang_starts = GangStarts(
            queue,
            ads,
            clock,
            table,
            new_runs=self.new_runs,
            apply=claims.apply,
            run_token=run_token,
            spool_of=spool_of,
        )
        self.dedicated = DedicatedScheduler(
            queue,
            ads,
            committer,
            clock,
            turns,
            table,
            schedd_name=settings.schedd_name,
            claims=claims,
            starts=gang_starts,
            take_turn=lambda job: self.starting.take_turn(job),
            limits=self.limits,
            failures=failures,
            ask=committer.tell_new_work,
        )
        self.leftover_nodes = LeftoverNodes(table, self.run_ends.give_up, failures)
        self.activation = Activation(
            ads,
            table,
            self.links,
            settings.address,
            apply=runs.apply,
            on_begun=lambda run: shadow().begun(run),
            give_up=self.run_ends.give_up,
            dataflow=DataflowSkips(
                queue,
                ads,
                turns,
                settings.fallback_account,
                give_up=self.run_ends.give_up,
                failures=failures,
            ),
            failures=failures,
        )
        # What comes from outside: matches, messages of startds, lists of starters, time.
        self.requests = ClaimRequests(
            queue,
            ads,
            committer,
            clock,
            claim_table=table,
            claims=claims,
            turns=turns,
            links=self.links,
            limits=self.limits,
            reserved=self.reserved,
            failures=failures,
            refusals=self.refusals,
            assign_autoclusters=assign_autoclusters,
        )
        self.requests.dedicated = self.dedicated
        self.reconnects = Reconnects(
            clock,
            table,
            turns,
            apply=claims.apply,
            apply_to_run=runs.apply,
            links=self.links,
            starters=self.starters,
            failures=failures,
        )
        self.reports = StartdReports(
            settings.schedd_name,
            settings.address,
            claim_table=table,
            claims=claims,
            turns=turns,
            links=self.links,
            requests=self.requests,
            reports=ClaimReports(
                queue,
                committer,
                clock,
                turns,
                table,
                apply=claims.apply,
                apply_to_run=runs.apply,
                on_starter=self.starters.starter_at,
                refusals=self.refusals,
            ),
            compare=self.reconnects.known,
            find=find_startd,
            on_moved=self.starters.moved,
            failures=failures,
        )
        self.idle = IdleClaims(clock, turns, table, claims=claims, starting=self.starting, failures=failures)
        self.removed_hosts = RemovedHosts(
            committer,
            clock,
            turns,
            table,
            claims=claims,
            ends=self.run_ends,
            failures=failures,
            removed=removed_hosts,
        )
        self.upkeep = Upkeep(
            queue,
            committer,
            clock,
            table,
            apply_to_run=runs.apply,
            links=self.links,
            idle=self.idle,
            sweep=self.sweep,
            failures=failures,
            parallel=self._see_to_parallel_jobs,
            removed_hosts=self.removed_hosts.look,
        )
        # What follows from the steps of the life cycles, and from a restart.
        events = ReconnectEvents(queue)
        self._claim_effects = ClaimEffects(table, self.links, self.reserved, self.starting, self.reconnects)
        self._run_effects = RunEffects(
            turns,
            activation=self.activation,
            links=self.links,
            reconnect_events=events,
            ends=self.run_ends,
            claims=claims,
            abandon=failures.end,
            shadow=lambda run, instruction: shadow().carry_out(run, instruction),
            refusals=self.refusals,
        )
        self.restoration = Restoration(
            queue,
            clock,
            turns,
            table,
            links=self.links,
            starters=self.starters,
            events=events,
            lease_s=settings.lease_s,
            gang_of=gang_starts.gang_of,
        )
        self.configure(settings)

    def configure(self, settings: ClaimSettings) -> None:
        """Hand the settings that a reconfig may change to the parts."""
        self.limits.policy = settings.start_vanilla
        self.refusals.delay_s = settings.refused_match_s
        self.refusals.clear()
        self.run_ends.cool_down = settings.cool_down
        self.limits.jobs_running_most = settings.jobs_running_most
        self.requests.lease_s = settings.lease_s
        self.requests.want_leftovers = settings.want_leftovers
        self.requests.alive_interval_s = self.upkeep.alive_interval_s = settings.alive_interval_s
        self.new_runs.machine_attrs = settings.machine_attrs
        self.new_runs.machine_attrs_length = settings.machine_attrs_length
        self.starting.next_start_delay_most_s = settings.next_start_delay_most_s
        self.starting.throttle.count = settings.start_count
        self.starting.throttle.delay_s = settings.start_delay_s
        self.dedicated.fifo = settings.dedicated_fifo
        self.dedicated.unused_s = settings.unused_claim_s

    def _see_to_parallel_jobs(self) -> None:
        self.leftover_nodes.look()
        self.dedicated.look()

    def _run_over(self, run: Run, shadow: ShadowSide) -> None:
        self.starters.run_over(run)
        shadow.over(run)
