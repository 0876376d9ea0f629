"""User records: whether users may submit, their limits, and the usage of their jobs. Pure.

Manual, condor_qusers. A user has a record from the first submission on, or once an administrator added it. Names are
``user@domain``, by default of UID_DOMAIN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotwise.classad import ClassAd
from slotwise.errors import DeniedError, UsageError
from slotwise.model.ownership import domain_of, owner_attributes, owner_of
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.storage.batch import Batch, RecordKind
from slotwise.schedd.users.record import Record, Records


class UserRecord(Record):
    """The record of a user."""

    def ad(self, counts: Sequence[int], account: str) -> ClassAd:
        """The ad for queries. ``counts``: jobs in the queue by JobStatus; ``account``: that the jobs run as."""
        return self.ad_of({"MyType": "Owner", **owner_attributes(self.name, account)}, counts)


class UserRecords(Records[UserRecord]):
    """All user records.

    ``known_only``: ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY, only users with a record may submit.
    """

    kind = RecordKind.USER
    noun = "user"

    def __init__(self) -> None:
        super().__init__(UserRecord, _key)
        self.known_only = False

    def check(self, user: str) -> None:
        """Check that the user may submit.

        :raises DeniedError: as HTCondor words it, with the administrator's reason.
        """
        record = self.find(user)
        if record is None and self.known_only:
            raise DeniedError(
                f"Unknown User {user}. Use condor_qusers to add user before submitting jobs.",
                hint="ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY: an administrator adds users with `slotwise qusers -add`",
            )
        if record is not None and not record.enabled:
            why = record.why_disabled
            raise DeniedError(f"User {user} is disabled : {why}" if why else f"User {user} is disabled")

    def left(self, jobs: Iterable[Job], batch: Batch) -> None:
        """Add the usage of jobs that leave the queue to their users' totals, and note that they are counted."""
        for job in self.count(jobs, lambda cluster: cluster.user, batch):
            job.counted = True

    def require(self, users: Iterable[str]) -> None:
        """Check that all users have records.

        :raises NotFoundError: naming one that has none.
        """
        for user in users:
            self.known(user)

    @staticmethod
    def require_names(users: Iterable[str]) -> None:
        """Check that these are valid names of users.

        :raises UsageError: naming one that is not.
        """
        for user in users:
            sound = user.isprintable() and not any(char.isspace() or char in "\"'/\\" for char in user)
            if not (sound and owner_of(user) and domain_of(user)):
                raise UsageError(f"{user!r} is not a user's name", hint="write user, or user@domain")

    def remove(self, user: str, *, in_use: bool, batch: Batch) -> None:
        """Remove a user's record; as in HTCondor, one with jobs in the queue is disabled instead."""
        record = self.known(user)
        if in_use:
            record.enabled = False
            self._store(record, batch)
            return
        self._delete(record, batch)


def _key(user: str) -> tuple[str, str]:
    """The key of a name: domains are case-insensitive."""
    return owner_of(user), domain_of(user).lower()
