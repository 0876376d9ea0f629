"""Questions about jobs that are named by their ids."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.schedd.api import listing
from slotwise.table import unpack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint


async def named(schedd: RunningAccessPoint, *ids: str, constraint: str = "") -> list[tuple[Any, Any]]:
    query = schedd_pb2.JobQuery(jobs=schedd_pb2.JobSelection(ids=ids))
    query.query.constraint = constraint
    found = []
    async for chunk in schedd.stub.Query(query, metadata=schedd.daemon):
        found += [(ad["ClusterId"], ad["ProcId"]) for ad in unpack_ads(chunk.data)] if chunk.data else []
    return found


async def test_named_jobs_are_found_once_each_in_order_and_as_if_all_were_searched(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await schedd.submit(5), await schedd.submit(2)
    questions: list[tuple[tuple[str, ...], str]] = [
        ((f"{one}.3",), ""),
        ((f"{two}.1", f"{one}.4", f"{one}.0", f"{one}.4"), ""),
        ((f"{one}.99", "999.0"), ""),
        ((f"{one}.1", f"{two}"), ""),
        ((f"{one}.1", f"{one}.2"), "ProcId == 2"),
    ]
    found = [await named(schedd, *ids, constraint=constraint) for ids, constraint in questions]
    assert found[0] == [(one, 3)] and found[1] == [(one, 0), (one, 4), (two, 1)] and found[2] == []
    assert found[4] == [(one, 2)]
    monkeypatch.setattr(listing, "single_jobs", lambda ids: None)
    assert [await named(schedd, *ids, constraint=constraint) for ids, constraint in questions] == found


async def test_a_named_job_is_shown_with_what_has_changed_since_it_was_queued(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(2)
    await schedd.act("HOLD", f"ClusterId == {cluster}")
    query = schedd_pb2.JobQuery(jobs=schedd_pb2.JobSelection(ids=[f"{cluster}.1"]))
    (ad,) = [ad async for chunk in schedd.stub.Query(query, metadata=schedd.daemon) if chunk.data
             for ad in unpack_ads(chunk.data)]  # fmt: skip
    assert ad["JobStatus"] == 5 and ad["ProcId"] == 1 and "HoldReason" in ad
