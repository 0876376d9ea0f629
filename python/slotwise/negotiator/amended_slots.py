"""Slot ads as a cycle sees them: the mirror, amended by what it does not show yet.

Modules that know more than the slots' ads (:mod:`.in_flight`, :mod:`.revaluation`) return :class:`Amendment` values.
Only this module puts them into the table, for the length of a cycle. The engine caches what it knows of a table from
cycle to cycle, so amending the table in place costs only the amended rows; a copy would cost all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.table import AdTable


class Amendment(Struct, frozen=True):
    """Attributes that a cycle sees in place of those of the slot's ad; an ad of its own where there is no such slot."""

    slot: str
    attributes: Mapping[str, Value]


class Replacement(Struct, frozen=True):
    """An ad that a cycle sees in place of the slot's."""

    slot: str
    ad: ClassAd


@contextmanager
def amended(table: AdTable, changes: Iterable[Amendment | Replacement]) -> Iterator[None]:
    """Apply ``changes`` to the table, in order, and undo them at the end, whatever happens meanwhile."""
    undo: list[Callable[[], object]] = []
    try:
        for change in changes:
            undo.append(_put(table, change))
        yield
    finally:
        for step in reversed(undo):
            step()


def _put(table: AdTable, change: Amendment | Replacement) -> Callable[[], object]:
    """Apply a change; returns what undoes it."""
    slot, former = change.slot, table.get(change.slot)
    if former is None:
        table.upsert(slot, change.attributes if isinstance(change, Amendment) else change.ad)
        return lambda: table.remove(slot)
    if isinstance(change, Replacement):
        table.upsert(slot, change.ad)
        return lambda: table.upsert(slot, former)
    names = change.attributes.keys()
    values = {name: former.lookup(name) for name in names if name in former}
    added = [name for name in names if name not in former]
    table.update(slot, change.attributes)
    return lambda: table.update(slot, values, added)
