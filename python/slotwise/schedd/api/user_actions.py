"""What is asked of the records of users, and done to them."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.questions import Questions
from slotwise.errors import UsageError
from slotwise.model.ownership import domain_of, owner_of
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.schedd.submission.transaction import Admission
from slotwise.schedd.users.records import UserRecord, UserRecords, check_edit
from slotwise.wire.gen import schedd_pb2

_What = schedd_pb2.UsersEdit


class Users:
    """Answers questions about users, and carries out what administrators ask."""

    def __init__(
        self,
        records: UserRecords,
        queue: Queue,
        admission: Admission,
        committer: Committer,
        clock: Clock,
        questions: Questions,
    ) -> None:
        self._records = records
        self._queue = queue
        self._admission = admission
        self._committer = committer
        self._clock = clock
        self._questions = questions

    async def ads(self, constraint: str = "") -> list[ClassAd]:
        """The ads of those users for whom the constraint is true, by name."""
        return [self._ad(record) for record in await self._chosen(constraint)]

    def _ad(self, record: UserRecord) -> ClassAd:
        account = self._admission.settings.domains.account_of(record.name)
        return record.ad(self._queue.counts_of(record.name), account)

    async def _chosen(self, constraint: str) -> list[UserRecord]:
        records = list(self._records)
        if not constraint.strip():
            return records
        return await self._questions.those(constraint, records, self._ad)

    async def edit(self, request: schedd_pb2.UsersEdit) -> schedd_pb2.UsersReply:
        """Do it to all users that are named or chosen, or to none of them. It is durable before it is answered.

        :raises NotFoundError: for a user without a record, UsageError for a name that is none, AdSyntaxError for text
            that is no expression.
        """
        for name, text in request.set.items():
            check_edit(name, text)
        names = [self._admission.settings.domains.named(name) for name in request.names]
        if request.constraint.strip():
            if request.what == _What.ADD:
                raise UsageError("users that are added must be named")
            names += [record.name for record in await self._chosen(request.constraint)]
        elif not names:
            raise UsageError("no users were named", hint="name them, or give a constraint")
        if request.what != _What.ADD:
            self._records.require(names)
        else:
            self._records.require_names(names)
        # Two spellings are one user, who is changed once: a second removal would find nothing left.
        names = list({(owner_of(name), domain_of(name).lower()): name for name in names}.values())
        batch, ignored = Batch(), set[str]()
        for name in names:
            ignored.update(self._do(request, name, batch))
        reply = schedd_pb2.UsersReply(changed=len(names))
        if ignored:
            listed = ", ".join(sorted(ignored))
            reply.warnings.append(f"not changed, as they are reserved: {listed}")
        if batch:
            await self._committer.commit(Decision(self._clock.now()), batch)
        if self._committer.on_new_work:
            self._committer.on_new_work()  # a limit may have gone
        return reply

    def _do(self, request: schedd_pb2.UsersEdit, name: str, batch: Batch) -> list[str]:
        match request.what:
            case _What.ADD:
                self._records.add(name, batch)
            case _What.ENABLE:
                self._records.enable(name, request.set, batch)
            case _What.DISABLE:
                self._records.disable(name, request.reason, request.set, batch)
            case _What.EDIT:
                return self._records.edit(name, request.set, batch)
            case _What.REMOVE:
                self._records.remove(name, in_use=self._admission.has_jobs(name), batch=batch)
            case _:
                raise UsageError(f"there is no edit {request.what}")
        return []
