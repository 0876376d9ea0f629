"""Which jobs a caller means: ids, clusters, owners, a constraint. Or-ed within their kind, else and-ed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotwise.errors import UsageError
from slotwise.schedd.jobs.values import quoted

#: Jobs and owners that one call names: each is looked at on the daemon's event loop.
NAMED_MOST = 20_000


@dataclass(frozen=True)
class JobSelection:
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


def parse_id(text: str) -> tuple[int, int | None]:
    """``12`` or ``12.3`` as (cluster, proc or None).

    :raises UsageError: for anything else.
    """
    head, dot, tail = text.partition(".")
    if head.isdigit() and (not dot or tail.isdigit()):
        return int(head), int(tail) if dot else None
    raise UsageError(f"{text!r} is not a job id", hint="give CLUSTER or CLUSTER.PROC")


def constraint_of(ids: Sequence[str], owners: Sequence[str], constraint: str) -> str:
    """The ClassAd constraint for ids, owners and constraint together."""
    parts: list[str] = []
    if ids:
        parts.append(" || ".join(_id_clause(text) for text in ids))
    if owners:
        parts.append(" || ".join(f"{'User' if '@' in o else 'Owner'} == {quoted(o)}" for o in owners))
    if constraint.strip():
        parts.append(constraint)
    return " && ".join(f"({part})" for part in parts)


def _id_clause(text: str) -> str:
    cluster, proc = parse_id(text)
    return f"ClusterId == {cluster}" if proc is None else f"(ClusterId == {cluster} && ProcId == {proc})"
