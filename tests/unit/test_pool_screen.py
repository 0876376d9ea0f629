"""The screen of `slotwise watch` at several sizes."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console
from slotwise.cli.render.pool_screen import Screen, User, drawn
from slotwise.model.batches import Batch

HOSTILE = "[red]al\x1b]0;ice\x07@here"
USERS = tuple(User(f"user{number:02}@example.org", 100 - number, 1 / 40, 500.0 + number) for number in range(40))
BATCHES = tuple(Batch(f"batch {number:02}", {1: 1_000_000 - number, 2: number, 5: number % 3}) for number in range(40))
SCREEN = Screen(1_790_000_000, {"Claimed": 4000, "Unclaimed": 1000, "Odd": 3}, 2000, USERS, BATCHES, "your jobs")


def text(screen: Screen, width: int, height: int | None) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    console.print(drawn(screen, width, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("height", [12, 24, 60])
def test_the_screen_fits_the_terminal(width: int, height: int) -> None:
    lines = text(SCREEN, width, height).splitlines()
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


def test_the_screen_tells_cores_users_and_batches() -> None:
    lines = text(SCREEN, 120, 40).splitlines()
    assert lines[0].startswith("5,003 cores in 2,000 slots, 80% claimed")
    assert lines[1].count("C") == 96 and lines[1].count("U") == 24 and len(lines[1]) == 120
    assert "Claimed 4,000" in lines[2] and "Odd 3" in lines[2]
    (first,) = [line for line in lines if line.startswith("user00@example.org")]
    assert "2%" in first and "|" in first
    assert any("USER (14 of 40)" in line for line in lines)
    (batch,) = [line for line in lines if line.startswith("batch 02 ")]
    assert "999,998" in batch and "1,000,002" in batch
    assert "your jobs" in text(SCREEN, 120, 40)


def test_an_empty_pool_has_a_screen_too_and_a_problem_is_told_below_what_was_known() -> None:
    assert "no jobs in the queue" in text(Screen(), 80, 24) and "nobody uses" in text(Screen(), 80, 24)
    assert "the collector is away" in text(SCREEN.with_problem("the collector is away"), 80, 40)


def test_names_are_text_and_never_commands_of_the_terminal() -> None:
    hostile = replace(SCREEN, users=(User(HOSTILE, 1, 1, 1),), batches=(Batch(HOSTILE, {1: 1}),), problem=HOSTILE)
    shown = text(hostile, 160, None)
    assert "\x1b" not in shown and "\x07" not in shown
    assert shown.count("[red]al") == 3


def test_no_name_makes_lines_of_its_own() -> None:
    forged = "x\nroot@here    1,000   99%\u2028y"
    hostile = replace(SCREEN, users=(User(forged, 1, 1, 1),), batches=(Batch(forged, {1: 1}),), problem=forged)
    plain = replace(SCREEN, users=(User("x", 1, 1, 1),), batches=(Batch("x", {1: 1}),), problem="x")
    assert len(text(hostile, 160, 40).splitlines()) == len(text(plain, 160, 40).splitlines())
