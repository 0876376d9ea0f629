"""Waits between attempts grow to their bound; chance makes them shorter, never longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotwise.backoff import Backoff

BACKOFFS = st.builds(
    lambda first, factor, more, jitter: Backoff(first, factor, first + more, jitter),
    st.floats(0.001, 10),
    st.floats(1, 4),
    st.floats(0, 1000),
    st.floats(0, 1),
)
CHANCES = st.floats(0, 1, exclude_max=True)


@given(BACKOFFS, st.integers(1, 10_000), CHANCES)
def test_a_wait_grows_with_each_failure_up_to_its_bound(backoff: Backoff, failures: int, chance: float) -> None:
    full, longer = backoff.delay_s(failures), backoff.delay_s(failures + 1)
    assert backoff.first_s <= full <= longer <= backoff.most_s
    assert longer == backoff.most_s or longer >= full * backoff.factor * 0.999
    assert full * (1 - backoff.jitter) <= backoff.delay_s(failures, chance) <= full


def test_waits_double_from_the_first_to_the_longest() -> None:
    backoff = Backoff(first_s=0.05, factor=2, most_s=1)
    assert [backoff.delay_s(failures) for failures in range(1, 8)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1]


def test_chance_takes_away_the_part_that_is_jitter() -> None:
    backoff = Backoff(first_s=4, factor=2, most_s=100, jitter=0.25)
    assert [backoff.delay_s(1, chance) for chance in (0.0, 0.5, 1.0)] == [4, 3.5, 3]
