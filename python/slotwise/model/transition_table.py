"""Tables of transitions: in which states an event can happen, which states follow, and the function that decides.

A row's function is pure: it takes the state and the event and returns the next state and instructions. States and
events are classes, and a table looks its rows up by both. :mod:`slotwise.model.transition_page` draws a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from slotwise.errors import InvariantError

_State = TypeVar("_State")
_Event = TypeVar("_Event")
_Instruction = TypeVar("_Instruction")


@dataclass(frozen=True)
class Transition(Generic[_State, _Event, _Instruction]):
    """A row: in which states an event can happen, which states follow, when, and what decides.

    ``stays``: each state of ``before`` can also stay.
    """

    before: tuple[type[_State], ...]
    event: type[_Event]
    after: tuple[type[_State], ...]
    when: str
    handle: Callable[[_State, _Event], tuple[_State, Sequence[_Instruction]]]
    stays: bool = False

    @property
    def moves(self) -> list[tuple[type[_State], type[_State]]]:
        """The states that the row leads from and to."""
        return [(first, second) for first in self.before for second in self.after if first is not second]


class TransitionTable(Generic[_State, _Event, _Instruction]):
    """All rows for one kind of thing, ``what``: ``a claim``."""

    def __init__(self, what: str, states: Sequence[type[_State]]) -> None:
        self.what = what
        self.states = tuple(states)
        self.rows: list[Transition[_State, _Event, _Instruction]] = []
        self._legal: dict[tuple[type, type], Transition[_State, _Event, _Instruction]] = {}

    def add(
        self,
        before: Sequence[type[_B]],
        event: type[_E],
        after: Sequence[type[_State]],
        when: str,
        handle: Callable[[_B, _E], tuple[_State, Sequence[_Instruction]]],
        *,
        stays: bool = False,
    ) -> None:
        """Add a row.

        :raises ValueError: when the event has a row in one of these states already.
        """
        first = cast("tuple[type[_State], ...]", tuple(before))
        row = Transition(
            first,
            cast("type[_Event]", event),
            tuple(after),
            when,
            cast("Callable[[_State, _Event], tuple[_State, Sequence[_Instruction]]]", handle),
            stays,
        )
        for state in first:
            if (state, row.event) in self._legal:
                raise ValueError(f"{row.event.__name__} has two rows in the state {state.__name__} of {self.what}")
            self._legal[state, row.event] = row
        self.rows.append(row)

    def allows(self, state: type[_State], event: type[_Event]) -> bool:
        """Whether an event can happen in a state."""
        return (state, event) in self._legal

    def step(self, state: _State, event: _Event) -> tuple[_State, Sequence[_Instruction]]:
        """The state after an event, and what is to be done.

        :raises InvariantError: when the event cannot happen in this state, or leads to a state that its row does not
            have: a defect, or a peer that breaks the protocol.
        """
        row = self._legal.get((type(state), type(event)))
        if row is None:
            raise InvariantError(f"{type(event).__name__} cannot happen to {self.what} in the state {name(state)}")
        following, instructions = row.handle(state, event)
        if type(following) not in row.after and not (row.stays and type(following) is type(state)):
            raise InvariantError(
                f"{self.what} cannot go from {name(state)} to {name(following)} by {type(event).__name__}"
            )
        return following, instructions


_B = TypeVar("_B")
_E = TypeVar("_E")


def name(state: object) -> str:
    """The name of a state, or of the class of one."""
    return state.__name__ if isinstance(state, type) else type(state).__name__
