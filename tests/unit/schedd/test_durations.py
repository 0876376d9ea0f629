"""How long jobs like a given one ran."""

from __future__ import annotations

from slotwise.schedd.jobs.durations import Durations


def test_nine_of_ten_jobs_of_the_cluster_have_ended_by_what_is_expected() -> None:
    durations = Durations()
    for seconds in range(1, 11):
        durations.note(7, "ann@d", float(seconds))
    assert durations.expected(7, "ann@d") == 9


def test_another_cluster_of_the_submitter_is_expected_to_be_like_its_jobs() -> None:
    durations = Durations()
    for _ in range(3):
        durations.note(7, "ann@d", 4.2)
    assert durations.expected(8, "ann@d") == 5
    assert durations.expected(8, "ben@d") is None


def test_few_runs_tell_nothing_and_only_the_last_ones_count() -> None:
    durations = Durations()
    durations.note(7, "ann@d", 900.0)
    durations.note(7, "ann@d", 900.0)
    assert durations.expected(7, "ann@d") is None
    for _ in range(20):
        durations.note(7, "ann@d", 3.0)
    assert durations.expected(7, "ann@d") == 3
