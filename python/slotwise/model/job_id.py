"""How jobs are named: ``12.3`` is a job, ``12`` a cluster, ``12.3.1`` a node of a parallel job. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from slotwise.errors import UsageError

#: As many digits as Python reads at once.
_NUMBER = "[0-9]{1,4000}"
#: SQLite's and ClassAds' largest integer stands for all above it: no job has such a number.
_LARGEST = 2**63 - 1
_ID = re.compile(rf"({_NUMBER})(?:\.({_NUMBER}))?")
#: Numbers above it are no clusters but times, for HTCondor's tool, too.
_LAST_CLUSTER = 100_000_000
_NODE = re.compile(rf"({_NUMBER})(?:\.({_NUMBER})(?:\.({_NUMBER}))?)?")


class JobId(NamedTuple):
    """A job; with ``proc`` None, all jobs of a cluster."""

    cluster: int
    proc: int | None = None

    @classmethod
    def match(cls, text: str) -> Self | None:
        """What ``12`` or ``12.3`` names; None for any other text."""
        found = _ID.fullmatch(text)
        if found is None:
            return None
        cluster, proc = found.groups()
        return cls(_number(cluster), _number(proc) if proc is not None else None)

    @classmethod
    def parse(cls, text: str) -> Self:
        """What ``12`` or ``12.3`` names.

        :raises UsageError: for any other text.
        """
        if (found := cls.match(text)) is None:
            raise UsageError(f"{text[:40]!r} is not a job id", hint="CLUSTER or CLUSTER.PROC, as in 12.0")
        return found

    @classmethod
    def of_directory(cls, cluster: str, proc: str) -> Self | None:
        """The job whose files are in ``cluster/proc``, or in ``cluster/proc.new`` while they are written; None for
        other names."""
        return cls.match(f"{cluster}.{proc.partition('.')[0]}")

    @property
    def first(self) -> JobId:
        """The job, or the first job of the cluster."""
        return self if self.proc is not None else JobId(self.cluster, 0)

    @property
    def constraint(self) -> str:
        """The expression that is true for what this names."""
        whole = f"ClusterId == {self.cluster}"
        return whole if self.proc is None else f"{whole} && ProcId == {self.proc}"

    def __str__(self) -> str:
        return f"{self.cluster}" if self.proc is None else f"{self.cluster}.{self.proc}"


class NodeId(NamedTuple):
    """A node of a parallel job, counted within the proc; with ``node`` None, any."""

    job: JobId
    node: int | None = None

    @classmethod
    def match(cls, text: str) -> Self | None:
        """What ``12``, ``12.3`` or ``12.3.1`` names; None for any other text."""
        found = _NODE.fullmatch(text)
        if found is None:
            return None
        proc, node = (_number(number) if number is not None else None for number in found.groups()[1:])
        return cls(JobId(_number(found[1]), proc), node)


def _number(digits: str) -> int:
    return min(int(digits), _LARGEST)


def last_of_history(since: str) -> str:
    """The condition of the record at which ``-since`` ends the reading of a history: a job, a cluster, a time of
    completion in seconds, or an expression."""
    job = JobId.match(since)
    if job is None:
        return since
    if job.proc is None and job.cluster > _LAST_CLUSTER:
        return f"CompletionDate > 0 && CompletionDate < {job.cluster}"  # 0: it was removed
    return job.constraint
