"""Views of slots and daemons for people: order and totals (columns: :mod:`.poolviews`), as condor_status shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from slotwise.classad import ClassAd
from slotwise.cli.render.autoformat import text_of
from slotwise.cli.render.printas import Scene, number, platform

#: What stands for an unknown value.
UNKNOWN = "??"


def natural_key(ad: ClassAd) -> tuple[str, list[tuple[int, int, str]]]:
    """By machine, then slots by number: slot2 before slot10, slot1_2 before slot1_10."""
    name = ad.get("Name")
    machine = ad.get("Machine")
    return (
        machine.lower() if isinstance(machine, str) else "",
        [
            (0, int(part), "") if part.isdigit() else (1, 0, part.lower())
            for part in re.split(r"(\d+)", name if isinstance(name, str) else "")
            if part
        ],
    )


def platform_of(ad: ClassAd) -> str:
    """``X86_64/LINUX``."""
    return f"{text_of(ad.get('Arch') or UNKNOWN)}/{text_of(ad.get('OpSys') or UNKNOWN)}"


_SLOT_STATES = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drain", "Backfill", "BkIdle")


def _sum(ads: Iterable[ClassAd], name: str) -> float:
    return sum(number(ad, name) or 0 for ad in ads)


def _state_counts(ads: Sequence[ClassAd]) -> list[str]:
    counts = dict.fromkeys(_SLOT_STATES, 0)
    for ad in ads:
        state = {"Drained": "Drain"}.get(str(ad.get("State")), str(ad.get("State")))
        if state == "Backfill" and ad.get("Activity") == "Idle":
            state = "BkIdle"
        if state in counts:
            counts[state] += 1
    return [str(len(ads)), *(str(counts[state]) for state in _SLOT_STATES)]


#: The columns of the view of states, and its rows: activities.
_IN_ORDER_OF_STATE = (
    "Owner", "Unclaimed", "Claimed", "Preempting", "Matched", "Drain", "Backfill", "BkIdle",
)  # fmt: skip


def _activity_counts(ads: Sequence[ClassAd]) -> list[str]:
    """Slots by state; the first column is empty, as that of HTCondor's tool."""
    counts = dict(zip(_SLOT_STATES, _state_counts(ads)[1:], strict=True))
    return ["0", *(counts[state] for state in _IN_ORDER_OF_STATE)]


def _run_totals(ads: Sequence[ClassAd]) -> list[str]:
    load = _sum(ads, "LoadAvg") / len(ads) if ads else 0.0
    return [str(len(ads)), f"{_sum(ads, 'Mips'):.0f}", f"{_sum(ads, 'KFlops'):.0f}", f"{load:.3f}"]


def _server_totals(ads: Sequence[ClassAd]) -> list[str]:
    free = sum(1 for ad in ads if ad.get("State") in ("Unclaimed", "Claimed"))  # slots that are given to jobs
    return [str(len(ads)), str(free), *(f"{_sum(ads, name):.0f}" for name in ("Memory", "Disk", "Mips", "KFlops"))]


def _machine_totals(ads: Sequence[ClassAd]) -> list[str]:
    """Machines with what of them is in use; backfill is not in use by jobs of the pool."""
    memory = _sum(ads, "TotalMemory")

    def share(name: str) -> str:
        return f"{100 * _sum(ads, name) / memory if memory else 0.0:.2f}%"

    numbers = [_sum(ads, name) for name in (
        "TotalSlots", "TotalCpus", "TotalInUseCpus", "TotalBackfillInUseCpus",
        "TotalGPUs", "TotalInUseGPUs", "TotalBackfillInUseGPUs",
    )]  # fmt: skip
    shares = share("TotalInUseMemory"), share("TotalBackfillInUseMemory")
    return [str(len(ads)), *(f"{value:.0f}" for value in numbers), *shares]


def _health_counts(ads: Sequence[ClassAd]) -> list[str]:
    """Machines by health; one that is broken counts as that, and one that says nothing of it as unknown."""
    counts = {"Healthy": 0, "Unhealthy": 0, "Broken": 0, "Unknown": 0}
    for ad in ads:
        told = ad.get("Healthy")
        if "BrokenReasons" in ad or "SlotBrokenReason" in ad:
            counts["Broken"] += 1
        else:
            counts["Healthy" if told is True else "Unhealthy" if told is False else "Unknown"] += 1
    return [f"{count:>9}" for count in counts.values()]


def _job_totals(*names: str) -> Callable[[Sequence[ClassAd]], list[str]]:
    return lambda ads: [f"{_sum(ads, name):.0f}" for name in names]


_TOTALS: dict[str, tuple[tuple[str, ...], Callable[[Sequence[ClassAd]], list[str]]]] = {
    "slots": (("Total", *_SLOT_STATES), _state_counts),
    "state": (("Total", *_IN_ORDER_OF_STATE), _activity_counts),
    "run": (("Machines", "MIPS", "KFLOPS", "AvgLoadAvg"), _run_totals),
    "server": (("Slots", "Avail", "Memory", "Disk", "MIPS", "KFLOPS"), _server_totals),
    "schedd": (
        ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
        _job_totals("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
    ),
    "submitters": (("RunningJobs", "IdleJobs", "HeldJobs"), _job_totals("RunningJobs", "IdleJobs", "HeldJobs")),
    "health": (("Healthy", "Unhealthy", "Broken", "Unknown"), _health_counts),
    "startd": (
        ("Machines", "Slots", "Cpus", "BusyCpus", "BkCpus", "GPUs", "BusyGPUs", "BkGPUs", "Memory%", "BkMem%"),
        _machine_totals,
    ),
}
#: What the totals read beside the columns.
READS: dict[str, tuple[str, ...]] = {
    "slots": ("Arch", "OpSys", "State", "Activity"),
    "run": ("Arch", "OpSys", "Mips", "KFlops", "LoadAvg"),
    "state": ("Arch", "OpSys", "State", "Activity"),
    "server": ("Arch", "OpSys", "State", "Memory", "Disk", "Mips", "KFlops"),
    "schedd": ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
    "submitters": ("RunningJobs", "IdleJobs", "HeldJobs"),
    "startd": (
        "Arch",
        "OpSys",
        "OpSysAndVer",
        "OpSysShortName",
        "TotalSlots",
        "TotalCpus",
        "TotalMemory",
        "TotalGPUs",
        *(f"Total{kind}InUse{what}" for kind in ("", "Backfill") for what in ("Cpus", "Memory", "GPUs")),
    ),
}


def totals_text(
    kind: str,
    ads: Sequence[ClassAd],
    *,
    tell_left_out: bool = False,
    by_system: bool = False,
    terminal_width: int = 0,
) -> str:
    """The block of totals: a row per platform (per name for submitters), then the sum; empty where a view has none.

    ``terminal_width``: of the terminal that it has to fit, 0 where there is none.
    """
    if kind not in _TOTALS or not ads:
        return ""
    headings, count = _TOTALS[kind]
    malformed = _left_out(kind, ads) if tell_left_out else ""
    if malformed and kind == "slots":
        ads = [ad for ad in ads if "State" in ad]
    label: Callable[[ClassAd], str] = platform_of
    if kind == "submitters":
        label = lambda ad: text_of(ad.get("Name") or UNKNOWN)  # noqa: E731 - two ways to name a row
    if by_system or kind in ("health", "startd"):  # as the column Platform names it
        label = lambda ad: platform(None, ad, Scene(0.0)) or UNKNOWN  # noqa: E731 - as above
    if kind == "state":
        label = lambda ad: text_of(ad.get("Activity") or UNKNOWN)  # noqa: E731 - as above
    groups: dict[str, list[ClassAd]] = {}
    if kind != "schedd":
        for ad in ads:
            groups.setdefault(label(ad), []).append(ad)
    rows = [[name, *count(members)] for name, members in sorted(groups.items())]
    return totals_table(headings, rows, ["Total", *count(list(ads))], terminal_width) + malformed


#: Without one of these an ad is malformed to the totals of HTCondor's tool.
_SUMMED = {
    "run": ("Mips", "KFlops"),
    "server": ("Mips", "KFlops"),
    "slots": ("State",),
    "schedd": ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
}


def _left_out(kind: str, ads: Sequence[ClassAd]) -> str:
    """How many ads lack what is summed, as HTCondor's tool says it."""
    lacking = sum(1 for ad in ads if any(name not in ad for name in _SUMMED.get(kind, ())))
    return f"\n(Omitted {lacking} malformed ads in computed attribute totals)\n\n" if lacking else ""


def totals_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], last: Sequence[str], terminal_width: int = 0
) -> str:
    """The layout of a totals block: headings, a blank line, rows, a blank line, the sum.

    On a terminal that is too narrow, columns without a number but 0 are left out.
    """
    widest = max(len(row[0]) for row in [*rows, last])
    margin = max(widest + 2, 13)
    if 0 < terminal_width < margin + sum(max(len(h), len(last[i + 1])) + 1 for i, h in enumerate(headings)):
        kept = [i for i in range(len(headings)) if any(row[i + 1] != "0" for row in [*rows, last])]
        headings = [headings[i] for i in kept]
        rows = [[row[0], *(row[i + 1] for i in kept)] for row in rows]
        last = [last[0], *(last[i + 1] for i in kept)]
    widths = [max(len(h), *(len(row[i + 1]) for row in [*rows, last])) for i, h in enumerate(headings)]

    def line(cells: Sequence[str]) -> str:
        head = cells[0].rjust(margin)
        return head + "".join(" " + cell.rjust(width) for cell, width in zip(cells[1:], widths, strict=True)) + "\n"

    text = line(["", *headings]) + "\n"
    text += "".join(line(row) for row in rows)
    return text + "\n" + line(last)
