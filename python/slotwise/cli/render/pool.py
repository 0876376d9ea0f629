"""Views of slots and daemons for people: which columns each has, as condor_status shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slotwise.classad import ClassAd
from slotwise.cli.render.autoformat import span, text_of
from slotwise.cli.render.table import Column, table

#: What stands for an unknown value.
UNKNOWN = "??"
_NAME_WIDTH = 34

Cell = Callable[[ClassAd], str]


@dataclass(frozen=True)
class Field:
    """A column of a view: heading, text of a cell, the attributes it reads, and how it stands."""

    heading: str
    cell: Cell
    reads: tuple[str, ...]
    right: bool = False
    width: int = 0


@dataclass(frozen=True)
class View:
    """A view: kind of ad, columns, and which ads are shown."""

    kind: str
    fields: tuple[Field, ...]
    constraint: str = ""
    totals: str = ""

    def attributes(self) -> list[str]:
        """What the view, its order and its totals need."""
        names = ["Name", "Machine", *(name for field in self.fields for name in field.reads)]
        return list(dict.fromkeys([*names, *_TOTALS_READ.get(self.totals, ())]))


def _text(name: str, default: str = UNKNOWN) -> Cell:
    def cell(ad: ClassAd) -> str:
        value = ad.get(name)
        return default if value is None or _undefined(value) else text_of(value)

    return cell


def _number(name: str, form: str = "{:d}", default: str = UNKNOWN, scale: float = 1.0) -> Cell:
    def cell(ad: ClassAd) -> str:
        value = number(ad, name)
        if value is None:
            return default
        return form.format(value * scale if "d" not in form else int(value * scale))

    return cell


def _undefined(value: Any) -> bool:
    return not isinstance(value, str | int | float | list | dict)


def number(ad: ClassAd, name: str) -> float | None:
    """A numeric attribute, or None."""
    value = ad.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _since(name: str, default: str = UNKNOWN) -> Cell:
    """Time since the moment in ``name``, as of when the ad was heard."""

    def cell(ad: ClassAd) -> str:
        at, heard = number(ad, name), number(ad, "LastHeardFrom")
        if not at or heard is None:
            return default
        return span(max(0.0, heard - at))

    return cell


def _date(name: str) -> Cell:
    def cell(ad: ClassAd) -> str:
        at = number(ad, name)
        return datetime.fromtimestamp(at).strftime("%m/%d %H:%M") if at else UNKNOWN

    return cell


def _version(ad: ClassAd) -> str:
    text = ad.get("CondorVersion")
    found = re.search(r"\d+(?:\.\d+)+", text) if isinstance(text, str) else None
    return found.group() if found else UNKNOWN


def _platform(ad: ClassAd) -> str:
    arch = {"X86_64": "x64"}.get(str(ad.get("Arch")), str(ad.get("Arch")))
    system = ad.get("OpSysAndVer")
    return f"{arch}/{system}" if isinstance(system, str) else UNKNOWN


def _plain(name: str, heading: str = "", *, width: int = 0, right: bool = False) -> Field:
    return Field(heading or name, _text(name), (name,), right, width)


def _count(name: str, heading: str = "", default: str = UNKNOWN) -> Field:
    return Field(heading or name, _number(name, default=default), (name,), True)


_NAME = _plain("Name", width=18)
_OPSYS, _ARCH = _plain("OpSys", width=10), _plain("Arch", width=6)
_LOAD = Field("LoadAv", _number("LoadAvg", "{:.3f}"), ("LoadAvg",), True, 6)
_MEM = Field("Mem", _number("Memory"), ("Memory",), True)
_ACTIVITY_S = Field(
    "ActvtyTime", _since("EnteredCurrentActivity"), ("EnteredCurrentActivity", "LastHeardFrom"), True, 12
)
_STATE_S = Field("StateTime", _since("EnteredCurrentState"), ("EnteredCurrentState", "LastHeardFrom"), True, 12)
_UPTIME = Field("Uptime", _since("DaemonStartTime"), ("DaemonStartTime", "LastHeardFrom"), True, 13)
_VERSION = Field("Version", _version, ("CondorVersion",))
_CPUS = Field("Cpus", _number("DetectedCpus"), ("DetectedCpus",), True)
_HOST_MEMORY = Field("Memory", _number("DetectedMemory", "{:.1f} GB", scale=1 / 1024), ("DetectedMemory",), True, 10)
_MACHINE = _plain("Machine")

_RUN = (_NAME, _OPSYS, _ARCH, _LOAD, _plain("RemoteUser", width=20), _plain("ClientMachine", width=16))

#: Views by option.
VIEWS: dict[str, View] = {
    "slots": View(
        "Machine",
        (_NAME, _OPSYS, _ARCH, _plain("State", width=9), _plain("Activity", width=8), _LOAD, _MEM, _ACTIVITY_S),
        totals="slots",
    ),
    "run": View("Machine", _RUN, 'State == "Claimed"', totals="run"),
    "claimed": View("Machine", _RUN, 'State == "Claimed"', totals="run"),
    "state": View(
        "Machine",
        (
            _NAME,
            Field("Cpu", _number("Cpus"), ("Cpus",), True),
            _MEM,
            _LOAD,
            Field("KbdIdle", lambda ad: span(number(ad, "KeyboardIdle") or 0), ("KeyboardIdle",), True, 12),
            _plain("State", width=9),
            _STATE_S,
            _plain("Activity", "Activ", width=8),
            _ACTIVITY_S,
        ),
        totals="state",
    ),
    "server": View(
        "Machine",
        (_NAME, _OPSYS, _ARCH, _LOAD, _count("Memory"), _count("Disk"), _count("Mips"), _count("KFlops")),
        totals="server",
    ),
    # One row a machine: the first slot's ad tells of the machine as well.
    "startd": View(
        "Machine",
        (
            _plain("Machine", "Name"),
            Field("Platform", _platform, ("Arch", "OpSysAndVer")),
            _VERSION,
            _CPUS,
            _HOST_MEMORY,
            Field("GPUs", _number("TotalGPUs", default=""), ("TotalGPUs",), True),
            _UPTIME,
        ),
        "SlotID =?= 1 && DynamicSlot =!= true",
    ),
    "schedd": View(
        "Scheduler",
        (
            _plain("Name"),
            _MACHINE,
            _count("TotalRunningJobs", "RunningJobs"),
            _count("TotalIdleJobs", "IdleJobs"),
            _count("TotalHeldJobs", "HeldJobs"),
        ),
        totals="schedd",
    ),
    "submitters": View(
        "Submitter",
        (
            _plain("Name"),
            Field("Machine", lambda ad: text_of(ad.get("Machine") or ad.get("ScheddName") or UNKNOWN), ("ScheddName",)),
            _count("RunningJobs"),
            _count("IdleJobs"),
            _count("HeldJobs"),
        ),
        totals="submitters",
    ),
    "master": View("DaemonMaster", (_plain("Name"), _VERSION, _CPUS, _HOST_MEMORY, _UPTIME)),
    "collector": View(
        "Collector",
        (
            _plain("Name"),
            _MACHINE,
            _count("RunningJobs"),
            _count("IdleJobs"),
            _count("HostsTotal", "NumHosts"),
        ),
    ),
    "negotiator": View(
        "Negotiator",
        (
            _plain("Name"),
            Field("LastCycleEnd", _date("LastNegotiationCycleEnd0"), ("LastNegotiationCycleEnd0",)),
            Field(
                "(Sec)", _number("LastNegotiationCycleDuration0", "{:.2f}"), ("LastNegotiationCycleDuration0",), True
            ),
            _count("LastNegotiationCycleTotalSlots0", "Slots"),
            _count("LastNegotiationCycleActiveSubmitterCount0", "Submitrs"),
            _count("LastNegotiationCycleNumSchedulers0", "Schedds"),
            _count("LastNegotiationCycleNumIdleJobs0", "Jobs"),
            _count("LastNegotiationCycleMatches0", "Matches"),
            _count("LastNegotiationCycleRejections0", "Rejections"),
        ),
    ),
    "accounting": View(
        "Accounting",
        (
            _plain("Name"),
            Field("Priority", _number("Priority", "{:.2f}"), ("Priority",), True),
            Field("PrioFactor", _number("PriorityFactor", "{:.2f}"), ("PriorityFactor",), True),
            Field("ResInUse", _number("WeightedResourcesUsed", "{:g}"), ("WeightedResourcesUsed",), True),
            Field("WeightedUsage", _number("WeightedAccumulatedUsage", "{:.0f}"), ("WeightedAccumulatedUsage",), True),
            Field("LastUsage", _since("LastUsageTime"), ("LastUsageTime", "LastHeardFrom"), True, 12),
        ),
    ),
    "any": View(
        "Any", (_plain("MyType"), Field("TargetType", _text("TargetType", ""), ("TargetType",)), _plain("Name"))
    ),
}
_TOTALS_READ: dict[str, tuple[str, ...]] = {
    "slots": ("Arch", "OpSys", "State"),
    "run": ("Arch", "OpSys", "Mips", "KFlops", "LoadAvg"),
    "state": ("Arch", "OpSys", "State"),
    "server": ("Arch", "OpSys", "State", "Memory", "Disk", "Mips", "KFlops"),
    "schedd": ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
    "submitters": ("RunningJobs", "IdleJobs", "HeldJobs"),
}


def rows_text(view: View, ads: Sequence[ClassAd], *, wide: bool) -> str:
    """The table of a view; names longer than 34 are shortened unless ``wide``."""
    most = 0 if wide else _NAME_WIDTH
    columns = [
        Column(f.heading, f.right, f.width, most if f.heading in ("Name", "Machine") else 0) for f in view.fields
    ]
    return table(columns, [[field.cell(ad) for field in view.fields] for ad in ads])


# ---- order


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


# ---- totals


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


def _run_totals(ads: Sequence[ClassAd]) -> list[str]:
    load = _sum(ads, "LoadAvg") / len(ads) if ads else 0.0
    return [str(len(ads)), f"{_sum(ads, 'Mips'):.0f}", f"{_sum(ads, 'KFlops'):.0f}", f"{load:.3f}"]


def _server_totals(ads: Sequence[ClassAd]) -> list[str]:
    free = sum(1 for ad in ads if ad.get("State") == "Unclaimed")
    return [str(len(ads)), str(free), *(f"{_sum(ads, name):.0f}" for name in ("Memory", "Disk", "Mips", "KFlops"))]


def _job_totals(*names: str) -> Callable[[Sequence[ClassAd]], list[str]]:
    return lambda ads: [f"{_sum(ads, name):.0f}" for name in names]


_TOTALS: dict[str, tuple[tuple[str, ...], Callable[[Sequence[ClassAd]], list[str]]]] = {
    "slots": (("Total", *_SLOT_STATES), _state_counts),
    "state": (("Machines", *_SLOT_STATES), _state_counts),
    "run": (("Machines", "MIPS", "KFLOPS", "AvgLoadAvg"), _run_totals),
    "server": (("Machines", "Avail", "Memory", "Disk", "MIPS", "KFLOPS"), _server_totals),
    "schedd": (
        ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
        _job_totals("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
    ),
    "submitters": (("RunningJobs", "IdleJobs", "HeldJobs"), _job_totals("RunningJobs", "IdleJobs", "HeldJobs")),
}


def totals_text(kind: str, ads: Sequence[ClassAd]) -> str:
    """The block of totals: a row per platform (per name for submitters), then the sum; empty where a view has none."""
    if kind not in _TOTALS or not ads:
        return ""
    headings, count = _TOTALS[kind]
    label: Callable[[ClassAd], str] = platform_of
    if kind == "submitters":
        label = lambda ad: text_of(ad.get("Name") or UNKNOWN)  # noqa: E731 - two ways to name a row
    groups: dict[str, list[ClassAd]] = {}
    if kind != "schedd":
        for ad in ads:
            groups.setdefault(label(ad), []).append(ad)
    rows = [[name, *count(members)] for name, members in sorted(groups.items())]
    return totals_table(headings, rows, ["Total", *count(list(ads))])


def totals_table(headings: Sequence[str], rows: Sequence[Sequence[str]], last: Sequence[str]) -> str:
    """The layout of a totals block: headings, a blank line, rows, a blank line, the sum."""
    widest = max(len(row[0]) for row in [*rows, last])
    margin = max(widest + 2, 13)
    widths = [max(len(h), *(len(row[i + 1]) for row in [*rows, last])) for i, h in enumerate(headings)]

    def line(cells: Sequence[str]) -> str:
        head = cells[0].rjust(margin)
        return head + "".join(" " + cell.rjust(width) for cell, width in zip(cells[1:], widths, strict=True)) + "\n"

    text = line(["", *headings]) + "\n"
    text += "".join(line(row) for row in rows)
    return text + ("\n" if rows else "") + line(last)
