"""The picture of ``slotwise power report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.render import picture

if TYPE_CHECKING:
    from slotwise.cli.pool.sleep_hours import Report

#: Of more machines than this, those that slept least have no row of their own.
_MOST_ROWS = 60


def draw(found: Report, path: Path) -> None:
    """Hours asleep of all machines together for each day, and below them those of each machine.

    :raises SlotwiseError: when the file cannot be written.
    """
    labels = [day.label for day in found.days]
    shown = found.machines[:_MOST_ROWS]
    rows = max(1, len(shown))
    figure = picture.figure(max(6.0, min(16.0, 2.5 + 0.5 * len(labels))), 3.2 + 0.28 * rows)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.0, 0.28 * rows + 0.6])
    places = list(range(len(labels)))
    above.bar(places, found.by_day, color="#3b6ea5")
    above.set_ylabel("machine-hours")
    title = f"Asleep: {sum(found.by_day):,.0f} machine-hours of {len(found.machines)} machines"
    above.set_title(title + (f", {found.kwh:,.1f} kWh saved" if found.kwh else ""))
    picture.open_frame(above)
    grid = [one.hours for one in shown] or [[0.0] * len(labels)]
    image = below.imshow(grid, aspect="auto", cmap="Blues", vmin=0, vmax=24, interpolation="nearest")
    below.set_yticks(range(len(shown)), [picture.plain(one.machine) for one in shown], fontsize=8)
    picture.label_places(below, labels)
    if len(found.machines) > len(shown):
        below.set_xlabel(f"the {len(shown)} machines of {len(found.machines)} that slept longest")
    figure.colorbar(image, ax=below, label="hours a day", ticks=[0, 6, 12, 18, 24])
    picture.save(figure, path)
