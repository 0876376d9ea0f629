"""The states of a run at the access point, with the data that each carries."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from msgspec import Struct

from slotwise.schedd.jobs.decision import Kill


class AtStarter(Enum):
    """What is known of a run from its starter's list of runs."""

    #: The starter has no stream to this schedd, or has not listed its runs on it.
    UNKNOWN = "unknown"
    LISTED = "listed"
    MISSING = "missing"


class Silence(Struct, frozen=True):
    """No starter speaks for the run. Moments on the monotonic clock."""

    #: When the run is asked for again, or given up.
    until: float
    #: When it is given up although its claim lives: its lease has run out.
    lost_at: float

    def at_most(self, moment: float) -> Silence:
        """Borne until ``moment``; no longer than before."""
        return Silence(min(self.until, moment), self.lost_at)


class RunState(Struct, frozen=True):
    """What all states have in common."""

    #: When the starter said that the job executes, epoch seconds; 0: not yet.
    executing_at: float = 0.0
    #: Since its stream broke, or while no starter has said hello for it; None: a starter speaks for it.
    silence: Silence | None = None
    #: Its end has been requested: its starter is told when it can be reached.
    kill: Kill | None = None
    #: The startd has confirmed the activation to this process.
    activated: bool = False
    #: The startd says that nothing runs on the slot any more.
    off_slot: bool = False
    #: Event 022 has been written, and 023 is due when its starter is back.
    disconnect_logged: bool = False


class Starting(RunState, frozen=True):
    """The claim is being activated; no starter has been given the job."""


class Accepted(RunState, frozen=True):
    """A starter has the job's ad and prepares it: the job may execute from now on."""


class Executing(RunState, frozen=True):
    """The job executes."""


class Reconnecting(RunState, frozen=True):
    """The stream of its starter broke, or the schedd has restarted; the job may execute."""


class Ending(RunState, frozen=True):
    """The starter has reported the end; results are being put in place."""


class Failed(RunState, frozen=True):
    """The access point failed at a message of the run: it is killed, and its job runs again."""

    reason: str = ""


class Over(RunState, frozen=True):
    """The end is recorded: what its starter still says is answered from memory."""


STATES: tuple[type[RunState], ...] = (Starting, Accepted, Executing, Reconnecting, Ending, Failed, Over)
_Kind = TypeVar("_Kind", bound=RunState)


def become(kind: type[_Kind], state: RunState) -> _Kind:
    """The state ``kind`` with what all states have in common."""
    return kind(state.executing_at, state.silence, state.kill, state.activated, state.off_slot, state.disconnect_logged)
