"""Draws states as SVG: a box for each, and arrows labelled with the numbers of rows of a table of transitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

#: Two states by name: from, to.
Pair = tuple[str, str]


class Box(Struct, frozen=True):
    """A state: the centre of its box, and the lines of text below its name."""

    centre: tuple[int, int]
    lines: Sequence[str] = ()


class Layout(Struct, frozen=True):
    """Size of the picture, and of each box."""

    size: tuple[int, int]
    box_width: int = 200
    box_height: int = 104


def draw(boxes: Mapping[str, Box], arrows: Mapping[Pair, Sequence[str]], layout: Layout) -> str:
    """The picture. ``arrows``: the labels of each arrow."""
    width, height = layout.size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="13">',
        '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0L10,5L0,10z" fill="#456"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    drawn = [_arrow(pair, boxes, arrows, layout) for pair in arrows]
    parts += [line for line, _ in drawn]
    parts += [_box(name, box, layout) for name, box in boxes.items()]
    parts += [label for _, label in drawn]
    return "\n".join([*parts, "</svg>", ""])


def _box(name: str, box: Box, layout: Layout) -> str:
    x, y = box.centre
    width, height = layout.box_width, layout.box_height
    text = "".join(
        f'<text x="{x}" y="{y - 10 + 17 * index}" text-anchor="middle" fill="#444">{line}</text>'
        for index, line in enumerate(box.lines)
    )
    title = y - 32 if height > 60 else y + 5
    return (
        f'<rect x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}" rx="10" '
        f'fill="#eef4fb" stroke="#456"/>'
        f'<text x="{x}" y="{title}" text-anchor="middle" font-weight="bold">{name}</text>{text}'
    )


def _arrow(
    pair: Pair, boxes: Mapping[str, Box], arrows: Mapping[Pair, Sequence[str]], layout: Layout
) -> tuple[str, str]:
    """An arrow from box to box, beside the one that goes the other way, and its label: numbers on white."""
    first, second = pair
    (x1, y1), (x2, y2) = boxes[first].centre, boxes[second].centre
    length = math.hypot(x2 - x1, y2 - y1)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    label, back = ", ".join(arrows[pair]), arrows.get((second, first), [])
    longest = max(len(label), len(", ".join(back)))
    aside = 12 + max(0.0, 1.6 * (longest - 6)) if back else 0  # labels must not reach the arrow beside
    sx, sy = -uy * aside, ux * aside
    begin, end = _edge(ux, uy, sx, sy, layout), _edge(-ux, -uy, sx, sy, layout)
    ax, ay = x1 + ux * begin + sx, y1 + uy * begin + sy
    bx, by = x2 - ux * end + sx, y2 - uy * end + sy
    tx, ty = ax + (bx - ax) * 0.22, ay + (by - ay) * 0.22
    half = 3.6 * len(label) + 3
    line = f'<line x1="{ax:.0f}" y1="{ay:.0f}" x2="{bx:.0f}" y2="{by:.0f}" stroke="#456" marker-end="url(#end)"/>'
    text = (
        f'<rect x="{tx - half:.0f}" y="{ty - 9:.0f}" width="{2 * half:.0f}" height="18" rx="4" fill="white"/>'
        f'<text x="{tx:.0f}" y="{ty + 4:.0f}" text-anchor="middle" fill="#a33">{label}</text>'
    )
    return line, text


def _edge(ux: float, uy: float, sx: float, sy: float, layout: Layout) -> float:
    """How far it is to a box's border in a direction, from a point beside its centre."""
    across = (layout.box_width / 2 - math.copysign(sx, ux * sx)) / abs(ux) if ux else math.inf
    down = (layout.box_height / 2 - math.copysign(sy, uy * sy)) / abs(uy) if uy else math.inf
    return min(across, down)
