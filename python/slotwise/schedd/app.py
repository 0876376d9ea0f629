"""Wires the access point together and starts it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.config import Config
from slotwise.daemon import pool_end
from slotwise.daemon.ad import daemon_ad
from slotwise.daemon.locate import collector_target, negotiator_target
from slotwise.daemon.questions import Questions
from slotwise.daemon.runtime import DaemonContext
from slotwise.model.ownership import LocalDomains
from slotwise.release import CONDOR_VERSION, condor_platform
from slotwise.schedd.api.job_actions import Actions
from slotwise.schedd.api.listing import Listing
from slotwise.schedd.api.user_actions import Users
from slotwise.schedd.claims.claiming import Claiming, ClaimSettings
from slotwise.schedd.claims.reconnect import Reattachment
from slotwise.schedd.claims.resource_requests import Requests
from slotwise.schedd.claims.stopping import Stopping
from slotwise.schedd.history.daemon_history import DaemonHistory
from slotwise.schedd.history.epochs import RunHistory, record_of
from slotwise.schedd.history.history_files import HistoryExport
from slotwise.schedd.history.pruning import prune
from slotwise.schedd.history.query import History
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.autocluster import JOB_ID, Autoclusters
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.dependents import Dependents
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes, Expr
from slotwise.schedd.local.runs import LocalRuns
from slotwise.schedd.policy.periodic import Periodic, RunTimes
from slotwise.schedd.publish.cron import Cron
from slotwise.schedd.publish.publisher import NegotiatorCall, ScheddPublisher
from slotwise.schedd.publish.statistics import Statistics
from slotwise.schedd.service import ScheddServicer
from slotwise.schedd.settings import Settings, read_settings
from slotwise.schedd.shadow.proxy_renewal import ProxyRenewal
from slotwise.schedd.shadow.shadow import Shadows
from slotwise.schedd.shadow.usage_reports import host_of
from slotwise.schedd.storage.committer import Committer, hold_for_log
from slotwise.schedd.storage.memory_trim import MemoryTrim
from slotwise.schedd.storage.store import Batch, Store
from slotwise.schedd.submission import convert as submissions
from slotwise.schedd.submission.materializer import Materializer
from slotwise.schedd.submission.reserved_ids import ReservedClusters
from slotwise.schedd.submission.restore import restore
from slotwise.schedd.submission.transaction import Admission, AdmissionSettings, SubmitResult
from slotwise.schedd.transfer.spooling import Spooling
from slotwise.schedd.transfer.transfers import Transfers
from slotwise.schedd.user_files import owner_rights
from slotwise.schedd.userlog.global_log import GlobalLog
from slotwise.schedd.userlog.writer import LogFailure
from slotwise.schedd.users.records import UserRecords
from slotwise.wire.gen import schedd_pb2_grpc
from slotwise.wire.keys import PoolSecrets
from slotwise.wire.run_tokens import run_tokens

_log = logging.getLogger(__name__)
_TIDY_S = 3600.0


async def start(context: DaemonContext) -> AccessPoint:
    """Open the queue, take up what was left, and begin to serve."""
    point = AccessPoint(context, read_settings(context.config, context.address.name, local_execute(context)))
    point.begin()
    return point


class AccessPoint:
    """One running schedd."""

    def __init__(self, context: DaemonContext, settings: Settings) -> None:
        self._context = context
        self._settings = settings
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="files")
        #: Apart from the others, which wait for starters that do not take their files.
        self._log_threads = ThreadPoolExecutor(2, thread_name_prefix="event logs")
        self._tasks: list[asyncio.Task[None]] = []
        name, target, clock = settings.name, context.address.target, context.clock
        self.store = Store(context.home.spool / "schedd.sqlite", synchronous=settings.synchronous)
        self._stored = self.store.open()
        self._rules_at, self._rules_ad = -10.0, Changes()
        self._birthdate = self._stored.birthdate
        self.queue = Queue(date_form=settings.date_form)
        self.ads = JobAds()
        self.users = UserRecords()
        self.committer = Committer(
            self.store,
            self.ads,
            self._log_threads,
            next_planned=self._stored.next_planned,
            fallback_account=settings.fallback_account,
            on_log_failure=self._log_failed,
        )
        access_point_key = PoolSecrets(context.home).access_point_key()
        context.authenticator.accept(access_point_key, "RUN")
        self.claiming = Claiming(
            self.queue,
            self.ads,
            self.committer,
            clock,
            claim_settings(settings, target),
            context.credential,
            run_tokens(access_point_key, name, clock.now()),
        )
        self.reattachment = Reattachment(self.claiming)
        self.transfers = Transfers(
            self.queue,
            self.ads,
            self.claiming,
            clock,
            self._threads,
            file_system_domain=settings.file_system_domain,
            fallback_account=settings.fallback_account,
            spool=context.home.spool,
            host=settings.host,
            place_of=partial(host_of, self.ads, self.claiming),
        )
        self.run_history = RunHistory(self._threads)
        self.daemon_history = DaemonHistory(lambda: ClassAd(native(self._scheduler_ad())), clock, self._threads)
        self.history_export = HistoryExport(self.store, name, clock)
        self.shadows = Shadows(
            self.queue, self.ads, self.claiming, self.reattachment, self.transfers, clock, self.run_history
        )
        self.stopping = Stopping(self.claiming, clock, lambda kill: self.shadows.kill(kill))
        self.requests = Requests(
            self.queue, self.ads, self.claiming, autoclusters(settings), schedd_name=name, address=target
        )
        reserved = ReservedClusters()
        reserved.keep(self._stored.reserved, self._stored.reserved_taken)
        self.admission = Admission(
            self.queue,
            self.ads,
            self.committer,
            clock,
            admission_settings(settings, context.address.shown),
            self._stored.next_cluster,
            reserved=reserved,
            recall=self._recall_submission,
            to_bytes=submissions.to_bytes,
            own_ad=lambda: ClassAd(native(self._ad_for_rules())),
            users=self.users,
        )
        self.materializer = Materializer(self.queue, self.admission, self.committer, self.store, clock, self._threads)
        self.questions = Questions(clock)
        self.local = LocalRuns(
            self.queue,
            self.ads,
            self.committer,
            clock,
            self._threads,
            settings.local,
            self._scheduler_ad,
            pool_environment(context),
        )
        self.claiming.here = self.local.runs
        self.actions = Actions(
            self.queue,
            self.ads,
            self.committer,
            self.claiming,
            clock,
            self.materializer,
            self.questions,
            self.local,
        )
        self.periodic = Periodic(
            self.queue, self.ads, self.committer, clock, settings.system, run_of=self._run_of, sweep=self._sweep_runs
        )
        self.negotiator = NegotiatorCall(lambda: negotiator_target(context), context.credential, name)
        self.publisher = ScheddPublisher(lambda: collector_target(context), context.credential, self._own_ads)
        self.spooling = Spooling(
            self.queue,
            self.ads,
            self.committer,
            clock,
            self._threads,
            context.home.sandboxes,
            settings.fallback_account,
            context.address.shown,
            self.questions,
            kept_beside=[context.home.spool / "jobs"],
        )
        self.proxies = ProxyRenewal(self.queue, self.ads, self.committer, self.claiming.book, self.transfers, clock)
        self.statistics = Statistics(self.queue, self.claiming.book, self.transfers.uploads, clock, settings.statistics)
        self.statistics.downloading = lambda: list(self.transfers.status.letters.values()).count(">")
        self.statistics.requests_sent = lambda: self.requests.sent
        self.memory = MemoryTrim(self.queue, self.ads)
        self.cron = Cron(self._counted_ad, clock, context.env, self.publisher.publish)
        self._connect_parts()
        self._serve()

    def _connect_parts(self) -> None:
        self.committer.on_kills = self._stop_runs
        dependents = Dependents(self.queue, self.ads)
        self.local.on_end = lambda job, decision: dependents.remove(decision)
        self.local.on_durable = self._record_run
        self.requests.counts_here = self.local.counts_of
        self.queue.address = self._context.address.shown
        self.committer.on_new_work = self._new_work
        self.committer.on_change = self.publisher.publish
        self.committer.on_jobs = self._durable
        self.committer.on_retired = self.history_export.look
        self.committer.on_left = self.users.left
        self.claiming.own_ad = self._ad_for_rules
        self.claiming.running_most = self.local.running_most = self.users.running_most
        self.claiming.on_run_given_up = self.shadows.given_up
        self._configure(self._settings)

    def _configure(self, settings: Settings) -> None:
        owner_rights.use_minimum_uid(settings.least_uid)
        self.queue.cool_down_s = settings.cool_down_s
        self.local.configure(settings.local)
        self.periodic.system = settings.system
        self.periodic.interval_s = settings.periodic_interval_s
        self.proxies.interval_s = settings.proxy_interval_s
        self.periodic.timeslice = settings.periodic_timeslice
        self.periodic.interval_most_s = settings.periodic_interval_most_s
        self.negotiator.enabled = settings.on_demand
        self.transfers.limits_mib = settings.transfer_limits_mib
        self.transfers.uploads.most = settings.uploads_most
        self.transfers.uploads.per_user_most = settings.uploads_per_user_most
        rate = self.claiming.start_rate
        rate.count, rate.delay_s = settings.start_count, settings.start_delay_s
        self.stopping.configure(settings.stop_count, settings.stop_delay_s)
        self.committer.global_log = GlobalLog(settings.event_log) if settings.event_log else None
        for note in settings.rules.notes:
            _log.warning("%s", note)
        self.run_history.settings = settings.run_history
        self.statistics.follow(settings.statistics)
        self.daemon_history.follow(settings.daemon_history)
        self.history_export.settings = settings.history
        self.history_export.look()
        self.users.known_only = settings.known_users_only
        self.actions.locks = self.shadows.requests.locks = settings.locks
        self.publisher.interval_s = settings.schedd_interval_s
        self.admission.intake.per_user_most, self.admission.intake.most = settings.intake_most

    def _serve(self) -> None:
        context, settings = self._context, self._settings
        place = context.address.shown
        listing = Listing(self.queue, self.ads, context.clock, self.questions, name=settings.name, address=place)
        listing.moving = self.transfers.status.letters
        self.servicer = ScheddServicer(
            context.authenticator,
            context.clock,
            admission=self.admission,
            actions=self.actions,
            listing=listing,
            history=History(self.store, settings.name, context.clock),
            requests=self.requests,
            claiming=self.claiming,
            shadows=self.shadows,
            spooling=self.spooling,
            superusers=settings.superusers,
            users=Users(self.users, self.queue, self.admission, self.committer, context.clock, self.questions),
        )
        schedd_pb2_grpc.add_ScheddServicer_to_server(self.servicer, context.server)

    # ---- life

    def begin(self) -> None:
        """Take up what a former process left, and start everything that runs by itself."""
        stored = self._stored
        domains, name = self.admission.settings.domains, self._settings.name
        restore(stored, self.queue, self.ads, domains, name, self.materializer.adopt)
        self.queue.admitted = 0
        self.users.load(stored.users, self.queue.owned)
        decision, batch = self.reattachment.restore(stored.claims, stored.runs, stored.starters)
        self.stopping.ask(self.reattachment.owed)
        here = [row for row in stored.runs if (c := self.queue.clusters.get(row.cluster)) and c.runs_here]
        self.committer.start(stored.planned)
        if decision.entries:
            self.committer.commit(decision, batch)
        self.materializer.resume()
        if stored.jobs:
            _log.info("restored the job queue: %d jobs, %d of them running", len(stored.jobs), len(stored.runs))
            self._new_work()
        for work in (
            self.reattachment.run,
            self.periodic.run,
            self.negotiator.run,
            self._tidy,
            self.spooling.run,
            self.memory.run,
            self.proxies.run,
            self.history_export.run,
            self.daemon_history.run,
            partial(self.local.run, here),
        ):
            self._start(work)
        self.publisher.start()
        self.cron.follow(self._context.config)
        self._stored = type(stored)()

    def _start(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work()))

    def _recall_submission(self, user: str, key: bytes) -> SubmitResult | None:
        stored = self.store.submission(user, key)
        return submissions.from_bytes(stored) if stored is not None else None

    def _run_of(self, run_id: str) -> RunTimes | None:
        return self.claiming.book.runs.get(run_id) or self.local.runs.get(run_id)

    def _sweep_runs(self) -> None:
        self.claiming.failures.sweep_due = True

    def _stop_runs(self, decision: Decision) -> None:
        self.stopping.ask(decision.kills)
        self.local.stop(decision.kills)

    def _record_run(self, run_id: str, job: Job) -> None:
        if self.run_history.is_kept and self.ads.has(job):
            self.run_history.add(record_of(run_id, job, self.ads, self._context.clock.now()))

    def _new_work(self) -> None:
        self.local.look()
        self.reattachment.use_idle_claims()
        self.negotiator.ask()

    def _durable(self, decision: Decision) -> None:
        self.materializer.look(decision)
        if decision.runs_over and self.users.limited:
            self.local.look()  # a job that MaxJobsRunning held back may start

    def _log_failed(self, failure: LogFailure, keys: list[str]) -> None:
        self.committer.commit(hold_for_log(self.queue, failure, keys, self._context.clock.now()))

    async def _tidy(self) -> None:
        """Forget what is too old to be asked for."""
        while True:
            await asyncio.sleep(_TIDY_S)
            now = int(self._context.clock.now())
            batch = Batch()
            batch.tidy(now)
            await self.store.commit(batch)
            if self._settings.history_days > 0:
                await prune(self.store, now - self._settings.history_days * 86400, self._threads)

    async def reconfig(self, config: Config) -> list[str]:
        """Take over a new configuration; names and addresses stay until a restart."""
        settings = read_settings(config, self._context.address.name, local_execute(self._context))
        self._settings = settings
        self.queue.date_form = settings.date_form
        self._configure(settings)
        self.servicer.superusers = settings.superusers
        self.shadows.visits.look_again()
        self.claiming.settings = claim_settings(settings, self._context.address.target)
        self.admission.settings = admission_settings(settings, self._context.address.shown)
        self.requests.replace(autoclusters(settings))
        return self.cron.follow(config)

    async def stop(self, mode: str) -> None:
        """Stop: jobs go on running and are taken up again by the next schedd, unless the stop is graceful and the
        pool ends with it (the startds then end their claims themselves)."""
        self.stopping.close()
        going = pool_end.is_announced(self._context.home)
        await self.local.close(end="fast" if mode == "fast" else "graceful" if going else "")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.publisher.close()
        await self.cron.stop()
        for link in list(self.claiming.links.values()):
            await link.close()
        await self.committer.close()
        await self.run_history.close()
        await self.history_export.close()
        self.store.close()
        self._threads.shutdown(wait=False)
        self._log_threads.shutdown(wait=False)

    # ---- ads

    def _scheduler_ad(self) -> Changes:
        """The schedd's ad."""
        return {**self._counted_ad(), **self.cron.attributes()}

    def _ad_for_rules(self) -> Changes:
        """The same for conditions that are asked very often: all but counts of jobs may be a second old."""
        now = self._context.clock.monotonic()
        if not 0 <= now - self._rules_at < 1.0:
            self._rules_at, self._rules_ad = now, self._scheduler_ad()
        return {**self._rules_ad, **self._counts()}

    def _counted_ad(self) -> Changes:
        """What the schedd itself says of the queue, which conditions of cron jobs read."""
        name, address = self._settings.name, self._context.address
        return {
            **self._settings.advertised,
            **daemon_ad(self._context, "Scheduler", name=name),
            "Machine": self._settings.host,
            "ScheddIpAddr": address.target,
            "JobQueueBirthdate": self._birthdate,
            **self._counts(),
            "MaxJobsRunning": self._settings.jobs_running_most,
            "MaxJobsSubmitted": self._settings.jobs_most,
            "MaxJobsPerOwner": self._settings.jobs_per_owner_most,
            "MaxJobsPerSubmission": self._settings.jobs_per_submission_most,
            "Autoclusters": len(self.requests.autoclusters),
            "TotalFlockedJobs": 0,  # there is no flocking
            **self._start_conditions(),
            **self.statistics.attributes(),
        }

    def _counts(self) -> Changes:
        counts = self.queue.counts()
        return {
            **self.local.counts(),
            "TotalRunningJobs": counts[2] + counts[6] + counts[7],
            "TotalIdleJobs": counts[1],
            "TotalHeldJobs": counts[5],
            "TotalRemovedJobs": counts[3],
            "TotalJobAds": sum(counts),
            "NumOwners": sum(1 for jobs in self.queue.owned.values() if jobs),
            "NumUsers": sum(1 for jobs in self.queue.owned.values() if jobs),
        }

    def _start_conditions(self) -> Changes:
        rules = self._settings.local.rules
        found: Changes = {"MaxRunningSchedulerJobsPerOwner": rules.scheduler_most}
        if rules.local is not None:
            found["StartLocalUniverse"] = Expr(str(rules.local))
        if rules.scheduler is not None:
            found["StartSchedulerUniverse"] = Expr(str(rules.scheduler))
        return found

    def _own_ads(self) -> dict[str, dict[str, Changes]]:
        """What the collector is told."""
        found = {**self._settings.advertised, **self.cron.attributes()}
        shared: Changes = {
            "CondorVersion": CONDOR_VERSION,
            "CondorPlatform": condor_platform(),
            "DaemonStartTime": self._context.address.started_at,
            "JobQueueBirthdate": self._birthdate,
        }
        submitters: dict[str, Changes] = {}
        for key, ad in self.requests.submitter_ads().items():
            counted = self.statistics.of_submitter(str(ad["Name"]))
            submitters[key] = {**counted, "JobsRunning": ad["RunningJobs"], **shared, **found, **ad}
        return {"Scheduler": {self._settings.name: self._scheduler_ad()}, "Submitter": submitters}


def local_execute(context: DaemonContext) -> Path:
    """Where runs on the access point have their directories, unless LOCAL_UNIV_EXECUTE says so: their jobs reach it."""
    return context.home.execute.parent / "local_univ_execute"


def pool_environment(context: DaemonContext) -> dict[str, str]:
    """How commands that a job on the access point calls find this pool. No secret is in it."""
    found = {"SLOTWISE_HOME": str(context.home.root)}
    if file := context.env.get("CONDOR_CONFIG"):
        found["CONDOR_CONFIG"] = file
    return found


def claim_settings(settings: Settings, address: str) -> ClaimSettings:
    """What claiming takes from the settings."""
    return ClaimSettings(
        schedd_name=settings.name,
        address=address,
        alive_interval_s=settings.alive_interval_s,
        want_leftovers=settings.want_leftovers,
        machine_attrs=settings.machine_attrs,
        machine_attrs_length=settings.machine_attrs_length,
        jobs_running_most=settings.jobs_running_most,
        start_vanilla=settings.start_vanilla,
        start_count=settings.start_count,
        start_delay_s=settings.start_delay_s,
        next_start_delay_most_s=settings.next_start_delay_most_s,
    )


def admission_settings(settings: Settings, tcp: str) -> AdmissionSettings:
    """What admission takes from the settings."""
    return AdmissionSettings(
        schedd_name=settings.name,
        host=tcp,
        domains=LocalDomains.of(settings.uid_domain, settings.trusted_domains),
        version=CONDOR_VERSION,
        jobs_most=settings.jobs_most,
        jobs_per_owner_most=settings.jobs_per_owner_most,
        jobs_per_submission_most=settings.jobs_per_submission_most,
        fallback_account=settings.fallback_account,
        least_uid=settings.least_uid,
        superusers=settings.superusers,
        rules=settings.rules,
        locks=settings.locks,
    )


def autoclusters(settings: Settings) -> Autoclusters:
    """Empty autoclusters with the significant attributes that are configured, or that START_VANILLA_UNIVERSE reads."""
    added = [*settings.significant_added]
    if settings.start_vanilla.expression is not None:
        judged_by = settings.start_vanilla.expression.references()
        added += [*judged_by.target, *judged_by.bare]
        if judged_by.unbounded:
            # It may read anything of a job, so that no job speaks for another.
            added += JOB_ID
    return Autoclusters(replaced=settings.significant, added=added, removed=settings.significant_removed)


__all__ = ["AccessPoint", "start"]
