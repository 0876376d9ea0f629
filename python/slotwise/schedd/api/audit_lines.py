"""What the schedd's log and the audit log say of requests: formats and what they take. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slotwise.observe.log import listed
from slotwise.schedd.jobs.log_lines import ids_of
from slotwise.schedd.submission.transaction import QueuedCluster
from slotwise.wire.gen import schedd_pb2

#: How many characters of a user's text a line quotes.
_TEXT_MOST = 200


def came(clusters: Iterable[QueuedCluster]) -> str:
    """The clusters of a submission, for people: ``12.0-12.9 13.0``."""
    return f"submitted {listed([ids_of(one.cluster_id, one.num_procs) for one in clusters])}"


def acted(who: str, peer: str, request: schedd_pb2.ActRequest, reply: schedd_pb2.ActReply) -> tuple[Any, ...]:
    """What somebody asked of jobs, and with how many it was done; each of these has lines of its own."""
    verb = schedd_pb2.ActRequest.Action.Name(request.action).lower().replace("_", " ")
    return ("%s of %s by %s from %s: %s", verb, _selected(request.jobs), who, peer, _totals(reply))


def edited(who: str, peer: str, request: schedd_pb2.EditRequest, reply: schedd_pb2.ActReply) -> tuple[Any, ...]:
    """Which attributes somebody changed of jobs."""
    changes = [f"{name} = {_value(name, text)}" for name, text in request.set.items()]
    if request.prio_relative:
        changes.append(f"JobPrio by {request.prio_change:+d}")
    what = "; ".join(changes)
    return ("edit of %s by %s from %s: %s: %s", _selected(request.jobs), who, peer, what, _totals(reply))


def users_edited(who: str, peer: str, request: schedd_pb2.UsersEdit, reply: schedd_pb2.UsersReply) -> tuple[Any, ...]:
    """What an administrator did to records of users."""
    verb = schedd_pb2.UsersEdit.What.Name(request.what).lower()
    parts = [listed(list(request.names))] if request.names else []
    parts += [f"those with {short(request.constraint)}"] if request.constraint else []
    changes = [f"{name} = {short(text)}" for name, text in request.set.items()]
    changes += [f"reason {short(request.reason)}"] if request.reason else []
    what = f" ({'; '.join(changes)})" if changes else ""
    return ("%s users %s by %s from %s%s: %d", verb, ", ".join(parts), who, peer, what, reply.changed)


#: Attributes whose values may be secrets of the job's owner.
_SECRET = frozenset(("env", "environment", "claimid", "capability"))


def _value(name: str, text: str) -> str:
    return "..." if name.lower() in _SECRET else short(text)


def _selected(selection: schedd_pb2.JobSelection) -> str:
    parts = [listed(list(selection.ids))] if selection.ids else []
    parts += [f"jobs of {listed(list(selection.owners))}"] if selection.owners else []
    parts += [f"jobs with {short(selection.constraint)}"] if selection.constraint else []
    return ", ".join(parts) or "all jobs"


def _totals(reply: schedd_pb2.ActReply) -> str:
    return (
        ", ".join(f"{count} {result.replace('_', ' ')}" for result, count in sorted(reply.totals.items())) or "no job"
    )


def short(text: str) -> str:
    """A text that users write, cut where it gets long."""
    return text if len(text) <= _TEXT_MOST else f"{text[: _TEXT_MOST - 4]} ..."
