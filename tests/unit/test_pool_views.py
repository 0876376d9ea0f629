"""Tables of slots, daemons and submitters."""

from __future__ import annotations

import pytest
from slotwise.classad import ClassAd
from slotwise.cli.render.compact import slot_letters
from slotwise.cli.render.pool import natural_key, totals_text
from slotwise.cli.render.poolviews import VIEWS
from slotwise.cli.render.printas import Scene
from slotwise.cli.render.userprio import priorities_text, rolled_up


def rows_text(ads: list[ClassAd], *, wide: bool) -> str:
    return VIEWS["slots"].shown(wide=wide).text(ads, Scene(0.0))


def slot(name: str, **more: object) -> ClassAd:
    machine = name.partition("@")[2]
    return ClassAd(
        {
            "Name": name,
            "Machine": machine,
            "OpSys": "LINUX",
            "Arch": "X86_64",
            "State": "Unclaimed",
            "Activity": "Idle",
            "LoadAvg": 0.25,
            "Memory": 1024,
            "Cpus": 1,
            "EnteredCurrentActivity": 1000,
            "LastHeardFrom": 1000 + 90061,
        }
        | more
    )


def test_slots_come_in_natural_order() -> None:
    names = ["slot10@b", "slot1_10@a", "slot2@b", "slot1_2@a", "slot1@a", "slot1@b"]
    ordered = sorted((slot(name) for name in names), key=natural_key)
    assert [ad["Name"] for ad in ordered] == [
        "slot1@a", "slot1_2@a", "slot1_10@a", "slot1@b", "slot2@b", "slot10@b",
    ]  # fmt: skip


def test_a_row_shows_what_the_reference_shows() -> None:
    text = rows_text([slot("slot1@h")], wide=False)
    heading, row = text.splitlines()
    assert heading.split()[:3] == ["Name", "OpSys", "Arch"]
    assert row.split() == ["slot1@h", "LINUX", "X86_64", "Unclaimed", "Idle", "0.250", "1024", "1+01:01:01"]


def test_what_is_unknown_is_marked_as_htcondor_marks_it() -> None:
    """Under both names: scripts that read `slotwise status` are those that read condor_status."""
    row = rows_text([ClassAd({"Name": "slot1@h"})], wide=False).splitlines()[1]
    cells = row.split()[1:]
    assert cells.pop(4) == "[????]", "a number, so in brackets"
    assert [set(cell) for cell in cells] == [{"?"}] * 5 + [{"-"}]


def test_long_names_are_cut_unless_wide() -> None:
    name = "slot1@" + "x" * 60
    assert name not in rows_text([slot(name)], wide=False)
    assert name in rows_text([slot(name)], wide=True)


def test_totals_count_by_platform_and_state() -> None:
    ads = [
        slot("slot1@a"),
        slot("slot2@a", State="Claimed"),
        slot("slot1@b", Arch="aarch64", State="Drained"),
        slot("slot2@b", Arch="aarch64", State="Backfill"),
    ]
    rows = [line.split() for line in totals_text("slots", ads).splitlines() if line.strip()]
    assert rows[0] == ["Total", "Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drain", "Backfill", "BkIdle"]
    assert rows[1] == ["X86_64/LINUX", "2", "0", "1", "1", "0", "0", "0", "0", "0"]
    assert rows[2] == ["aarch64/LINUX", "2", "0", "0", "0", "0", "0", "1", "0", "1"]
    assert rows[3] == ["Total", "4", "0", "1", "1", "0", "0", "1", "0", "1"]


def test_no_slots_no_totals() -> None:
    assert totals_text("slots", []) == ""


def child(state: str, activity: str) -> ClassAd:
    return slot("slot1_1@h", State=state, Activity=activity)


@pytest.mark.parametrize(
    ("whole", "children", "letters"),
    [
        (slot("slot1@h"), [], "Ui"),
        (slot("slot1@h", Cpus=0), [child("Claimed", "Busy")] * 2, "Cb"),
        (slot("slot1@h", Cpus=0), [child("Claimed", "Busy"), child("Claimed", "Idle")], "C*"),
        (slot("slot1@h", Cpus=3), [child("Claimed", "Busy")], "**"),
        (slot("slot1@h", Cpus=3), [child("Preempting", "Vacating"), child("Claimed", "Busy")], "Pv"),
        (slot("slot1@h", State="Drained", Activity="Retiring"), [child("Claimed", "Retiring")], "Cr"),
    ],
)
def test_letters_of_a_machine(whole: ClassAd, children: list[ClassAd], letters: str) -> None:
    assert slot_letters(whole, children) == letters


def account(name: str, **more: object) -> ClassAd:
    return ClassAd(
        {
            "Name": name,
            "Priority": 500.0,
            "PriorityFactor": 1000.0,
            "WeightedResourcesUsed": 0.0,
            "WeightedAccumulatedUsage": 7200.0,
            "LastUsageTime": 1000,
            "Ceiling": -1,
            "Floor": 0,
            "LastUpdate": 1000,
            "IsAccountingGroup": False,
            "AccountingGroup": "<none>",
        }
        | more
    )


def test_priorities_have_two_headings_a_rule_and_sums() -> None:
    ads = [account("ann@d", WeightedResourcesUsed=3.0, Ceiling=9), account("bob@d")]
    lines = priorities_text(ads, "default", flat=False, now=1000 + 3600).splitlines()
    assert lines[0].startswith("Last Priority Update:")
    assert lines[3].startswith("---")
    ann, bob = lines[4].split(), lines[5].split()
    assert ann == ["ann@d", "500.00", "1000.00", "3", "2.00", "<now>", "9"]
    assert bob == ["bob@d", "500.00", "1000.00", "0", "2.00", "0+01:00"]
    assert lines[-1].split() == ["Number", "of", "users:", "2", "3", "4.00"]


def test_groups_come_with_their_members() -> None:
    ads = [
        account("phys.ann@d", AccountingGroup="phys"),
        account("phys", IsAccountingGroup=True, EffectiveQuota=10.0, AccountingGroup="phys", GroupSortKey=0.5),
        account("bob@d"),
    ]
    lines = priorities_text(ads, "quotas", flat=False, now=2000).splitlines()
    names = [line.rstrip()[:12].rstrip() for line in lines[4:-2]]
    assert names == ["phys", "  phys.ann@d"[:12], "bob@d"]
    assert "10.00" in lines[4]
    flat = priorities_text(ads, "quotas", flat=True, now=2000).splitlines()
    assert flat[4].startswith("phys.ann@d")


def test_usage_of_groups_rolls_up_to_the_groups_above() -> None:
    def group(name: str, used: float, begin: int, last: int) -> ClassAd:
        return account(
            name,
            IsAccountingGroup=True,
            ResourcesUsed=int(used),
            WeightedResourcesUsed=used,
            WeightedAccumulatedUsage=used * 3600,
            BeginUsageTime=begin,
            LastUsageTime=last,
        )

    ads = [
        group("a.b.c", 4, 50, 60),
        group("a", 1, 0, 0),
        group("a.b", 2, 100, 200),
        account("a.b.ann@d"),
        group("d", 8, 1, 2),
    ]
    found = {ad["Name"]: ad for ad in rolled_up(ads)}
    assert {name: ad["WeightedResourcesUsed"] for name, ad in found.items() if "@" not in str(name)} == {
        "a.b.c": 4.0,
        "a": 7.0,
        "a.b": 6.0,
        "d": 8.0,
    }
    assert (found["a"]["ResourcesUsed"], found["a"]["WeightedAccumulatedUsage"]) == (7, 7 * 3600.0)
    assert (found["a"]["BeginUsageTime"], found["a"]["LastUsageTime"]) == (50, 200)
    assert ads[1]["WeightedResourcesUsed"] == 1.0, "what is given stays as it is"


def test_uptime_counts_until_now_though_the_ad_is_old() -> None:
    ad = ClassAd({"Name": "m", "DaemonStartTime": 1000, "LastHeardFrom": 1001})
    assert "1+01:01:01" in VIEWS["master"].shown(wide=False).text([ad], Scene(1000.0 + 90061))


def test_columns_of_groups_are_shown_on_request_and_groups_stand_first() -> None:
    group = {"IsAccountingGroup": True, "Priority": 0.0, "LastUpdate": 0}
    ads = [
        ClassAd({"Name": "physics.ann@x", "AccountingGroup": "physics", "Priority": 5.0, "LastUpdate": 0}),
        ClassAd({"Name": "biology", "GroupSortKey": 0.5, **group}),
        ClassAd({"Name": "physics", "GroupSortKey": 0.25, **group}),
    ]
    shown = priorities_text(ads, "priority", flat=False, now=0.0, extra=("groupid", "sortkey"), groups_first=True)
    lines = shown.splitlines()
    assert lines[1].split()[:3] == ["Group", "Group", "Group"] and lines[2].split()[2:5] == ["Id", "Sort", "Key"]
    assert [line.split()[0] for line in lines[4:7]] == ["physics", "biology", "physics.ann@x"]
    assert lines[4].split()[1:3] == ["1", "0.25"] and lines[5].split()[1:3] == ["0", "0.5"]
