"""Requests about jobs and users between messages and the values that the schedd decides on."""

from __future__ import annotations

from slotwise.errors import UsageError
from slotwise.model.credential_names import CredentialName, CredentialRequest
from slotwise.schedd.api.credential_requests import Asked
from slotwise.schedd.api.requests import (
    Action,
    ActionOutcome,
    JobAction,
    JobEdit,
    JobQuery,
    UserAction,
    UsersEdit,
    UsersEdited,
)
from slotwise.schedd.credentials.keeping import Outcome
from slotwise.schedd.credentials.rules import listed
from slotwise.schedd.history.query import NEWEST, HistoryQuery
from slotwise.schedd.jobs.selection import JobSelection, require_few
from slotwise.table import Form, Order
from slotwise.wire.gen import common_pb2, schedd_pb2

_ACTIONS: dict[int, Action] = {
    schedd_pb2.ActRequest.REMOVE: Action.REMOVE,
    schedd_pb2.ActRequest.TRANSFER_AND_REMOVE: Action.TRANSFER_AND_REMOVE,
    schedd_pb2.ActRequest.REMOVE_FORCE: Action.REMOVE_FORCE,
    schedd_pb2.ActRequest.HOLD: Action.HOLD,
    schedd_pb2.ActRequest.RELEASE: Action.RELEASE,
    schedd_pb2.ActRequest.SUSPEND: Action.SUSPEND,
    schedd_pb2.ActRequest.CONTINUE: Action.CONTINUE,
    schedd_pb2.ActRequest.VACATE: Action.VACATE,
    schedd_pb2.ActRequest.VACATE_FAST: Action.VACATE_FAST,
    schedd_pb2.ActRequest.CLEAR_DIRTY: Action.CLEAR_DIRTY,
}
_USER_ACTIONS: dict[int, UserAction] = {
    schedd_pb2.UsersEdit.ADD: UserAction.ADD,
    schedd_pb2.UsersEdit.ENABLE: UserAction.ENABLE,
    schedd_pb2.UsersEdit.DISABLE: UserAction.DISABLE,
    schedd_pb2.UsersEdit.EDIT: UserAction.EDIT,
    schedd_pb2.UsersEdit.REMOVE: UserAction.REMOVE,
}
_FORMS: dict[int, Form | None] = {
    common_pb2.AdQuery.PACK: "pack",
    common_pb2.AdQuery.LONG: "long",
    common_pb2.AdQuery.JSON: "json",
    common_pb2.AdQuery.COUNT: None,
}


def selection(message: schedd_pb2.JobSelection) -> JobSelection:
    """Which jobs are meant.

    :raises UsageError: when more are named than a daemon can look at in one go.
    """
    require_few(message.ids, message.owners)
    return JobSelection(tuple(message.ids), tuple(message.owners), message.constraint, message.all)


def job_action(message: schedd_pb2.ActRequest) -> JobAction:
    """An action on jobs.

    :raises UsageError: for an action that there is not, or when too many jobs are named.
    """
    action = _ACTIONS.get(message.action)
    if action is None:
        raise UsageError(f"there is no action {message.action}")
    return JobAction(action, selection(message.jobs), message.reason, message.subcode)


def job_edit(message: schedd_pb2.EditRequest) -> JobEdit:
    """New attributes of jobs.

    :raises UsageError: when too many jobs are named.
    """
    prio_change = message.prio_change if message.prio_relative else None
    return JobEdit(selection(message.jobs), dict(message.set), prio_change, message.dry_run)


def action_reply(outcome: ActionOutcome) -> schedd_pb2.ActReply:
    """What came of an action or an edit."""
    reply = schedd_pb2.ActReply(totals={str(result): count for result, count in outcome.totals.items()})
    reply.background = outcome.background
    for name, result in outcome.named.items():
        reply.jobs.add(id=name, result=result)
    return reply


def job_query(message: schedd_pb2.JobQuery) -> JobQuery:
    """A question about jobs in the queue.

    :raises UsageError: when too many jobs are named.
    """
    return JobQuery(
        jobs=selection(message.jobs),
        constraint=message.query.constraint,
        mine_only=message.mine_only,
        projection=tuple(message.query.projection),
        alone=message.query.alone,
        limit=message.query.limit,
        form=_FORMS.get(message.query.form, "pack"),
        count_by=tuple(message.query.count_by),
        width=message.width,
        whole_names=message.whole_names,
        page=_order(message.page) if message.HasField("page") else None,
    )


def _order(page: common_pb2.Page) -> Order:
    return Order.of(page.order_by, page.after, descending=page.descending)


def history_query(message: schedd_pb2.HistoryQuery) -> HistoryQuery:
    """A question about jobs that have left the queue.

    :raises UsageError: when too many jobs are named.
    """
    return HistoryQuery(
        jobs=selection(message.jobs),
        constraint=message.query.constraint,
        projection=tuple(message.query.projection),
        alone=message.query.alone,
        limit=message.query.limit,
        form=_FORMS.get(message.query.form, "pack"),
        forwards=message.forwards,
        scan_limit=message.scan_limit,
        since=message.since.strip(),
        completed_since=message.completed_since,
        runs=message.runs,
        kinds=frozenset(kind.upper() for kind in message.kinds),
        page_after=_left_before(message.page) if message.HasField("page") else None,
    )


def _left_before(page: common_pb2.Page) -> int:
    """:raises UsageError: when a page of past jobs is wanted that there cannot be."""
    if page.order_by or page.descending:
        raise UsageError("past jobs come in the order in which they left", hint="leave the order out")
    if not page.after:
        return NEWEST
    if not (page.after.isascii() and page.after.isdigit() and len(page.after) < 19):
        raise UsageError(f"{page.after[:40]!r} is not where a page ended", hint="give what the page before said")
    return int(page.after)


def users_edit(message: schedd_pb2.UsersEdit) -> UsersEdit:
    """An action on records of users or projects.

    :raises UsageError: for an action that there is not, or when too many users are named.
    """
    require_few(message.names)
    action = _USER_ACTIONS.get(message.what)
    if action is None:
        raise UsageError(f"there is no edit {message.what}")
    return UsersEdit(
        action, tuple(message.names), message.constraint, message.reason, dict(message.set), message.kind == "Project"
    )


def users_reply(edited: UsersEdited) -> schedd_pb2.UsersReply:
    """What came of an action on user records."""
    return schedd_pb2.UsersReply(changed=edited.changed, warnings=edited.warnings)


def credential_asked(message: schedd_pb2.CredentialQuery) -> Asked:
    """Which credential a message means.

    :raises UsageError: when it cannot be the name of one.
    """
    if not message.service:
        if message.handle:
            raise UsageError("a handle is of a service", hint="name the service, too")
        return Asked(None, message.user)
    name = CredentialName.of(message.service, message.handle)
    return Asked(CredentialRequest(name, listed(message.scopes), listed(message.audience)), message.user)


def credential_state(outcome: Outcome) -> schedd_pb2.CredentialState:
    """What is said of a user's credentials."""
    return schedd_pb2.CredentialState(
        user=outcome.user, pending=outcome.pending, files=outcome.files, note=outcome.note
    )
