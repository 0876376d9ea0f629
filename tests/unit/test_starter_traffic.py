"""TransferInputStats and TransferOutputStats over the runs of a job."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.starter.transfer.transfer_stats import OWN, Traffic


def test_totals_go_on_and_the_last_run_begins_anew() -> None:
    first = Traffic()
    first.add(OWN, 1, 100)
    first.add(OWN, 2, 11)
    first.add("HTTP", 1, 5)
    kept = first.attributes(None)
    assert kept == {
        "CedarFilesCountLastRun": 3, "CedarFilesCountTotal": 3,
        "CedarSizeBytesLastRun": 111, "CedarSizeBytesTotal": 111,
        "HTTPFilesCountLastRun": 1, "HTTPFilesCountTotal": 1, "HTTPSizeBytesLastRun": 5, "HTTPSizeBytesTotal": 5,
    }  # fmt: skip
    second = Traffic()
    second.add(OWN, 1, 1)
    found = second.attributes(ClassAd(kept))
    assert (found["CedarFilesCountLastRun"], found["CedarFilesCountTotal"], found["CedarSizeBytesTotal"]) == (1, 4, 112)
    assert found["HTTPFilesCountTotal"] == 1 and "HTTPFilesCountLastRun" not in found


def test_what_goes_again_counts_once_and_nonsense_counts_not() -> None:
    traffic = Traffic()
    traffic.add(OWN, 5, 50)
    traffic.clear(OWN)
    traffic.add(OWN, 1, 10)
    again = Traffic()
    again.from_json(traffic.to_json())
    again.from_json(None)
    assert again.attributes(ClassAd({"CedarFilesCountTotal": "many"}))["CedarFilesCountTotal"] == 1
    assert Traffic().attributes(7) == {}
