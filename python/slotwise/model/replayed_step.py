"""A recorded step of a state machine, taken again: what happened, and what came of it then and now."""

from __future__ import annotations

from msgspec import Struct


class Transition(Struct, frozen=True):
    """A transition that a step took.

    :param number: its row in the table of transitions; None: it has none there.
    :param after: the state (of a slot: state/activity) that it led to, one for each way that the table has.
    """

    number: int | None
    trigger: str
    after: tuple[str, ...]


class ReplayedStep(Struct, frozen=True):
    """A step that was taken again.

    :param at: when it happened, seconds since the epoch.
    :param kind: what it happened to: ``slot``, ``claim`` or ``run``.
    :param name: the name of the slot or of the claim's slot, or the id of the run.
    :param stimulus: name of the event.
    :param before: the state (of a slot: state/activity) before it.
    :param after: the state that it ends in now; ``recorded``: in which it ended then.
    :param actions: what is to be done because of it.
    :param same: whether it ends as it did, and the same is to be done.
    """

    at: float
    kind: str
    name: str
    stimulus: str
    before: str
    transitions: tuple[Transition, ...]
    after: str
    recorded: str
    actions: tuple[str, ...]
    same: bool
