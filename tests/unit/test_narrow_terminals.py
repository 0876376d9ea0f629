"""Tables on terminals that are narrower than they are: what says nothing is left out, and never elsewhere."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.cli.render.jobs import footer
from slotwise.cli.render.pool import totals_text
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
