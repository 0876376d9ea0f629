"""The collector's counts of running jobs by universe."""

from __future__ import annotations

from slotwise.collector.job_universes import JobUniverses


def test_slots_count_by_the_universe_of_their_job_and_peaks_stay() -> None:
    running = JobUniverses()
    first = running.attributes([(5, 7), (11, 2), (None, 40), ("5", 1), (99, 1), (-1, 1), (True, 1)])
    assert (first["CurrentJobsRunningVanilla"], first["CurrentJobsRunningParallel"]) == (7, 2)
    assert first["CurrentJobsRunningAll"] == first["MaxJobsRunningAll"] == 9
    assert first["CurrentJobsRunningJava"] == first["MaxJobsRunningVM"] == 0
    later = running.attributes([(5, 3), (10, 1)])
    assert (later["CurrentJobsRunningVanilla"], later["MaxJobsRunningVanilla"]) == (3, 7)
    assert (later["CurrentJobsRunningAll"], later["MaxJobsRunningAll"], later["MaxJobsRunningJava"]) == (4, 9, 1)
    assert len(later) == 30
