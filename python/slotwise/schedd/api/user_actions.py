"""Queries and edits of user records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.questions import Questions
from slotwise.errors import UsageError
from slotwise.model.ownership import LocalDomains, domain_of, owner_of
from slotwise.schedd.api.requests import UserAction, UsersEdit, UsersEdited
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.schedd.users.records import UserRecord, UserRecords, check_edit


class Users:
    """Answers queries about users, and carries out administrators' edits."""

    def __init__(
        self,
        records: UserRecords,
        committer: Committer,
        clock: Clock,
        questions: Questions,
        *,
        domains: Callable[[], LocalDomains],
        counts_of: Callable[[str], Sequence[int]],
        has_jobs: Callable[[str], bool],
    ) -> None:
        """
        :param counts_of: a user's jobs by JobStatus.
        :param has_jobs: whether a user has jobs in the queue, or about to enter it.
        """
        self._records = records
        self._domains = domains
        self._counts_of = counts_of
        self._has_jobs = has_jobs
        self._committer = committer
        self._clock = clock
        self._questions = questions

    async def ads(self, constraint: str = "") -> list[ClassAd]:
        """The ads of those users for whom the constraint is true, by name."""
        return [self._ad(record) for record in await self._chosen(constraint)]

    def _ad(self, record: UserRecord) -> ClassAd:
        return record.ad(self._counts_of(record.name), self._domains().account_of(record.name))

    async def _chosen(self, constraint: str) -> list[UserRecord]:
        records = list(self._records)
        if not constraint.strip():
            return records
        return await self._questions.those(constraint, records, self._ad)

    async def edit(self, request: UsersEdit) -> UsersEdited:
        """Edit all records that are named or meet the constraint, or none of them; durable when it returns.

        :raises NotFoundError: for a user without a record, UsageError for a name that is not valid, AdSyntaxError for
            text that is not an expression.
        """
        for name, text in request.changes.items():
            check_edit(name, text)
        names = [self._domains().named(name) for name in request.names]
        if request.constraint.strip():
            if request.action is UserAction.ADD:
                raise UsageError("users that are added must be named")
            names += [record.name for record in await self._chosen(request.constraint)]
        elif not names:
            raise UsageError("no users were named", hint="name them, or give a constraint")
        if request.action is not UserAction.ADD:
            self._records.require(names)
        else:
            self._records.require_names(names)
        # Two spellings are one user, who is changed once: a second removal would find nothing left.
        names = list({(owner_of(name), domain_of(name).lower()): name for name in names}.values())
        batch, ignored = Batch(), set[str]()
        for name in names:
            ignored.update(self._do(request, name, batch))
        warnings = [f"not changed, as they are reserved: {', '.join(sorted(ignored))}"] if ignored else []
        if batch:
            await self._committer.commit(Decision(self._clock.now()), batch)
        self._committer.tell_new_work()  # a limit may have gone
        return UsersEdited(len(names), tuple(warnings))

    def _do(self, request: UsersEdit, name: str, batch: Batch) -> list[str]:
        match request.action:
            case UserAction.ADD:
                self._records.add(name, batch)
            case UserAction.ENABLE:
                self._records.enable(name, request.changes, batch)
            case UserAction.DISABLE:
                self._records.disable(name, request.reason, request.changes, batch)
            case UserAction.EDIT:
                return self._records.edit(name, request.changes, batch)
            case UserAction.REMOVE:
                self._records.remove(name, in_use=self._has_jobs(name), batch=batch)
        return []
