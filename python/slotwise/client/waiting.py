"""What a program that waits for jobs asks the schedd, and what the answers mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slotwise.backoff import Backoff
from slotwise.classad import ClassAd, ExprTree
from slotwise.client.ad_list import AdList
from slotwise.client.convert import Jobs, SubmitResult
from slotwise.errors import BusyError, UsageError
from slotwise.model.job_id import JobId
from slotwise.model.job_status import JobStatus

#: How long to wait between two questions: at once for short jobs, two seconds apart for long ones.
PACE = Backoff(first_s=0.05, factor=1.5, most_s=2.0)


#: States that a job does not leave, though it may stay in the queue with them until its files are fetched.
_ENDED = (JobStatus.REMOVED, JobStatus.COMPLETED)


def constraint_of(jobs: Jobs | SubmitResult) -> str:
    """The condition that is true of these jobs alone, in the queue and in the history.

    :raises UsageError: ``jobs`` names none, or an id is none.
    """
    if isinstance(jobs, SubmitResult):
        named: Iterable[str] = [str(cluster) for cluster in jobs.clusters]
    elif isinstance(jobs, ExprTree):
        return str(jobs)
    elif isinstance(jobs, str):
        if JobId.match(jobs) is None:
            return jobs
        named = [jobs]
    else:
        named = jobs
    conditions = [f"({JobId.parse(one).constraint})" for one in named]
    if not conditions:
        raise UsageError("no jobs are named", hint="give the result of submit, ids or a constraint")
    return " || ".join(conditions)


@dataclass(frozen=True)
class Progress:
    """How many of the jobs that are waited for are in which state."""

    waiting: int = 0
    held: int = 0

    @classmethod
    def of_counts(cls, counts: Sequence[ClassAd]) -> Progress:
        """From the numbers of jobs in the queue by JobStatus."""
        by_status = {int(str(ad["JobStatus"])): int(str(ad["Count"])) for ad in counts}
        held = by_status.get(JobStatus.HELD, 0)
        ended = sum(by_status.get(status, 0) for status in _ENDED)
        return cls(sum(by_status.values()) - ended - held, held)

    @property
    def is_over(self) -> bool:
        """Whether no job is left that could end."""
        return not self.waiting and not self.held

    def pause_s(self, asked: int, left_s: float | None) -> float:
        """How long to wait after so many questions, seconds; ``left_s``: how much time there is, None: any.

        :raises TimeoutError: there is none left.
        """
        pause_s = PACE.delay_s(asked)
        if left_s is None:
            return pause_s
        if left_s <= 0:
            raise TimeoutError(f"time is up, and {self.waiting + self.held} jobs have not ended")
        return min(pause_s, left_s)

    @property
    def is_stuck(self) -> bool:
        """Whether all that are left are held."""
        return not self.waiting and self.held > 0


def with_ids(projection: Sequence[str]) -> list[str]:
    """A projection with what :func:`each_once` reads; none stays none, which is all attributes."""
    return [*projection, "ClusterId", "ProcId"] if projection else []


def each_once(queued: Sequence[ClassAd], past: Sequence[ClassAd]) -> AdList:
    """Ads from the queue and then from the history, where a job that left in between is in both."""
    gone = {(ad["ClusterId"], ad["ProcId"]) for ad in past}
    return AdList([*(ad for ad in queued if (ad["ClusterId"], ad["ProcId"]) not in gone), *past])


def held_among(constraint: str) -> tuple[str, list[str]]:
    """The condition of held jobs among these, and the attributes that :func:`held_error` reads."""
    return f"({constraint}) && JobStatus == {int(JobStatus.HELD)}", ["ClusterId", "ProcId", "HoldReason"]


def held_error(ads: Sequence[ClassAd], count: int) -> BusyError:
    """That jobs do not end: how many are held, and why the first of them is."""
    first = ads[0] if ads else ClassAd()
    job = f"{first.get('ClusterId')}.{first.get('ProcId')}"
    are = "is" if count == 1 else "are"
    return BusyError(
        f"{count} of the jobs {are} held (job {job}: {first.get('HoldReason', 'no reason is given')})",
        hint="release or remove them, or wait with through_holds=True",
    )
