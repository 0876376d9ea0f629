"""What every benchmark shares: repeated timing, median and spread, peak memory, one form of report.

A benchmark checks its result before it counts. Machines are noisy: compare figures of one run with each other,
never with figures of another day.
"""

from __future__ import annotations

import json
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Figure:
    """One measured quantity: ``values`` in ``unit``, and what HTCondor does where that is known."""

    name: str
    unit: str
    values: list[float]
    reference: str = ""
    target: str = ""
    note: str = ""

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        """Smallest and largest value."""
        return f"{short(min(self.values))}..{short(max(self.values))}"


@dataclass
class Report:
    """The figures of one benchmark program."""

    title: str
    figures: list[Figure] = field(default_factory=list)

    def add(self, name: str, unit: str, values: list[float] | float, **more: str) -> Figure:
        """Add a figure and print its line at once."""
        figure = Figure(name, unit, values if isinstance(values, list) else [values], **more)
        self.figures.append(figure)
        line = f"{name:58} {short(figure.median):>10} {unit:8} [{figure.spread}]"
        for label, text in (("target", figure.target), ("reference", figure.reference), ("", figure.note)):
            if text:
                line += f"  {label} {text}" if label else f"  {text}"
        print(line, flush=True)
        return figure

    def save(self, directory: Path) -> None:
        """Write the figures as JSON, with the machine and the peak memory of this process."""
        directory.mkdir(parents=True, exist_ok=True)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        name = self.title.lower().replace(" ", "-")
        (directory / f"{name}.json").write_text(
            json.dumps(
                {
                    "title": self.title,
                    "machine": platform.processor() or platform.machine(),
                    "python": sys.version.split()[0],
                    "peak_mib": round(peak_mib, 1),
                    "figures": [asdict(figure) for figure in self.figures],
                },
                indent=1,
            )
            + "\n"
        )
        print(f"{'peak memory of this program':58} {peak_mib:>10.0f} MiB", flush=True)


def short(value: float) -> str:
    """A number with three or four telling digits."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def timed(work: Callable[[], object], *, repeat: int = 5) -> list[float]:
    """Seconds that each of ``repeat`` calls of ``work`` takes."""
    values: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        values.append(time.perf_counter() - start)
    return values
