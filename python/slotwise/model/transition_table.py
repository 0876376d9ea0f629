"""Tables of transitions: where something can be, where it can be next, and when.

What moves is at a *place*: the class of its state, a phase, a state with an activity. A :class:`MoveTable` names the
places that may follow each other. An event table also names the event of each row and the function that decides: it is
pure, takes the state and the event and returns the next state and instructions. In a :class:`TransitionTable` each
place is a class of states; in a :class:`PhaseTable` all states are of one class and have a phase.
:mod:`slotwise.model.transition_page` draws a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar, cast

from msgspec import Struct

from slotwise.errors import InvariantError

_Place = TypeVar("_Place")
_State = TypeVar("_State")
_Event = TypeVar("_Event")
_Instruction = TypeVar("_Instruction")


class Move(Struct, Generic[_Place], frozen=True):
    """A row: the places that lead to others, those, and when. ``number``: by which the documentation calls it."""

    before: tuple[_Place, ...]
    after: tuple[_Place, ...]
    when: str
    number: int | None

    @property
    def moves(self) -> list[tuple[_Place, _Place]]:
        """The places that the row leads from and to."""
        return [(first, second) for first in self.before for second in self.after if first != second]


class MoveTable(Generic[_Place]):
    """All rows for one kind of thing, ``what``: ``a slot``."""

    def __init__(self, what: str, rows: Iterable[Move[_Place]]) -> None:
        self.what = what
        self.rows = tuple(rows)
        self._legal = {(first, second): row for row in self.rows for first in row.before for second in row.after}

    def row(self, before: _Place, after: _Place) -> Move[_Place]:
        """The row that leads from a place to another.

        :raises InvariantError: when there is none: a defect.
        """
        row = self._legal.get((before, after))
        if row is None:
            raise InvariantError(f"{self.what} cannot go from {name(before)} to {name(after)}")
        return row


class Transition(Move[_Place], Generic[_Place, _State, _Event, _Instruction], frozen=True):
    """A row with the event that leads on, and what decides. ``stays``: each place of ``before`` can also stay."""

    event: type[_Event]
    handle: Callable[[_State, _Event], tuple[_State, Sequence[_Instruction]]]
    stays: bool = False


class EventTable(Generic[_Place, _State, _Event, _Instruction]):
    """All rows for one kind of thing, ``what``: ``a claim``. Its rows that lead to another place are numbered."""

    #: What a place is called in messages and on the page.
    word = "state"

    def __init__(self, what: str, states: Sequence[_Place], place_of: Callable[[_State], _Place]) -> None:
        self.what = what
        self.states = tuple(states)
        self.rows: list[Transition[_Place, _State, _Event, _Instruction]] = []
        self._place_of = place_of
        self._legal: dict[tuple[_Place, type], Transition[_Place, _State, _Event, _Instruction]] = {}
        self._numbers = 0

    def _add(
        self,
        before: tuple[_Place, ...],
        event: type[_Event],
        after: tuple[_Place, ...],
        when: str,
        handle: Callable[[_State, _Event], tuple[_State, Sequence[_Instruction]]],
        stays: bool,
    ) -> None:
        leads_on = any(first != second for first in before for second in after)
        self._numbers += leads_on
        row = Transition(before, after, when, self._numbers if leads_on else None, event, handle, stays)
        for place in before:
            if (place, event) in self._legal:
                raise ValueError(f"{event.__name__} has two rows in the {self.word} {name(place)} of {self.what}")
            self._legal[place, event] = row
        self.rows.append(row)

    def row(self, place: _Place, event: type[_Event]) -> Transition[_Place, _State, _Event, _Instruction]:
        """The row for an event in a place.

        :raises KeyError: when the event cannot happen there.
        """
        return self._legal[place, event]

    def allows(self, state: _Place, event: type[_Event]) -> bool:
        """Whether an event can happen in a state."""
        return (state, event) in self._legal

    def step(self, state: _State, event: _Event) -> tuple[_State, Sequence[_Instruction]]:
        """The state after an event, and what is to be done.

        :raises InvariantError: when the event cannot happen in this state, or leads to a state that its row does not
            have: a defect, or a peer that breaks the protocol.
        """
        place = self._place_of(state)
        row = self._legal.get((place, type(event)))
        if row is None:
            raise InvariantError(
                f"{type(event).__name__} cannot happen to {self.what} in the {self.word} {name(place)}"
            )
        following, instructions = row.handle(state, event)
        there = self._place_of(following)
        if there not in row.after and not (row.stays and there == place):
            raise InvariantError(f"{self.what} cannot go from {name(place)} to {name(there)} by {type(event).__name__}")
        return following, instructions


_B = TypeVar("_B")
_E = TypeVar("_E")


class TransitionTable(EventTable[type[_State], _State, _Event, _Instruction]):
    """Each state is a class with the data that it carries."""

    def __init__(self, what: str, states: Sequence[type[_State]]) -> None:
        super().__init__(what, states, type)

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
        self._add(
            cast("tuple[type[_State], ...]", tuple(before)),
            cast("type[_Event]", event),
            tuple(after),
            when,
            cast("Callable[[_State, _Event], tuple[_State, Sequence[_Instruction]]]", handle),
            stays,
        )


class PhaseTable(EventTable[_Place, _State, _Event, _Instruction]):
    """All states are of one class, and each has a phase."""

    word = "phase"

    def add(
        self,
        before: Sequence[_Place],
        event: type[_E],
        after: Sequence[_Place],
        when: str,
        handle: Callable[[_State, _E], tuple[_State, Sequence[_Instruction]]],
        *,
        stays: bool = False,
    ) -> None:
        """Add a row.

        :raises ValueError: when the event has a row in one of these phases already.
        """
        self._add(
            tuple(before),
            cast("type[_Event]", event),
            tuple(after),
            when,
            cast("Callable[[_State, _Event], tuple[_State, Sequence[_Instruction]]]", handle),
            stays,
        )


def name(place: object) -> str:
    """The name of a place, or of the class of a state."""
    if isinstance(place, str):
        return str(place)
    if isinstance(place, tuple):
        return "/".join(name(part) for part in place)
    return place.__name__ if isinstance(place, type) else type(place).__name__
