"""What becomes of each slot of a pool for a job, counted as ``condor_q -analyze`` of HTCondor 25.14 counts. Pure.

Slots stand in the order of their machines. A partitionable slot that has too little left is looked at as it would be
without dynamic slots, if the job fits it then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import number, whole
from slotwise.matchmaking.fit import emptied, truths
from slotwise.table import AdTable

_LIMITS = "WithinResourceLimits"
_ACCEPTS, _IS_ACCEPTED = "MY.Requirements", "TARGET.Requirements"
#: By how much another user's priority must be worse, for slots to be taken from that user (HTCondor's PriorityDelta).
_PRIORITY_DELTA = 0.5


class Verdict(Enum):
    """Why a slot takes the job, or does not."""

    REFUSED_BY_JOB = "the job's requirements"
    REFUSES_JOB = "the slot's requirements"
    OFFLINE = "offline"
    OWN = "runs a job of the same user"
    OTHERS = "runs a job of another user, whose priority is better or not looked at"
    NOT_PREEMPTED = "PREEMPTION_REQUIREMENTS"
    WILLING = "free, or may be preempted"
    WILLING_IF_DRAINED = "the same, once its machine is drained"


class Mode(Enum):
    """Which slots are looked at."""

    EVERY = "all, as they are"
    WITHOUT_DYNAMIC = "all but dynamic ones, drained where need be"
    DRAINED = "all, drained where need be"


class Priorities(Struct, frozen=True):
    """Users' priorities, and what preemption takes."""

    of: Mapping[str, float]
    requirements: ExprTree


class Verdicts(Struct):
    """What became of the slots, by name in their order. A slot that is offline has a second verdict."""

    slots: int = 0
    machines: int = 0
    by: dict[Verdict, list[str]] = field(default_factory=lambda: {verdict: [] for verdict in Verdict})
    #: Match the job, and have a user.
    busy: int = 0

    def count(self, verdict: Verdict) -> int:
        """How many slots there are of a verdict."""
        return len(self.by[verdict])

    @property
    def accepted(self) -> int:
        """Slots that satisfy the job's requirements."""
        return self.slots - self.count(Verdict.REFUSED_BY_JOB)

    @property
    def matches(self) -> int:
        """Slots that satisfy the job's requirements and whose requirements the job satisfies."""
        return self.accepted - self.count(Verdict.REFUSES_JOB)


class PoolSlots:
    """Slot ads, to judge jobs against.

    :param now: the time for expressions that ask for it, epoch seconds.
    """

    def __init__(self, ads: Sequence[ClassAd], now: int) -> None:
        self.as_given = list(ads)
        self.ads = sorted(ads, key=_place)
        self.now = now
        self._table = AdTable.of(self.ads)
        self._drained = {row: ad for row, slot in enumerate(self.ads) if (ad := emptied(slot)) is not None}

    def __len__(self) -> int:
        return len(self.ads)

    @property
    def only_dynamic(self) -> bool:
        """Whether there are several dynamic slots and no partitionable one."""
        dynamic = sum("DSlotID" in ad for ad in self.ads)
        return dynamic > 1 and not any(ad.get("PartitionableSlot") is True for ad in self.ads)

    def looked_at(self, mode: Mode) -> list[int]:
        """Rows of the slots that the mode looks at."""
        every = range(len(self.ads))
        return [row for row in every if mode is not Mode.WITHOUT_DYNAMIC or not is_dynamic(self.ads[row])]

    def drained(self, job: ClassAd) -> dict[int, ClassAd]:
        """By row, slots as they would be without dynamic slots, where the job fits only then."""
        (limits,) = self._table.values([f"MY.{_LIMITS}"], target=job, now=self.now)
        return {
            row: ad
            for row, ad in self._drained.items()
            if limits[row] is False and ad.eval(_LIMITS, job, now=self.now) is not False
        }

    def judge(self, job: ClassAd, mode: Mode, priorities: Priorities | None = None) -> Verdicts:
        """What becomes of each slot."""
        found = Verdicts()
        rows = self.looked_at(mode)
        drained = {} if mode is Mode.EVERY else self.drained(job)
        # All of a machine's slots count its machine, dynamic ones too.
        found.machines = len({ad.get("Machine") for ad in self.ads})
        offers = [drained.get(row, self.ads[row]) for row in rows]
        table = AdTable.of(offers)
        suits = truths(table, _IS_ACCEPTED, job, self.now) if offers else []
        accepts = truths(table, _ACCEPTS, job, self.now) if offers else []
        for row, offer, suitable, willing in zip(rows, offers, suits, accepts, strict=True):
            found.slots += 1
            name = str(offer.get("Name"))
            if not suitable:
                found.by[Verdict.REFUSED_BY_JOB].append(name)
                continue
            if not willing:
                found.by[Verdict.REFUSES_JOB].append(name)
                continue
            if offer.get("Offline") is True:
                found.by[Verdict.OFFLINE].append(name)
            found.busy += "RemoteUser" in offer
            verdict = _of_match(job, offer, priorities, self.now)
            if verdict is Verdict.WILLING and row in drained:
                verdict = Verdict.WILLING_IF_DRAINED
            found.by[verdict].append(name)
        return found


def is_dynamic(slot: ClassAd) -> bool:
    """Whether a slot is carved from a partitionable one."""
    return "PartitionableSlot" not in slot and slot.get("DynamicSlot") is True


def _place(slot: ClassAd) -> tuple[str, str, str]:
    within = f"{whole(slot.get('SlotID')):03}"
    if "DSlotID" in slot:
        within += f".{whole(slot.get('DSlotID')):03}"
    return str(slot.get("Machine", "")), within, str(slot.get("Name", ""))


def _of_match(job: ClassAd, offer: ClassAd, priorities: Priorities | None, now: int) -> Verdict:
    """What keeps a slot that matches from running the job, if anything does."""
    user = offer.get("RemoteUser")
    if not isinstance(user, str):
        return Verdict.WILLING
    if user == job.get("User"):
        return Verdict.OWN
    own = None if priorities is None else priorities.of.get(str(job.get("User")))
    if priorities is None or own is None:
        return Verdict.OTHERS
    theirs = priorities.of.get(user)
    if theirs is None or not theirs > own + _PRIORITY_DELTA:
        return Verdict.OTHERS
    if number(offer.eval("Rank", job, now=now)) < number(offer.get("CurrentRank")):
        return Verdict.WILLING
    held, asking = offer.copy(), job.copy()
    held["RemoteUserPrio"], asking["SubmitterUserPrio"] = theirs, own
    if priorities.requirements.eval(held, asking, now=now) is False:
        return Verdict.NOT_PREEMPTED
    return Verdict.WILLING
