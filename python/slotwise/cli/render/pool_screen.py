"""The screen of ``slotwise watch``, for a terminal of any size. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slotwise.cli.common.terminal import escaped
from slotwise.model.batches import Batch

#: States of slots in the order of the bar, with their colours and the letter that the bar shows without colours.
_STATES = {
    "Claimed": ("green", "C"), "Preempting": ("yellow", "P"), "Matched": ("cyan", "M"), "Unclaimed": ("blue", "U"),
    "Owner": ("bright_black", "O"), "Drained": ("magenta", "D"), "Backfill": ("bright_cyan", "B"),
}  # fmt: skip
#: JobStatus of those states that have a column.
_COLUMNS = (("IDLE", 1), ("RUN", 2), ("HELD", 5), ("SUSP", 7), ("DONE", 4))
#: Rows of a part where there is no terminal that ends.
_ROWS = 20


class User(Struct, frozen=True):
    """A submitter: cores in use, the share of the pool that is due to it (0 to 1), its effective priority."""

    name: str
    cores: float
    due: float
    priority: float


class Screen(Struct, frozen=True):
    """What is shown. ``at``: epoch seconds; ``cores`` by the state of their slots; ``problem``: why it is old."""

    at: float = 0.0
    cores: Mapping[str, int] = field(default_factory=dict)
    slots: int = 0
    users: tuple[User, ...] = ()
    batches: tuple[Batch, ...] = ()
    whose: str = "jobs"
    problem: str = ""

    def with_problem(self, problem: str) -> Screen:
        """The same, which could not be asked for again."""
        return replace(self, problem=problem)


def columns_of(screen: Screen) -> int:
    """How wide a screen on no terminal is: no name is shortened."""
    names = [user.name for user in screen.users] + [batch.name for batch in screen.batches]
    longest = max((len(_line(name)) for name in names), default=0)
    return 80 if longest <= 20 else longest + 110  # behind the names stand at most so many columns


def drawn(screen: Screen, width: int, height: int | None) -> RenderableType:
    """The screen for ``width`` columns and ``height`` lines; None: as many as it needs."""
    rows = _ROWS if height is None else max(2, height - 11)
    users = screen.users[: max(1, min(len(screen.users), rows // 2))]
    batches = screen.batches[: max(1, rows - len(users))]
    whole = sum(screen.cores.values())
    busy = screen.cores.get("Claimed", 0)
    at = datetime.fromtimestamp(screen.at).strftime("%H:%M:%S") if screen.at else ""
    head = Text(f"{whole:,} cores in {screen.slots:,} slots, {_share(busy, whole)} claimed", style="bold", no_wrap=True)
    head.append(f"   {at}", style="dim")
    parts: list[RenderableType] = [head, _bar(screen.cores, width), _legend(screen.cores), Text()]
    parts.append(_users(users, len(screen.users), whole, width))
    parts += [Text(), _batches(batches, screen, width)]
    if screen.problem:
        parts.append(Text(_line(screen.problem), style="bold red", overflow="ellipsis", no_wrap=True))
    return Group(*parts)


def _line(text: str) -> str:
    """A text that others wrote, on one line: more would look like lines of the screen."""
    return escaped(" ".join(text.split()))


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "0%"


def _bar(cores: Mapping[str, int], width: int) -> Text:
    whole = sum(cores.values())
    bar, begin, sum_before = Text(no_wrap=True), 0, 0
    for state, count in _ordered(cores):
        colour, letter = _STATES.get(state, ("white", "?"))
        sum_before += count
        end = round(width * sum_before / whole) if whole else 0
        bar.append(letter * (end - begin), style=f"{colour} on {colour}" if colour != "white" else "reverse")
        begin = end
    return bar


def _ordered(cores: Mapping[str, int]) -> list[tuple[str, int]]:
    order = list(_STATES)
    return sorted(cores.items(), key=lambda pair: (order.index(pair[0]) if pair[0] in order else len(order), pair[0]))


def _legend(cores: Mapping[str, int]) -> Text:
    legend = Text(overflow="ellipsis", no_wrap=True)
    for state, count in _ordered(cores):
        colour, letter = _STATES.get(state, ("white", "?"))
        legend.append(f"{letter} ", style=f"bold {colour}")
        legend.append(f"{_line(state)} {count:,}  ")
    return legend


def _table(width: int) -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), width=width, header_style="bold", expand=False)


def _users(users: tuple[User, ...], all_users: int, whole: int, width: int) -> Table:
    table = _table(width)
    wide = max(10, min(50, width - 70))
    of = f" ({len(users)} of {all_users})" if len(users) < all_users else ""
    table.add_column(f"USER{of}", ratio=1, no_wrap=True, overflow="ellipsis")
    for heading in ("CORES", "OF POOL", "DUE", "PRIORITY"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("USE, AND WHAT IS DUE (|)" if wide >= 24 else "USE", width=wide, no_wrap=True)
    for user in users:
        table.add_row(
            Text(_line(user.name)), f"{user.cores:,.0f}", _share(user.cores, whole), f"{100 * user.due:.0f}%",
            f"{user.priority:,.1f}", _gauge(user.cores / whole if whole else 0.0, user.due, wide),
        )  # fmt: skip
    if not users:
        table.add_row(Text("nobody uses or wants anything", style="dim"))
    return table


def _gauge(part: float, due: float, width: int) -> Text:
    filled = round(width * min(1.0, part))
    gauge = Text("#" * filled + "." * (width - filled), no_wrap=True)
    gauge.stylize("green", 0, filled)
    gauge.stylize("dim", filled, width)
    mark = min(width - 1, int(width * min(1.0, due)))
    return Text.assemble(gauge[:mark], ("|", "bold"), gauge[mark + 1 :])


def _batches(batches: tuple[Batch, ...], screen: Screen, width: int) -> Table:
    table = _table(width)
    of = f" ({len(batches)} of {len(screen.batches)})" if len(batches) < len(screen.batches) else ""
    table.add_column(f"BATCH{of}, {screen.whose}", ratio=1, no_wrap=True, overflow="ellipsis")
    for heading, _ in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("TOTAL", justify="right", no_wrap=True)
    for batch in batches:
        cells = [Text(f"{batch.of(status):,}" if batch.of(status) else "-") for _, status in _COLUMNS]
        if batch.of(5):
            cells[2].stylize("bold red")
        if batch.of(2):
            cells[1].stylize("green")
        table.add_row(Text(_line(batch.name)), *cells, f"{batch.jobs:,}")
    if not batches:
        table.add_row(Text("no jobs in the queue", style="dim"))
    return table
