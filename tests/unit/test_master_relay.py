"""For whom a host's master passes questions about the pool on."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import BusyError, DeniedError
from slotwise.master.relay import Relay
from slotwise.wire.token import Identity, with_implied

#: What gRPC knows of a call; the authenticator of these tests does not look at it.
CONTEXT: Any = None


def relay_for(*callers: Identity) -> Relay:
    """One whose callers come in this order, the last again and again."""
    waiting = list(callers)

    def caller(_context: Any) -> Identity:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    context = SimpleNamespace(authenticator=SimpleNamespace(caller=caller))
    return Relay(cast(DaemonContext, context))


def local(name: str, *levels: str) -> Identity:
    return Identity(f"{name}@here", with_implied(levels), "FS")


@pytest.mark.parametrize(
    "caller",
    [
        local("ann"),
        Identity("ann@here", with_implied(["READ"]), "IDTOKENS"),
        Identity("ann@here", with_implied(["READ"]), "SSL"),
        Identity("condor@there", with_implied(["ADVERTISE_STARTD"])),
    ],
)
def test_only_users_of_the_host_with_read_are_served(caller: Identity) -> None:
    with pytest.raises(DeniedError, match="users of this host with READ"), relay_for(caller).admitted(CONTEXT):
        raise AssertionError("not reached")


def test_a_user_has_a_few_questions_under_way_and_leaves_room_for_others() -> None:
    ann, bob = local("ann", "READ"), local("bob", "WRITE")
    relay = relay_for(*[ann] * 5, bob, ann, ann)
    with contextlib.ExitStack() as under_way:
        for _ in range(4):
            assert under_way.enter_context(relay.admitted(CONTEXT)) == "ann@here"
        with pytest.raises(BusyError):
            under_way.enter_context(relay.admitted(CONTEXT))
        assert under_way.enter_context(relay.admitted(CONTEXT)) == "bob@here"
        with pytest.raises(BusyError):
            under_way.enter_context(relay.admitted(CONTEXT))
    with relay.admitted(CONTEXT) as user:
        assert user == "ann@here", "what has ended counts no more"


def test_the_host_has_a_few_under_way_whoever_asks() -> None:
    crowd = [local(f"user{number // 4}", "READ") for number in range(17)]
    relay = relay_for(*crowd)
    with contextlib.ExitStack() as under_way:
        for _ in range(16):
            under_way.enter_context(relay.admitted(CONTEXT))
        with pytest.raises(BusyError):
            under_way.enter_context(relay.admitted(CONTEXT))
