"""What idle jobs ask for that a cycle could not give them, by the shape of what they ask for. Pure.

For autoscalers, and for people who wonder what to buy. A shape is the cores, memory, disk and GPUs of one job; jobs
whose requests round up to the same amounts have the same one, so that the answer is short.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.matchmaking.reasons import LIMITS, reason_label
from slotwise.matchmaking.rows import JsonObject, Refusal

#: Shapes of an answer at most: those with the most jobs. What the others ask for is in the sums.
MOST_SHAPES = 100
#: Names of submitters of a shape at most.
_MOST_NAMES = 5
#: Memory and disk of shapes are multiples of these, MiB.
_MEMORY_STEP_MIB, _DISK_STEP_MIB = 128, 1024
#: An ad of a job that asks for more asks for nothing that exists; it must not make sums useless.
_MOST_MIB = 1 << 40


class Shape(Struct, frozen=True, order=True):
    """What one job asks for, and what one slot has."""

    cpus: float = 1
    memory_mib: int = 0
    disk_mib: int = 0
    gpus: float = 0

    def holds(self, job: Shape) -> int:
        """How many such jobs fit into a slot of this shape; 0: none."""
        fits = [
            math.floor(have / wants) for have, wants in zip(self._amounts(), job._amounts(), strict=True) if wants > 0
        ]
        return max(0, min(fits, default=1))

    def _amounts(self) -> tuple[float, ...]:
        return self.cpus, self.memory_mib, self.disk_mib, self.gpus

    @classmethod
    def asked(cls, cpus: object, memory_mib: object, disk_kib: object, gpus: object) -> Shape:
        """The shape of a request, of the values in its ad; what is not a number counts as not asked for."""
        return cls(
            cpus=_amount(cpus) or 1,
            memory_mib=_stepped(_amount(memory_mib), _MEMORY_STEP_MIB),
            disk_mib=_stepped(_amount(disk_kib) / 1024, _DISK_STEP_MIB),
            gpus=_amount(gpus),
        )


def _amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return 0
    return min(value, _MOST_MIB)


def _stepped(amount: float, step: int) -> int:
    return math.ceil(min(amount, _MOST_MIB) / step) * step


class Ask(Struct, frozen=True):
    """One request of a cycle: whose it is, its shape, and since when its first job is idle (epoch seconds)."""

    submitter: str
    shape: Shape
    idle_since: float


class ShapeDemand(Struct, frozen=True):
    """The jobs of one shape that got nothing.

    :param submitters: how many have such jobs; ``top`` names those with the most.
    :param reasons: numbers of jobs by reason, in the words of :mod:`slotwise.matchmaking.reasons`.
    :param limited: how many of them a limit or a quota holds back: more slots do not help these.
    :param autoclusters: kinds of jobs among them.
    """

    shape: Shape
    jobs: int
    limited: int
    autoclusters: int
    submitters: int
    top: tuple[str, ...]
    reasons: Mapping[str, int]
    idle_since: float = math.inf

    def as_json(self, now: float) -> JsonObject:
        """For programs."""
        return {
            "cpus": self.shape.cpus,
            "memory_mib": self.shape.memory_mib,
            "disk_mib": self.shape.disk_mib,
            "gpus": self.shape.gpus,
            "jobs": self.jobs,
            "limited_jobs": self.limited,
            "autoclusters": self.autoclusters,
            "submitters": self.submitters,
            "top_submitters": list(self.top),
            "reasons": dict(self.reasons),
            "oldest_wait_s": int(max(0.0, now - self.idle_since)) if math.isfinite(self.idle_since) else 0,
        }


class _Sum(Struct):
    """What is known of a shape so far."""

    autoclusters: int = 0
    limited: int = 0
    submitters: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    idle_since: float = math.inf

    def of(self, shape: Shape) -> ShapeDemand:
        names = tuple(name for name, _ in self.submitters.most_common(_MOST_NAMES))
        jobs = self.submitters.total()
        return ShapeDemand(
            shape,
            jobs,
            self.limited,
            self.autoclusters,
            len(self.submitters),
            names,
            dict(self.reasons),
            self.idle_since,
        )


class UnmetDemand(Struct, frozen=True):
    """What a cycle left unmet. ``at``: epoch seconds. ``left_out``: shapes that are in the sums alone."""

    at: float = 0.0
    shapes: Sequence[ShapeDemand] = ()
    jobs: int = 0
    limited: int = 0
    submitters: int = 0
    left_out: int = 0

    def as_json(self) -> JsonObject:
        """For programs."""
        return {
            "at": self.at,
            "jobs": self.jobs,
            "limited_jobs": self.limited,
            "submitters": self.submitters,
            "shapes": [row.as_json(self.at) for row in self.shapes],
            "shapes_left_out": self.left_out,
        }


def unmet(refusals: Iterable[Refusal], ask_of: Callable[[str], Ask | None], now: float) -> UnmetDemand:
    """The demand of the jobs that a cycle refused.

    :param ask_of: the request of a key; None: there is none.
    """
    sums: dict[Shape, _Sum] = {}
    names: set[str] = set()
    for refusal in refusals:
        ask = ask_of(refusal.request)
        if ask is None or refusal.count <= 0:
            continue
        row = sums.setdefault(ask.shape, _Sum())
        label = reason_label(refusal.reason)
        row.limited += refusal.count if label in LIMITS else 0
        row.autoclusters += 1
        row.submitters[ask.submitter] += refusal.count
        row.reasons[label] += refusal.count
        row.idle_since = min(row.idle_since, ask.idle_since)
        names.add(ask.submitter)
    ordered = sorted((row.of(shape) for shape, row in sums.items()), key=lambda row: (-row.jobs, row.shape))
    return UnmetDemand(
        at=now,
        shapes=ordered[:MOST_SHAPES],
        jobs=sum(row.jobs for row in ordered),
        limited=sum(row.limited for row in ordered),
        submitters=len(names),
        left_out=max(0, len(ordered) - MOST_SHAPES),
    )


class Supply(Struct, frozen=True):
    """How many slots of one shape the demand would fill, and how many jobs would run in them."""

    slots: int
    jobs: int
    #: Jobs that are larger than such a slot.
    too_large: int


def supply_for(shapes: Iterable[tuple[Shape, int]], slot: Shape) -> Supply:
    """How many slots of the shape ``slot`` the jobs need, with their numbers by shape; the largest are placed first.

    What a slot has left after the largest jobs that fill it is given to smaller ones, as a partitionable slot is. The
    steps depend on the number of shapes, not on that of jobs.
    """
    waiting = sorted(((shape, count) for shape, count in shapes if count > 0), key=lambda row: row[0], reverse=True)
    #: Slots that are alike: what each has left, and how many there are.
    partly: dict[Shape, int] = {}
    slots = jobs = too_large = 0
    for shape, count in waiting:
        if not slot.holds(shape):
            too_large += count
            continue
        jobs += count
        left, partly = _fill(partly, shape, count)
        if left:
            each = slot.holds(shape)
            whole, rest = divmod(left, each)
            slots += whole + (1 if rest else 0)
            for number, holding in ((whole, each), (1 if rest else 0, rest)):
                if number:
                    remains = _without(slot, shape, holding)
                    partly[remains] = partly.get(remains, 0) + number
    return Supply(slots, jobs, too_large)


def _fill(partly: dict[Shape, int], job: Shape, count: int) -> tuple[int, dict[Shape, int]]:
    """Place jobs into what slots have left; returns how many found no place, and what is left then."""
    after: dict[Shape, int] = {}

    def keep(shape: Shape, number: int) -> None:
        if number:
            after[shape] = after.get(shape, 0) + number

    for shape, number in sorted(partly.items()):
        each = shape.holds(job)
        used = min(number, math.ceil(count / each)) if each and count else 0
        placed = min(count, used * each)
        full, rest = divmod(placed, each) if each else (0, 0)
        keep(_without(shape, job, each), full)
        if rest:
            keep(_without(shape, job, rest), 1)
        keep(shape, number - used)
        count -= placed
    return count, after


def _without(slot: Shape, job: Shape, times: int) -> Shape:
    return replace(
        slot,
        cpus=slot.cpus - times * job.cpus,
        memory_mib=slot.memory_mib - times * job.memory_mib,
        disk_mib=slot.disk_mib - times * job.disk_mib,
        gpus=slot.gpus - times * job.gpus,
    )


def shapes_of(said: JsonObject) -> list[tuple[Shape, int]]:
    """Shapes, and for how many jobs of each more slots help, of a demand's JSON form."""

    def row(one: JsonObject) -> tuple[Shape, int]:
        shape = Shape(one["cpus"], one["memory_mib"], one["disk_mib"], one["gpus"])
        return shape, one["jobs"] - one["limited_jobs"]

    return [row(one) for one in said["shapes"]]
