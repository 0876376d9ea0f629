"""Which jobs a caller means: ids, clusters, owners, a constraint. Or-ed within their kind, else and-ed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slotwise.errors import UsageError
from slotwise.model.job_id import JobId
from slotwise.schedd.jobs.values import quoted

#: Jobs and owners that one call names: each is looked at on the daemon's event loop.
NAMED_MOST = 20_000
#: Clusters that a constraint names one by one.
_CLUSTERS_APART = 8


class JobSelection(Struct, frozen=True):
    """Which jobs a caller means. ``ids``: ``12`` and ``12.3``. ``all``: the whole queue, where nothing else is said."""

    ids: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    constraint: str = ""
    all: bool = False


def require_few(*names: Sequence[str]) -> None:
    """Check that a call does not name more than a daemon can process in one go.

    :raises UsageError: when it does.
    """
    if sum(map(len, names)) > NAMED_MOST:
        raise UsageError(
            f"a call names at most {NAMED_MOST} jobs and owners",
            hint="select them by a constraint, or in several calls",
        )


def single_jobs(ids: Sequence[str]) -> list[str] | None:
    """The keys of the jobs that ids name, each once and in order; None if they name none, or whole clusters.

    :raises UsageError: for what is not an id.
    """
    named = {JobId.parse(text) for text in ids}
    single = sorted((cluster, proc) for cluster, proc in named if proc is not None)
    if not single or len(single) < len(named):
        return None
    return [f"{cluster}.{proc}" for cluster, proc in single]


def constraint_of(ids: Sequence[str], owners: Sequence[str], constraint: str) -> str:
    """The ClassAd constraint for ids, owners and constraint together."""
    parts: list[str] = []
    if ids:
        parts.append(_among(ids))
    if owners:
        parts.append(" || ".join(f"{'User' if '@' in o else 'Owner'} == {quoted(o)}" for o in owners))
    if constraint.strip():
        parts.append(constraint)
    return " && ".join(f"({part})" for part in parts)


def _among(ids: Sequence[str]) -> str:
    named = dict.fromkeys(JobId.parse(text) for text in ids)
    whole = [cluster for cluster, proc in named if proc is None]
    texts = [f"({job.constraint})" for job in named if job.proc is not None]
    if len(whole) > _CLUSTERS_APART:
        # Each is a question to all jobs; this is one to each cluster.
        return " || ".join([f"member(ClusterId, {{{', '.join(map(str, whole))}}})", *texts])
    return " || ".join([*(f"ClusterId == {cluster}" for cluster in whole), *texts])
