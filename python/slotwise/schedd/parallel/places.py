"""Where each waiting parallel job is to gather, and why some cannot run in the pool at all.

That takes a look at each slot of the pool for each job, with expressions that users wrote. So each look at many slots
is done in parts, between which others have their turn, and a job whose expressions cannot be used waits alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import SlotwiseError
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import quoted
from slotwise.schedd.parallel.capacity import GROUP, best_group, capacity
from slotwise.schedd.parallel.gathering import Part

#: Nodes that a job may have.
_NODES_MOST = 100_000
#: Procs of a job that are looked at: what they ask for is much the same.
_PROCS_MOST = 10
#: Characters of a group's name that Requirements have room for, at least.
_LONG_NAME = 100


class Place(Struct, frozen=True):
    """The group in which a job is to gather, and why it cannot run in this pool at all; "" for each that is not."""

    group: str = ""
    why: str = ""
    #: By which view of the pool.
    view: int = 0


class Places:
    """The places of jobs, by what the pool was when it was last asked for its slots."""

    #: Slots that are looked at before others have their turn, but at least for one job.
    slots_most = 5_000

    def __init__(self, ads: JobAds, scheduler: str) -> None:
        """
        :param scheduler: the name of the dedicated scheduler.
        """
        self._ads = ads
        self._scheduler = scheduler
        self._slots: list[ClassAd] | None = None
        self._view = 0
        self._known: dict[int, Place] = {}
        self._left = 0
        #: There were more slots to look at than in one part: it goes on with the next.
        self.behind = False

    @property
    def slots(self) -> list[ClassAd] | None:
        """The dedicated slots of the pool, when they were last asked for; None: not yet."""
        return self._slots

    @slots.setter
    def slots(self, slots: list[ClassAd]) -> None:
        if self._slots is None:
            self._known.clear()
        elif not self.behind:
            self._known = {number: place for number, place in self._known.items() if place.view == self._view}
        if not self.behind:  # otherwise the jobs in front would be looked at again before those behind
            self._view += 1
        self._slots = slots

    def begin(self) -> None:
        """Others have had their turn: look at as many slots again."""
        self._left, self.behind = self.slots_most, False

    def of(self, jobs: Sequence[Job], parts: Mapping[Part, int], *, in_one_group: bool) -> Place | None:
        """The place of a job, as it was if there is no time for it now; None when that is not known yet."""
        number = jobs[0].cluster.number
        known = self._known.get(number)
        if known is not None and known.view == self._view:
            return known
        cost = len(self.slots or ()) * min(len(jobs), _PROCS_MOST)
        if cost and self._left <= 0:
            self.behind = True
            return known
        self._left -= cost
        group, why = self._where(jobs, parts, in_one_group=in_one_group)
        found = self._known[number] = Place(group, why, self._view)
        return found

    def _where(self, jobs: Sequence[Job], parts: Mapping[Part, int], *, in_one_group: bool) -> tuple[str, str]:
        nodes = sum(parts.values())
        if nodes > _NODES_MOST:
            return "", f"it has {nodes} nodes, and {_NODES_MOST} is the most"
        some = jobs[:_PROCS_MOST]
        try:
            for job in some:
                self.requirements(self._ads.ad(job), "g" * _LONG_NAME, in_one_group=in_one_group)
        except SlotwiseError as error:
            return "", f"its Requirements leave no room for those of the dedicated scheduler: {error.message}"
        if self.slots is None:
            return "", ""
        if not self.slots:
            return "", f'no slot has DedicatedScheduler = "{self._scheduler}"'
        held: Counter[str] = Counter()
        for job in some:
            found = capacity(self._ads.ad(job), self.slots)
            needed = parts[job.cluster.number, job.proc]
            if sum(found.values()) < needed:
                return "", f"the dedicated slots of the pool hold {sum(found.values())} of its {needed} nodes"
            held.update(found)
        if not in_one_group:
            return "", ""
        if not any(held):
            return "", "it wants ParallelSchedulingGroup, which no dedicated slot has"
        group = best_group(nodes, {name: count // len(some) for name, count in held.items()})
        return group, "" if group else f"no ParallelSchedulingGroup holds its {nodes} nodes"

    def requirements(self, ad: ClassAd, group: str, *, in_one_group: bool) -> ExprTree:
        """What a job requires of slots of the dedicated scheduler; ``group``: in which it gathers, or "".

        :raises AdSyntaxError: when its own Requirements nest too deeply for that.
        """
        former = ad.lookup("Requirements") if "Requirements" in ad else "true"
        parts = [f"({former})", f"TARGET.DedicatedScheduler =?= {quoted(self._scheduler)}"]
        if group:
            parts.append(f"TARGET.{GROUP} =?= {quoted(group)}")
        elif in_one_group:
            parts.append(f"TARGET.{GROUP} =!= undefined")
        return ExprTree(" && ".join(parts))
