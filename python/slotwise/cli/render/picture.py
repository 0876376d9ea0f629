"""Pictures of reports, as PNG or SVG files: what all of them have in common. Needs the extra ``plot``."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.common import written_file
from slotwise.errors import SlotwiseError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_KINDS = (".png", ".svg")
#: Colours that can be told apart with any sight (Okabe and Ito), and on light and dark ground.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#7F7F7F")
#: So many labels stand side by side at most.
_MOST_LABELS = 20
_LIGHT: dict[str, object] = {
    "axes.grid": True, "axes.axisbelow": True, "grid.alpha": 0.5, "axes.titlelocation": "left",
}  # fmt: skip
_DARK: dict[str, object] = {
    "figure.facecolor": "#14181b", "axes.facecolor": "#14181b", "savefig.facecolor": "#14181b",
    "text.color": "#e4e8ea", "axes.labelcolor": "#e4e8ea", "axes.edgecolor": "#9daab2", "xtick.color": "#e4e8ea",
    "ytick.color": "#e4e8ea", "grid.color": "#343d43", "legend.facecolor": "#1d2327", "legend.edgecolor": "#343d43",
}  # fmt: skip


def require(name: str) -> None:
    """See that a picture can be drawn at all.

    :raises UsageError: when matplotlib is not installed, or the name is not that of a PNG or SVG file.
    """
    if Path(name).suffix.lower() not in _KINDS:
        raise UsageError(f"-plot {name}: the name says what kind of picture it is", hint="end it with .png or .svg")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("-plot needs matplotlib", hint="pip install 'slotwise[plot]'")


@contextmanager
def theme(*, dark: bool = False) -> Iterator[None]:
    """Figures that are made within are light, or ``dark``."""
    import matplotlib as mpl

    with mpl.rc_context(_LIGHT | (_DARK if dark else {})):  # type: ignore[arg-type]
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure  # not pyplot: it looks for a display, and keeps state in the process

    return Figure(figsize=(width, height), layout="constrained")


def save(made: Figure, path: Path) -> None:
    """Write the picture, of the kind that the name says; a link of that name is replaced, not followed.

    :raises SlotwiseError: when the file cannot be written.
    """
    try:
        with written_file.replaced(path) as stream:
            made.savefig(stream, dpi=120, format=path.suffix.lower().lstrip("."))
    except OSError as error:
        raise SlotwiseError(f"cannot write {path}: {error.strerror}") from None


def plain(name: str, most: int = 40) -> str:
    """A name as text of a picture: a dollar sign would begin mathematics."""
    return (name if len(name) <= most else f"{name[: most - 1]}…").replace("$", r"\$")


def label_places(axes: Axes, labels: Sequence[str]) -> None:
    """Labels below places 0, 1, 2 ..., as many as there is room for."""
    step = max(1, -(-len(labels) // _MOST_LABELS))
    axes.set_xticks(list(range(0, len(labels), step)), list(labels[::step]), rotation=45, ha="right", fontsize=8)


def numbers(axis: Axis) -> None:
    """Few ticks, with thousands set apart."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def open_frame(axes: Axes) -> None:
    """Leave the axes without lines above and on the right."""
    axes.spines[["top", "right"]].set_visible(False)
