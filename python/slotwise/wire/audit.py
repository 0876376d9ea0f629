"""The audit log of a daemon: who asked for what, whether it was allowed and by what, one line for each call.

Its category is D_AUDIT, its file ``<SUBSYS>_AUDIT_LOG``. Calls that only look are left out, and so are those by which
daemons of the pool do their daily work; of the connections that they keep there is a line for each. Refusals are in it
whatever was asked. A line never holds what a user sent as a secret: arguments of calls are named one by one.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from google.protobuf.message import Message

from slotwise.authorization.policy import Decision
from slotwise.wire.context import Request
from slotwise.wire.token import Identity

_log = logging.getLogger("D_AUDIT")
#: Levels whose calls are in the log when they succeed; of the others only streams.
_NOTED = frozenset(("WRITE", "ADMINISTRATOR", "CONFIG", "DAEMON"))
#: Calls that are noted whatever level allows them, and that say themselves what they did.
_ALWAYS = frozenset(("Daemon/SetConfig",))
#: Services whose requests hold nothing but names and numbers, which a line may tell.
_PLAIN = ("Daemon/", "Master/", "Negotiator/", "Startd/")
_TEXT_MOST = 300


class Call:
    """What there will be to say about one call."""

    __slots__ = ("caller", "decision", "details", "method", "peer")

    def __init__(self, method: str, peer: str, caller: Identity, decision: Decision) -> None:
        self.method = method
        self.peer = peer
        self.caller = caller
        self.decision = decision
        self.details: list[str] = []

    def write(self, *more: str) -> None:
        """Write the line of the call."""
        what = "".join(f"; {text}" for text in (*self.details, *more))
        self.details.clear()
        _log.info(
            "%s of %s from %s: allowed, %s%s", self.method, who(self.caller), self.peer, self.decision.reason, what
        )


_present: ContextVar[Call | None] = ContextVar("audited", default=None)


def who(caller: Identity) -> str:
    """A caller with how the name was proved: ``bob@example.org by IDTOKENS, token 3f2a``."""
    return f"{caller.name} by {caller.method}{_token(caller)}"


def _token(caller: Identity) -> str:
    if caller.subject:
        return f", certificate {caller.subject}"
    return f", token {caller.token_id}" if caller.token_id else ""


def wanted() -> bool:
    """Whether anything is written at all."""
    return _log.isEnabledFor(logging.INFO)


def begin(method: str, peer: str, caller: Identity, decision: Decision, *, stream: bool) -> Call | None:
    """The present call is allowed; None when it is none of those that are noted."""
    noted = wanted() and (stream or decision.level in _NOTED or method in _ALWAYS)
    noted = noted and (decision.level != "READ" or method in _ALWAYS)
    found = Call(method, peer, caller, decision) if noted else None
    _present.set(found)
    return found


def note(text: str, *args: object) -> None:
    """Say in the line of the present call what was done, and to what; of a stream, in a line of its own."""
    found = _present.get()
    if found is not None:
        found.details.append(text % args if args else text)


def note_now(text: str, *args: object) -> None:
    """Say in a line of its own what the present stream asks for and gets."""
    found = _present.get()
    if found is not None:
        found.write(text % args if args else text)


def refused(caller: Identity | None, text: str, *args: object) -> None:
    """A call is refused, or a part of what it asks; ``caller``: who makes it, if that is known."""
    if caller is not None:
        text, args = f"{text} (authenticated by %s%s)", (*args, caller.method, _token(caller))
    _log.info(text, *args)


def arguments(method: str, request: Request | None) -> str:
    """The arguments of an administrator's call, as ``name=value`` each; empty for services that might tell too much."""
    if not method.startswith(_PLAIN) or method in _ALWAYS or not isinstance(request, Message):
        return ""
    told = [f"{field.name}={value}" for field, value in request.ListFields() if field.type != field.TYPE_BYTES]
    text = " ".join(" ".join(told).split())
    return text if len(text) <= _TEXT_MOST else f"{text[: _TEXT_MOST - 4]} ..."
