"""Slotwise from Python: blocking and asyncio clients against a real schedd."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from slotwise.classad import ExprTree
from slotwise.client import AsyncSchedd, Schedd
from slotwise.client.convert import SubmitResult
from slotwise.client.descriptions import USUAL, ReadOptions
from slotwise.client.schedd import Keyed
from slotwise.errors import DeniedError, PeerUnavailableError, SubmitError, UsageError

from tests.support.access_point import Doom, RunningAccessPoint
from tests.support.ads import number_of, text_of
from tests.support.waiting import LIMIT_S

T = TypeVar("T")
JOB = {"executable": "/bin/true", "transfer_executable": False}


async def blocking(schedd: RunningAccessPoint, work: Callable[[Schedd], T]) -> T:
    """Run ``work`` with a blocking client in a thread."""
    token = schedd.token_file(schedd.owner).read_text()

    def run() -> T:
        with Schedd(schedd.home.root, token=token) as client:
            return work(client)

    return await asyncio.to_thread(run)


async def test_submit_query_act_and_edit(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> Any:
        made = client.submit({**JOB, "arguments": "$(Process)", "request_memory": "64"}, count=3)
        assert made.count == 3
        ads = client.query(f"ClusterId == {made.cluster}", ["ProcId", "Args", "Arguments"])
        assert [ad["ProcId"] for ad in ads] == [0, 1, 2]
        assert client.act("hold", f"{made.cluster}.1", reason="later").succeeded == 1
        assert client.act("release", "JobStatus == 5").totals == {"success": 1}
        edited = client.edit([f"{made.cluster}.0"], {"My": "text", "Other": ExprTree("1 + 2"), "Flag": True})
        assert edited.succeeded == 1
        (ad,) = client.query("Flag")
        assert (ad["My"], ad.eval("Other")) == ("text", 3)
        assert client.act("remove", "true").succeeded == 3
        return client.history(limit=2)

    history = await blocking(schedd, work)
    assert [ad["JobStatus"] for ad in history] == [3, 3]


async def test_results_of_many_submissions_belong_to_their_descriptions(schedd: RunningAccessPoint) -> None:
    descriptions = [{**JOB, "batch_name": f"batch{i}", "arguments": f"{i}"} for i in range(300)]

    def work(client: Schedd) -> tuple[list[int], dict[Any, Any]]:
        made = list(client.submit_many(descriptions))
        assert [one.count for one in made] == [1] * 300
        names = ["ClusterId", "ProcId", "JobBatchName", "Args"]
        return [one.cluster for one in made], {ad["ClusterId"]: ad for ad in client.query("true", names)}

    clusters, ads = await blocking(schedd, work)
    assert clusters == sorted(set(clusters)), "ids are given in order"
    assert len(ads) == 300
    assert [ads[cluster]["JobBatchName"] for cluster in clusters] == [one["batch_name"] for one in descriptions]
    assert [ads[cluster]["Args"] for cluster in clusters] == [one["arguments"] for one in descriptions]
    assert schedd.point.store.commits < 200, "those that wait share a transaction"


async def test_many_submissions_of_every_kind_keep_their_order(schedd: RunningAccessPoint) -> None:
    def description(i: int) -> Any:
        if i % 3 == 0:
            return {**JOB, "batch_name": f"batch{i}", "output": "out.$(Cluster)"}
        queue = 5001 if i == 7 else 2
        return f"executable=/bin/true\nbatch_name=batch{i}\nqueue {queue}\n"

    def work(client: Schedd) -> None:
        made = list(client.submit_many(description(i) for i in range(12)))
        for i, one in enumerate(made):
            ads = client.query(f"ClusterId == {one.cluster}", ["JobBatchName", "Out"])
            assert {ad["JobBatchName"] for ad in ads} == {f"batch{i}"}
            assert len(ads) == one.count == (1 if i % 3 == 0 else 5001 if i == 7 else 2)
            if i % 3 == 0:
                assert ads[0]["Out"] == f"out.{one.cluster}"
        assert len({one.cluster for one in made}) == 12

    await blocking(schedd, work)


async def test_a_refusal_among_many_comes_in_its_place(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(MAX_JOBS_SUBMITTED="5")

    def work(client: Schedd) -> None:
        made = []
        with pytest.raises(DeniedError, match="MAX_JOBS_SUBMITTED"):
            for one in client.submit_many([JOB] * 20):
                made.append(one.cluster)
        assert len(made) == 5
        assert sorted(number_of(ad, "ClusterId") for ad in client.query()) == made
        client.act("remove", [str(made[0])])
        assert client.submit(JOB).count == 1, "the client is good for more"

    try:
        await blocking(schedd, work)
    finally:
        await schedd.stop()


async def test_submissions_together_are_each_accepted_or_refused_and_known_by_their_keys(
    schedd: RunningAccessPoint,
) -> None:
    def work(client: Schedd) -> None:
        large = "executable=/bin/true\nqueue 5001\n"
        one_only = ReadOptions(single="one job")
        asked = [
            Keyed(JOB, USUAL, b"k0"),
            Keyed("executable=/bin/true\nqueue 2\n", one_only, b"k1"),
            Keyed(large, USUAL, b"k2"),
            Keyed({**JOB, "output": "out.$(Cluster)"}, one_only, b"k3"),
        ]
        first, refused, many, last = client.submit_each(asked)
        assert isinstance(refused, SubmitError) and refused.message == "one job"
        assert isinstance(first, SubmitResult) and isinstance(many, SubmitResult) and isinstance(last, SubmitResult)
        assert (first.count, many.count, last.count) == (1, 5001, 1)
        assert client.query(f"ClusterId == {last.cluster}", ["Out"])[0]["Out"] == f"out.{last.cluster}"
        again = client.submit_each([one._replace(again=True) for one in asked])
        assert [one.cluster for one in again if isinstance(one, SubmitResult)] == [
            first.cluster, many.cluster, last.cluster,
        ]  # fmt: skip
        before = schedd.point.store.commits
        assert len(client.submit_each([Keyed(JOB, USUAL, bytes([n])) for n in range(60)])) == 60
        assert schedd.point.store.commits - before <= 3, "they are committed together"
        assert len(client.query("true", ["ClusterId"])) == 5001 + 2 + 60
        assert client.submit_each([]) == []

    await blocking(schedd, work)


async def test_a_client_outlives_a_restart_of_the_schedd(schedd: RunningAccessPoint) -> None:
    """Ids that were reserved from the former process are good in the next one."""
    token = schedd.token_file(schedd.owner).read_text()
    named = {**JOB, "output": "out.$(Cluster)"}
    with Schedd(schedd.home.root, token=token) as client:
        before = [await asyncio.to_thread(client.submit, named) for _ in range(3)]
        assert client._ids.likely()
        await schedd.stop()
        await schedd.start()
        after = await asyncio.to_thread(client.submit, named)
        ads = await asyncio.to_thread(client.query, "true", ["ClusterId", "Out"])
    assert after.cluster > max(one.cluster for one in before)
    assert sorted(text_of(ad, "Out") for ad in ads) == sorted(f"out.{one.cluster}" for one in [*before, after])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("commit_last", [False, True])
@pytest.mark.parametrize("after", [0, 1, 5])
async def test_submissions_under_way_when_the_schedd_dies_are_queued_once(
    schedd: RunningAccessPoint, after: int, commit_last: bool
) -> None:
    """Whether their transaction reached the disk or not; many on one stream, one by one, and in parts."""
    token = schedd.token_file(schedd.owner).read_text()

    def work() -> list[tuple[int, str]]:
        with Schedd(schedd.home.root, token=token) as client:
            client.submit({**JOB, "batch_name": "first", "output": "o.$(Cluster)"})  # the schedd is there
            begun.set()
            many = [{**JOB, "batch_name": f"m{i}"} for i in range(60)]
            for some in many[::3]:
                some["output"] = "o.$(Cluster)"
            made = [(one.cluster, f"m{i}") for i, one in enumerate(client.submit_many(many))]
            made += [(client.submit({**JOB, "batch_name": f"s{i}"}).cluster, f"s{i}") for i in range(5)]
            large = client.submit({**JOB, "batch_name": "large"}, count=5001)
            assert large.count == 5001
            return [*made, (large.cluster, "large")]

    begun = threading.Event()
    working = asyncio.create_task(asyncio.to_thread(work))
    await asyncio.to_thread(begun.wait)
    for round in range(3):
        doom = Doom(schedd.point.store, after + round, commit_last=commit_last)
        done, _ = await asyncio.wait([working, asyncio.create_task(doom.dead.wait())], return_when="FIRST_COMPLETED")
        if working in done:
            break
        await schedd.kill()
        await schedd.start()
    made = await asyncio.wait_for(working, LIMIT_S)
    clusters = {ad["ClusterId"]: ad for ad in await schedd.jobs("ProcId == 0")}
    assert sorted(ad["JobBatchName"] for ad in clusters.values()) == sorted(["first", *(name for _, name in made)])
    assert {cluster: clusters[cluster]["JobBatchName"] for cluster, _ in made} == dict(made)
    assert all(ad["Out"] == f"o.{number}" for number, ad in clusters.items() if ad["Out"].startswith("o."))
    assert len(await schedd.jobs()) == 1 + 60 + 5 + 5001


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_the_asyncio_client_sends_again_what_a_dead_schedd_did_not_answer(schedd: RunningAccessPoint) -> None:
    token = schedd.token_file(schedd.owner).read_text()
    async with AsyncSchedd(schedd.home.root, token=token) as client:
        await client.submit(JOB)
        doom = Doom(schedd.point.store, 0, commit_last=True)
        some = [asyncio.create_task(client.submit({**JOB, "batch_name": f"b{i}"})) for i in range(30)]
        await doom.dead.wait()
        await schedd.kill()
        await schedd.start()
        made = await asyncio.wait_for(asyncio.gather(*some), LIMIT_S)
        ads = {ad["ClusterId"]: ad["JobBatchName"] for ad in await client.query("JobBatchName isnt undefined")}
    assert ads == {one.cluster: f"b{i}" for i, one in enumerate(made)}


async def test_a_schedd_that_never_answered_is_not_waited_for(schedd: RunningAccessPoint) -> None:
    token = schedd.token_file(schedd.owner).read_text()
    with Schedd(schedd.home.root, token=token, patience_s=1000) as client:
        await schedd.stop()
        with pytest.raises(PeerUnavailableError):
            await asyncio.to_thread(client.submit, JOB)
    await schedd.start()
    with Schedd(schedd.home.root, token=token, patience_s=0.2) as client:
        await asyncio.to_thread(client.submit, JOB)
        await schedd.stop()
        with pytest.raises(PeerUnavailableError):
            await asyncio.to_thread(client.submit, JOB)
        await schedd.start()

        async def queued() -> bool:  # its connection may not be up again within the little patience it has
            with contextlib.suppress(PeerUnavailableError):
                return (await asyncio.to_thread(client.submit, JOB)).count == 1
            return False

        await schedd.until(queued)  # the client is good for more


async def test_threads_of_one_client_submit_side_by_side(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> None:
        def some(thread: int) -> list[tuple[int, str]]:
            return [(client.submit({**JOB, "batch_name": name}).cluster, name) for name in names(thread)]

        def names(thread: int) -> list[str]:
            return [f"{thread}.{i}" for i in range(20)]

        with ThreadPoolExecutor(4) as threads:
            made = [pair for pairs in threads.map(some, range(4)) for pair in pairs]
        found = {ad["ClusterId"]: ad["JobBatchName"] for ad in client.query("true", ["ClusterId", "JobBatchName"])}
        assert dict(made) == found
        assert len(found) == 80

    await blocking(schedd, work)


async def test_cluster_ids_in_a_description_are_reserved_first(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> tuple[int, Any]:
        made = client.submit({**JOB, "output": "out.$(Cluster)"})
        return made.cluster, client.query()[0]["Out"]

    cluster, out = await blocking(schedd, work)
    assert out == f"out.{cluster}"


async def test_errors_are_ours(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> None:
        with pytest.raises(SubmitError):
            client.submit({"executable": "/no/such/program"})
        with pytest.raises(UsageError):
            client.act("explode", "true")

    await blocking(schedd, work)


async def test_the_asyncio_client(schedd: RunningAccessPoint) -> None:
    token = schedd.token_file(schedd.owner).read_text()
    async with AsyncSchedd(schedd.home.root, token=token) as client:
        made = await asyncio.gather(*(client.submit({**JOB, "arguments": f"{i}"}) for i in range(20)))
        arguments = {ad["ClusterId"]: ad["Args"] for ad in await client.query()}
        assert [arguments[one.cluster] for one in made] == [f"{i}" for i in range(20)]
        assert len(arguments) == 20
        named = await asyncio.gather(*(client.submit({**JOB, "output": "o.$(Cluster)"}) for _ in range(9)))
        outputs = {ad["ClusterId"]: ad["Out"] for ad in await client.query("ClusterId > 20")}
        assert outputs == {one.cluster: f"o.{one.cluster}" for one in named}
        await client.act("remove", [str(one.cluster) for one in named])
        assert (await client.edit("true", {"Note": 1})).succeeded == 20
        assert (await client.act("remove", "Note == 1")).succeeded == 20
        assert len(await client.history(limit=5)) == 5


async def test_files_that_are_refused_while_they_are_sent_are_refused_with_the_reason(
    schedd: RunningAccessPoint,
) -> None:
    token = schedd.token_file(schedd.owner).read_text()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 100_000

    async def stalled() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async with AsyncSchedd(schedd.home.root, token=token) as client:
        made = await client.submit(JOB)
        for data in [*(pieces() for _ in range(20)), stalled()]:
            with pytest.raises(UsageError, match="wait"):
                await client.send_input(f"{made.cluster}.0", "data", data)
