"""Answers to queries in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from slotwise.schedd.service import _chunks


@pytest.mark.parametrize(
    ("pieces", "ads"),
    [
        ([], []),
        ([(b"", 1)], []),
        ([(b"", 1), (b'{"A": 1}', 0), (b"", 0), (b'{"A": 2}', 1)], [{"A": 1}, {"A": 2}]),
    ],
)
async def test_an_answer_as_json_is_a_list_even_of_jobs_that_are_gone_meanwhile(
    pieces: list[tuple[bytes, int]], ads: list[object]
) -> None:
    async def made() -> AsyncIterator[tuple[bytes, int]]:
        for piece in pieces:
            yield piece

    chunks = [chunk async for chunk in _chunks(made(), "json")]
    assert json.loads(b"".join(chunk.data for chunk in chunks)) == ads
    assert chunks[-1].done and chunks[-1].total == sum(count for _, count in pieces)
