"""Questions to daemons cost them one bounded slice at a time, and callers take turns."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import ManualClock
from slotwise.collector.service import CollectorServicer
from slotwise.collector.store import AdStore
from slotwise.daemon.ad_query import answer
from slotwise.daemon.questions import Questions
from slotwise.errors import BusyError
from slotwise.table import SLICE_STEPS, AdTable, Allowance, pack_ads, unpack_ads
from slotwise.wire import call
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, common_pb2

from tests.support.hostile_expressions import HOSTILE, bomb
from tests.support.serving import metadata, serving

READ = metadata("READ")


def slots(count: int) -> AdTable:
    """Ads over which every hostile constraint costs much."""
    levels = {f"D{n}": ExprTree(f"D{n - 1} + D{n - 1}") for n in range(1, 13)}
    table = AdTable()
    for n in range(count):
        table.upsert(f"slot{n}@h", ClassAd({"Name": f"slot{n}@h", "ProcId": n, "D0": ExprTree("1 + ProcId"), **levels}))
    return table


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps of each evaluation of tables, in their order."""
    done: list[int] = []

    class Counted(Allowance):
        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            done.append(self.used)

    monkeypatch.setattr("slotwise.table.ads.Allowance", Counted)
    return done


@contextlib.asynccontextmanager
async def collector(table: AdTable) -> AsyncIterator[collector_pb2_grpc.CollectorStub]:
    store = AdStore()
    store._tables[("Machine", False)] = table
    store._names["machine"] = "Machine"
    servicer = CollectorServicer(store, ManualClock(1000.0), lambda: None)
    async with serving(lambda s: collector_pb2_grpc.add_CollectorServicer_to_server(servicer, s)) as opened:
        yield collector_pb2_grpc.CollectorStub(opened)


async def answered(stub: collector_pb2_grpc.CollectorStub, who: Any = READ, **words: Any) -> int:
    """How many ads a query finds; -1 when it is refused for what it costs."""
    total = 0
    try:
        async for chunk in stub.Query(common_pb2.AdQuery(kind="Machine", **words), metadata=who):
            total = chunk.total if chunk.done else total
    except grpc.aio.AioRpcError as error:
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error
        return -1
    return total


async def test_an_ad_that_is_removed_before_it_is_written_leaves_json() -> None:
    """It was found, so the answer ended as that of an array with ads in it: `]` alone."""
    table = slots(1)

    class Found(Questions):
        async def chunks(self, *args: Any, **words: Any) -> AsyncIterator[Any]:
            async for chunks in super().chunks(*args, **words):
                table.remove("slot0@h")
                yield chunks

    asked = common_pb2.AdQuery(kind="Machine", form=common_pb2.AdQuery.JSON)
    pieces = [chunk.data async for chunk in answer(Found(ManualClock(1000.0)), [table], None, asked)]
    assert json.loads(b"".join(pieces)) == []


@pytest.mark.parametrize("count", [400, 3000], ids=["small", "large"])
async def test_hostile_queries_at_once_cost_the_collector_a_slice_at_a_time(
    count: int, limited: None, steps: list[int]
) -> None:
    """One query held the collector for up to ten million steps, and its ads could not be updated meanwhile."""
    async with collector(slots(count)) as stub:
        costly = list(HOSTILE.values())
        asked: list[dict[str, Any]] = [
            {"constraint": costly[0]},
            {"constraint": costly[1], "form": common_pb2.AdQuery.JSON},
            {"constraint": costly[2], "form": common_pb2.AdQuery.COUNT},
            {"form": common_pb2.AdQuery.COUNT, "count_by": [costly[0]]},
            {"constraint": costly[3]},
        ]
        hostile = asyncio.gather(*(answered(stub, **words) for words in asked))
        others = 0
        while not hostile.done():
            builder = pack_ads([ClassAd({"Name": "slot1@h", "ProcId": 1})], ["slot1@h"])
            request = collector_pb2.AdvertiseRequest(kind="Machine", pack=builder)
            (reply,) = [r async for r in stub.Advertise(iter([request]), metadata=metadata("DAEMON"))]
            assert reply.accepted == 1
            assert await answered(stub, metadata("READ", identity="bob@test"), limit=3) == 3
            others += 1
        await hostile
    assert max(steps) <= 2 * SLICE_STEPS
    assert sum(steps) > 20 * SLICE_STEPS, "hostile enough"
    assert others >= 4


async def test_ads_that_are_bombs_cost_a_slice_at_a_time(limited: None, steps: list[int]) -> None:
    table = AdTable()
    for number in range(60):
        table.upsert(f"slot{number}@h", ClassAd({"Name": f"slot{number}@h", "Number": number, **bomb("Start")}))
    async with collector(table) as stub:
        request = collector_pb2.InvalidateRequest(kind="Machine", constraint="Start")
        asked = [answered(stub, constraint="Start"), answered(stub, form=common_pb2.AdQuery.COUNT, count_by=["Start"])]
        await asyncio.gather(*asked)
        with pytest.raises(grpc.aio.AioRpcError, match="took more than 10000000 steps"):
            await stub.Invalidate(request, metadata=metadata("DAEMON"))
    assert max(steps) <= 2 * SLICE_STEPS


async def test_slices_answer_what_whole_questions_do() -> None:
    table = slots(1500)
    async with collector(table) as stub:
        words: dict[str, Any] = {"constraint": "ProcId % 7 == 3", "kind": "Machine"}
        query = common_pb2.AdQuery(**words, projection=["ProcId"])
        pieces = [chunk async for chunk in stub.Query(query, metadata=READ)]
        found = [ad["ProcId"] for piece in pieces if piece.data for ad in unpack_ads(piece.data)]
        assert found == [n for n in range(1500) if n % 7 == 3]
        assert pieces[-1].done and pieces[-1].total == len(found)
        limited = [c async for c in stub.Query(common_pb2.AdQuery(**words, limit=9), metadata=READ)]
        assert sum(len(unpack_ads(piece.data)) for piece in limited if piece.data) == 9 == limited[-1].total
        by = common_pb2.AdQuery(**words, form=common_pb2.AdQuery.COUNT, count_by=["ProcId % 2"])
        (counted,) = [c async for c in stub.Query(by, metadata=READ)]
        assert {ad["ProcId % 2"]: ad["Count"] for ad in unpack_ads(counted.data)} == {0: 107, 1: 107}


async def test_callers_take_turns() -> None:
    """Who asks twenty questions at once waits for them; who asks one waits for one slice of the other's."""
    questions, table = Questions(ManualClock(0.0)), slots(3000)
    order: list[str] = []

    class Told(AdTable):
        __slots__ = ("who",)
        who: str

        def keys_in_slices(self, *arguments: Any, **more: Any) -> Any:
            for found in super().keys_in_slices(*arguments, **more):
                order.append(self.who)
                yield found

    def told(who: str) -> AdTable:
        copy = Told()
        copy.native, copy.who = table.native, who
        return copy

    async def ask(who: str) -> int:
        call.caller.set(who)
        return len(await questions.keys(told(who), "ProcId >= 0"))

    eve = [asyncio.create_task(ask("eve")) for _ in range(20)]
    while len(order) < 3:
        await asyncio.sleep(0)
    bob = asyncio.create_task(ask("bob"))
    assert await bob == 3000
    between = order[order.index("bob") : len(order) - order[::-1].index("bob")]
    # Her next question may begin between two of his slices; not all twenty.
    assert between.count("bob") >= 2 and between.count("eve") <= 2 * between.count("bob")
    # Callers who go away while they wait hold nobody.
    for task in eve[::2]:
        task.cancel()
    await asyncio.gather(*eve, return_exceptions=True)
    assert await ask("bob") == 3000
    questions_left = [task for task in eve if not task.cancelled()]
    assert all(task.result() == 3000 for task in questions_left)


async def test_a_question_that_is_refused_gives_its_turn_back(limited: None) -> None:
    questions, table = Questions(ManualClock(0.0)), slots(3000)
    results = await asyncio.gather(
        *(questions.count(table, HOSTILE["arithmetic"]) for _ in range(3)),
        questions.count(table, "ProcId < 10"),
        return_exceptions=True,
    )
    assert results[-1] == 10
    assert all(isinstance(result, BusyError) or result == 0 for result in results[:-1])


async def test_what_is_work_for_every_ad_is_bounded(limited: None) -> None:
    """Counting by 3,000 attributes, all the same, held the collector for a minute, and no step was counted."""
    async with collector(slots(10)) as stub:
        for words in (
            {"form": common_pb2.AdQuery.COUNT, "count_by": ["Name"] * 33},
            {"projection": ["Name"] * 10_001},
        ):
            with pytest.raises(grpc.aio.AioRpcError, match="at most") as refused:
                [_ async for _ in stub.Query(common_pb2.AdQuery(kind="Machine", **words), metadata=READ)]
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await answered(stub, form=common_pb2.AdQuery.COUNT, count_by=["Name"] * 32) == 10
        assert await answered(stub, projection=["Name"] * 10_000) == 10
