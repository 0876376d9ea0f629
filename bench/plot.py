"""Line charts on two logarithmic axes as PNG files, with nothing but the standard library."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 90, 240, 40, 60
_COLOURS = [(31, 119, 180), (214, 39, 40), (44, 160, 44), (148, 103, 189), (255, 127, 14), (90, 90, 90)]
#: 5 x 7 dots a letter, a row of bits each; only what labels need.
_FONT = {
    "0": "0E11191513110E", "1": "040C040404040E", "2": "0E11010204081F", "3": "1F02040201110E",
    "4": "02060A121F0202", "5": "1F101E0101110E", "6": "0608101E11110E", "7": "1F010204080808",
    "8": "0E11110E11110E", "9": "0E11110F01020C", ".": "00000000000C0C", "-": "0000001F000000",
    ",": "00000000040408", ":": "00040000040000", " ": "00000000000000", "x": "0000110A040A11",
    "s": "00000E100E011E", "l": "0C04040404040E", "o": "00000E1111110E", "t": "08081C08080906",
    "m": "00001A15151515", "k": "10101214181412", "M": "111B1515111111", "c": "00000E1010110E",
    "y": "000011110F010E", "e": "00000E111F100E", "r": "00001619101010", "f": "0609081C080808",
    "n": "00001619111111", "w": "0000111115150A", "a": "00000E010F110F", "u": "0000111111130D",
    "b": "1010161911111E", "d": "01010D1311110F", "g": "000F11110F010E", "h": "10101619111111",
    "i": "04000C0404040E", "p": "00001E111E1010", "v": "00001111110A04", "/": "00010204081000",
    "%": "18190204081303", "(": "02040808080402", ")": "08040202020408", "C": "0E11101010110E",
    "R": "1E11111E141211", "T": "1F040404040404", "P": "1E11111E101010", "z": "00001F0204081F",
    "q": "00000D130F0101", "j": "0200060202120C",
}  # fmt: skip


@dataclass
class Line:
    """One curve: points (x, y), both above zero."""

    name: str
    points: list[tuple[float, float]]


@dataclass
class Chart:
    """A chart under construction."""

    title: str
    x_label: str
    y_label: str
    lines: list[Line] = field(default_factory=list)

    def line(self, name: str) -> Line:
        """The curve of that name, made when there is none."""
        for line in self.lines:
            if line.name == name:
                return line
        self.lines.append(Line(name, []))
        return self.lines[-1]

    def growth(self, name: str) -> tuple[float, float, float] | None:
        """Of a curve: its smallest and largest size, and by what cost per size has grown between them (1: linear)."""
        points = sorted(point for line in self.lines if line.name == name for point in line.points)
        if len(points) < 2:
            return None
        (x0, y0), (x1, y1) = points[0], points[-1]
        return x0, x1, (y1 / y0) / (x1 / x0)

    def draw(self, canvas: _Canvas) -> None:
        """Draw it where the canvas stands."""
        frame = _Frame(self.lines)
        frame.axes(canvas, self)
        for at, line in enumerate(self.lines):
            colour = _COLOURS[at % len(_COLOURS)]
            places = [frame.place(x, y) for x, y in sorted(line.points)]
            for (x0, y0), (x1, y1) in pairwise(places):
                canvas.line(x0, y0, x1, y1, colour)
            for x, y in places:
                canvas.dot(x, y, colour)
            canvas.text(WIDTH - RIGHT + 16, TOP + 14 + at * 18, line.name, colour)


def write(path: Path, charts: list[Chart]) -> None:
    """Draw charts below each other and write the PNG file."""
    canvas = _Canvas(len(charts))
    for at, chart in enumerate(charts):
        canvas.down = at * HEIGHT
        chart.draw(canvas)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canvas.png())


class _Frame:
    def __init__(self, lines: list[Line]) -> None:
        xs = [x for line in lines for x, _ in line.points] or [1.0, 10.0]
        ys = [y for line in lines for _, y in line.points] or [1.0, 10.0]
        self.x = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
        self.y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def place(self, x: float, y: float) -> tuple[int, int]:
        wide, high = max(1, self.x[1] - self.x[0]), max(1, self.y[1] - self.y[0])
        across = (math.log10(x) - self.x[0]) / wide
        up = (math.log10(y) - self.y[0]) / high
        return round(LEFT + across * (WIDTH - LEFT - RIGHT)), round(HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM))

    def axes(self, canvas: _Canvas, chart: Chart) -> None:
        grey, black = (220, 220, 220), (40, 40, 40)
        for power in range(self.x[0], self.x[1] + 1):
            x, _ = self.place(10.0**power, 10.0 ** self.y[0])
            canvas.line(x, TOP, x, HEIGHT - BOTTOM, grey)
            canvas.text(x - 15, HEIGHT - BOTTOM + 10, _number(10.0**power), black)
        for power in range(self.y[0], self.y[1] + 1):
            _, y = self.place(10.0 ** self.x[0], 10.0**power)
            canvas.line(LEFT, y, WIDTH - RIGHT, y, grey)
            canvas.text(LEFT - 60, y - 4, _number(10.0**power), black)
        canvas.text(LEFT, 14, chart.title, black)
        canvas.text(LEFT + 180, HEIGHT - 24, chart.x_label, black)
        canvas.text(8, TOP - 18, chart.y_label, black)


def _number(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g} M"
    if value >= 1000:
        return f"{value / 1000:g} k"
    return f"{value:g}"


class _Canvas:
    def __init__(self, charts: int) -> None:
        self.rows = [bytearray(b"\xff" * WIDTH * 3) for _ in range(HEIGHT * charts)]
        #: Where the chart that is drawn begins.
        self.down = 0

    def put(self, x: int, y: int, colour: tuple[int, int, int]) -> None:
        if 0 <= x < WIDTH and 0 <= y < HEIGHT:
            self.rows[self.down + y][x * 3 : x * 3 + 3] = bytes(colour)

    def line(self, x0: int, y0: int, x1: int, y1: int, colour: tuple[int, int, int]) -> None:
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            self.put(round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps), colour)

    def dot(self, x: int, y: int, colour: tuple[int, int, int]) -> None:
        for dx in range(-3, 4):
            for dy in range(-3, 4):
                if dx * dx + dy * dy <= 10:
                    self.put(x + dx, y + dy, colour)

    def text(self, x: int, y: int, text: str, colour: tuple[int, int, int]) -> None:
        for at, letter in enumerate(text):
            bits = _FONT.get(letter) or _FONT.get(letter.lower()) or _FONT["-"]
            rows = bytes.fromhex(bits.ljust(14, "0"))
            for dy, row in enumerate(rows):
                for dx in range(5):
                    if row >> (4 - dx) & 1:
                        self.put(x + at * 6 + dx, y + dy, colour)

    def png(self) -> bytes:
        def chunk(kind: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        raw = b"".join(b"\0" + bytes(row) for row in self.rows)
        head = struct.pack(">IIBBBBB", WIDTH, len(self.rows), 8, 2, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
