"""What a broker counts, and the file in which it leaves that for the collector."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.daemon import broker_counts
from slotwise.home import PoolHome
from slotwise.model.broker_statistics import NAMES, BrokerStatistics
from slotwise.model.windows import Window


@pytest.fixture
def home(tmp_path: Path) -> PoolHome:
    made = PoolHome(tmp_path)
    made.create()
    return made


def test_what_was_counted_of_late_is_forgotten_and_peaks_stay() -> None:
    counts = BrokerStatistics(Window(1200, 240))
    counts.add(1000, CCBRequests=2)
    counts.move(CCBEndpointsConnected=3)
    counts.move(CCBEndpointsConnected=-2)
    found = counts.attributes(1000)
    assert found.keys() == NAMES
    assert (found["CCBRequests"], found["RecentCCBRequests"]) == (2, 2)
    assert (found["CCBEndpointsConnected"], found["CCBEndpointsConnectedPeak"]) == (1, 3)
    later = counts.attributes(1000 + 1200 + 240)
    assert (later["CCBRequests"], later["RecentCCBRequests"]) == (2, 0)


def test_a_collector_finds_what_the_broker_left(home: PoolHome) -> None:
    assert set(broker_counts.read(home).values()) == {0}, "nothing was left"
    counts = BrokerStatistics(Window())
    counts.add(1000, CCBRequests=2)
    broker_counts.leave(home, counts.attributes(1000))
    assert broker_counts.read(home) == counts.attributes(1000)
    broker_counts.withdraw(home)
    assert set(broker_counts.read(home).values()) == {0}


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"CCBRequests": "7", "Other": 1, "CCBReconnects": true}'])
def test_a_file_that_is_none_of_a_broker_counts_nothing(home: PoolHome, text: str) -> None:
    broker_counts.leave(home, {})
    (home.run / "broker.statistics").write_text(text)
    assert broker_counts.read(home) == dict.fromkeys(NAMES, 0)
