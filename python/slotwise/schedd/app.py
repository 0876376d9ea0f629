"""The schedd: builds its parts, connects them, and sees them through the daemon's life."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.config import Config
from slotwise.daemon import pool_end, tasks
from slotwise.daemon.locate import collector_target, negotiator_target
from slotwise.daemon.questions import Questions
from slotwise.daemon.runtime import DaemonContext
from slotwise.daemon.start_progress import StartProgress
from slotwise.daemon.step_file import StepFile
from slotwise.home import QUEUE
from slotwise.mail.outbox import Outbox
from slotwise.schedd.api.credential_requests import CredentialRequests
from slotwise.schedd.api.dag_views import DagViews
from slotwise.schedd.api.job_actions import Actions
from slotwise.schedd.api.listing import Listing
from slotwise.schedd.api.now_requests import NowRequests
from slotwise.schedd.api.user_actions import Users
from slotwise.schedd.claims.claiming import Claiming
from slotwise.schedd.claims.ends.stopping import Stopping
from slotwise.schedd.claims.matching.rejections import Rejections
from slotwise.schedd.claims.matching.resource_requests import Requests
from slotwise.schedd.claims.recording import Recorder, record
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.startds.whereabouts import startd_target
from slotwise.schedd.credentials.keeping import CredentialKeeper
from slotwise.schedd.history.daemon_history import DaemonHistory
from slotwise.schedd.history.epochs import RunHistory, record_of
from slotwise.schedd.history.history_files import HistoryExport
from slotwise.schedd.history.pruning import prune
from slotwise.schedd.history.query import History
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.dependents import Dependents
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.job_sets import JobSets
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.local.runs import LocalRuns
from slotwise.schedd.notify.notifier import Notifier
from slotwise.schedd.parallel.nodes import Nodes
from slotwise.schedd.parallel.pool_view import PoolView
from slotwise.schedd.policy.periodic import Periodic, RunTimes
from slotwise.schedd.publish.cron import Cron
from slotwise.schedd.publish.metrics import ScheddMetrics
from slotwise.schedd.publish.own_ads import OwnAds
from slotwise.schedd.publish.publisher import NegotiatorCall, ScheddPublisher
from slotwise.schedd.publish.statistics import Statistics
from slotwise.schedd.publish.usage_meter import UsageMeter
from slotwise.schedd.service import ScheddServicer
from slotwise.schedd.settings import Settings, read_settings
from slotwise.schedd.shadow.credential_delivery import CredentialDelivery
from slotwise.schedd.shadow.job_exit import JobExits
from slotwise.schedd.shadow.prepare_hooks import PrepareHooks
from slotwise.schedd.shadow.proxy_renewal import ProxyRenewal
from slotwise.schedd.shadow.run_tasks import RunTasks
from slotwise.schedd.shadow.shadow import Shadows
from slotwise.schedd.shadow.usage_reports import host_of
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.memory_trim import MemoryTrim
from slotwise.schedd.storage.store import COMMIT_DURATION, Batch, Store
from slotwise.schedd.submission import convert as submissions
from slotwise.schedd.submission.admission import Admission
from slotwise.schedd.submission.cluster_ids import ClusterIds
from slotwise.schedd.submission.entry import QueueEntry
from slotwise.schedd.submission.materializer import Materializer
from slotwise.schedd.submission.new_rows import NewRows
from slotwise.schedd.submission.reserved_ids import ReservedClusters
from slotwise.schedd.submission.restore import projects_in, restore
from slotwise.schedd.submission.submissions import SubmitResult
from slotwise.schedd.submission.transaction import SubmitTransactions
from slotwise.schedd.submission.underway import UnderwaySubmissions
from slotwise.schedd.transfer.checkpoint_cleanup import CheckpointCleanup
from slotwise.schedd.transfer.spooling import Spooling
from slotwise.schedd.transfer.transfers import CHECKPOINTS, Transfers
from slotwise.schedd.user_files import owner_rights
from slotwise.schedd.userlog.global_log import GlobalLog
from slotwise.schedd.userlog.log_waits import LogWaits
from slotwise.schedd.users.daily_usage import DailyUsage
from slotwise.schedd.users.projects import ProjectRecords
from slotwise.schedd.users.records import UserRecords
from slotwise.schedd.users.running_limits import RunningLimits
from slotwise.wire.gen import schedd_pb2_grpc
from slotwise.wire.keys import PoolSecrets
from slotwise.wire.run_tokens import run_tokens

_log = logging.getLogger(__name__)
_TIDY_S = 3600.0


async def start(context: DaemonContext) -> AccessPoint:
    """Open the queue, restore it, and start to serve."""
    point = AccessPoint(context, read_settings(context.config, context.address.name, local_execute(context)))
    point.begin()
    return point


class AccessPoint:
    """One running schedd.

    The constructor builds its parts, each from those before it, and :meth:`_connect` says which part hears of what.
    """

    def __init__(self, context: DaemonContext, settings: Settings) -> None:
        self._context = context
        self._settings = settings
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="files")
        #: Separate from the others, which may wait for starters that do not take their files.
        self._log_threads = ThreadPoolExecutor(2, thread_name_prefix="event logs")
        self._tasks: list[asyncio.Task[None]] = []
        traces = [Path(path) for path in (settings.history.path, settings.run_history.path) if path]
        self.store = Store(context.home.spool / QUEUE, synchronous=settings.synchronous, traces=traces)
        self._progress = StartProgress(context.home, context.name)
        self._stored = self.store.open(self._progress.note)
        self.questions = Questions(context.clock)
        began = context.clock.now()
        self.daily_usage = DailyUsage(began, time.localtime(began).tm_gmtoff, projects=settings.project_records)
        self._build_queue()
        self._build_runs_on_slots()
        self._build_runs_here()
        self._build_submission()
        self._build_policies()
        self._build_reports()
        self._connect()
        self._configure(settings)
        self._record(context.config)
        self._serve()

    # ---- parts

    def _build_queue(self) -> None:
        """The records of jobs and users, the jobs' ads, and what makes decisions about them durable."""
        self.queue = Queue(date_form=self._settings.date_form)
        self.queue.address = self._context.address.shown
        self.queue.on_launch, self.queue.on_run_end = self.daily_usage.launched, self.daily_usage.ended
        self.ads = JobAds()
        self.usage_meter = UsageMeter(self.ads, self.questions, self._context.clock, self.daily_usage)
        self.users = UserRecords()
        self.projects = ProjectRecords()
        self.projects.kept = self._settings.project_records
        self.running = RunningLimits(self.queue, self.users, self.projects)
        self.job_sets = JobSets()
        self.committer = Committer(
            self.store,
            self.ads,
            self._log_threads,
            next_planned=self._stored.next_planned,
            fallback_account=self._settings.fallback_account,
        )

    def _build_runs_on_slots(self) -> None:
        """Claims, the shadows of the runs on them, file transfers, and resource requests."""
        context, settings = self._context, self._settings
        name, target, clock = settings.name, context.address.target, context.clock
        access_point_key = PoolSecrets(context.home).access_point_key()
        context.authenticator.accept(access_point_key, "RUN")
        self.claiming = Claiming(
            self.queue,
            self.ads,
            self.committer,
            clock,
            settings.for_claiming(target),
            context.credential,
            shadow=lambda: self.shadows,
            assign_autoclusters=lambda: self.requests.assign(),
            own_ad=lambda: self.own_ads.for_conditions(),
            runs_here=lambda: self.local.runs,
            running=self.running,
            removed_hosts=lambda: context.authenticator.trust.removed_hosts,
            spool_of=lambda job: self.spooling.sandbox(job).path,
            run_token=run_tokens(access_point_key, name, clock.now()),
            find_startd=partial(startd_target, context),
        )
        claims = self.claiming
        self.transfers = Transfers(
            self.queue,
            self.ads,
            clock,
            self._threads,
            file_system_domain=settings.file_system_domain,
            fallback_account=settings.fallback_account,
            spool=context.home.spool,
            host=settings.host,
            place_of=partial(host_of, self.ads),
            on_failure=claims.failures.task,
        )
        self.checkpoint_cleanup = CheckpointCleanup(
            context.home.spool / CHECKPOINTS,
            context.home.sandboxes,
            clock,
            self._threads,
            settings.fallback_account,
            self._knows,
        )
        self.run_history = RunHistory(self._threads)
        self.credentials = CredentialKeeper(clock, self._credential_folder, self._users_with_jobs)
        self.preparations = RunTasks(claims.failures)
        self.delivery = CredentialDelivery(
            self.credentials, self.ads, claims.claim_table, self.preparations, claims.run_ends.give_up
        )
        nodes = Nodes(self.queue, claims.gang_ends.node_ended, partial(host_of, self.ads))
        self.hooks = PrepareHooks(self.ads, self.transfers, self.preparations, claims.run_ends.give_up)
        self.shadows = Shadows(
            self.queue,
            self.ads,
            self.committer,
            clock,
            claim_table=claims.claim_table,
            apply=claims.runs.apply,
            reconnects=claims.reconnects,
            activate=claims.activation.activate_all,
            failures=claims.failures,
            endings=JobExits(
                self.queue,
                self.ads,
                self.committer,
                claims.turns,
                claims.run_ends,
                self.transfers,
                clock,
                self.run_history,
                nodes,
            ),
            transfers=self.transfers,
            history=self.run_history,
            nodes=nodes,
            hooks=self.hooks,
            credentials=self.delivery,
            preparations=self.preparations,
            give_up=claims.run_ends.give_up,
            make_spool=self._make_spool,
        )
        self.stopping = Stopping(
            claims.claim_table, clock, lambda run, kill: self.shadows.kill(run, kill), claims.failures.run
        )
        self.proxies = ProxyRenewal(self.queue, self.ads, self.committer, claims.claim_table, self.transfers, clock)
        self.requests = Requests(
            self.queue,
            self.ads,
            claims.claim_table,
            claims.limits,
            claims.next_job,
            settings.new_autoclusters(),
            claims.refusals,
            clock,
            schedd_name=name,
            host=settings.host,
            address=target,
        )
        self.requests.dedicated = claims.dedicated
        self.pool_view = PoolView(claims.dedicated, lambda: collector_target(context), context.credential)

    def _make_spool(self, run: Run) -> None:
        """Make the directory in which the nodes of a parallel job may leave files for each other."""

        async def make() -> None:
            await self.transfers.in_thread(self.spooling.sandbox(run.job).make)

        self.transfers.spawn(run, make)

    def _build_runs_here(self) -> None:
        """Runs of the scheduler and local universes."""
        self.local = LocalRuns(
            self.queue,
            self.ads,
            self.committer,
            self._context.clock,
            self._threads,
            self._settings.local,
            lambda: self.own_ads.scheduler(),
            pool_environment(self._context),
        )

    def _build_submission(self) -> None:
        """The ways into the queue: submissions, factories, spooled files."""
        context, settings = self._context, self._settings
        reserved = ReservedClusters()
        reserved.keep(self._stored.reserved, self._stored.reserved_taken)
        self.cluster_ids = ClusterIds(self._stored.next_cluster, reserved, self.committer, context.clock)
        underway = self._underway = UnderwaySubmissions()
        rows = NewRows(
            self.queue,
            context.address.shown,
            lambda: self.committer.global_log is not None,
            lambda: bool(self.committer.global_attrs),
        )
        entry = QueueEntry(self.queue, self.ads)
        self.admission = Admission(
            self.queue,
            context.clock,
            settings.for_admission(),
            cluster_ids=self.cluster_ids,
            underway=underway,
            users=self.users,
            projects=self.projects,
            job_sets=self.job_sets,
            own_ad=lambda: ClassAd(native(self.own_ads.for_conditions())),
            credentials=self.credentials,
        )
        self.submissions = SubmitTransactions(
            self.committer,
            context.clock,
            admission=self.admission,
            underway=underway,
            rows=rows,
            entry=entry,
            users=self.users,
            projects=self.projects,
            job_sets=self.job_sets,
            recall=self._recall_submission,
            to_bytes=submissions.to_bytes,
        )
        self.materializer = Materializer(
            self.queue,
            self.admission,
            rows,
            entry,
            self.committer,
            self.store.factory_part,
            context.clock,
            self._threads,
        )
        self.spooling = Spooling(
            self.queue,
            self.ads,
            self.committer,
            context.clock,
            self._threads,
            context.home.sandboxes,
            settings.fallback_account,
            context.address.shown,
            self.questions,
            evicted=context.home.spool / "jobs",
        )

    def _build_policies(self) -> None:
        """Actions of users and policies on jobs in the queue."""
        clock = self._context.clock
        self.actions = Actions(
            self.queue,
            self.ads,
            self.committer,
            self.claiming.activation,
            clock,
            self.materializer,
            self.questions,
            self.local,
        )
        self.now_requests = NowRequests(
            self.queue, self.ads, self.committer, clock, self.claiming.claim_table, self.claiming.now_jobs
        )
        self.periodic = Periodic(
            self.queue,
            self.ads,
            self.committer,
            clock,
            self._settings.system,
            run_of=self._run_of,
            sweep=self._sweep_runs,
        )

    def _build_reports(self) -> None:
        """Ads and statistics, the collector and the negotiator, histories."""
        context, settings = self._context, self._settings
        name, clock = settings.name, context.clock
        self.statistics = Statistics(
            self.queue,
            self.claiming.claim_table,
            (self.transfers.uploads, self.transfers.downloads),
            clock,
            settings.statistics,
        )
        self.statistics.downloading = lambda: list(self.transfers.status.letters.values()).count(">")
        self.statistics.queue_user = lambda: self.transfers.queue_user
        self.statistics.disk_throttle = lambda: self.transfers.throttle
        self.statistics.requests_sent = lambda: self.requests.sent
        self.own_ads = OwnAds(
            context,
            settings,
            self._stored.birthdate,
            jobs=self.queue,
            submitters=self.requests,
            statistics=self.statistics,
            counts_here=self.local.counts.total,
            found_by_cron=lambda: self.cron.attributes(),
        )
        measured = ScheddMetrics(
            self.own_ads.scheduler,
            self.requests.submitter_ads,
            self.queue.clusters.values,
            self.ads.table,
            clock,
            self.committer.backlog.__len__,
        )
        context.metrics += (measured, COMMIT_DURATION.collect)
        self.negotiator = NegotiatorCall(lambda: negotiator_target(context), context.credential, name)
        self.publisher = ScheddPublisher(lambda: collector_target(context), context.credential, self.own_ads.advertised)
        self.cron = Cron(self.own_ads.without_cron, clock, context.env, self.publisher.publish)
        self.daemon_history = DaemonHistory(lambda: ClassAd(native(self.own_ads.scheduler())), clock, self._threads)
        self.history_export = HistoryExport(self.store, name, clock)
        self.memory = MemoryTrim(self.queue, self.ads)
        self.outbox = Outbox(context.env)
        self.notifier = Notifier(self.ads, self.outbox)

    def _connect(self) -> None:
        """Tell parts whom to call when something happens."""
        self.committer.on_kills = self._stop_runs
        self.committer.on_new_work = self._new_work
        self.committer.on_change = self.publisher.publish
        self.committer.on_jobs = self._durable
        self.committer.on_retired = self._retired
        self.shadows.on_checkpoint = lambda job: self.checkpoint_cleanup.soon((job,))
        self.committer.on_left = self._left
        self.committer.on_notices = self.notifier.prepare
        self.submissions.on_factory = self.materializer.begin
        self.local.starts.has_room = self.running.has_room
        dependents = Dependents(self.queue, self.ads)
        self.local.ends.on_end = lambda job, decision: dependents.remove(decision)
        self.local.ends.on_durable = self._record_run
        self.log_waits = LogWaits(self.queue, self.ads, self.committer, self._context.clock, dependents)
        self.committer.on_log_failure, self.committer.on_logged = self.log_waits.failed, self.log_waits.over
        self.requests.counts_here = self.local.counts.of

    def _serve(self) -> None:
        context, settings = self._context, self._settings
        place = context.address.shown
        listing = Listing(self.queue, self.ads, context.clock, self.questions, name=settings.name, address=place)
        listing.job_sets = self.job_sets
        listing.actions = self.actions.background.ads
        listing.unlogged = self.log_waits.reasons_for
        listing.moving = self.transfers.status.letters
        history = History(
            self.store,
            settings.name,
            context.clock,
            lambda: self.run_history.settings.path,
            lambda: self.history_export.settings.has_environment,
        )
        self.servicer = ScheddServicer(
            context.authenticator,
            context.clock,
            admission=self.admission,
            transactions=self.submissions,
            cluster_ids=self.cluster_ids,
            actions=self.actions,
            listing=listing,
            history=history,
            requests=self.requests,
            matches=self.claiming.requests,
            excess=self.claiming.idle,
            rejections=Rejections(self.queue.runnable, self.committer, context.clock, self._parallel_firsts),
            outcomes=self.claiming.claim_table.outcomes,
            shadows=self.shadows,
            spooling=self.spooling,
            superusers=settings.superusers,
            users=Users(
                self.users,
                self.projects,
                self.committer,
                context.clock,
                self.questions,
                domains=lambda: self.admission.settings.domains,
                index=self.queue,
                has_jobs=self.admission.has_jobs,
                usage=self.daily_usage,
                measure=self.usage_meter.look,
            ),
            now=self.now_requests,
            dag_views=DagViews(
                self.queue,
                self.ads,
                history,
                self.questions,
                context.clock,
                lambda: self.admission.settings.domains,
                home=context.home.root,
                least_uid=settings.least_uid,
            ),
            credentials=CredentialRequests(self.credentials, lambda: self.admission.settings.domains),
        )
        schedd_pb2_grpc.add_ScheddServicer_to_server(self.servicer, context.server)

    def _configure(self, settings: Settings) -> None:
        """Hand the settings that a reconfig may change to the parts."""
        owner_rights.use_minimum_uid(settings.least_uid)
        self.own_ads.settings = settings
        self.ads.rounding = settings.rounding
        self.queue.date_form = settings.date_form
        self.local.configure(settings.local)
        self.periodic.system = settings.system
        self.actions.max_releases = settings.system.max_releases
        self.periodic.interval_s = settings.periodic_interval_s
        self.proxies.interval_s = settings.proxy_interval_s
        self.periodic.timeslice = settings.periodic_timeslice
        self.periodic.interval_most_s = settings.periodic_interval_most_s
        self.negotiator.enabled = settings.on_demand
        self.transfers.flushes = settings.output_flushes
        self.transfers.extra_checkpoints = settings.extra_checkpoints
        self.transfers.shares_common = settings.shares_common
        self.transfers.keep_common_s = settings.keep_common_s
        self.checkpoint_cleanup.settings = settings.cleanup
        self.transfers.limits_mib = settings.transfer_limits_mib
        self.transfers.follow(settings.disk_throttle)
        self.hooks.rules = settings.hooks
        self.credentials.follow(settings.credentials)
        self.transfers.queue_user = settings.transfer_queue_user
        self.transfers.uploads.most = settings.uploads_most
        self.transfers.downloads.most = settings.downloads_most
        self.transfers.uploads.per_user_most = settings.uploads_per_user_most
        self.claiming.configure(settings.for_claiming(self._context.address.target))
        self.stopping.configure(settings.stop_count, settings.stop_delay_s)
        self.now_requests.vacate_s = settings.now_vacate_s
        self.spooling.mode = settings.spool_mode
        self.actions.background.least = settings.background_action_jobs
        self.committer.flushes_logs = settings.userlog_flushes
        self.committer.backlog.patience_s = settings.userlog_patience_s
        self.committer.global_log = GlobalLog(settings.event_log) if settings.event_log else None
        self.committer.global_attrs = settings.event_log_attrs
        for note in settings.rules.notes:
            _log.warning("%s", note)
        self.run_history.settings = settings.run_history
        self.statistics.follow(settings.statistics)
        self.daemon_history.follow(settings.daemon_history)
        self.history_export.settings = settings.history
        self.history_export.look()
        self.outbox.settings = settings.mail
        self.users.known_only = settings.known_users_only
        self.job_sets.enabled = settings.use_job_sets
        self.actions.locks = self.shadows.requests.locks = settings.locks
        self.publisher.interval_s = self.usage_meter.interval_s = settings.schedd_interval_s
        self.submissions.intake.per_user_most, self.submissions.intake.most = settings.intake_most

    def _record(self, config: Config) -> None:
        """Record the steps of claims and runs, if that is configured."""
        kib = config.get_int("SLOTWISE_SCHEDD_STIMULI_MAX_KIB")
        file = StepFile(self._context.home.log / "schedd-stimuli.jsonl", 1024 * kib)
        recorder = Recorder(self._context.clock, file.append) if kib > 0 else None
        record(self.claiming.claims, self.claiming.runs, recorder)

    # ---- life

    def begin(self) -> None:
        """Restore the state of the former process, and start all background tasks."""
        stored = self._stored
        domains, name = self.admission.settings.domains, self._settings.name
        restore(stored, self.queue, self.ads, domains, name, self.materializer.adopt, self._progress.note)
        self.spooling.take_restored(self._context.home.restored)
        self.queue.admitted = 0
        self.users.load(stored.users, self.queue.owned)
        if self.projects.kept:
            self.projects.load(stored.projects, projects_in(stored, self.queue))
        self.job_sets.load(stored.job_sets, self.queue.clusters.values())
        restored = self.claiming.restoration.restore(stored.claims, stored.runs, stored.nodes, stored.starters)
        self.claiming.removed_hosts.restore(stored.removed_hosts)
        self.stopping.ask(restored.owed)
        self.committer.start(stored.planned, self.queue.by_key)
        if restored.turn.decision.entries:
            self.claiming.turns.commit(restored.turn)
        self.actions.background.restore(stored.actions)
        self.materializer.resume()
        if stored.jobs:
            running = len(stored.runs) + len(stored.local_runs) + len({node.gang for node in stored.nodes})
            _log.info("restored the job queue: %d jobs, %d of them running", len(stored.jobs), running)
            self._new_work()
        for doing, work in (
            ("checking leases and idle claims", self.claiming.upkeep.run),
            ("looking for dedicated slots", self.pool_view.run),
            ("evaluating periodic policies", self.periodic.run),
            ("carrying out actions on many jobs", self.actions.background.run),
            ("adapting transfers to the load of the disk", self.transfers.run),
            ("requesting negotiation cycles", self.negotiator.run),
            ("counting daily usage", self.usage_meter.run),
            ("pruning the history", self._tidy),
            ("removing files of jobs that have left", self.spooling.run),
            ("deleting checkpoints", self.checkpoint_cleanup.run),
            ("trimming memory", self.memory.run),
            ("sending renewed proxies", self.proxies.run),
            ("renewing credentials", self.credentials.run),
            ("sending renewed credentials", self.delivery.run),
            ("writing HISTORY", self.history_export.run),
            ("writing SCHEDD_DAEMON_HISTORY", self.daemon_history.run),
            ("sending mail", self.outbox.run),
        ):
            self._tasks.append(tasks.keep(doing, work))
        self._tasks.append(asyncio.get_running_loop().create_task(self.local.take_over(stored.local_runs)))
        self.publisher.start()
        self.cron.follow(self._context.config)
        self._stored = type(stored)()

    def _recall_submission(self, user: str, key: bytes) -> SubmitResult | None:
        stored = self.store.submission(user, key)
        return submissions.from_bytes(stored) if stored is not None else None

    def _run_of(self, run_id: str) -> RunTimes | None:
        runs = self.claiming.claim_table.runs_of_job(run_id)
        return runs[0] if runs else self.local.runs.get(run_id)

    def _parallel_firsts(self, submitter: str) -> dict[int, Job] | None:
        dedicated = self.claiming.dedicated
        return dedicated.firsts() if submitter == dedicated.name else None

    def _credential_folder(self, user: str) -> str:
        """The directory of a user's credentials: by the account, or the full name of a user who has none here."""
        return self.admission.settings.domains.account_of(user) or user

    def _users_with_jobs(self) -> set[str]:
        """The users who have jobs, or factories of jobs."""
        owned = {user for user, count in self.queue.owned.items() if count > 0}
        return owned | {cluster.user for cluster in self.queue.clusters.values()} | self._underway.users

    def _sweep_runs(self) -> None:
        self.claiming.sweep.soon()

    def _stop_runs(self, decision: Decision) -> None:
        self.stopping.ask(decision.kills)
        self.local.stop(decision.kills)

    def _record_run(self, run_id: str, job: Job) -> None:
        if self.run_history.is_kept and self.ads.has(job):
            self.run_history.add(record_of(run_id, job, self.ads, self._context.clock.now()))

    def _new_work(self) -> None:
        self.local.look()
        self.claiming.idle.use()
        self.claiming.dedicated.soon()
        self.negotiator.ask()

    def _durable(self, decision: Decision) -> None:
        self.materializer.look(decision)
        if decision.runs_over and self.running.any:
            self.local.look()  # a job that MaxJobsRunning held back may start

    def _left(self, decision: Decision, batch: Batch) -> None:
        self.job_sets.left(decision.retired, decision.closed, batch)
        self.projects.left(decision.retired, batch)
        self.users.left(decision.retired, batch)

    def _retired(self, jobs: list[Job]) -> None:
        self.history_export.look()
        self.checkpoint_cleanup.soon(jobs)

    def _knows(self, cluster: str, proc: str) -> bool:
        return cluster.isdigit() and proc.isdigit() and self.queue.job(int(cluster), int(proc)) is not None

    async def _tidy(self) -> None:
        """Prune the history and expired submission keys, every hour."""
        while True:
            await asyncio.sleep(_TIDY_S)
            now = int(self._context.clock.now())
            batch = Batch()
            batch.tidy(now)
            await self.store.commit(batch)
            if self._settings.history_days > 0:
                await prune(self.store, now - self._settings.history_days * 86400, self._threads)

    async def reconfig(self, config: Config) -> list[str]:
        """Apply a new configuration; names and addresses stay until a restart."""
        settings = read_settings(config, self._context.address.name, local_execute(self._context))
        self._settings = settings
        self._configure(settings)
        self._record(config)
        self.servicer.superusers = settings.superusers
        self.shadows.visits.look_again()
        self.admission.settings = settings.for_admission()
        self.requests.replace(settings.new_autoclusters())
        return self.cron.follow(config)

    async def stop(self, mode: str) -> None:
        """Stop the schedd. Jobs keep running, and the next schedd reconnects to them, unless the whole pool stops
        gracefully (then the startds vacate them)."""
        self.stopping.close()
        self.store.end_soon()
        going = pool_end.is_announced(self._context.home)
        await self.local.close(end="fast" if mode == "fast" else "graceful" if going else "")
        await tasks.end(*self._tasks)
        await self.preparations.close()
        self.credentials.close()
        await self.publisher.close()
        await self.cron.stop()
        await self.claiming.links.close()
        await self.committer.close()
        await self.run_history.close()
        await self.history_export.close()
        self.store.close()
        self._threads.shutdown(wait=False)
        self._log_threads.shutdown(wait=False)


def local_execute(context: DaemonContext) -> Path:
    """The default of LOCAL_UNIV_EXECUTE: a directory to which jobs have access."""
    return context.home.execute.parent / "local_univ_execute"


def pool_environment(context: DaemonContext) -> dict[str, str]:
    """The environment by which commands that a job on the access point calls find this pool. It has no secrets."""
    found = {"SLOTWISE_HOME": str(context.home.root)}
    if file := context.env.get("CONDOR_CONFIG"):
        found["CONDOR_CONFIG"] = file
    return found


__all__ = ["AccessPoint", "start"]
