"""The picture of ``slotwise power report``. Needs the extra ``plot``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.errors import SlotwiseError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.pool.sleep_hours import Report

_KINDS = (".png", ".svg")
#: Of more machines than this, those that slept least have no row of their own.
_MOST_ROWS = 60
#: So many labels stand side by side at most.
_MOST_LABELS = 20


def require(name: str) -> None:
    """See that a picture can be drawn at all.

    :raises UsageError: when matplotlib is not installed, or the name is not that of a PNG or SVG file.
    """
    if Path(name).suffix.lower() not in _KINDS:
        raise UsageError(f"-plot {name}: the name says what kind of picture it is", hint="end it with .png or .svg")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("-plot needs matplotlib", hint="pip install 'slotwise[plot]'")


def draw(found: Report, path: Path) -> None:
    """Hours asleep of all machines together for each day, and below them those of each machine.

    :raises SlotwiseError: when the file cannot be written.
    """
    from matplotlib.figure import Figure  # not pyplot: it looks for a display, and keeps state in the process

    labels = [day.label for day in found.days]
    shown = found.machines[:_MOST_ROWS]
    rows = max(1, len(shown))
    figure = Figure(figsize=(max(6.0, min(16.0, 2.5 + 0.5 * len(labels))), 3.2 + 0.28 * rows), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.0, 0.28 * rows + 0.6])
    places = list(range(len(labels)))
    above.bar(places, found.by_day, color="#3b6ea5")
    above.set_ylabel("machine-hours")
    title = f"Asleep: {sum(found.by_day):,.0f} machine-hours of {len(found.machines)} machines"
    above.set_title(title + (f", {found.kwh:,.1f} kWh saved" if found.kwh else ""))
    above.spines[["top", "right"]].set_visible(False)
    grid = [one.hours for one in shown] or [[0.0] * len(labels)]
    image = below.imshow(grid, aspect="auto", cmap="Blues", vmin=0, vmax=24, interpolation="nearest")
    below.set_yticks(range(len(shown)), [_plain(one.machine) for one in shown], fontsize=8)
    step = max(1, -(-len(labels) // _MOST_LABELS))
    below.set_xticks(places[::step], labels[::step], rotation=45, ha="right", fontsize=8)
    if len(found.machines) > len(shown):
        below.set_xlabel(f"the {len(shown)} machines of {len(found.machines)} that slept longest")
    figure.colorbar(image, ax=below, label="hours a day", ticks=[0, 6, 12, 18, 24])
    try:
        figure.savefig(path, dpi=120, format=path.suffix.lower().lstrip("."))
    except OSError as error:
        raise SlotwiseError(f"cannot write {path}: {error.strerror}") from None


def _plain(name: str) -> str:
    """A machine's name as text: a dollar sign would begin mathematics."""
    return name.replace("$", r"\$")[:40]
