"""Which waiting parallel job gets which claims: a job starts once it has all that it needs, or not at all. Pure.

Jobs are served in order. The first that cannot start gathers: what fits it is kept for it, what is missing is asked of
the negotiator, and claims that it cannot use are given back, so that nothing that it waits for is in its own way. With
DEDICATED_SCHEDULER_USE_FIFO no job behind it starts before it; without, those do that can start as a whole with what it
does not keep. Only one job gathers at a time, so no two jobs can each hold what the other waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

#: Cluster and proc: what a number of like nodes is asked for by.
Part = tuple[int, int]


class WaitingJob(Struct, frozen=True):
    """A parallel job that waits for slots; ``parts`` has the number of nodes of each of its procs."""

    cluster: int
    submitter: str
    parts: Mapping[Part, int]
    #: All of its nodes are to be in one ParallelSchedulingGroup (WantParallelSchedulingGroups).
    in_one_group: bool = False
    #: In which group it gathers, if it is to be one and the pool is known; "" when nothing is known.
    group: str = ""
    #: It may not start now: the pool has not enough slots, or its user has as many jobs running as may be.
    passed_over: bool = False

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return sum(self.parts.values())


class IdleClaim(Struct, frozen=True):
    """A claim of the dedicated scheduler without a run. ``group``: ParallelSchedulingGroup of its slot, or ""."""

    id: str
    submitter: str
    group: str = ""


class Start(Struct, frozen=True):
    """A job starts: the claim of each node, in the order of their numbers."""

    cluster: int
    nodes: tuple[tuple[Part, str], ...]


class Wanted(Struct, frozen=True):
    """So many slots are missing for nodes of a job; ``group``: of one group, as far as that is decided."""

    part: Part
    count: int
    in_one_group: bool = False
    group: str = ""


class Plan(Struct):
    """What is to be done now."""

    starts: list[Start] = field(default_factory=list)
    #: What is missing for the job that gathers.
    wanted: list[Wanted] = field(default_factory=list)
    #: The job that gathers.
    gathers: int | None = None
    #: Claims that the job that gathers cannot use.
    useless: list[str] = field(default_factory=list)


#: How well a claim suits a part of a job, larger is better; None when it does not fit.
Fit = Callable[[Part, str], "float | None"]


def plan(jobs: Iterable[WaitingJob], claims: Iterable[IdleClaim], fit: Fit, *, fifo: bool) -> Plan:
    """What to do with the claims that are there.

    :param jobs: in the order in which they are served; with FIFO, none is taken behind the one that gathers.
    :param fit: see :data:`Fit`; asked only of claims of a job's submitter.
    """
    free = {claim.id: claim for claim in claims}
    found = Plan()
    for job in jobs:
        if job.passed_over:
            continue
        chosen, group = _assign(job, list(free.values()), fit)
        complete = sum(map(len, chosen.values())) == job.nodes
        if complete:
            nodes = tuple((part, claim) for part, own in chosen.items() for claim in own)
            found.starts.append(Start(job.cluster, nodes))
        elif found.gathers is None:
            found.gathers = job.cluster
            found.wanted = [
                Wanted(part, count - len(chosen[part]), job.in_one_group, group)
                for part, count in job.parts.items()
                if count > len(chosen[part])
            ]
        else:
            continue
        for own in chosen.values():
            for claim in own:
                del free[claim]
        if found.gathers is not None and fifo:
            break
    if found.gathers is not None:
        found.useless = list(free)
    return found


def _assign(job: WaitingJob, claims: Sequence[IdleClaim], fit: Fit) -> tuple[dict[Part, list[str]], str]:
    """As many claims as fit the job, by part; and the group that they are of, if it is to be one."""
    own = [claim for claim in claims if claim.submitter == job.submitter]
    if not job.in_one_group:
        return _most(job, own, fit), ""
    groups = sorted({claim.group for claim in own if claim.group} | ({job.group} if job.group else set()))
    tried = {group: _most(job, [claim for claim in own if claim.group == group], fit) for group in groups}

    def rank(group: str) -> tuple[bool, bool, int]:
        count = sum(map(len, tried[group].values()))
        return count == job.nodes, group == job.group, count

    best = max(groups, key=rank, default="")
    return (tried[best], best) if best else ({part: [] for part in job.parts}, "")


def _most(job: WaitingJob, claims: Sequence[IdleClaim], fit: Fit) -> dict[Part, list[str]]:
    """Claims for the parts of a job: parts that fewer claims fit choose first, each takes what suits it best."""
    suits: dict[Part, list[tuple[float, str]]] = {}
    for part in job.parts:
        ranked = [(rank, claim.id) for claim in claims if (rank := fit(part, claim.id)) is not None]
        suits[part] = sorted(ranked, key=lambda one: -one[0])
    chosen: dict[Part, list[str]] = {part: [] for part in job.parts}
    taken: set[str] = set()
    for part in sorted(suits, key=lambda one: len(suits[one]) - job.parts[one]):
        for _, claim in suits[part]:
            if len(chosen[part]) == job.parts[part]:
                break
            if claim not in taken:
                chosen[part].append(claim)
                taken.add(claim)
    return chosen
