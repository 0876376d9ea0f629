"""Sums, histograms and rates of late."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.model.windows import Histogram, Rate, Ring, Tallies, Window, shown

WINDOWS = st.builds(lambda quantum, times: Window(quantum * times, quantum), st.integers(1, 50), st.integers(1, 6))
EVENTS = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 5)), max_size=40)


@given(WINDOWS, EVENTS)
def test_of_late_is_what_happened_in_the_quanta_of_the_window(window: Window, events: list[tuple[float, int]]) -> None:
    """Against the plain sum of all events; as many quanta as the window has, that of now among them."""
    tallies, now, past = Tallies(("A", "B"), window), 1000.0, []
    for step, amount in events:
        now += step
        tallies.add(now, A=amount)
        past.append((int(now // window.quantum), amount))
        newest = int(now // window.quantum)
        quanta = round(window.seconds / window.quantum)
        expected = sum(amount for number, amount in past if number > newest - quanta)
        assert tallies.recent(now) == {"A": expected, "B": 0}
        assert tallies.totals["A"] == sum(amount for _, amount in past)
    later = now + window.seconds + window.quantum
    assert tallies.recent(later) == {"A": 0, "B": 0}


@given(WINDOWS, st.lists(st.floats(-200, 200), max_size=40))
def test_a_clock_that_is_set_never_counts_more_than_there_was(window: Window, steps: list[float]) -> None:
    tallies, now = Tallies(("A",), window), 10_000.0
    for count, step in enumerate(steps, 1):
        now += step
        tallies.add(now, A=1)
        assert 1 <= tallies.recent(now)["A"] <= count == tallies.totals["A"]
    assert len(list(tallies.ring.values(now))) <= window.seconds / window.quantum + 1


def test_a_clock_set_back_by_hours_begins_anew() -> None:
    ring: Ring[list[int]] = Ring(list, Window(1200, 240))
    ring.at(100_000).append(1)
    ring.at(99_900).append(2)
    assert list(ring.values(99_900)) == [[1, 2]] or list(ring.values(99_900)) == [[1], [2]]
    assert list(ring.values(50_000)) == []


@given(st.lists(st.floats(-10, 1000), max_size=30))
def test_each_value_is_in_one_place_of_a_histogram(values: list[float]) -> None:
    levels = (1, 10, 100)
    histogram = Histogram(levels, Window())
    for value in values:
        histogram.add(5, value)
    bounds = [-math.inf, *levels, math.inf]
    expected = [sum(low <= value < high for value in values) for low, high in itertools.pairwise(bounds)]
    assert histogram.counts == expected == histogram.recent(5)
    assert histogram.recent(10_000) == [0] * 4
    assert shown(histogram.counts).count(", ") == 3


@given(st.floats(1, 1e6), st.lists(st.floats(0.5, 60), min_size=1, max_size=50))
def test_an_even_flow_is_found_and_dies_down(speed: float, steps: list[float]) -> None:
    rate, now = Rate((60.0, 300.0), 0.0), 0.0
    for step in steps:
        now += step
        rate.add(speed * step)
        short, long = rate.averages(now).values()
        assert 0 <= long <= short <= speed * 1.000001
        assert short == pytest.approx(speed * (1 - math.exp(-now / 60)), rel=1e-6)
    assert rate.total == pytest.approx(speed * now)
    assert rate.averages(now + 6000)[60.0] < short or short == 0
