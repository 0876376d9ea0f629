"""What became of jobs that went through faults: their ledger, event logs, history and outputs compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

#: A job's id, ``CLUSTER.PROC``.
Key = str
COMPLETED = 4


class Seen(Struct):
    """All that a run of faults has left."""

    #: Jobs of which ``submit`` has said that they are in the queue.
    acknowledged: Collection[Key]
    #: What jobs wrote themselves, a line each: ``start KEY``, ``end KEY``, ``twice KEY`` where another instance lived.
    ledger: Iterable[str]
    #: Per job, how often each number of an event is in its log.
    events: Mapping[Key, Counter[str]]
    #: JobStatus of each job in the history, as often as it is there.
    history: Iterable[tuple[Key, int]]
    #: Jobs that are in the queue at the end.
    queue: Collection[Key]
    #: Jobs with standard output and output file as their script writes them.
    outputs: Collection[Key]


class Verdict(Struct, frozen=True):
    """The jobs of which something is not as it should be, by what it is. Empty lists: all is well."""

    #: Acknowledged, and neither in the queue nor in the history.
    lost: tuple[Key, ...]
    #: In the queue for good.
    stuck: tuple[Key, ...]
    #: Ran twice at once.
    overlapped: tuple[Key, ...]
    #: In the history twice, or its submission or end twice in its event log.
    doubled: tuple[Key, ...]
    #: In the history as completed, and its submission or end is not in its event log.
    unlogged: tuple[Key, ...]
    #: Completed without having come to its end, or without its outputs.
    hollow: tuple[Key, ...]

    def __bool__(self) -> bool:
        """Whether something is wrong."""
        return any(getattr(self, name) for name in self.__struct_fields__)

    def lines(self) -> list[str]:
        """A line for each kind: how many, and the first few."""
        return [
            f"{name:<11}{len(found):6}  {' '.join(found[:8])}".rstrip()
            for name in self.__struct_fields__
            for found in (getattr(self, name),)
        ]


def judge(seen: Seen) -> Verdict:
    """Compare what is left of all acknowledged jobs."""
    told = Counter(line.strip() for line in seen.ledger)
    history = list(seen.history)
    times = Counter(key for key, _ in history)
    completed = {key for key, status in history if status == COMPLETED}
    nothing: Counter[str] = Counter()

    def which(wrong: Iterable[Key]) -> tuple[Key, ...]:
        return tuple(sorted(set(wrong), key=_number))

    def logged(key: Key, number: str) -> int:
        return seen.events.get(key, nothing)[number]

    jobs = set(seen.acknowledged)
    return Verdict(
        lost=which(jobs - set(times) - set(seen.queue)),
        stuck=which(seen.queue),
        overlapped=which(line.split()[1] for line in told if line.startswith("twice ")),
        doubled=which(
            [key for key, count in times.items() if count > 1]
            + [key for key in seen.events if logged(key, "000") > 1 or logged(key, "005") > 1]
        ),
        unlogged=which(key for key in completed if not (logged(key, "000") and logged(key, "005"))),
        hollow=which(key for key in completed if not told[f"end {key}"] or key not in seen.outputs),
    )


def _number(key: Key) -> tuple[int, ...]:
    return tuple(int(part) for part in key.split("."))
