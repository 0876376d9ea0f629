"""The engine and a slow model of the same rules decide alike, on pools in which many rules meet."""

from __future__ import annotations

import pytest

from tests.support.negotiation.pools import drawn, seen_by_engine, seen_by_model


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_the_engine_decides_what_the_model_decides(first: int) -> None:
    for seed in range(first, first + 50):
        pool = drawn(seed)
        engine, model = seen_by_engine(pool), seen_by_model(pool)
        for part in engine:
            assert engine[part] == model[part], f"{part} of pool {seed}"
