"""The compact view of slots: one line a machine (``status -compact``)."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.classad import ClassAd
from slotwise.cli.render.autoformat import text_of
from slotwise.cli.render.pool import UNKNOWN, _platform, number
from slotwise.cli.render.table import Column, table

ATTRIBUTES = (
    "Name", "Machine", "Arch", "OpSys", "OpSysAndVer", "SlotType", "PartitionableSlot", "DynamicSlot", "Cpus", "Memory",
    "TotalCpus", "TotalMemory", "TotalSlotCpus", "TotalSlotMemory", "TotalGPUs", "GPUs", "State", "Activity",
    "TotalLoadAvg", "LoadAvg", "RecentJobStarts", "NumDynamicSlots", "RemoteUser",
)  # fmt: skip
_COLUMNS = (
    Column("Machine", width=12, most=34),
    Column("Platform"),
    Column("Slots", right=True),
    Column("Cpus", right=True),
    Column("Gpus", right=True),
    Column("TotalGb", right=True),
    Column("FreCpu", right=True),
    Column("FreeGb", right=True),
    Column("CpuLoad", right=True),
    Column("ST"),
    Column("Jobs/Min", right=True),
    Column("MaxSlotGb", right=True),
)
_STATES = {
    "Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Backfill": "F", "Drained": "D",
    "Shutdown": "S", "Delete": "X",
}  # fmt: skip
_ACTIVITIES = {
    "Idle": "i", "Busy": "b", "Retiring": "r", "Vacating": "v", "Suspended": "s", "Benchmarking": "e", "Killing": "k",
    "Cleaning": "c",
}  # fmt: skip


def compact_text(ads: Sequence[ClassAd]) -> str:
    """One line for each partitionable slot with its dynamic slots, and one for the static slots of a machine."""
    machines: dict[str, list[ClassAd]] = {}
    for ad in ads:
        machines.setdefault(text_of(ad.get("Machine") or UNKNOWN), []).append(ad)
    rows = []
    for machine, members in machines.items():
        wholes = [ad for ad in members if ad.get("PartitionableSlot") is True]
        dynamic = [ad for ad in members if ad.get("DynamicSlot") is True]
        static = [ad for ad in members if ad not in wholes and ad not in dynamic]
        for whole in wholes:
            stem = text_of(whole.get("Name") or "").partition("@")[0]
            own = [ad for ad in dynamic if text_of(ad.get("Name") or "").startswith(f"{stem}_")]
            rows.append(_row(machine, whole, own, [whole], tag=""))
        if static:
            rows.append(_row(machine, static[0], static, static, tag="s"))
    return table(_COLUMNS, rows)


def _row(machine: str, first: ClassAd, counted: Sequence[ClassAd], free: Sequence[ClassAd], tag: str) -> list[str]:
    total_cpus = number(first, "TotalSlotCpus") if not tag else number(first, "TotalCpus")
    total_mib = number(first, "TotalSlotMemory") if not tag else number(first, "TotalMemory")
    open_ones = [ad for ad in free if ad.get("State") == "Unclaimed" or not tag]
    largest = max((number(ad, "Memory") or 0 for ad in counted), default=None)
    starts = sum(number(ad, "RecentJobStarts") or 0 for ad in [*counted, first])
    gpus = number(first, "TotalGPUs")
    return [
        machine,
        _platform(first),
        f"{len(counted)}{tag or '_'}" if counted else "_",
        f"{total_cpus:.0f}" if total_cpus is not None else UNKNOWN,
        f"{gpus:.0f}" if gpus else "",
        f"{total_mib / 1024:.2f}" if total_mib is not None else UNKNOWN,
        f"{sum(number(ad, 'Cpus') or 0 for ad in open_ones):.0f}",
        f"{sum(number(ad, 'Memory') or 0 for ad in open_ones) / 1024:.2f}",
        f"{number(first, 'TotalLoadAvg') or number(first, 'LoadAvg') or 0:.2f}",
        slot_letters(first, counted),
        f"{starts / 20:.2f}",
        f"{largest / 1024:.2f}" if largest is not None else "*",
    ]


def slot_letters(first: ClassAd, children: Sequence[ClassAd]) -> str:
    """State and activity as two letters; ``*`` where slots differ, a full machine shows what its slots agree on."""
    own = _letters(first)
    states = {_letters(ad) for ad in children}
    if not states:
        return own
    full = own == "Ui" and not (number(first, "Cpus") or 0)
    if any(letters[0] == "P" for letters in states):
        return "P" + _agreed({letters[1] for letters in states if letters[0] == "P"})
    if own[0] == "D" and any(letters[0] == "C" for letters in states):
        return "C" + _agreed({letters[1] for letters in states})
    if full:
        return _agreed({letters[0] for letters in states}) + _agreed({letters[1] for letters in states})
    together = states | {own}
    return _agreed({letters[0] for letters in together}) + _agreed({letters[1] for letters in together})


def _letters(ad: ClassAd) -> str:
    return _STATES.get(str(ad.get("State")), "?") + _ACTIVITIES.get(str(ad.get("Activity")), "?")


def _agreed(letters: set[str]) -> str:
    return letters.pop() if len(letters) == 1 else "*"
