"""Lines of the schedd's log and the audit log about requests: formats with their arguments. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.observe.log import listed
from slotwise.schedd.api.requests import ActionOutcome, JobAction, JobEdit, UsersEdit, UsersEdited
from slotwise.schedd.jobs.decision import LogLine
from slotwise.schedd.jobs.log_lines import ids_of
from slotwise.schedd.jobs.selection import JobSelection
from slotwise.schedd.submission.submissions import QueuedCluster

#: How many characters of a user's text a line quotes.
_TEXT_MOST = 200


def came(clusters: Iterable[QueuedCluster]) -> str:
    """The clusters of a submission, for people: ``12.0-12.9 13.0``."""
    return f"submitted {listed([ids_of(one.cluster_id, one.num_procs) for one in clusters])}"


def acted(who: str, peer: str, request: JobAction, outcome: ActionOutcome) -> LogLine:
    """An action on jobs, and with how many of them it succeeded; each of these has lines of its own."""
    return ("%s of %s by %s from %s: %s", request.action, _selected(request.jobs), who, peer, _totals(outcome))


def edited(who: str, peer: str, request: JobEdit, outcome: ActionOutcome) -> LogLine:
    """An edit of jobs: which attributes, and of how many jobs."""
    changes = [f"{name} = {_value(name, text)}" for name, text in request.changes.items()]
    if request.prio_change is not None:
        changes.append(f"JobPrio by {request.prio_change:+d}")
    what = "; ".join(changes)
    return ("edit of %s by %s from %s: %s: %s", _selected(request.jobs), who, peer, what, _totals(outcome))


def ran_now(who: str, peer: str, job: str, vacated: Iterable[str]) -> LogLine:
    """A job that starts in the place of others."""
    return ("now of %s by %s from %s in the place of %s", job, who, peer, listed(list(vacated)))


def users_edited(who: str, peer: str, request: UsersEdit, edited: UsersEdited) -> LogLine:
    """An edit of records of users or projects."""
    parts = [listed(list(request.names))] if request.names else []
    parts += [f"those with {short(request.constraint)}"] if request.constraint else []
    changes = [f"{name} = {short(text)}" for name, text in request.changes.items()]
    changes += [f"reason {short(request.reason)}"] if request.reason else []
    what = f" ({'; '.join(changes)})" if changes else ""
    whose = "projects" if request.projects else "users"
    return ("%s %s %s by %s from %s%s: %d", request.action, whose, ", ".join(parts), who, peer, what, edited.changed)


#: Attributes whose values may be secrets of the job's owner.
_SECRET = frozenset(("env", "environment", "claimid", "capability"))


def _value(name: str, text: str) -> str:
    return "..." if name.lower() in _SECRET else short(text)


def _selected(selection: JobSelection) -> str:
    parts = [listed(list(selection.ids))] if selection.ids else []
    parts += [f"jobs of {listed(list(selection.owners))}"] if selection.owners else []
    parts += [f"jobs with {short(selection.constraint)}"] if selection.constraint else []
    return ", ".join(parts) or "all jobs"


def _totals(outcome: ActionOutcome) -> str:
    counts = [f"{count} {result.replace('_', ' ')}" for result, count in sorted(outcome.totals.items())]
    return ", ".join(counts) or "no job"


def short(text: str) -> str:
    """A text that users write, cut where it gets long."""
    return text if len(text) <= _TEXT_MOST else f"{text[: _TEXT_MOST - 4]} ..."
