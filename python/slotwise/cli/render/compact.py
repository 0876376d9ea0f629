"""The compact views of slots: one line a machine (``status -compact``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.cli.render import colours
from slotwise.cli.render.autoformat import text_of
from slotwise.cli.render.pool import UNKNOWN
from slotwise.cli.render.printas import Scene, activity_code, number, platform
from slotwise.cli.render.table import Column, on_terminal, table

ATTRIBUTES = (
    "Name", "Machine", "Arch", "OpSys", "OpSysAndVer", "SlotType", "PartitionableSlot", "DynamicSlot", "Cpus", "Memory",
    "TotalCpus", "TotalMemory", "TotalSlotCpus", "TotalSlotMemory", "TotalGPUs", "TotalSlotGPUs", "GPUs", "State",
    "Activity", "TotalLoadAvg", "LoadAvg", "RecentJobStarts", "NumDynamicSlots", "RemoteUser", "Mips", "KFlops", "Disk",
    "AssignedGPUs", "AvailableGPUs", "GPUs_Capability", "GPUs_GlobalMemoryMb", "GPUs_DeviceName",
)  # fmt: skip
_SCENE = Scene(0.0)


class Group(Struct, frozen=True):
    """What a line is about: a partitionable slot with its dynamic ones, or the static slots of a machine (tag s)."""

    machine: str
    first: ClassAd
    #: Slots whose number is shown: dynamic ones, or static ones.
    counted: Sequence[ClassAd]
    #: Slots whose resources are free for new work.
    free: Sequence[ClassAd]
    tag: str

    def total(self, of_slot: str, of_machine: str) -> float | None:
        """An amount of the whole slot, or of the machine when its slots are static."""
        return number(self.first, of_machine if self.tag else of_slot)

    def unused(self, name: str) -> float:
        """What is left for new work."""
        open_ones = [ad for ad in self.free if ad.get("State") == "Unclaimed" or not self.tag]
        return sum(number(ad, name) or 0 for ad in open_ones)


Cell = Callable[[Group], str]


def _amount(value: float | None, form: str = "{:.0f}", unknown: str = UNKNOWN) -> str:
    return unknown if value is None else form.format(value)


def _gib(mib: float | None) -> str:
    return _amount(None if mib is None else mib / 1024, "{:.2f}")


def _starts_a_minute(group: Group) -> str:
    starts = sum(number(ad, "RecentJobStarts") or 0 for ad in [*group.counted, group.first])
    return f"{starts / 20:.2f}"  # the recent window is 20 minutes


def _largest(group: Group) -> str:
    largest = max((number(ad, "Memory") or 0 for ad in group.counted), default=None)
    return _gib(largest) if largest is not None else "*"


def _gpus(name: str) -> Cell:
    """What the devices of a machine have in common, or each of it."""

    def cell(group: Group) -> str:
        found = [text_of(ad.get(name)) for ad in [group.first, *group.counted] if name in ad]
        return ",".join(dict.fromkeys(found)) or "_"

    return cell


_CELLS: dict[str, tuple[Column, Cell]] = {
    "machine": (Column("Machine", width=12, most=34), lambda g: g.machine),
    "platform": (Column("Platform"), lambda g: platform(None, g.first, _SCENE) or UNKNOWN),
    "slots": (Column("Slots", right=True), lambda g: f"{len(g.counted)}{g.tag or ' '}" if g.counted else "_"),
    "cpus": (Column("Cpus", right=True), lambda g: _amount(g.total("TotalSlotCpus", "TotalCpus"))),
    "gpus": (Column("Gpus", right=True), lambda g: _amount(g.total("TotalSlotGPUs", "TotalGPUs") or 0)),
    "total_gib": (Column("TotalGb", right=True), lambda g: _gib(g.total("TotalSlotMemory", "TotalMemory"))),
    "free_cpus": (Column("FreCpu", right=True), lambda g: f"{g.unused('Cpus'):.0f}"),
    "free_gib": (Column("FreeGb", right=True), lambda g: _gib(g.unused("Memory"))),
    "load": (
        Column("CpuLoad", right=True),
        lambda g: f"{(number(g.first, 'TotalLoadAvg') or 0) / (number(g.first, 'TotalCpus') or 1):.2f}",
    ),
    "letters": (Column("ST", colour=colours.slot_letters), lambda g: slot_letters(g.first, g.counted)),
    "starts": (Column("Jobs/Min", right=True), _starts_a_minute),
    "largest": (Column("MaxSlotGb", right=True), _largest),
    "mips": (Column("Mips", right=True), lambda g: _amount(number(g.first, "Mips"), unknown="-")),
    "kflops": (Column("KFlops", right=True), lambda g: _amount(number(g.first, "KFlops"), unknown="-")),
    "users": (
        Column("Users"),
        lambda g: ", ".join(
            dict.fromkeys(text_of(ad.get("RemoteUser")) for ad in [g.first, *g.counted] if "RemoteUser" in ad)
        ),
    ),
    "free_gpus": (Column("FreGPU", right=True), lambda g: f"{g.unused('GPUs'):.0f}"),
    "total_gpus": (Column("TotGPUs", right=True), lambda g: _amount(g.total("TotalSlotGPUs", "TotalGPUs") or 0)),
    "capability": (Column("Capability"), _gpus("GPUs_Capability")),
    "gpu_memory": (Column("GPUsMemory"), _gpus("GPUs_GlobalMemoryMb")),
    "gpu_names": (Column("DeviceNames"), _gpus("GPUs_DeviceName")),
}
_WHO = ("machine", "platform", "slots")
_HAS = ("cpus", "gpus", "total_gib")
#: Columns by view.
VIEWS: dict[str, tuple[str, ...]] = {
    "slots": (*_WHO, *_HAS, "free_cpus", "free_gib", "load", "letters", "starts", "largest"),
    "state": (*_WHO, *_HAS, "load", "letters", "starts"),
    "server": (*_WHO, *_HAS, "mips", "kflops", "load", "letters", "starts"),
    "claimed": (*_WHO, "users"),
    "gpus": (*_WHO, "free_gpus", "total_gpus", "capability", "gpu_memory", "gpu_names"),
}
VIEWS |= {"run": VIEWS["claimed"], "avail": VIEWS["slots"]}
#: Which slots a view is about, where not all: dynamic slots are needed to count them.
_SHOWN: dict[str, Callable[[Group], bool]] = {
    "claimed": lambda g: any(ad.get("State") == "Claimed" for ad in [g.first, *g.counted]),
    "avail": lambda g: g.first.get("State") == "Unclaimed" and g.unused("Cpus") > 0 and g.unused("Memory") > 0,
    "gpus": lambda g: bool(g.total("TotalSlotGPUs", "TotalGPUs")),
}
_SHOWN["run"] = _SHOWN["claimed"]


def compact_text(
    ads: Sequence[ClassAd], view: str = "slots", *, shorten: bool = False, screen: int = 0, coloured: bool = False
) -> str:
    """One line for each partitionable slot with its dynamic slots, and one for the static slots of a machine.

    :param shorten: long names of machines are cut.
    :param screen: columns of a terminal that the table is made for, ``coloured`` or not; 0: for none.
    """
    cells = [_CELLS[name] for name in VIEWS[view]]
    shown = _SHOWN.get(view)
    found = [group for group in groups(ads) if shown is None or shown(group)]
    rows = [[cell(group) for _, cell in cells] for group in found]
    if screen and rows:
        return on_terminal([column for column, _ in cells], rows, screen, coloured=coloured)
    columns = [column if shorten else replace(column, most=0) for column, _ in cells]
    return table(columns, rows) if rows else ""


def groups(ads: Iterable[ClassAd]) -> list[Group]:
    """The slots by line."""
    machines: dict[str, list[ClassAd]] = {}
    for ad in ads:
        machines.setdefault(text_of(ad.get("Machine") or UNKNOWN), []).append(ad)
    found = []
    for machine, members in machines.items():
        wholes = [ad for ad in members if ad.get("PartitionableSlot") is True]
        dynamic = [ad for ad in members if ad.get("DynamicSlot") is True]
        static = [ad for ad in members if ad not in wholes and ad not in dynamic]
        for whole in wholes:
            stem = text_of(whole.get("Name") or "").partition("@")[0]
            own = [ad for ad in dynamic if text_of(ad.get("Name") or "").startswith(f"{stem}_")]
            found.append(Group(machine, whole, own, [whole], ""))
        if static:
            found.append(Group(machine, static[0], static, static, "s"))
    return found


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
    together = states if full else states | {own}
    return _agreed({letters[0] for letters in together}) + _agreed({letters[1] for letters in together})


def _letters(ad: ClassAd) -> str:
    return activity_code(None, ad, _SCENE) or "??"


def _agreed(letters: set[str]) -> str:
    return letters.pop() if len(letters) == 1 else "*"
