"""What could not be removed is tried again, less and less often, and told once it has gone."""

from __future__ import annotations

from pathlib import Path

from slotwise.execution.job_view import read_slot
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.links.leftovers import CANNOT_CLEAN, Leftovers
from slotwise.starter.scratch.cleanup_retry import CleanupRetry, due

NOTHING: dict[str, object] = {}


def test_tries_become_rare() -> None:
    first = [n for n in range(1, 200) if due(n)]
    assert first == [1, 2, 4, 8, 16, 32, 120, 180]
    assert [n for n in range(1400, 4400) if due(n)] == [1440, 2880, 4320]


async def test_a_starter_that_was_killed_goes_on_and_tells_in_the_end(tmp_path: Path) -> None:
    repaired: list[str] = []
    problems = ["stuck"]
    removed: list[RunDirectory] = []

    def remove(directory: RunDirectory) -> list[str]:
        removed.append(directory)
        return problems

    directory = RunDirectory(tmp_path / "execute" / "dir_1", tmp_path / "dir_1")
    retry = CleanupRetry(tmp_path, remove, repaired.append)
    retry.add("1.0#1", directory)
    await retry.try_all()
    assert (removed, repaired) == ([directory], [])
    again = CleanupRetry(tmp_path, remove, repaired.append)
    assert len(again) == 1
    problems.clear()
    await again.try_all()
    assert (removed, repaired) == ([directory, directory], ["1.0#1"])
    assert not list(tmp_path.iterdir())
    assert len(CleanupRetry(tmp_path, remove, repaired.append)) == 0


async def test_only_tries_that_are_due_are_made_unless_eager(tmp_path: Path) -> None:
    tries = 0

    def remove(directory: RunDirectory) -> list[str]:
        nonlocal tries
        tries += 1
        return ["stuck"]

    retry = CleanupRetry(tmp_path, remove, lambda run_id: None)
    retry.add("1.0#1", RunDirectory(tmp_path / "dir_1", tmp_path / "dir_1"))
    for _ in range(6):
        await retry.try_all()
    assert tries == 3
    await retry.try_all(eager=True)
    assert tries == 4


def test_a_repair_is_kept_until_the_startd_confirms_it(tmp_path: Path) -> None:
    kept = Leftovers(tmp_path)
    kept.note("1.0#1", read_slot(NOTHING.get, "slot1"), *CANNOT_CLEAN)
    kept.note("2.0#1", read_slot(NOTHING.get, "slot2"), *CANNOT_CLEAN)
    kept.note_repair("1.0#1")
    restarted = Leftovers(tmp_path)
    assert ([left.run_id for left in restarted], restarted.repaired) == (["2.0#1"], ["1.0#1"])
    restarted.confirm_repair("1.0#1")
    restarted.confirm("2.0#1")
    assert not restarted.repaired and not list(tmp_path.iterdir())
