"""The engine and a slow model of the same rules decide alike, on pools in which many rules meet."""

from __future__ import annotations

import pytest

from tests.support.negotiation.pools import alike, drawn, seen_by_engine, seen_by_model

#: Pools that once were decided differently, and what it took.
CORNERS = {
    6620: "what rounding leaves of a group's quota puts it ahead of others",
    1204: "a slice that is used up but for rounding noise is cut again",
    33662: "a limit of rounding noise gets a slot",
    2065: "several limits given by expressions are met on different slots",
    7435: "a slot is refused for a limit first and is too heavy later",
    12566: "a slot is too heavy before its limit is looked at",
    54525: "one who waits to preempt has no account, and a group with a factor of its own",
    24777: "a slot enlarged by eviction ranks like a busy one",
    16337: "a slot enlarged by eviction is preferred by its preemption rank",
    60255: "a limit refuses a job before any slot does, whatever was too heavy for the jobs before it",
    26988: "a limit is given by an expression over what a slot will be after eviction",
}


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_the_engine_decides_what_the_model_decides(first: int) -> None:
    for seed in range(first, first + 50):
        decided_alike(seed)


@pytest.mark.parametrize("seed", CORNERS)
def test_corners(seed: int) -> None:
    decided_alike(seed)


def decided_alike(seed: int) -> None:
    pool = drawn(seed)
    engine, model = seen_by_engine(pool), seen_by_model(pool)
    for part in engine:
        if not alike(engine[part], model[part]):
            assert engine[part] == model[part], f"{part} of pool {seed}"
