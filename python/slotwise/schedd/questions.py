"""Asks the table of jobs what callers want to know, a slice at a time, so that nobody's expression holds the schedd up.

All questions take turns: between two slices, whoever's they are, the daemon does other work for as long as the slice
took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import Clock
from slotwise.schedd.ads import JobAds
from slotwise.table import SLICE_STEPS, AdChunks, Allowance, Form, question_most, too_much

T = TypeVar("T")
U = TypeVar("U")


class Questions:
    """Asks the table of jobs."""

    def __init__(self, ads: JobAds, clock: Clock) -> None:
        self._ads = ads
        self._clock = clock
        self._turns = asyncio.Lock()

    async def keys(self, constraint: str, limit: int | None = None) -> list[str]:
        """The keys of the jobs for which the constraint is true.

        :raises BusyError: when expressions take more work than a question may, as all of these do.
        """
        slices = self._ads.table.keys_in_slices(constraint or None, limit, now=self._now())
        return [key async for found in self._in_turn(slices) for key in found]

    async def count(self, constraint: str) -> int:
        """How many there are."""
        slices = self._ads.table.counts_in_slices(constraint or None, now=self._now())
        return sum([count async for count in self._in_turn(slices)])

    async def count_by(self, names: list[str], constraint: str) -> list[tuple[Any, ...]]:
        """Tuples of the values of attributes or expressions, each with the number of jobs that have them."""
        counts: dict[str, tuple[Any, ...]] = {}
        slices = self._ads.table.counts_by_in_slices(names, constraint or None, now=self._now())
        async for rows in self._in_turn(slices):
            for row in rows:
                text = repr(row[:-1])
                before = counts.get(text)
                counts[text] = row if before is None else (*row[:-1], before[-1] + row[-1])
        return list(counts.values())

    async def chunks(
        self, constraint: str, projection: list[str], limit: int | None, form: Form, chunk_rows: int
    ) -> AsyncIterator[AdChunks]:
        """Their ads, in pieces."""
        slices = self._ads.table.chunks_in_slices(
            constraint or None, projection or None, limit, now=self._now(), form=form, chunk_rows=chunk_rows
        )
        async for found in self._in_turn(slices):
            if found is not None and found.total:
                yield found

    async def those(self, constraint: str, found: list[U], ad_of: Callable[[U], ClassAd]) -> list[U]:
        """Those of whose ads the constraint is true, which are in no table."""
        tree, now = ExprTree(constraint), self._now()
        most, used = question_most(), 0

        def slices() -> Iterator[list[U]]:
            nonlocal used
            for one in found:
                with Allowance(SLICE_STEPS) as allowance:
                    said = tree.eval(ad_of(one), now=now)
                used += allowance.used
                if most is not None and used > most:
                    raise too_much(most)
                yield [one] if said is True else []

        return [one async for some in self._in_turn(slices()) for one in some]

    def _now(self) -> int:
        return int(self._clock.now())

    async def _in_turn(self, slices: Iterator[T]) -> AsyncIterator[T]:
        while True:
            async with self._turns:
                began = time.monotonic()
                try:
                    found = next(slices)
                except StopIteration:
                    return
                took = time.monotonic() - began
                await asyncio.sleep(took if took > _SHORT_S else 0)
            yield found


#: A slice that is not worth a rest, in seconds.
_SHORT_S = 0.001
