"""What one submission, one user and all of them may bring, compared before anything is built for it."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.client.request_streams import stated
from slotwise.schedd.storage.batch import RESERVED_S
from slotwise.schedd.submission.reserved_ids import RESERVED_MOST
from slotwise.table import pack_ads, survey_pack
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.waiting import until

AD = {"Cmd": "/bin/true", "Iwd": "/", "JobUniverse": 5, "Requirements": True}


def cluster(count: int = 1, *, deltas: bytes = b"", number: int = 0, **more: Any) -> schedd_pb2.ClusterSubmission:
    procs = schedd_pb2.ProcBatch(count=count, deltas=deltas)
    return schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ClassAd({**AD, **more})]), procs=procs, cluster_id=number)


def bundle(*clusters: schedd_pb2.ClusterSubmission) -> schedd_pb2.SubmitBundle:
    return schedd_pb2.SubmitBundle(clusters=clusters)


async def refused(call: Any, text: str, code: grpc.StatusCode = grpc.StatusCode.PERMISSION_DENIED) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=text) as caught:
        await (stated(call) if isinstance(call, grpc.aio.StreamUnaryCall) else call)
    assert caught.value.code() == code


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("count", [20_001, 8_000_000, (1 << 32) - 1])
async def test_more_jobs_than_a_submission_may_have_cost_nothing(count: int, schedd: RunningAccessPoint) -> None:
    """With the default limits; the schedd built all of them, also to refuse them."""
    before = peak_mib()
    text = r"MAX_JOBS_PER_SUBMISSION \(20000\)" if count < 1 << 31 else "cannot have 4294967295 procs"
    code = grpc.StatusCode.PERMISSION_DENIED if count < 1 << 31 else grpc.StatusCode.INVALID_ARGUMENT
    await refused(schedd.stub.SubmitOne(bundle(cluster(count)), metadata=schedd.user), text, code)
    half = bundle(cluster(10_001), cluster(10_000))
    await refused(schedd.stub.SubmitOne(half, metadata=schedd.user), "20001 jobs")
    frame = [schedd_pb2.SubmitFrame(submissions=[bundle(cluster(count))])]
    (answer,) = [each async for each in schedd.stub.SubmitMany(iter(frame), metadata=schedd.user)]
    assert answer.answers[0].error.message.count("exceed MAX_JOBS_PER_SUBMISSION" if count < 1 << 31 else "cannot have")
    assert peak_mib() < before + 100
    assert not schedd.point.queue.clusters
    assert await schedd.submit(1) == 1, "and no id was used"


async def test_ads_in_a_pack_are_counted_before_they_are_built(schedd: RunningAccessPoint) -> None:
    deltas = pack_ads([ClassAd()]) + b"\x04\x00" * 1_000_000
    before = peak_mib()
    assert survey_pack(deltas) == (1_000_001, [])
    many = bundle(cluster(0, deltas=deltas))
    await refused(schedd.stub.SubmitOne(many, metadata=schedd.user), "1000001 jobs")
    for ads, text in ((1_000_001, "cluster has 200.... bytes"), (100_001, "needs one ad, 100001 came")):
        some = deltas[: len(deltas) - 2 * (1_000_001 - ads)]
        many = bundle(schedd_pb2.ClusterSubmission(cluster_ad=some, procs=schedd_pb2.ProcBatch(count=1)))
        answer = schedd.stub.SubmitOne(many, metadata=schedd.user)
        await refused(answer, text, grpc.StatusCode.INVALID_ARGUMENT)
    many = bundle(*[schedd_pb2.ClusterSubmission()] * 20_001)
    await refused(schedd.stub.SubmitOne(many, metadata=schedd.user), "20001 clusters")
    assert peak_mib() < before + 100


async def test_limits_of_an_owner_and_of_the_queue(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(MAX_JOBS_PER_OWNER="5", MAX_JOBS_SUBMITTED="6")
    try:
        await schedd.submit(4)
        few = schedd.stub.SubmitOne(bundle(cluster(2)), metadata=schedd.user)
        await refused(few, r"would exceed MAX_JOBS_PER_OWNER \(5\): 4 of \S+ and 2 more")
        await refused(schedd.stub.SubmitOne(bundle(cluster(3)), metadata=schedd.as_user("ann")), "MAX_JOBS_SUBMITTED")
        # Side by side none of them sees the others' jobs in the queue.
        tries = [schedd.stub.SubmitOne(bundle(cluster(1)), metadata=schedd.user) for _ in range(6)]
        answers = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
    finally:
        await schedd.stop()


async def test_clusters_without_jobs_count_for_their_owner(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(MAX_JOBS_PER_OWNER="3")
    try:
        late = bundle(cluster(1_000_000, JobMaterializeLimit=0))
        for _ in range(3):
            await schedd.stub.SubmitOne(late, metadata=schedd.user)
        await refused(schedd.stub.SubmitOne(late, metadata=schedd.user), "MAX_JOBS_PER_OWNER")
    finally:
        await schedd.stop()


async def parts(blob: bytes, pieces: int, *, stall: bool = False) -> Any:
    yield schedd_pb2.SubmitPart(open_cluster=cluster(0))
    for _ in range(pieces):
        yield schedd_pb2.SubmitPart(more_procs=schedd_pb2.ProcBatch(count=1, deltas=blob))
    if stall:
        await asyncio.Event().wait()
    yield schedd_pb2.SubmitPart(commit=True)


async def test_bytes_of_a_submission_are_bounded(tmp_path: Path) -> None:
    knobs = {"SLOTWISE_MAX_SUBMISSION_MB": "8", "SLOTWISE_MAX_SUBMISSIONS_MB": "12"}
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    blob = pack_ads([ClassAd({"Filler": "x" * 1_000_000})])
    intake = schedd.point.submissions.intake
    calls = []
    try:
        whole = schedd.stub.Submit(parts(blob, 9), metadata=schedd.user)
        await refused(whole, r"more than SLOTWISE_MAX_SUBMISSION_MB \(8 MiB\)")
        assert intake.total == 0
        # Streams that are not committed: the second one of ann, then those of everybody.
        for user in ("ann", "bob"):
            calls.append(schedd.stub.Submit(parts(blob, 5, stall=True), metadata=schedd.as_user(user)))
            await until(lambda user=user: intake.held(f"{user}@here") >= 5_000_000)
            if user == "ann":
                second = schedd.stub.Submit(parts(blob, 5), metadata=schedd.as_user("ann"))
                await refused(second, "of ann@here that are under way hold . MiB.*exceed SLOTWISE_MAX_SUBMISSION_MB")
        large = schedd.stub.Submit(parts(blob, 5), metadata=schedd.as_user("eve"))
        await refused(large, "would exceed SLOTWISE_MAX_SUBMISSIONS_MB")
        assert await schedd.stub.Submit(parts(blob, 3), metadata=schedd.as_user("eve")), "a small one has room"
    finally:
        for call in calls:
            call.cancel()
        await until(lambda: not intake.total)
        await schedd.stop()


async def test_frames_wait_for_room(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(SLOTWISE_MAX_SUBMISSION_MB="1")
    blob = pack_ads([ClassAd({"Filler": "x" * 700_000})])
    intake, most = schedd.point.submissions.intake, 0
    try:

        async def frames() -> Any:
            nonlocal most
            for _ in range(8):
                yield schedd_pb2.SubmitFrame(submissions=[bundle(cluster(1, deltas=blob))])
                most = max(most, intake.total)

        answers = [each async for each in schedd.stub.SubmitMany(frames(), metadata=schedd.user)]
        assert [len(each.answers) for each in answers] == [1] * 8
        assert 0 < most < 1 << 20
        assert intake.total == 0
    finally:
        await schedd.stop()


async def test_reserved_ids_are_bounded_and_belong_to_who_asked(schedd: RunningAccessPoint) -> None:
    ann, bob = schedd.as_user("ann"), schedd.as_user("bob")
    ask = schedd_pb2.ReserveClustersRequest
    first = (await schedd.stub.ReserveClusters(ask(count=RESERVED_MOST), metadata=ann)).first
    await refused(schedd.stub.ReserveClusters(ask(count=1), metadata=ann), "10000 cluster ids reserved for ann")
    other = (await schedd.stub.ReserveClusters(ask(count=2), metadata=bob)).first
    for number in (first, other + 2, -1):
        stolen = schedd.stub.SubmitOne(bundle(cluster(number=number)), metadata=bob)
        await refused(stolen, f"cluster id {number} is not reserved for bob", grpc.StatusCode.INVALID_ARGUMENT)
    mine = await schedd.stub.SubmitOne(bundle(cluster(number=first)), metadata=ann)
    assert mine.clusters[0].cluster_id == first
    again = schedd.stub.SubmitOne(bundle(cluster(number=first)), metadata=ann)
    await refused(again, "is not reserved", grpc.StatusCode.INVALID_ARGUMENT)
    await schedd.stop()
    await schedd.start()  # they outlive the schedd, with their owner and their time
    reserved = schedd.point.cluster_ids.reserved
    assert len(reserved) == RESERVED_MOST - 1 + 2
    theirs = schedd.stub.SubmitOne(bundle(cluster(number=first + 1)), metadata=schedd.as_user("bob"))
    await refused(theirs, "not reserved for bob", grpc.StatusCode.INVALID_ARGUMENT)
    await schedd.stub.SubmitOne(bundle(cluster(number=first + 1)), metadata=schedd.as_user("ann"))
    reserved.check("ann", RESERVED_MOST, 1, int(schedd.point.admission._clock.now()) + RESERVED_S)
    assert len(reserved) == 0


async def test_ids_end_with_an_error(schedd: RunningAccessPoint) -> None:
    schedd.point.cluster_ids.following = (1 << 31) - 1
    assert await schedd.submit() == (1 << 31) - 1
    await refused(schedd.stub.SubmitOne(bundle(cluster()), metadata=schedd.user), "cluster ids end at 2147483647")
    asked = schedd_pb2.ReserveClustersRequest(count=1)
    await refused(schedd.stub.ReserveClusters(asked, metadata=schedd.user), "cluster ids end at 2147483647")
