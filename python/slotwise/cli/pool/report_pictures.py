"""Pictures of ``slotwise report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.cli.pool.report_tables import number
from slotwise.cli.render.picture import COLOURS, figure, label_places, numbers, open_frame, plain
from slotwise.cli.render.times import span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slotwise.analysis.fairness import Fairness
    from slotwise.analysis.periods import Periods
    from slotwise.analysis.usage import Usage
    from slotwise.analysis.waits import Waits
    from slotwise.analysis.waste import Waste

#: Rows or curves of a picture.
_MOST_BARS, _MOST_CURVES = 25, 7
#: Groups with a quota that have axes of their own.
_MOST_QUOTAS = 12
_NOTHING = "no jobs in this time"
#: Places of ticks on an axis of waits, in seconds.
_TICKS_S = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)


def usage(found: Usage) -> Figure:
    """Cores in use over time: all together as areas, and for each group with a quota its use beside that."""
    shown = [row for row in found.rows if row.core_hours > 0][: len(COLOURS) - 1]
    rest = [row for row in found.rows if row.core_hours > 0][len(COLOURS) - 1 :]
    limited = sorted((row for row in found.rows if row.quota), key=lambda row: row.name)[:_MOST_QUOTAS]
    lines = -(-len(limited) // 2)
    made = figure(11.0, 4.2 + 2.3 * lines)
    grid = made.add_gridspec(1 + lines, 2, height_ratios=[4.2, *([2.3] * lines)])
    whole = made.add_subplot(grid[0, :])
    labels = found.periods.labels
    edges = list(range(len(labels) + 1))
    below = [0.0] * len(labels)
    colours = {row.name: COLOURS[place] for place, row in enumerate(shown)}
    parts = [(row.name, row.cores, colours[row.name]) for row in shown]
    if rest:
        parts.append(
            (f"{len(rest)} others", tuple(map(sum, zip(*(row.cores for row in rest), strict=True))), COLOURS[-1])
        )
    for name, cores, colour in parts:
        top = [one + other for one, other in zip(below, cores, strict=True)]
        whole.fill_between(edges, [*below, below[-1]], [*top, top[-1]], step="post", color=colour, label=plain(name),
                           linewidth=0)  # fmt: skip
        below = top
    hours = sum(row.core_hours for row in found.rows)
    whole.set_title(f"Cores in use by {found.per}: {number(hours)} core-hours")
    whole.set_ylabel(f"cores (mean of each {found.periods.step})")
    _time_axis(whole, found.periods)
    if parts:
        handles, names = whole.get_legend_handles_labels()
        whole.legend(
            handles[::-1], names[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False
        )
    else:
        _say_nothing(whole)
    for place, row in enumerate(limited):
        axes = made.add_subplot(grid[1 + place // 2, place % 2])
        quota = row.quota or 0.0
        axes.stairs(row.with_below, edges, fill=True, color=colours.get(row.name, COLOURS[-1]))
        ink, ground = axes.yaxis.label.get_color(), axes.get_facecolor()
        axes.axhline(quota, color=ink, linestyle="--", linewidth=1.5)
        axes.annotate(
            f"quota {number(quota)}", (0.995, quota), xycoords=("axes fraction", "data"), ha="right", va="bottom",
            fontsize=8, color=ink, bbox={"facecolor": ground, "alpha": 0.8, "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
        has_groups = any(other.name.startswith(f"{row.name}.") for other in found.rows)
        axes.set_title(plain(row.name) + (" and the groups below it" if has_groups else ""), fontsize=10)
        axes.set_ylabel("cores", fontsize=8)
        axes.set_ylim(0, max(quota * 1.25, max(row.with_below) * 1.1, 1.0))
        _time_axis(axes, found.periods, most=8)
    return made


def fairness(found: Fairness) -> Figure:
    """What users were due and got, side by side."""
    shown = found.parts[:_MOST_BARS]
    made = figure(10.0, 1.8 + 0.4 * max(1, len(shown)))
    axes = made.subplots()
    places = list(range(len(shown)))
    axes.barh([at - 0.2 for at in places], [part.due_hours for part in shown], 0.38, color=COLOURS[4],
              label="due by priority factor")  # fmt: skip
    axes.barh([at + 0.2 for at in places], [part.got_hours for part in shown], 0.38, color=COLOURS[0], label="got")
    most = max((max(part.due_hours, part.got_hours) for part in shown), default=1.0)
    for at, part in zip(places, shown, strict=True):
        axes.text(max(part.due_hours, part.got_hours) + 0.01 * most, at, f"{part.ratio:.2f}", va="center", fontsize=8)
    axes.set_xlim(0, 1.08 * most)
    _rows(axes, [part.user for part in shown], len(found.parts))
    axes.set_xlabel("core-hours (number: got / due)")
    axes.set_title(f"What users got of what was due to them: fairness index {found.index:.2f}")
    _finish(axes, bool(shown))
    return made


def waste(found: Waste) -> Figure:
    """Cores and memory, used and unused, by user; and badput by reason."""
    shown = found.users[:_MOST_BARS]
    reasons = found.reasons[:10]
    high = 0.32 * max(1, len(shown)) + 1.0
    low = 0.32 * max(1, len(reasons)) + 1.0
    made = figure(12.0, high + low + 0.8)
    grid = made.add_gridspec(2, 2, height_ratios=[high, low])
    cores, memory = made.add_subplot(grid[0, 0]), made.add_subplot(grid[0, 1])
    places = list(range(len(shown)))
    for axes, used, asked, unit, what in (
        (cores, [row.cpu_hours for row in shown], [row.core_hours for row in shown], "core-hours", "Cores"),
        (memory, [row.used_gb_hours for row in shown], [row.gb_hours for row in shown], "GB-hours", "Memory"),
    ):
        axes.barh(places, asked, 0.7, color=COLOURS[1], label="asked for, not used")
        axes.barh(places, [min(pair) for pair in zip(used, asked, strict=True)], 0.7, color=COLOURS[2], label="used")
        _rows(axes, [row.user for row in shown] if axes is cores else ["" for _ in shown], len(found.users))
        whole = sum(asked)
        axes.set_title(what + (f": {100 * sum(used) / whole:.0f}% used" if whole else ""))
        axes.set_xlabel(unit)
        _finish(axes, bool(shown))
    lost = made.add_subplot(grid[1, :])
    bars = lost.barh(list(range(len(reasons))), [row.badput_hours for row in reasons], 0.7, color=COLOURS[5])
    lost.bar_label(
        bars, [f"{row.evictions:,} evictions" if row.evictions else "" for row in reasons], padding=4, fontsize=8
    )
    _rows(lost, [row.reason for row in reasons], len(found.reasons))
    lost.set_xlabel("core-hours lost")
    lost.set_title("Work that was lost, by reason")
    lost.margins(x=0.15)
    _finish(lost, bool(reasons), legend=False, nothing="nothing was lost")
    return made


def waits(found: Waits) -> Figure:
    """For each kind of jobs the share that had started after each length of time."""
    made = figure(10.0, 5.4)
    axes = made.subplots()
    shown = [row for row in found.rows if row.jobs][:_MOST_CURVES]
    for row, colour in zip(shown, COLOURS, strict=False):
        shares = [100 * place / (len(row.curve) - 1) for place in range(len(row.curve))]
        axes.step([max(0.8, value) for value in row.curve], shares, where="post", color=colour, linewidth=1.8,
                  label=f"{plain(row.name)} ({row.jobs:,})")  # fmt: skip
    if found.all and len(shown) > 1:
        shares = [100 * place / (len(found.all.curve) - 1) for place in range(len(found.all.curve))]
        ink = axes.yaxis.label.get_color()
        axes.step([max(0.8, value) for value in found.all.curve], shares, where="post", color=ink, linewidth=1.2,
                  linestyle="--", label=f"all ({found.all.jobs:,})")  # fmt: skip
    most = max((row.most_s for row in shown), default=60.0)
    axes.set_xscale("log")
    axes.set_xlim(0.8, max(60.0, most * 1.2))
    axes.set_xticks([at for at in _TICKS_S if at <= max(60.0, most * 1.2)], minor=False)
    axes.set_xticklabels([span(at) for at in axes.get_xticks()])
    axes.minorticks_off()
    axes.set_ylim(0, 101)
    axes.set_xlabel("time from submission to the first start")
    axes.set_ylabel("jobs that have started (%)")
    more = len([row for row in found.rows if row.jobs]) - len(shown)
    axes.set_title(f"Waits by {found.per}" + (f": the {len(shown)} commonest of {len(shown) + more}" if more else ""))
    _finish(axes, bool(shown))
    return made


def _time_axis(axes: Axes, when: Periods, most: int = 20) -> None:
    labels = when.labels
    step = max(1, -(-len(labels) // most))
    if most == 20:
        label_places(axes, labels)
    else:
        short = [label[5:] for label in labels[::step]]
        axes.set_xticks(list(range(0, len(labels), step)), short, rotation=45, ha="right", fontsize=7)
    axes.set_xlim(0, len(labels))
    axes.set_ylim(bottom=0)
    numbers(axes.yaxis)
    open_frame(axes)


def _rows(axes: Axes, names: list[str], whole: int) -> None:
    axes.set_yticks(list(range(len(names))), [plain(name) for name in names], fontsize=8)
    axes.set_ylim(max(1, len(names)) - 0.4, -0.6)
    if whole > len(names) and names and names[0]:
        axes.set_ylabel(f"the first {len(names)} of {whole}", fontsize=8)
    axes.grid(visible=False, axis="y")
    numbers(axes.xaxis)


def _finish(axes: Axes, something: bool, *, legend: bool = True, nothing: str = _NOTHING) -> None:
    open_frame(axes)
    if not something:
        _say_nothing(axes, nothing)
    elif legend:
        axes.legend(fontsize=8, loc="best")


def _say_nothing(axes: Axes, nothing: str = _NOTHING) -> None:
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, nothing, transform=axes.transAxes, ha="center", va="center")
