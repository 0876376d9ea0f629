"""What callers ask of jobs and of user records, and what they are told, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.schedd.jobs.selection import JobSelection
from slotwise.table import Form, Order


class Action(StrEnum):
    """What can be done to jobs; the value is the word that logs use."""

    REMOVE = "remove"
    TRANSFER_AND_REMOVE = "transfer and remove"
    REMOVE_FORCE = "remove force"
    HOLD = "hold"
    RELEASE = "release"
    SUSPEND = "suspend"
    CONTINUE = "continue"
    VACATE = "vacate"
    VACATE_FAST = "vacate fast"
    CLEAR_DIRTY = "clear dirty"


class JobAction(Struct, frozen=True):
    """An action on selected jobs. ``subcode``: HoldReasonSubCode of a hold."""

    action: Action
    jobs: JobSelection
    reason: str = ""
    subcode: int = 0


class JobEdit(Struct, frozen=True):
    """New attributes of selected jobs: texts of expressions by name.

    ``prio_change``: added to JobPrio; None: JobPrio is not changed that way. ``dry_run``: change nothing, only say
    which jobs could be changed.
    """

    jobs: JobSelection
    changes: Mapping[str, str]
    prio_change: int | None = None
    dry_run: bool = False


class ActionResult(StrEnum):
    """What came of an action on one job."""

    SUCCESS = "success"
    NOT_FOUND = "not_found"
    BAD_STATUS = "bad_status"
    ALREADY_DONE = "already_done"
    DENIED = "permission_denied"
    #: SYSTEM_MAX_RELEASES.
    LIMIT_EXCEEDED = "limit_exceeded"


class ActionOutcome(Struct):
    """How many jobs had which result, and the results of the ids that were named.

    ``background``: the number under which the action goes on; 0: it is done.
    """

    totals: dict[ActionResult, int] = field(default_factory=dict)
    named: dict[str, ActionResult] = field(default_factory=dict)
    background: int = 0

    def count(self, result: ActionResult) -> None:
        """Count one more job with this result."""
        self.totals[result] = self.totals.get(result, 0) + 1


class JobQuery(Struct, frozen=True):
    """Which jobs in the queue a caller asks about, and what it wants to see of them.

    ``form``: None to count them. ``limit``: 0 for no limit. ``width``: of the lines of a table, 0 for no limit.
    ``whole_names``: owners in those lines are not cut to their column.
    ``alone``: the attributes of the projection without those that they read.
    ``page``: the first ``limit`` of them in this order are wanted.
    """

    jobs: JobSelection = field(default_factory=JobSelection)
    constraint: str = ""
    mine_only: bool = False
    projection: tuple[str, ...] = ()
    alone: bool = False
    limit: int = 0
    form: Form | None = "pack"
    count_by: tuple[str, ...] = ()
    width: int = 0
    whole_names: bool = False
    page: Order | None = None

    def of_everyone(self) -> JobQuery:
        """The same about everyone's jobs."""
        return replace(self, mine_only=False)


class UserAction(StrEnum):
    """What administrators do to records of users or projects; the value is the word that logs use."""

    ADD = "add"
    ENABLE = "enable"
    DISABLE = "disable"
    EDIT = "edit"
    REMOVE = "remove"


class UsersEdit(Struct, frozen=True):
    """An action on the records of users, or of projects, that are named or meet a constraint.

    ``changes``: texts of expressions by attribute name; ``delete`` removes an attribute. ``reason``: why users are
    disabled.
    """

    action: UserAction
    names: tuple[str, ...] = ()
    constraint: str = ""
    reason: str = ""
    changes: Mapping[str, str] = field(default_factory=dict)
    #: It is about projects.
    projects: bool = False


class UsersEdited(Struct, frozen=True):
    """How many records an edit has changed, and what it left as it was."""

    changed: int
    warnings: tuple[str, ...] = ()
