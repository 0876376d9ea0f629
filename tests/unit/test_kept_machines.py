"""Machines that are kept for large requests: what others are told of them."""

from __future__ import annotations

from typing import Any

from slotwise.matchmaking import kept_machines
from slotwise.table import AdTable

from tests.support.negotiation.rows import kept_machine, rejection

KEPT = kept_machine("slot1@h", "big@d", "9.0", ["slot1_1@h", "slot1_2@h", "slot1_3@h"])


def slots(**more: Any) -> AdTable:
    made = AdTable()
    made.upsert("slot1@h", {"Name": "slot1@h", **more})
    for number, user in ((1, "ann@d"), (2, "ben@d"), (3, "ann@d")):
        name = f"slot1_{number}@h"
        made.upsert(name, {"Name": name, "AccountingGroup": user, "RemoteScheddName": "ap"})
    return made


def test_each_holder_is_to_give_all_its_claims_back_but_for_jobs_that_end_in_time() -> None:
    rows = {row.submitter: row for row in kept_machines.claims_to_end([KEPT], slots())}
    assert rows["ann@d"].slots == ["slot1_1@h", "slot1_3@h"] and rows["ben@d"].slots == ["slot1_2@h"]
    assert sum(rows["ann@d"].weights) - rows["ann@d"].weight == 0
    assert rows["ann@d"].until == 1_000.0
    assert rows["ann@d"].reason == "slot1@h is kept for job 9.0 of big@d"


def test_the_job_is_told_which_machine_and_when() -> None:
    rejected = rejection("big@d", "9.0", kept_machines.RESERVED)
    other = rejection("ann@d", "9.0", "no match found")
    told = kept_machines.explained([rejected, other], [KEPT])
    assert told[0].reason.startswith("a machine is reserved: slot1@h, expected to be ready by 19")
    assert told[1] == other


def test_the_machine_tells_for_whom_and_until_when_and_no_longer_than_it_is_so() -> None:
    ads = kept_machines.attributes([KEPT])
    assert ads["slot1@h"] == {
        "ReservedFor": "big@d",
        "ReservedForJob": "9.0",
        "ReservedUntil": 1000,
        "ReservationEnds": 2000,
    }
    assert kept_machines.changes({}, ads, slots()) == ads
    assert kept_machines.changes(ads, ads, slots(**ads["slot1@h"])) == {}
    assert kept_machines.changes(ads, {}, slots(**ads["slot1@h"])) == {"slot1@h": dict.fromkeys(ads["slot1@h"])}
