"""Users' expressions hold no daemon: counted in steps, so that the tests say the same on every machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.classad.values import whole
from slotwise.errors import BusyError
from slotwise.table import SLICE_STEPS, AdTable, Allowance, unpack_ads
from slotwise.wire.gen import common_pb2, schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.hostile_expressions import HOSTILE, bomb


async def test_a_pass_over_costly_policies(limited: None, tmp_path: Path) -> None:
    """Held jobs whose PeriodicRelease is a bomb: a pass over 200 took minutes, and the schedd answered nothing."""
    knobs = {"SYSTEM_PERIODIC_REMOVE": "NumHolds > 5 || Gone =?= true"}
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    try:
        costly = await schedd.submit(120, JobStatus=5, HoldReasonCode=3, HoldReason="r", **bomb("PeriodicRelease"))
        other = await schedd.stub.SubmitOne(good(PeriodicRemove=True), metadata=schedd.as_user("bob"))
        periodic = schedd.point.periodic
        used, slices, done, passes = 0, 0, 0, 0
        for _ in range(60):
            before, passes = slices, passes + 1
            passing = periodic.slices()
            while True:
                with Allowance(1 << 40) as spent:
                    more = next(passing, None)
                if more is None:
                    break
                done, slices, used = done + more, slices + 1, used + spent.used
                # The first slice also looks for jobs with a policy, over the whole table at once.
                assert spent.used <= (12_000_000 if slices == before + 1 else 2_000_000)
            if len(periodic._skipped) == 120:
                break
        assert len(periodic._skipped) == 120
        assert done == 1, "bob's job was removed, in the first pass"
        assert used < 120 * 600_000 + 12_000_000 * passes
        (ad, *_) = await schedd.jobs(f"ClusterId == {costly}")
        assert "takes more than 200000 steps" in ad["PeriodicPolicySkipped"]
        assert not await schedd.jobs(f"ClusterId == {other.clusters[0].cluster_id}")
        with Allowance(1 << 40) as spent:
            assert periodic.evaluate() == 0
        assert spent.used < 12_000_000, "they are skipped from now on"
        # The administrator's policy is not evaded.
        edit = schedd_pb2.EditRequest(jobs=schedd_pb2.JobSelection(ids=[f"{costly}.7"]), set={"Gone": "true"})
        await schedd.stub.Edit(edit, metadata=schedd.user)
        assert periodic.evaluate() == 1
        assert len(await schedd.jobs()) == 119
    finally:
        await schedd.stop()


def good(**more: Any) -> schedd_pb2.SubmitBundle:
    from slotwise.classad import ExprTree
    from slotwise.table import pack_ads

    ad = {"Cmd": "/bin/true", "Iwd": "/", "JobUniverse": 5, "Requirements": ExprTree("true"), **more}
    procs = schedd_pb2.ProcBatch(count=1)
    return schedd_pb2.SubmitBundle(clusters=[schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ad]), procs=procs)])


async def test_a_job_that_waits_with_a_costly_policy_is_held(limited: None, schedd: RunningAccessPoint) -> None:
    await schedd.submit(**bomb("PeriodicRemove"))
    assert schedd.point.periodic.evaluate() == 1
    (ad,) = await schedd.jobs()
    assert (ad["JobStatus"], ad["HoldReasonCode"]) == (5, 5)
    assert ad["HoldReason"] == "The job's periodic policy takes more than 200000 steps to evaluate"


async def test_a_costly_constraint_is_refused(limited: None, schedd: RunningAccessPoint) -> None:
    await schedd.submit(100, **bomb("Costly"))
    act = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.HOLD)
    act.jobs.constraint = "Costly && ProcId >= 0"
    with Allowance(1 << 40) as spent, pytest.raises(grpc.aio.AioRpcError, match="took more than 10000000 steps") as no:
        await schedd.stub.Act(act, metadata=schedd.user)
    assert no.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert spent.used < 11_000_000
    assert {ad["JobStatus"] for ad in await schedd.jobs()} == {1}


def test_a_question_over_hostile_ads(limited: None) -> None:
    """Seven of them cost a reader's query 70 million steps on the collector's event loop."""
    table = AdTable()
    for number in range(7):
        table.upsert(f"hostile{number}", ClassAd({**bomb("Start"), "Number": number}))
    table.upsert("good", {"Start": True})
    with Allowance(1 << 40) as spent:
        assert table.query_keys("Start") == ["good"]
    assert spent.used < 7 * 500_000
    assert spent.broken >= 7


def many(count: int) -> AdTable:
    from slotwise.classad import ExprTree

    table = AdTable()
    levels = {f"D{n}": ExprTree(f"D{n - 1} + D{n - 1}") for n in range(1, 13)}
    template = ClassAd({"ClusterId": 1, "D0": ExprTree("1 + ProcId"), **levels})
    keys = [f"1.{proc}" for proc in range(count)]
    table.insert_from_template(template, keys, columns={"ProcId": range(count)})
    return table


@pytest.mark.parametrize("constraint", HOSTILE.values(), ids=HOSTILE)
def test_a_slice_of_a_question_is_bounded(constraint: str, limited: None) -> None:
    slices, used, asked = many(20_000).keys_in_slices(constraint), 0, 0
    while True:
        with Allowance(1 << 40) as spent:
            try:
                done = next(slices, None) is None
            except BusyError:
                done = True
        used, asked = used + spent.used, asked + 1
        assert spent.used <= 2 * SLICE_STEPS
        if done:
            break
    assert 4 <= asked <= 400
    assert used < 12_000_000


@pytest.mark.parametrize(
    "constraint", ["ProcId % 7 == 3", "D0 == 5 || ProcId > 9990", 'regexp("9$", string(ProcId))', ""]
)
def test_slices_answer_what_the_whole_question_does(constraint: str) -> None:
    table = many(10_000)
    for key in ("1.0", "1.17", "1.9999"):
        table.remove(key)
    assert [key for some in table.keys_in_slices(constraint) for key in some] == table.query_keys(constraint)
    assert sum(len(some) for some in table.keys_in_slices(constraint, 12)) == min(12, table.count(constraint))
    assert sum(table.counts_in_slices(constraint)) == table.count(constraint)
    counts: dict[Any, int] = {}
    for rows in table.counts_by_in_slices(["ProcId % 3"], constraint):
        for value, count in rows:
            counts[value] = counts.get(value, 0) + whole(count)
    assert counts == {value: count for value, count in table.count_by(["ProcId % 3"], constraint)}  # noqa: C416
    pieces = [bytes(piece) for some in table.chunks_in_slices(constraint, ["ProcId"]) if some for piece in some]
    assert sum(len(unpack_ads(piece)) for piece in pieces) == table.count(constraint)


async def test_others_are_answered_while_a_hostile_question_is_worked_on(
    limited: None, schedd: RunningAccessPoint
) -> None:
    """`rm`, `hold`, `edit` and `q` with such a constraint held the event loop until they were refused."""
    for _ in range(4):
        await schedd.submit(5_000)
    hostile = HOSTILE["arithmetic"]
    jobs = schedd_pb2.JobSelection(constraint=hostile)
    act, edit = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.HOLD, jobs=jobs), schedd_pb2.EditRequest(jobs=jobs)
    edit.set["Note"] = "1"
    count = common_pb2.AdQuery(constraint=hostile, form=common_pb2.AdQuery.COUNT)
    nothing = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.HOLD, jobs=schedd_pb2.JobSelection(ids=["999.0"]))
    shown = schedd.user

    async def asked(query: schedd_pb2.JobQuery) -> None:
        async for _ in schedd.stub.Query(query, metadata=shown):
            pass

    whole = common_pb2.AdQuery(constraint=hostile)
    questions: dict[str, Callable[[], Any]] = {
        "hold": lambda: schedd.stub.Act(act, metadata=shown),
        "edit": lambda: schedd.stub.Edit(edit, metadata=shown),
        "ads": lambda: asked(schedd_pb2.JobQuery(query=whole)),
        "count": lambda: asked(schedd_pb2.JobQuery(query=count)),
        "batches": lambda: asked(schedd_pb2.JobQuery(query=whole, batches=True)),
    }
    for name, question in questions.items():
        waiting = asyncio.ensure_future(question())
        answered = 0
        while not waiting.done():
            await schedd.stub.Act(nothing, metadata=shown)
            answered += 1
        with contextlib.suppress(grpc.aio.AioRpcError):  # it may take more steps than it may
            await waiting
        assert answered >= 4, name


async def test_a_call_names_a_bounded_number_of_jobs(schedd: RunningAccessPoint) -> None:
    """Half a million ids in one message held the event loop for a second and more."""
    cluster = await schedd.submit(3)
    for jobs in (
        schedd_pb2.JobSelection(ids=[f"{cluster}.0"] * 20_001),
        schedd_pb2.JobSelection(owners=["eve"] * 20_001),
    ):
        calls = [
            schedd.stub.Act(schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.HOLD, jobs=jobs), metadata=schedd.user),
            schedd.stub.Edit(schedd_pb2.EditRequest(jobs=jobs, set={"Note": "1"}), metadata=schedd.user),
            schedd.stub.Query(schedd_pb2.JobQuery(jobs=jobs), metadata=schedd.user).read(),
            schedd.stub.History(schedd_pb2.HistoryQuery(jobs=jobs), metadata=schedd.user).read(),
            schedd.stub.FetchSandboxes(jobs, metadata=schedd.user).read(),
        ]
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError, match="at most 20000 jobs") as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    few = schedd_pb2.JobSelection(ids=[f"{cluster}.0"] * 100)
    hold = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.HOLD, jobs=few)
    assert (await schedd.stub.Act(hold, metadata=schedd.user)).totals["success"] >= 1
