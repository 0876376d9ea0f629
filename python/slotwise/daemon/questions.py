"""Asks tables of ads what callers want to know, a slice at a time, so that nobody's expression holds a daemon up.

All questions of a daemon take turns: between two slices, whoever's they are, it does other work for as long as the
slice took. Callers take turns, too, so that one who asks much waits for its own questions.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TypeVar, cast

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import Value, whole
from slotwise.clock import Clock
from slotwise.errors import UsageError
from slotwise.table import SLICE_STEPS, AdChunks, AdTable, Allowance, Form, Order, question_most, too_much
from slotwise.wire import call

T = TypeVar("T")
U = TypeVar("U")
Constraint = ExprTree | str | None
#: A slice that is not worth a rest, in seconds.
_SHORT_S = 0.001
#: Attributes by whose values one question counts, and those that it asks to see: their number is work for every ad.
_COUNTED_MOST, _SHOWN_MOST = 32, 10_000
#: Ads of a page.
_PAGE_MOST = 10_000


class Questions:
    """Asks tables.

    :param in_threads_from: questions to tables of so many ads are worked on in threads, and none of others'.
    """

    def __init__(self, clock: Clock, *, in_threads_from: int | None = None) -> None:
        self._clock = clock
        self._in_threads_from = in_threads_from
        self._turns = _Turns()

    async def keys(self, table: AdTable, constraint: Constraint, limit: int | None = None) -> list[str]:
        """The keys of the ads for which the constraint is true.

        :raises BusyError: when expressions take more work than a question may, as all of these do.
        """
        slices = table.keys_in_slices(constraint or None, limit, now=self._now())
        return [key async for found in self._in_turn(slices, table) for key in found]

    async def firsts(self, table: AdTable, constraint: Constraint, order: Order, limit: int) -> list[tuple[bytes, str]]:
        """Places and keys of the ads that come first in an order, ``limit`` of them at most.

        :raises UsageError: when more than 10,000 are wanted: the ads of a page are in memory together.
        """
        if not 0 < limit <= _PAGE_MOST:
            raise UsageError(f"a page has from 1 to {_PAGE_MOST} ads, not {limit}")
        first: list[tuple[bytes, str]] = []
        slices = table.firsts_in_slices(order, limit, constraint or None, now=self._now())
        async for found in self._in_turn(slices, table):
            if found:
                first = sorted(first + found)[:limit]
        return first

    async def count(self, table: AdTable, constraint: Constraint) -> int:
        """How many there are."""
        slices = table.counts_in_slices(constraint or None, now=self._now())
        return sum([count async for count in self._in_turn(slices, table)])

    async def count_by(self, table: AdTable, names: Sequence[str], constraint: Constraint) -> list[tuple[Value, ...]]:
        """Tuples of the values of attributes or expressions, each with the number of ads that have them.

        :raises UsageError: for more than 32 of them.
        """
        if len(names) > _COUNTED_MOST:
            raise UsageError(f"a question counts by at most {_COUNTED_MOST} attributes, not by {len(names)}")
        counts: dict[str, tuple[Value, ...]] = {}
        slices = table.counts_by_in_slices(names, constraint or None, now=self._now())
        async for rows in self._in_turn(slices, table):
            for row in rows:
                text = repr(row[:-1])
                before = counts.get(text)
                counts[text] = row if before is None else (*row[:-1], whole(before[-1]) + whole(row[-1]))
        return list(counts.values())

    async def chunks(
        self,
        table: AdTable,
        constraint: Constraint,
        projection: Sequence[str],
        limit: int | None,
        form: Form,
        chunk_rows: int,
        *,
        alone: bool = False,
    ) -> AsyncIterator[AdChunks]:
        """Their ads, in pieces. ``alone``: of a projection only, not what its expressions read.

        :raises UsageError: when it asks for more than 10,000 attributes.
        """
        if len(projection) > _SHOWN_MOST:
            raise UsageError(f"a question asks for at most {_SHOWN_MOST} attributes, not for {len(projection)}")
        slices = table.chunks_in_slices(
            constraint or None,
            projection or None,
            limit,
            now=self._now(),
            form=form,
            chunk_rows=chunk_rows,
            alone=alone,
        )
        async for found in self._in_turn(slices, table):
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

    async def _in_turn(self, slices: Iterator[T], table: AdTable | None = None) -> AsyncIterator[T]:
        least = self._in_threads_from
        in_thread = table is not None and least is not None and len(table) >= least
        while True:
            async with self._turns.turn(call.caller.get()):
                began = time.monotonic()
                found = await asyncio.to_thread(next, slices, _END) if in_thread else next(slices, _END)
                if found is _END:
                    return
                took = time.monotonic() - began
                await asyncio.sleep(took if took > _SHORT_S else 0)
            yield cast("T", found)


_END = object()


class _Turns:
    """One at a time: callers one after the other, and what one of them asks in the order in which it was asked."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Wait for a turn of ``who``'s, and have it."""
        if self._is_taken:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(who, deque()).append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._pass_on()
                raise
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            who = next(iter(self._waiting))
            asked = self._waiting.pop(who)
            following = asked.popleft()
            if asked:
                self._waiting[who] = asked  # behind the others
            if not following.done():
                following.set_result(None)
                return
        self._is_taken = False
