"""Pages of the queue and of the history, as clients read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from slotwise.client import Schedd
from slotwise.client.call import JsonPage
from slotwise.errors import UsageError

from tests.support.access_point import RunningAccessPoint

T = TypeVar("T")


async def blocking(schedd: RunningAccessPoint, work: Callable[[Schedd], T]) -> T:
    token = schedd.token_file(schedd.owner).read_text()

    def run() -> T:
        with Schedd(schedd.home.root, token=token) as client:
            return work(client)

    return await asyncio.to_thread(run)


def all_of(ask: Callable[[str], JsonPage]) -> tuple[list[str], list[int]]:
    """The ids of all pages, and the number of jobs in each."""
    ids: list[str] = []
    sizes: list[int] = []
    after = ""
    while True:
        page = ask(after)
        found: list[dict[str, Any]] = json.loads(page.text)
        sizes.append(len(found))
        ids += [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in found]
        after = page.next
        if not after:
            return ids, sizes


async def test_the_queue_in_pages_by_an_attribute_and_by_id(schedd: RunningAccessPoint) -> None:
    first = await schedd.submit(5, JobPrio=3)
    second = await schedd.submit(4, JobPrio=7)

    def work(client: Schedd) -> None:
        names = ["ClusterId", "ProcId"]
        older, newer = [f"{first}.{n}" for n in range(5)], [f"{second}.{n}" for n in range(4)]
        by_id = all_of(lambda after: client.page_json("", names, limit=4, after=after))
        assert by_id == (older + newer, [4, 4, 1])
        by_priority = all_of(
            lambda after: client.page_json("", names, limit=3, order_by="JobPrio", descending=True, after=after)
        )
        assert by_priority == (newer + older, [3, 3, 3])
        chosen = all_of(lambda after: client.page_json("ProcId > 1", names, limit=2, mine=True, after=after))
        assert chosen[0] == [one for one in older + newer if int(one.partition(".")[2]) > 1]
        assert client.page_json("false", names, limit=3) == JsonPage(b"[\n]\n", "")
        for wrong in ({"limit": 0}, {"limit": 100_000}, {"limit": 3, "order_by": "1+1"}, {"limit": 3, "after": "q"}):
            with pytest.raises(UsageError):
                client.page_json("", names, **wrong)

    await blocking(schedd, work)


async def test_the_history_in_pages_the_newest_first(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(7)
    await schedd.act("REMOVE", "true")
    await schedd.until_gone()

    def work(client: Schedd) -> None:
        names = ["ClusterId", "ProcId"]
        whole = [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in client.history("", names)]
        assert sorted(whole) == [f"{cluster}.{n}" for n in range(7)]
        assert all_of(lambda after: client.history_page_json("", names, limit=3, after=after)) == (whole, [3, 3, 1])
        some = all_of(lambda after: client.history_page_json("ProcId % 2 == 0", names, limit=2, after=after))
        assert some == ([one for one in whole if int(one.partition(".")[2]) % 2 == 0], [2, 2])
        for wrong in ({"limit": 0}, {"limit": 100_000}, {"limit": 3, "after": "q"}):
            with pytest.raises(UsageError):
                client.history_page_json("", names, **wrong)

    await blocking(schedd, work)
