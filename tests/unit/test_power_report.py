"""Machine-hours asleep by machine and day, as tables, records and pictures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.cli.pool import power_plot
from slotwise.cli.pool.power_report import text_of
from slotwise.cli.pool.sleep_hours import Day, Report, days_before, report
from slotwise.cli.render.picture import require
from slotwise.errors import UsageError
from slotwise.wire.gen.collector_pb2 import Sleep

HOUR, DAY = 3600, 86400
DAYS = (Day("2026-01-01", 0, DAY), Day("2026-01-02", DAY, 2 * DAY))


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place where clocks are changed."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_sleep_is_divided_between_the_days_it_touches() -> None:
    sleeps = [
        Sleep(machine="a", level=3, began=20 * HOUR, ended=30 * HOUR, saved_watts=100),
        Sleep(machine="b", level=3, began=40 * HOUR, saved_watts=50),
        Sleep(machine="a", level=3, began=-5 * HOUR, ended=2 * HOUR, saved_watts=100),
    ]
    found = report(sleeps, DAYS, now=44 * HOUR)
    assert [(one.machine, one.hours, one.sleeps, one.sleeps_now) for one in found.machines] == [
        ("a", [6.0, 6.0], 2, False), ("b", [0.0, 4.0], 1, True),
    ]  # fmt: skip
    assert found.by_day == (6.0, 10.0) and found.kwh == pytest.approx(1.2 + 0.2)
    assert text_of(found).splitlines() == [
        "MACHINE    01-01 01-02 HOURS PER-DAY SLEEPS  kWh",
        "a            6.0   6.0  12.0     6.0      2 1.20",
        "b *            -   4.0   4.0     2.0      1 0.20",
        "2 machines   6.0  10.0  16.0     8.0      3 1.40",
        "* sleeps now",
    ]


def test_energy_is_not_known_of_machines_that_do_not_say() -> None:
    sleeps = [Sleep(machine="a", began=0, ended=HOUR), Sleep(machine="b", began=0, ended=HOUR, saved_watts=500)]
    found = report(sleeps, DAYS, now=DAY)
    assert [one.kwh for one in found.machines] == [None, 0.5] and found.kwh is None
    assert "SLOTWISE_POWER_WATTS" in text_of(found)
    assert report(sleeps, DAYS, DAY, watts=100).kwh == pytest.approx(0.6)


@given(st.lists(st.tuples(st.integers(-DAY, 3 * DAY), st.integers(0, 2 * DAY)), max_size=20))
def test_hours_of_all_days_are_what_of_the_sleeps_is_in_them(spans: list[tuple[int, int]]) -> None:
    sleeps = [Sleep(machine=f"m{at % 3}", began=b, ended=b + length + 1) for at, (b, length) in enumerate(spans)]
    found = report(sleeps, DAYS, now=2 * DAY)
    expected = sum(max(0, min(s.ended, 2 * DAY) - max(s.began, 0)) for s in sleeps) / HOUR
    assert sum(found.by_day) == pytest.approx(expected) == pytest.approx(sum(one.total for one in found.machines))


def test_days_are_those_of_the_calendar(berlin: None) -> None:
    days = days_before(1774868400.0, 3)  # 2026-03-30 in Berlin; the clock was set forward on the 29th
    assert [(day.label, (day.end - day.begin) / HOUR) for day in days] == [
        ("2026-03-28", 24), ("2026-03-29", 23), ("2026-03-30", 24),
    ]  # fmt: skip


def machines(count: int) -> Report:
    """So many machines, each of which slept a little less than the one before."""
    sleeps = [
        Sleep(machine=f"node{at:03}$x_1$", level=3, began=at * 600, ended=DAY + 8 * HOUR - at * 60, saved_watts=80)
        for at in range(count)
    ]
    return report(sleeps, DAYS, now=2 * DAY)


@pytest.mark.parametrize("kind", ["png", "svg"])
@pytest.mark.parametrize("count", [0, 1, 100])
def test_pictures(tmp_path: Path, kind: str, count: int) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    path = tmp_path / f"asleep.{kind}"
    require(str(path))
    power_plot.draw(machines(count), path)
    if kind == "png":
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000
    else:
        root = ElementTree.parse(path).getroot()
        drawn = "".join(root.itertext()) + path.read_text()
        assert root.tag.endswith("svg") and f"machine-hours of {count} machines" in drawn
        assert ("node000$x_1$" in drawn) is bool(count)
    assert "matplotlib.pyplot" not in sys.modules


def test_what_cannot_be_drawn_is_said_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        require("asleep.gif")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'slotwise\[plot\]'"):
        require("asleep.png")
