"""Where a startd answers that has moved: its slots have their names wherever it is."""

from __future__ import annotations

from slotwise.daemon.locate import address_in
from slotwise.daemon.runtime import DaemonContext
from slotwise.schedd.jobs.values import quoted

#: What the address of a startd begins with that answers nowhere that the schedd knows; its name follows.
_NOWHERE = "unknown:"


def nowhere(name: str) -> str:
    """Where claims are held on slots of the startd ``name`` while it is not known where it answers."""
    return f"{_NOWHERE}{name}"


def is_nowhere(startd: str) -> bool:
    """Whether this is no address, but stands for one that is not known."""
    return startd.startswith(_NOWHERE)


async def startd_target(context: DaemonContext, slot_name: str) -> str:
    """Where the startd with a slot of this name answers, as the collector knows it; empty when it knows none.

    :raises PeerUnavailableError, grpc.RpcError: when the collector does not answer.
    """
    named = " || ".join(f"Name == {quoted(name)}" for name in _slots(slot_name))
    return await address_in(context, "Machine", named)


def _slots(name: str) -> list[str]:
    """The slot, and of a dynamic one the slot that it was carved of, which outlives it."""
    slot, at, host = name.partition("@")
    parent, _, number = slot.rpartition("_")
    return [name, f"{parent}{at}{host}"] if parent and number.isdigit() else [name]
