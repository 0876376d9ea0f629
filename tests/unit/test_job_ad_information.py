"""Event 028 against those that HTCondor 25.14.1 wrote for a job with job_ad_information_attrs."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.model.job_ad_information import ad_information
from slotwise.model.job_event_reader import event_ad, parse
from slotwise.model.job_events import END, split_entries

LOG = Path(__file__).parents[1] / "conformance" / "ad-information.log"
ENTRIES = list(split_entries(LOG.read_text()))
PAIRS = list(zip(ENTRIES[0::2], ENTRIES[1::2], strict=True))


@pytest.mark.parametrize(("entry", "theirs"), PAIRS, ids=[entry[:3] for entry, _ in PAIRS])
def test_the_event_tells_what_htcondors_does(entry: str, theirs: str) -> None:
    told = event_ad(parse(theirs.removesuffix(END), 2026))
    status = told["JobStatus"]
    assert isinstance(status, int)
    chosen: dict[str, int | str] = {"Owner": "peer", "JobStatus": status, "RequestCpus": 1}
    ours = ad_information(entry, chosen, 2026)
    assert ours.splitlines()[0] == theirs.splitlines()[0] and ours.endswith(END)
    found = event_ad(parse(ours.removesuffix(END), 2026))
    # Its log has whole seconds, and rounded usage; what it computed them from is in the event.
    rough = ("EventTime", "CpusUsage")
    assert {name.lower(): str(found.lookup(name)) for name in found if name not in rough} == {
        name.lower(): str(told.lookup(name)) for name in told if name not in rough
    }
    lines = ours.splitlines()[1:-1]
    assert lines == sorted(lines, key=str.lower), "sorted by name"


def test_texts_stay_on_their_line() -> None:
    entry = "000 (001.000.000) 2026-01-02 03:04:05 Job submitted from host: <a>\n...\n"
    text = ad_information(entry, {"Note": 'a\n...\n005 (001.000.000) "x"'}, 2026)
    assert list(split_entries(text)) == [text]
    assert text.count("\n005") == 0
