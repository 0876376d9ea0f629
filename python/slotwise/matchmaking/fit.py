"""How a job fits slots: its conditions counted, and what becomes of each slot, from their ads alone. Pure.

Priorities and claims of other users are the negotiator's business (:mod:`slotwise.matchmaking.analysis`). Conditions
are evaluated over columns of ads, as a cycle does, so that a large pool is not judged ad by ad.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import Value, number
from slotwise.matchmaking.clauses import bare, clauses_of
from slotwise.matchmaking.engine import submitter_of
from slotwise.matchmaking.hints import hints
from slotwise.table import AdTable

#: What a partitionable slot has when no dynamic slot is carved from it.
_TOTALS = {"Cpus": "TotalSlotCpus", "Memory": "TotalSlotMemory", "Disk": "TotalSlotDisk", "GPUs": "TotalSlotGPUs"}
#: Attributes that lend the clauses of an ad to questions about other ads; no ad has such names.
_LENT = "_SlotwiseClause"
#: An ad of a table accepts the target, and the other way round.
_ACCEPTS, _IS_ACCEPTED = "MY.Requirements", "TARGET.Requirements"


class Step(Struct, frozen=True):
    """A condition: how many ads satisfy it, how many more would if their machines were drained."""

    number: int
    text: str
    matched: int
    drained: int = 0
    #: It is made of others, and its text names their numbers.
    compound: bool = False


class Obstacle(Enum):
    """Why a job matches no slot."""

    NO_SLOTS = "there are no slots"
    JOB_ACCEPTS_NONE = "no slot satisfies the job's Requirements"
    ONLY_DRAINED = "only machines that are empty satisfy the job's Requirements"
    SLOTS_REFUSE = "each slot that satisfies the job's Requirements refuses the job"


def obstacle(slots: int, job_accepts: int, matches: int, drained: int = 0) -> Obstacle | None:
    """What keeps a job from all slots, by the number of slots in all, of those that the job accepts, of those that
    match, and of those that would match if they were drained; None when a slot matches."""
    if matches:
        return None
    if not slots:
        return Obstacle.NO_SLOTS
    if job_accepts:
        return Obstacle.SLOTS_REFUSE
    return Obstacle.ONLY_DRAINED if drained else Obstacle.JOB_ACCEPTS_NONE


class Fit(Struct):
    """How a job fits some slots. Lists hold names of slots; all but ``drained`` divide the slots among them."""

    slots: int = 0
    steps: list[Step] = field(default_factory=list)
    #: The job's Requirements refuse the slot.
    by_job: list[str] = field(default_factory=list)
    #: Only the slot's Requirements refuse the job.
    by_slot: list[str] = field(default_factory=list)
    #: Match, and run jobs of the submitter.
    own: list[str] = field(default_factory=list)
    #: Match, and run jobs of others.
    others: list[str] = field(default_factory=list)
    #: Match, and are asleep.
    offline: list[str] = field(default_factory=list)
    #: Match, and are free.
    willing: list[str] = field(default_factory=list)
    #: Would match if no dynamic slot were carved from them.
    drained: list[str] = field(default_factory=list)

    @property
    def matches(self) -> int:
        """Slots that suit the job and accept it."""
        return len(self.own) + len(self.others) + len(self.offline) + len(self.willing)

    @property
    def obstacle(self) -> Obstacle | None:
        """What keeps the job from all slots."""
        return obstacle(self.slots, self.slots - len(self.by_job), self.matches, len(self.drained))


class ReverseFit(Struct, frozen=True):
    """How jobs fit one slot."""

    steps: list[Step]
    jobs: int
    #: Jobs that the slot's Requirements refuse.
    refused: int
    #: Jobs that the slot accepts and whose Requirements refuse it.
    refusing: int

    @property
    def matches(self) -> int:
        """Jobs that match the slot."""
        return self.jobs - self.refused - self.refusing


class Slots:
    """Slot ads as columns, to judge jobs against.

    :param now: the time for expressions that ask for it, epoch seconds.
    """

    def __init__(self, ads: Sequence[ClassAd], now: int) -> None:
        self._now = now
        self._names = [str(ad.get("Name")) for ad in ads]
        self._table = AdTable.of(ads)
        self._emptied = _Emptied.of(ads)
        columns = self._table.values(["MY.Offline", "MY.State", "MY.RemoteUser", "MY.AccountingGroup"], now=now)
        self._asleep = [offline is True for offline in columns[0]]
        self._users = [_users(*row) for row in zip(*columns[1:], strict=True)]

    def fit(self, job: ClassAd) -> Fit:
        """How a job fits the slots."""
        found = Fit(slots=len(self._names))
        if not self._names:
            return found
        found.steps = _steps(clauses_of(job), job, self._table, self._emptied, self._now)
        suitable = truths(self._table, _IS_ACCEPTED, job, self._now)
        willing = truths(self._table, _ACCEPTS, job, self._now)
        submitter = submitter_of(job, self._now)
        for name, suits, accepts, asleep, users in zip(
            self._names, suitable, willing, self._asleep, self._users, strict=True
        ):
            if not suits:
                found.by_job.append(name)
            elif not accepts:
                found.by_slot.append(name)
            elif asleep:
                found.offline.append(name)
            elif users:
                (found.own if submitter in users else found.others).append(name)
            else:
                found.willing.append(name)
        whole = truths(self._emptied.table, f"{_ACCEPTS} && {_IS_ACCEPTED}", job, self._now)
        found.drained = [
            self._names[row]
            for row, matches in zip(self._emptied.rows, whole, strict=True)
            if matches and not (suitable[row] and willing[row])
        ]
        return found

    def hints(self, job: ClassAd) -> list[dict[str, object]]:
        """What the job would have to ask for instead; see :func:`slotwise.matchmaking.hints.hints`."""
        return hints(self._table.clause_counts(job, self._now))


class Jobs:
    """Job ads as columns, to judge slots against.

    :param now: the time for expressions that ask for it, epoch seconds.
    """

    def __init__(self, ads: Sequence[ClassAd], now: int) -> None:
        self._now = now
        self._table = AdTable.of(ads)

    def fit(self, slot: ClassAd) -> ReverseFit:
        """How the jobs fit a slot."""
        jobs = len(self._table)
        accepted = self._table.count(_IS_ACCEPTED, target=slot, now=self._now)
        matches = self._table.count(f"{_IS_ACCEPTED} && {_ACCEPTS}", target=slot, now=self._now)
        steps = _steps(clauses_of(slot), slot, self._table, _Emptied(), self._now)
        return ReverseFit(steps, jobs, jobs - accepted, accepted - matches)


class _Emptied(Struct, frozen=True):
    """The carved partitionable ones among some slots, as they would be if their machines were drained."""

    table: AdTable = field(default_factory=AdTable)
    #: Which of the slots each is.
    rows: Sequence[int] = ()

    @classmethod
    def of(cls, slots: Sequence[ClassAd]) -> _Emptied:
        made = [(row, whole) for row, slot in enumerate(slots) if (whole := emptied(slot)) is not None]
        return cls(AdTable.of([ad for _, ad in made]), [row for row, _ in made])


def emptied(slot: ClassAd) -> ClassAd | None:
    """A partitionable slot as it would be without dynamic slots; None for other slots, and when it has none."""
    if slot.get("PartitionableSlot") is not True:
        return None
    totals = {name: slot[total] for name, total in _TOTALS.items() if total in slot}
    if all(slot.get(name) == value for name, value in totals.items()):
        return None
    made = slot.copy()
    made.update(totals)
    if (devices := _all_devices(slot)) is not None:
        made["AvailableGPUs"] = devices
    return made


def _all_devices(slot: ClassAd) -> ExprTree | None:
    """The properties of all GPUs of a slot that are not offline; None when they are available as it is."""
    assigned, total = slot.get("AssignedGPUs"), slot.get("TotalSlotGPUs")
    available = ExprTree("size(AvailableGPUs)").eval(slot)
    if not isinstance(assigned, str) or not isinstance(available, int) or available >= number(total):
        return None
    offline = {name.strip() for name in str(slot.get("OfflineGPUs", "")).split(",")}
    names = [name.strip() for name in assigned.split(",") if name.strip() not in offline]
    properties = ["GPUs_" + re.sub(r"[^0-9A-Za-z_]", "_", name) for name in names]
    return ExprTree("{" + ", ".join(name for name in properties if name in slot) + "}")


def truths(table: AdTable, condition: str, target: ClassAd, now: int) -> list[bool]:
    """Whether the condition holds, row by row: that it is true, or a number other than 0."""
    (values,) = table.values([f"({condition}) && true"], target=target, now=now)
    return [value is True for value in values]


def _users(state: Value, *names: Value) -> frozenset[str]:
    """Who holds a slot: its user, and the group that the use is charged to; empty when nobody does."""
    held = state in ("Claimed", "Preempting")
    return frozenset(name for name in names if isinstance(name, str) and name) if held else frozenset()


def _steps(clauses: Sequence[ExprTree], ad: ClassAd, others: AdTable, empty: _Emptied, now: int) -> list[Step]:
    """Count the clauses of an ad over other ads, each alone, and with those before it where that is fewer."""
    asking = ad.copy()
    steps: list[Step] = []
    together: list[str] = []
    passing, shown = len(others), ""
    for clause in clauses:
        if bare(clause).lower() == "true":
            continue
        asking[f"{_LENT}{len(together)}"] = clause
        alone = f"TARGET.{_LENT}{len(together)}"
        together.append(alone)
        holding = truths(others, alone, asking, now)
        drained = zip(empty.rows, truths(empty.table, alone, asking, now), strict=True)
        later = sum(holds and not holding[row] for row, holds in drained)
        matched, name = sum(holding), f"[{len(steps)}]"
        steps.append(Step(len(steps), bare(clause), matched, later))
        former, passing = passing, others.count(" && ".join(together), target=asking, now=now)
        if shown and passing not in (former, matched):
            steps.append(Step(len(steps), f"{shown} && {name}", passing, compound=True))
            shown = f"[{len(steps) - 1}]"
        elif not shown or passing < former:
            shown = name
    return steps
