"""Decides which submissions are taken: whose jobs they are, the limits, the administrator's rules, their ids."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import partial

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.accounts import refused_uid
from slotwise.errors import DeniedError, HostError, SlotwiseError, UsageError
from slotwise.schedd.credentials.keeping import CredentialKeeper
from slotwise.schedd.jobs.job_sets import SET_NAME, JobSets
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.submission import new_cluster, one_project
from slotwise.schedd.submission.cluster_ids import ClusterIds
from slotwise.schedd.submission.limits import check_limits
from slotwise.schedd.submission.new_cluster import NewJobs, SubmittedCluster
from slotwise.schedd.submission.settings import AdmissionSettings
from slotwise.schedd.submission.submissions import Submission
from slotwise.schedd.submission.underway import UnderwaySubmissions
from slotwise.schedd.user_files import proxies
from slotwise.schedd.users.projects import ProjectRecords
from slotwise.schedd.users.records import UserRecords
from slotwise.wire import audit

_log = logging.getLogger(__name__)
#: The longest key of a submission, in bytes.
_KEY_MOST = 64


class Admission:
    """Checks submissions."""

    def __init__(
        self,
        queue: Queue,
        clock: Clock,
        settings: AdmissionSettings,
        *,
        cluster_ids: ClusterIds,
        underway: UnderwaySubmissions,
        users: UserRecords,
        projects: ProjectRecords,
        job_sets: JobSets,
        own_ad: Callable[[], ClassAd],
        credentials: CredentialKeeper,
    ) -> None:
        """
        :param underway: takes a submission that is accepted.
        :param job_sets: those that new clusters join.
        :param own_ad: the schedd's ad, for submit requirements.
        """
        self._queue = queue
        self._clock = clock
        self.settings = settings
        self._ids = cluster_ids
        self._underway = underway
        self._users = users
        self._projects = projects
        self._job_sets = job_sets
        self._own_ad = own_ad
        self._credentials = credentials

    async def look_ahead(self, user: str, clusters: Sequence[SubmittedCluster]) -> None:
        """Do what takes files, before a submission is checked: read its proxies, and see that its tokens are there.

        :raises UsageError: for a cluster that is not valid.
        :raises SlotwiseError: when a credential is not there that its jobs need.
        """
        await self._read_proxies(user, clusters)
        if self._credentials.settings.for_all:
            await self._credentials.provide(user if not clusters else self._user_of(user, clusters))
        for cluster in clusters:
            if b"oauthservicesneeded" in cluster.cluster_ad.lower():
                ad = new_cluster.submitted_ad(cluster.cluster_ad)
                needed, details = ad.get("OAuthServicesNeeded"), ad.get("OAuthRequests")
                if isinstance(needed, str) and needed:
                    asked = details if isinstance(details, str) else ""
                    owner = self._user_of(user, [cluster])
                    await self._credentials.check(owner, needed, asked, ad.get("JobUniverse"))

    async def _read_proxies(self, user: str, clusters: Sequence[SubmittedCluster]) -> None:
        for cluster in clusters:
            if b"x509userproxy" in cluster.cluster_ad.lower():
                path = proxies.proxy_of(new_cluster.submitted_ad(cluster.cluster_ad))
                if path:
                    owner = self._user_of(user, [cluster])
                    account, fallback = self.settings.domains.account_of(owner), self.settings.fallback_account
                    cluster.proxy_attributes = await asyncio.to_thread(proxies.read, path, account, fallback)

    def check(
        self,
        user: str,
        clusters: Sequence[SubmittedCluster],
        *,
        key: bytes = b"",
        peer: str = "",
    ) -> Submission:
        """Check a submission and give it its ids; :class:`SubmitTransactions` queues it.

        :raises UsageError: for a submission that is not valid, DeniedError over a limit, HostError when its owner's
            account cannot be looked up.
        """
        if not clusters:
            raise UsageError("the submission has no cluster")
        sender, user = user, self._user_of(user, clusters)
        account = self.settings.domains.account_of(user)
        try:
            uid = refused_uid(account, self.settings.least_uid)
        except OSError as error:
            raise HostError(str(error.strerror), hint="submit again later") from None
        if uid is not None:
            raise DeniedError(
                f"jobs of {account} are refused: its uid {uid} is below SLOTWISE_MIN_UID ({self.settings.least_uid})",
                hint="submit as another user; where root is the only user, as in a container, SLOTWISE_MIN_UID = 0",
            )
        self._users.check(user)
        if len(key) > _KEY_MOST:
            raise UsageError(f"the submission's key has {len(key)} bytes", hint=f"at most {_KEY_MOST}")
        now = int(self._clock.now())
        ads = check_limits(user, clusters, self.settings, self._queue, self._underway)
        built: list[NewJobs] = []
        try:
            for cluster, ad in zip(clusters, ads, strict=True):
                built.append(self._new_jobs(user, sender, cluster, ad, now))
        except SlotwiseError:
            for new in built:
                self._job_sets.withdraw(new.cluster)
            raise
        submission = Submission(user, built, key, peer, sender)
        if user != sender:
            audit.note("as jobs of %s", user)
        self._underway.add(submission)
        return submission

    def _user_of(self, caller: str, clusters: Sequence[SubmittedCluster]) -> str:
        """The user of the jobs: the caller, or the user whom a queue superuser names as Owner.

        :raises DeniedError: when the caller may submit no jobs of that user.
        """
        had_jobs = self._queue.owned.__contains__
        users = set()
        for cluster in clusters:
            named = None
            if b"owner" in cluster.cluster_ad.lower():
                named = new_cluster.submitted_ad(cluster.cluster_ad).get("Owner")
            is_named = isinstance(named, str) and named
            users.add(self.settings.superusers.user_for(caller, str(named), had_jobs) if is_named else caller)
        if len(users) > 1:
            raise UsageError("the clusters of one submission have several owners", hint="submit them one after another")
        return users.pop()

    def _new_jobs(self, user: str, sender: str, sent: SubmittedCluster, submitted: ClassAd, now: int) -> NewJobs:
        wanted = sent.cluster_id
        number = partial(self._ids.give, sender, wanted, now)
        new = new_cluster.build(user, sent, submitted, number, now, self.settings.new_jobs)
        self.keep_rules(new, now, late=False)
        given = new_cluster.job_set_ad(sent.job_set_ad, self.settings.new_jobs.locks)
        new.notices += self._job_sets.join(new.cluster, new.submitted.get(SET_NAME), given)
        return new

    def keep_rules(self, new: NewJobs, now: int, *, late: bool) -> None:
        """Apply the administrator's rules to new jobs, and give them their project; ``late``: to a factory's.

        :raises DeniedError: when they are refused.
        """
        if rules := self.settings.rules:
            keep = rules.materialized if late else rules.admit
            new.warnings, problems = keep(new, self._own_ad(), now, secrets.randbits(63))
            for problem in problems:
                number = new.cluster.number
                _log.warning("cluster %d: a statement of a job transform has no effect: %s", number, problem)
        one_project.settle(new, self._projects, late=late)

    def has_jobs(self, user: str) -> bool:
        """Whether the user has jobs or factories in the queue, or ones that are being committed."""
        if self._queue.owned.get(user) or self._underway.jobs_of(user):
            return True
        return any(cluster.user == user for cluster in self._queue.clusters.values())
