"""The settings that submissions are checked against, and those that go into every job."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.model.ownership import LocalDomains
from slotwise.schedd.jobs.protected_attrs import AttributeLocks
from slotwise.schedd.jobs.round_attrs import DEFAULT_STEPS
from slotwise.schedd.submission.new_cluster import NewJobSettings
from slotwise.schedd.submission.rules import SubmitRules
from slotwise.schedd.users.superusers import SuperUsers


class AdmissionSettings(Struct, frozen=True):
    """The knobs that submissions are checked against."""

    schedd_name: str
    domains: LocalDomains
    version: str = ""
    platform: str = ""
    jobs_most: int = (1 << 31) - 1
    jobs_per_owner_most: int = 100_000
    jobs_per_submission_most: int = 20_000
    #: The account of owners without one on this host.
    fallback_account: str = "nobody"
    #: Accounts with lower uids own no jobs.
    least_uid: int = 0
    superusers: SuperUsers = field(default_factory=SuperUsers)
    rules: SubmitRules = field(default_factory=SubmitRules)
    locks: AttributeLocks = field(default_factory=AttributeLocks)
    rounding: Mapping[str, str] = field(default_factory=lambda: DEFAULT_STEPS)

    @property
    def new_jobs(self) -> NewJobSettings:
        """The settings that go into every job."""
        return NewJobSettings(self.schedd_name, self.domains, self.version, self.platform, self.locks, self.rounding)
