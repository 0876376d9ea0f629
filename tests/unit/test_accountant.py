"""Settings of submitters, leases on them, corrections, and the file they are kept in."""

import sqlite3
from pathlib import Path

import pytest
from slotwise.errors import BusyError, NotFoundError, UsageError
from slotwise.matchmaking.engine import Accounting, Engine, Knobs
from slotwise.matchmaking.reports import CycleReport, accounting_ads
from slotwise.negotiator.accountant import Accounts
from slotwise.negotiator.store import AccountingStore
from slotwise.table import AdTable

from tests.support.negotiation.rows import group


def test_a_leased_setting_comes_back_when_the_lease_is_over() -> None:
    accounts = Accounts()
    accounts.set("ann@d", "factor", 5, now=0)
    accounts.set("ann@d", "factor", 10, now=0, duration_s=60)
    assert accounts.end_leases(59) == []
    assert accounts.records["ann@d"]["factor"] == 10
    assert accounts.end_leases(60) == [("ann@d", "factor")]
    assert accounts.records["ann@d"]["factor"] == 5


def test_a_lease_on_what_was_never_set_leaves_nothing_behind() -> None:
    accounts = Accounts()
    accounts.set("ann@d", "ceiling", 10, now=0, duration_s=60)
    accounts.cancel_lease("ann@d", "ceiling")
    assert "ceiling" not in accounts.records["ann@d"]
    with pytest.raises(NotFoundError, match="ann@d has no ceiling lease"):
        accounts.cancel_lease("ann@d", "ceiling")


def test_a_lease_that_is_over_does_not_stand_in_the_way_of_the_next() -> None:
    accounts = Accounts()
    accounts.set("ann@d", "ceiling", 7, now=0)
    accounts.set("ann@d", "ceiling", 3, now=0, duration_s=60)
    accounts.set("ann@d", "ceiling", 4, now=61, duration_s=60)
    assert accounts.records["ann@d"]["ceiling"] == 4
    assert accounts.end_leases(121) == [("ann@d", "ceiling")]
    assert accounts.records["ann@d"]["ceiling"] == 7


def test_who_is_active_stays_so_when_usage_is_reset() -> None:
    accounts = Accounts()
    accounts.set_usage("ann@d", "last_usage_time", 50, now=0)
    accounts.set_usage("ann@d", "weighted_accumulated_usage", 7200, now=0)
    accounts.reset_usage("ann@d", now=99)
    assert accounts.records["ann@d"]["last_usage_time"] == 50
    assert accounts.records["ann@d"]["weighted_accumulated_usage"] == 0


def test_a_second_lease_is_refused_and_a_lasting_setting_ends_the_first() -> None:
    accounts = Accounts()
    accounts.set("ann@d", "floor", 3, now=0, duration_s=60)
    with pytest.raises(BusyError, match="already in effect"):
        accounts.set("ann@d", "floor", 4, now=1, duration_s=60)
    accounts.set("ann@d", "floor", 5, now=2)
    assert accounts.end_leases(1000) == []
    assert accounts.records["ann@d"]["floor"] == 5


@pytest.mark.parametrize(
    ("setting", "value"), [("factor", 0.5), ("ceiling", -2), ("floor", -1), ("ceiling", 1.5), ("floor", 0.5)]
)
def test_values_out_of_range_are_refused(setting: str, value: float) -> None:
    accounts = Accounts()
    with pytest.raises(UsageError):
        accounts.set("ann@d", setting, value, now=0)
    assert accounts.records == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e30])
def test_what_is_no_usable_number_is_refused_everywhere(value: float) -> None:
    accounts = Accounts()
    for setting in ("factor", "ceiling", "floor"):
        with pytest.raises(UsageError, match="cannot be used"):
            accounts.set("ann@d", setting, value, now=0)
    for name in ("weighted_accumulated_usage", "begin_usage_time", "last_usage_time"):
        with pytest.raises(UsageError, match="cannot be used"):
            accounts.set_usage("ann@d", name, value, now=0)
    with pytest.raises(UsageError, match="cannot be used"):
        accounts.set_priority("ann@d", value, now=0)
    assert accounts.records == {}


def test_priority_has_a_least_value_and_usage_can_be_reset() -> None:
    accounts = Accounts()
    accounts.set_priority("ann@d", 0.1, now=0)
    assert accounts.records["ann@d"]["priority"] == 0.5
    accounts.set_usage("ann@d", "weighted_accumulated_usage", 7200, now=0)
    accounts.reset_all(now=99)
    assert accounts.records["ann@d"]["weighted_accumulated_usage"] == 0
    assert accounts.records["ann@d"]["begin_usage_time"] == 99
    accounts.delete("ann@d")
    with pytest.raises(NotFoundError):
        accounts.delete("ann@d")
    with pytest.raises(NotFoundError):
        accounts.reset_usage("ann@d", now=0)


@pytest.mark.parametrize("name", ["", "a b@d"])
def test_a_name_must_be_one(name: str) -> None:
    with pytest.raises(UsageError):
        Accounts().set_priority(name, 1, now=0)


def test_the_file_says_what_was_saved_last(tmp_path: Path) -> None:
    path = tmp_path / "accounting.db"
    store = AccountingStore(path)
    lease = {("ann@d", "factor"): (None, 60.0), ("ann@d", "ceiling"): (4, 61.5)}
    store.save({"ann@d": {"priority": 1.5}, "bob@d": {"priority": 2.0}}, lease, {"g": 3.0})
    store.save({"ann@d": {"priority": 2.5}}, lease, {})
    again = AccountingStore(path)
    assert again.records() == {"ann@d": {"priority": 2.5}}
    assert again.leases() == lease
    assert again.remainder_times() == {}
    again.close()
    store.close()


def test_a_save_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "accounting.db"
    store = AccountingStore(path)
    store.save({"ann@d": {"priority": 1.5}}, {}, {})
    with pytest.raises((sqlite3.Error, TypeError)):
        store.save({"ann@d": {"priority": 9.0}}, {("ann@d", "factor"): (None, object())}, {})  # type: ignore[dict-item]
    store.close()
    again = AccountingStore(path)
    assert again.records() == {"ann@d": {"priority": 1.5}}
    again.close()


def test_what_is_edited_while_a_cycle_runs_stays() -> None:
    accounts = Accounts(
        {"ann@d": {"priority": 2.0, "factor": 5.0}, "bob@d": {"priority": 3.0}, "eve@d": {"priority": 1.0}}
    )
    before = {name: dict(record) for name, record in accounts.records.items()}
    accounts.set("ann@d", "ceiling", 4, now=1)
    accounts.records["ann@d"].pop("factor")
    accounts.set_priority("eve@d", 9, now=1)
    accounts.delete("bob@d")
    accounts.set("new@d", "floor", 2, now=1)
    after = {name: record | {"last_update": 50, "priority": 1.5} for name, record in before.items()}
    accounts.take_over(before, after | {"cyc@d": {"priority": 0.5}})
    assert accounts.records == {
        "ann@d": {"priority": 1.5, "last_update": 50, "ceiling": 4},
        "eve@d": {"priority": 9, "last_update": 50},
        "new@d": {"priority": 0.5, "last_update": 1, "floor": 2},
        "cyc@d": {"priority": 0.5},
    }


def test_accounting_ads_name_the_group_that_there_is() -> None:
    groups = [group(name) for name in ("<none>", "phys", "phys.hep")]
    nothing = Engine().run(AdTable(), AdTable(), None, Knobs(), Accounting(), 0).statistics()
    last = CycleReport(1, "timer", 0.0, 1.0, 0.0, 0.0, {}, nothing, [], [], groups, 1, [], 0)
    names = ("john.doe@d", "ann@d", "Phys.ann@d", "phys.hep.kim@d", "phys.bio.kim@d", "phys.john.doe@d")
    ads = accounting_ads({name: {} for name in names}, {}, last, "n", now=5)
    found = [ads[name]["AccountingGroup"] for name in names]
    assert found == ["<none>", "<none>", "phys", "phys.hep", "phys", "phys"]


def test_accounting_ads_show_effective_priority_and_groups() -> None:
    ads = accounting_ads(
        {"phys.ann@d": {"priority": 2.0, "factor": 100.0}, "bob@d": {}},
        {("bob@d", "ceiling"): (None, 77.0)},
        None,
        "n",
        now=5,
        default_factor=1000,
    )
    assert ads["phys.ann@d"]["Priority"] == 200 and ads["phys.ann@d"]["AccountingGroup"] == "phys"
    assert ads["bob@d"]["Priority"] == 500 and ads["bob@d"]["AccountingGroup"] == "<none>"
    assert ads["bob@d"]["CeilingLeaseExpires"] == 77
