"""A page is written in pieces, and ends where it has as many bytes as it may."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from slotwise.classad import ClassAd
from slotwise.daemon.pages import PAGE_BYTES, PIECE_BYTES, Page, Part
from slotwise.table import AdTable

_LARGE = 900_000


class Counted(AdTable):
    """Notes how many ads are copied at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[int] = []

    def excerpt(self, keys: object) -> AdTable:
        found = super().excerpt(keys)  # type: ignore[arg-type]
        self.copied.append(len(found))
        return found


def table_of(count: int, size: int) -> Counted:
    table = Counted()
    for n in range(count):
        table.upsert(f"1.{n}", ClassAd({"ProcId": n, "Text": f"{n:06d}" + "x" * size}))
    return table


async def read(table: AdTable, page: Page, after: int) -> tuple[list[int], list[int]]:
    """The jobs of a page, and the sizes of its pieces."""

    async def found() -> AsyncIterator[Part]:
        keys = [f"1.{n}" for n in range(after, 60)]
        yield table, [(key, key.partition(".")[2]) for key in keys[: page.limit + 1]]

    pieces = [piece async for piece, _ in page.pieces(found())]
    text = b"[" + b",\n".join(pieces) + b"]"
    return [ad["ProcId"] for ad in json.loads(text)], [len(piece) for piece in pieces]


async def test_a_page_of_large_ads_ends_early_and_the_next_goes_on_there() -> None:
    table, seen, pages, after = table_of(60, _LARGE), list[int](), 0, 0
    while True:
        page = Page(1000, (), "json")
        jobs, sizes = await read(table, page, after)
        seen += jobs
        pages += 1
        assert sum(sizes) < PAGE_BYTES + 2 * PIECE_BYTES
        assert max(sizes) < 2 * PIECE_BYTES
        if not page.next:
            break
        after = int(page.next) + 1
    assert seen == list(range(60))
    assert pages == 4
    assert max(table.copied) <= 4 and table.copied.count(1) > 40


async def test_a_page_of_small_ads_has_as_many_as_it_may_and_leaves_out_those_that_have_gone() -> None:
    table = table_of(60, 10)
    page = Page(40, ("ProcId",), "json")
    assert (await read(table, page, 0))[0] == list(range(40))
    assert page.next == "39"
    table.remove("1.45")
    page = Page(40, ("ProcId",), "json")
    assert (await read(table, page, 40))[0] == [n for n in range(40, 60) if n != 45]
    assert page.next == ""
