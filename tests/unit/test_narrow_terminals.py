"""Tables on terminals that are narrower than they are: what says nothing is left out, and never elsewhere."""

from __future__ import annotations

import io
import re
from pathlib import Path

from msgspec.structs import replace
from slotwise.classad import ClassAd
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.render import colours, jobviews
from slotwise.cli.render.compact import compact_text
from slotwise.cli.render.jobs import Batch, batch_table, footer, with_colours
from slotwise.cli.render.pool import totals_text
from slotwise.cli.render.pool_screen import Screen, User, columns_of
from slotwise.cli.render.poolviews import VIEWS
from slotwise.cli.render.printas import Scene
from slotwise.cli.render.userprio import priorities_text
from slotwise.client.totals import JobCounts, QueueTotals


def totals(**counts: int) -> QueueTotals:
    query = JobCounts(**({"jobs": sum(counts.values())} | counts))
    return QueueTotals("ap", "", 0.0, "alice", False, query=query, mine=query, everyone=JobCounts(jobs=0))


def test_sentences_of_totals_lose_what_is_none() -> None:
    made = totals(idle=4, held=2)
    whole = footer(made)
    assert footer(made, width=200) == whole and "0 completed" in whole and max(map(len, whole.splitlines())) > 80
    narrow = footer(made, width=80)
    assert "Total for query: 6 jobs; 4 idle, 2 held \n" in narrow and "Total for all users: 0 jobs\n" in narrow
    assert max(map(len, narrow.splitlines())) <= 80


def test_totals_of_slots_lose_columns_of_zeros() -> None:
    slot = ClassAd({"MyType": "Machine", "Name": "slot1@a", "State": "Claimed", "Arch": "X86_64", "OpSys": "LINUX"})
    whole = totals_text("slots", [slot])
    assert totals_text("slots", [slot], terminal_width=200) == whole and "BkIdle" in whole
    narrow = totals_text("slots", [slot], terminal_width=80)
    assert narrow.split("\n")[0].split() == ["Total", "Claimed"] and max(map(len, narrow.splitlines())) <= 80


def test_priorities_lose_columns_that_nobody_has_anything_in() -> None:
    ad = ClassAd({"Name": "alice@site", "Priority": 500.0, "PriorityFactor": 1000.0, "LastUsageTime": 5, "Ceiling": 7})

    def heads(width: int, **limits: int) -> str:
        made = ad.copy()
        made["Ceiling"] = limits.get("ceiling", -1)
        return priorities_text([made], "default", flat=False, now=10.0, width=width).splitlines()[2]

    assert "Floor" in heads(0) and "Ceiling" in heads(0) and heads(200) == heads(0)
    assert "Ceiling" not in heads(80) and "Floor" in heads(80) and len(heads(80)) <= 80
    assert "Ceiling" in heads(80, ceiling=7) and "Floor" not in heads(80, ceiling=7)


LONG = "slot1_1@a-node-with-a-long-name.rack-17.physics.example"
SLOT = ClassAd({
    "Name": LONG, "Machine": LONG.partition("@")[2], "OpSys": "LINUX", "Arch": "X86_64", "State": "Claimed",
    "Activity": "Busy", "LoadAvg": 1.0, "Memory": 2048, "EnteredCurrentActivity": 90, "MyCurrentTime": 100,
    "LastHeardFrom": 100,
})  # fmt: skip


def without_colours(text: str) -> str:
    return re.sub("\033\\[[0-9]+m", "", text)


def test_names_of_slots_are_whole_where_there_is_room_and_say_where_they_are_not() -> None:
    layout = VIEWS["slots"].shown(wide=False)
    for width in (80, 120, 200):
        text = layout.on_terminal([SLOT], Scene(100.0), width, coloured=False)
        assert max(map(len, text.splitlines())) <= width and "Claimed   Busy" in text
        assert (LONG in text) == (width > 100), text
        assert (f"{LONG[:17]}+ LINUX" in text) == (width == 80), text
        coloured = layout.on_terminal([SLOT], Scene(100.0), width, coloured=True)
        assert "\033[32mClaimed\033[0m" in coloured and without_colours(coloured) == text


def test_columns_of_numbers_are_shown_whole_or_not_at_all() -> None:
    ads = [ClassAd(dict(SLOT.items()) | {"PartitionableSlot": True, "TotalSlotMemory": 1048576, "Cpus": 7})]
    lines = compact_text(ads, screen=64).splitlines()
    assert lines[0].split()[-1] == "FreeGb" and lines[1].split()[-1] == "2.00", lines
    assert "MaxSlotGb" in compact_text(ads, screen=200)


def test_batches_give_their_names_the_room_that_is_left() -> None:
    batch = Batch("alice", "the-batch-of-a-long-name-" * 4, 0.0, 1, 2, 3, 4, 10, "1.0-9")
    narrow, wide = (batch_table([batch], width, screen=True) for width in (100, 200))
    assert batch.name in wide and batch.name not in narrow
    assert all(line.endswith(("1.0-9", "JOB_IDS")) and len(line) <= 100 for line in narrow.splitlines()), narrow
    coloured = batch_table([batch], 200, screen=True, coloured=True)
    assert "\033[31m" in coloured and without_colours(coloured) == wide
    owner = "a.user.with.a.long.name"
    assert owner in batch_table([replace(batch, owner=owner)], 0)
    assert owner not in batch_table([replace(batch, owner=owner)], 0, as_htcondor=True)


def test_what_others_wrote_cannot_set_colours() -> None:
    ad = ClassAd(dict(SLOT.items()) | {"Name": "slot\033[31m@a", "State": "\033]0;title\007"})
    text = VIEWS["slots"].shown(wide=False).on_terminal([ad], Scene(100.0), 200, coloured=True)
    assert "\033" not in text.splitlines()[1].replace("\033[32mBusy\033[0m", "") and "\\x1b[31m" in text


def test_the_status_of_a_job_is_what_has_a_colour_in_lines_of_the_schedd() -> None:
    line = "   1.0   alice          11/30 01:10   0+00:06:30 H  0      1.0 sleep 0+00:00:01 R\n"
    assert with_colours(line) == line.replace(" H  0", " \033[31mH\033[0m  0")
    job = ClassAd({"ClusterId": 1, "ProcId": 0, "Owner": "alice", "JobStatus": 5, "QDate": 0, "Cmd": "x"})
    assert "\033[31mH" in jobviews.VIEWS["nobatch"].on_terminal([job], Scene(9.0), 100, coloured=True)


def test_the_widest_columns_give_way_first() -> None:
    assert colours.fitted([10, 30, 5], [4, 10, 5], 45) == [10, 30, 5]
    assert colours.fitted([10, 30, 5], [4, 10, 5], 35) == [10, 20, 5]
    assert sum(colours.fitted([10, 30, 5], [4, 10, 5], 22)) == 22
    assert colours.fitted([10, 30, 5], [4, 10, 5], 3) == [4, 10, 5]


def test_colours_are_for_terminals_that_have_them_alone(tmp_path: Path) -> None:
    inv = Invocation(
        tmp_path, {"TERM": "xterm"}, io.StringIO(), io.StringIO(), io.StringIO(), is_terminal=True, width=99
    )
    assert inv.has_colours and inv.screen == 99
    assert not replace(inv, env={"TERM": "xterm", "NO_COLOR": "1"}).has_colours
    assert replace(inv, env={"TERM": "xterm", "NO_COLOR": ""}).has_colours
    assert not replace(inv, env={"TERM": "dumb"}).has_colours
    assert not replace(inv, is_terminal=False).has_colours
    condor = replace(inv, called="condor_q")
    assert not condor.has_colours and condor.screen == 0


def test_the_screen_of_a_pipe_is_as_wide_as_its_names_ask_for() -> None:
    assert columns_of(Screen(users=(User("alice@site", 1.0, 0.5, 1.0),))) == 80
    assert columns_of(Screen(users=(User("a" * 60, 1.0, 0.5, 1.0),))) == 170
