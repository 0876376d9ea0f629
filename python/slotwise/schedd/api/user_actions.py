"""Queries and edits of the records of users and projects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.questions import Questions
from slotwise.errors import InUseError, UsageError
from slotwise.model.ownership import LocalDomains, domain_of, owner_of
from slotwise.schedd.api.requests import UserAction, UsersEdit, UsersEdited
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job_index import JobIndex
from slotwise.schedd.storage.batch import RecordKind
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.schedd.users.daily_usage import DailyUsage
from slotwise.schedd.users.projects import ProjectRecord, ProjectRecords
from slotwise.schedd.users.record import check_edit
from slotwise.schedd.users.records import UserRecord, UserRecords


class Users:
    """Answers queries about users and projects, and carries out administrators' edits."""

    def __init__(
        self,
        records: UserRecords,
        projects: ProjectRecords,
        committer: Committer,
        clock: Clock,
        questions: Questions,
        *,
        domains: Callable[[], LocalDomains],
        index: JobIndex,
        has_jobs: Callable[[str], bool],
        usage: DailyUsage,
        measure: Callable[[], Awaitable[None]],
    ) -> None:
        """
        :param index: counts the jobs in the queue.
        :param has_jobs: whether a user has jobs in the queue, or about to enter it.
        :param measure: brings ``usage`` up to date.
        """
        self._usage = usage
        self._measure = measure
        self._records = records
        self._projects = projects
        self._domains = domains
        self._index = index
        self._has_jobs = has_jobs
        self._committer = committer
        self._clock = clock
        self._questions = questions

    async def ads(self, constraint: str = "") -> list[ClassAd]:
        """The ads of those users for whom the constraint is true, by name."""
        await self._measure()
        return [self._ad(record) for record in await self._chosen(constraint)]

    async def project_ads(self, constraint: str = "") -> list[ClassAd]:
        """The same of projects.

        :raises UsageError: when projects have no records here.
        """
        self._projects.require_kept()
        await self._measure()
        return [self._project_ad(record) for record in await self._chosen_projects(constraint)]

    def _ad(self, record: UserRecord) -> ClassAd:
        ad = record.ad(self._index.counts_of(record.name), self._domains().account_of(record.name))
        ad.update(self._usage.attributes(RecordKind.USER, record.name, self._clock.now()))
        return ad

    def _project_ad(self, record: ProjectRecord) -> ClassAd:
        name = record.name.lower()
        ad = record.ad(self._index.counts_in(name))
        ad.update(self._usage.attributes(RecordKind.PROJECT, name, self._clock.now()))
        return ad

    async def _chosen(self, constraint: str) -> list[UserRecord]:
        records = list(self._records)
        if not constraint.strip():
            return records
        return await self._questions.those(constraint, records, self._ad)

    async def _chosen_projects(self, constraint: str) -> list[ProjectRecord]:
        records = list(self._projects)
        if not constraint.strip():
            return records
        return await self._questions.those(constraint, records, self._project_ad)

    async def edit(self, request: UsersEdit) -> UsersEdited:
        """Edit records that are named or meet the constraint; durable when it returns.

        Of users all are edited or none. Projects that have no record are passed over with a warning, as in HTCondor,
        and so are those to be removed that have jobs, unless these are all.

        :raises NotFoundError: for a user without a record, UsageError for a name that is not valid, AdSyntaxError for
            text that is not an expression, InUseError when all projects to be removed have jobs.
        """
        for name, text in request.changes.items():
            check_edit(name, text)
        if request.constraint.strip() and request.action is UserAction.ADD:
            raise UsageError("those that are added must be named")
        if not request.constraint.strip() and not request.names:
            raise UsageError(
                f"no {'projects' if request.projects else 'users'} were named", hint="name them, or give a constraint"
            )
        known = list(self._projects if request.projects else self._records)
        await self._committer.require_room(len(known) + len(request.names))
        batch, warnings = Batch(), list[str]()
        edit = self._edit_projects if request.projects else self._edit_users
        changed, ignored = await edit(request, batch, warnings)
        if ignored:
            warnings.append(f"not changed, as they are reserved: {', '.join(sorted(ignored))}")
        if batch:
            await self._committer.durable(self._committer.commit(Decision(self._clock.now()), batch))
        self._committer.tell_new_work()  # a limit may have gone
        return UsersEdited(changed, tuple(warnings))

    async def _edit_users(self, request: UsersEdit, batch: Batch, warnings: list[str]) -> tuple[int, set[str]]:
        names = [self._domains().named(name) for name in request.names]
        if request.constraint.strip():
            names += [record.name for record in await self._chosen(request.constraint)]
        if request.action is not UserAction.ADD:
            self._records.require(names)
        else:
            self._records.require_names(names)
        # Two spellings are one user, who is changed once: a second removal would find nothing left.
        names = list({(owner_of(name), domain_of(name).lower()): name for name in names}.values())
        ignored = set[str]()
        for name in names:
            if request.action is UserAction.REMOVE:
                self._records.remove(name, in_use=self._has_jobs(name), batch=batch)
            else:
                ignored.update(_change(self._records, request, name, batch))
        return len(names), ignored

    async def _edit_projects(self, request: UsersEdit, batch: Batch, warnings: list[str]) -> tuple[int, set[str]]:
        self._projects.require_kept()
        names = {name.lower(): name for name in request.names}
        if request.constraint.strip():
            names |= {record.name.lower(): record.name for record in await self._chosen_projects(request.constraint)}
        if request.action is UserAction.ADD:
            self._projects.require_names(names.values())
        changed, ignored, in_use = 0, set[str](), list[str]()
        for name in names.values():
            if request.action is not UserAction.ADD and self._projects.find(name) is None:
                warnings.append(f"there is no record of project {name}")
            elif request.action is not UserAction.REMOVE:
                ignored.update(_change(self._projects, request, name, batch))
                changed += 1
            elif why := self._projects.remove(name, in_use=self._has_project(name), batch=batch):
                in_use.append(why)
            else:
                changed += 1
        if in_use and not changed:
            raise InUseError("; ".join(in_use), hint="it can be removed when none of its jobs is in the queue")
        warnings += in_use
        return changed, ignored

    def _has_project(self, name: str) -> bool:
        return any(cluster.project == name.lower() for cluster in self._index.clusters.values())


def _change(records: UserRecords | ProjectRecords, request: UsersEdit, name: str, batch: Batch) -> list[str]:
    """Do what there is to do but for a removal; returns the reserved attributes, which do not change."""
    match request.action:
        case UserAction.ADD:
            records.add(name, batch)
        case UserAction.ENABLE:
            records.enable(name, request.changes, batch)
        case UserAction.DISABLE:
            records.disable(name, request.reason, request.changes, batch)
        case UserAction.EDIT:
            return records.edit(name, request.changes, batch)
    return []
