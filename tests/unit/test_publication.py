"""Which statistics ads show (STATISTICS_TO_PUBLISH, STATISTICS_TO_PUBLISH_LIST), as HTCondor reads the knobs."""

from __future__ import annotations

import pytest
from slotwise.model.publication import Publication

_NONE = Publication(0, recent=False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, Publication()),
        ("default", Publication()),
        ("", _NONE),
        ("NONE", _NONE),
        ("DC:1", _NONE),
        ("SCHEDD:2", Publication(2)),
        ("dc, schedd:1!R", Publication(1, recent=False)),
        ("ALL:2Z", Publication(2, nonzero=True)),
        ("ALL:2, SCHEDULER:NONE", _NONE),
        ("SCHEDD:!L", Publication(1, lifetime=False)),
        ("SCHEDD:0", Publication(0)),
    ],
)
def test_what_is_to_be_published(text: str | None, found: Publication) -> None:
    assert Publication.of(text, "SCHEDD", "SCHEDULER") == found


def test_a_listed_statistic_is_shown_at_every_level() -> None:
    nothing_but = Publication(0, recent=False, listed=frozenset({"jobsstarted"}))
    counts = {"JobsStarted": 2, "JobsExited": 1}
    assert nothing_but.select(counts, counts) == {"JobsStarted": 2}
    assert Publication(1, listed=frozenset({"more"})).select({"More": 1, "Other": 2}, {"More": 0}, level=2) == {
        "More": 1,
        "RecentMore": 0,
    }
    assert Publication(nonzero=True).select(counts, {"JobsStarted": 0}) == counts


def test_the_default_of_a_category_is_what_words_without_options_mean() -> None:
    """The category DC shows nothing unless a level is given; HTCondor 25.14, STATISTICS_TO_PUBLISH = DC, and DC:1."""
    quiet = Publication(level=0)
    assert Publication.of("DC", "DC", default=quiet) == quiet
    assert Publication.of("DC:1", "DC", default=quiet) == Publication(1)
