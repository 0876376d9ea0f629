"""Which slots are alike to jobs, so that what fits one need not be tried on the next. Pure.

Slots are alike when they agree in every attribute that a match can read: those that the Requirements of slots or jobs
name, and what these refer to. A claim whose job has ended tries the first job of each autocluster; with thousands of
equal slots and hundreds of autoclusters, that is done once for all of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable

from slotwise.classad import ClassAd


class Alike:
    """Slots that are alike, and what is known of them."""

    __slots__ = ("__weakref__", "fits", "generation", "tried")

    def __init__(self, generation: int) -> None:
        #: The set of attributes that the slots were compared by.
        self.generation = generation
        #: Whether a job of an autocluster fits.
        self.fits: dict[int, bool] = {}
        #: By submitter: how many jobs had become runnable when none of the waiting ones fitted.
        self.tried: dict[str, int] = {}


class SlotEquivalence:
    """Groups slots, as long as somebody holds their :class:`Alike`."""

    def __init__(self) -> None:
        #: Attributes, in lower case, that a match can read; grows as expressions are seen.
        self._names: set[str] = {"requirements"}
        #: Changes with each of them; what was found before holds no more.
        self.generation = 0
        self._groups: weakref.WeakValueDictionary[Hashable, Alike] = weakref.WeakValueDictionary()

    def forget(self) -> None:
        """The autoclusters are others now."""
        self.generation += 1
        self._groups.clear()

    def learn(self, ad: ClassAd) -> bool:
        """Take in what a match with ``ad`` can read.

        False when what it reads cannot be told, or changes with time: nothing found for this ad holds for others.
        """
        seen: set[str] = set()
        while left := self._names - seen:
            for name in left:
                if name not in ad:
                    continue
                read = ad.lookup(name).references()
                if read.unbounded or read.volatile:
                    return False
                fresh = {other.lower() for other in (*read.my, *read.target, *read.bare)} - self._names
                if fresh:
                    self._names |= fresh
                    self.forget()
            seen |= left
        return True

    def of(self, slot: ClassAd, limits: str) -> Alike:
        """The group of a slot whose claim is for jobs with these concurrency limits; one of its own if need be."""
        if not self.learn(slot):
            return Alike(self.generation)
        shape = (limits, *((name, str(slot.lookup(name))) for name in sorted(self._names) if name in slot))
        group = self._groups.get(shape)
        if group is None:
            group = self._groups[shape] = Alike(self.generation)
        return group
