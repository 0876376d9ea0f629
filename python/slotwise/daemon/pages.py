"""Writes the ads of a page piece by piece: however large ads are, no more of them is kept than a piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from slotwise.table import AdTable, Form

#: Bytes of a page, at which it ends before it has as many ads as it may, and about those of one of its pieces.
PAGE_BYTES, PIECE_BYTES = 16 << 20, 1 << 20
#: Ads of the first piece, whose size is not known yet, and of one at most.
_FIRST_ROWS, _ROWS_MOST = 4, 100
#: A table, and which of its ads come next: the key of each, and where a page that ends with it leaves off.
Part: TypeAlias = tuple[AdTable, Sequence[tuple[str, str]]]


class Page(Struct):
    """A page while it is written.

    :param limit: the most ads that it has.
    :param next: where the next page begins, once all pieces are written; empty: nowhere.
    """

    limit: int
    projection: Sequence[str]
    form: Form
    next: str = ""

    async def pieces(self, found: AsyncIterator[Part]) -> AsyncIterator[tuple[bytes, int]]:
        """The pieces, each with the number of its ads; ads that have gone meanwhile are left out.

        :param found: the ads in their order, one more than the page may have where there are so many.
        """
        left, room, last, rows = self.limit, PAGE_BYTES, "", _FIRST_ROWS
        async for table, ads in found:
            at = 0
            while at < len(ads):
                if left <= 0 or room <= 0:
                    self.next = last
                    return
                some = ads[at : at + min(rows, left)]
                excerpt = table.excerpt([key for key, _ in some])
                written = await asyncio.to_thread(self._written, excerpt)
                size = sum(map(len, written))
                at, left, room, last = at + len(some), left - len(some), room - size, some[-1][1]
                rows = max(1, min(_ROWS_MOST, 2 * rows, rows * PIECE_BYTES // max(1, size)))
                for n, piece in enumerate(written):
                    yield piece, 0 if n else len(excerpt)

    def _written(self, table: AdTable) -> list[bytes]:
        return list(table.query_chunks(projection=self.projection or None, form=self.form, chunk_rows=_ROWS_MOST))
