"""Tables, bars and sentences of `watch-q`: how far jobs have come, in groups. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from slotwise.cli.jobs.tracked_jobs import (
    ACTIVE,
    COMPLETED,
    HELD,
    IDLE,
    INPUT,
    OUTPUT,
    REMOVED,
    RUNNING,
    STATES,
    SUSPENDED,
    Cluster,
)

_RED, _GREEN, _CYAN, _YELLOW, _WHITE, _BRIGHT_YELLOW = "31", "32", "36", "33", "97", "93"
#: State -> its sign and colour in a bar, in order.
_SIGNS = {
    IDLE: ("-", _BRIGHT_YELLOW), INPUT: (">", _CYAN), RUNNING: ("=", _CYAN), OUTPUT: (">", _CYAN),
    COMPLETED: ("#", _GREEN), HELD: ("!", _RED), SUSPENDED: ("!", _RED), REMOVED: ("!", _RED),
}  # fmt: skip
_ALWAYS = (IDLE, RUNNING, COMPLETED)
_SUMMARY: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("completed", (COMPLETED,)),
    ("removed", (REMOVED,)),
    ("idle", (IDLE,)),
    ("running", (INPUT, RUNNING, OUTPUT)),
    ("held", (HELD,)),
    ("suspended", (SUSPENDED,)),
)
#: Bars are at most so wide, and are left out beside rows where less than this is left.
_WIDEST, _NARROWEST = 79, 10

Paint = Callable[[str, str], str]


def plain(text: str, _colour: str) -> str:
    """No colour."""
    return text


def painted(text: str, colour: str) -> str:
    """In a colour of ANSI terminals."""
    return f"\033[{colour}m{text}\033[0m" if text else ""


class Group(Struct):
    """Jobs that are shown in one row."""

    name: str
    clusters: list[Cluster] = field(default_factory=list)
    #: How many jobs are expected at least: the nodes of a DAG.
    expected: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        found = dict.fromkeys(STATES, 0)
        for cluster in self.clusters:
            for state in cluster.states.values():
                found[state] += 1
        return found

    @property
    def total(self) -> int:
        """How many jobs there are."""
        return max(self.expected, sum(cluster.size for cluster in self.clusters))

    @property
    def is_done(self) -> bool:
        """Whether all its jobs have left the queue."""
        return all(cluster.is_done for cluster in self.clusters)

    @property
    def active_ids(self) -> str:
        """The jobs in the queue: both, or the first and the last."""
        ids = sorted((c.cluster, proc) for c in self.clusters for proc, state in c.states.items() if state in ACTIVE)
        texts = [f"{cluster}.{proc}" for cluster, proc in ids]
        return ", ".join(texts) if len(texts) <= 2 else f"{texts[0]} ... {texts[-1]}"

    @property
    def order(self) -> tuple[bool, int]:
        """Groups with jobs in the queue first, then by their first clusters."""
        return (self.is_done, min(cluster.cluster for cluster in self.clusters))


def table(heading: str, groups: Sequence[Group], width: int, *, bars: bool, paint: Paint = plain) -> list[str]:
    """Lines of the table: a row for each group. Columns that are 0 everywhere are left out, but for three of them."""
    rows = [(group, group.counts) for group in groups]
    shown = [state for state in STATES if state in _ALWAYS or any(counts[state] for _, counts in rows)]
    headings = [heading, *shown, "TOTAL", *(["JOB_IDS"] if groups else [])]
    cells = [
        [group.name, *(str(counts[s] or "-") for s in shown), str(group.total or "-"), group.active_ids]
        for group, counts in rows
    ]
    cells = [[f"{cell} " for cell in row] for row in cells]
    widths = [max([len(word), *(len(row[place]) for row in cells)]) for place, word in enumerate(headings)]

    def line(words: Sequence[str]) -> str:
        left = (0, len(headings) - 1 if groups else -1)
        return "  ".join(
            word.ljust(width) if place in left else word.rjust(width)
            for place, (word, width) in enumerate(zip(words, widths, strict=True))
        )

    lines = [line(row) for row in cells]
    room = width - len(lines[0]) if lines else 0
    found = [line(headings).rstrip()]
    for (group, counts), text in zip(rows, lines, strict=True):
        shown_text = text if bars and room > _NARROWEST else text[:width]
        end = bar(counts, group.total, room, paint) if bars and room > _NARROWEST else ""
        found.append(paint(shown_text, _colour(counts, group.total)) + end)
    return found


def _colour(counts: Mapping[str, int], total: int) -> str:
    if counts[HELD]:
        return _RED
    if counts[COMPLETED] == total:
        return _GREEN
    return _CYAN if counts[RUNNING] else _YELLOW if counts[IDLE] else _WHITE


def bar(counts: Mapping[str, int], total: int, width: int, paint: Paint = plain) -> str:
    """A bar in which each state has its share; what rounding leaves goes to the largest."""
    width = min(width, _WIDEST) - 2
    lengths = [int(width * counts[state] / total) if total else 0 for state in _SIGNS]
    lengths[lengths.index(max(lengths))] += width - sum(lengths)
    parts = zip(_SIGNS.values(), lengths, strict=True)
    return "[" + "".join(paint(sign * length, colour) for (sign, colour), length in parts) + "]"


def summed(groups: Sequence[Group]) -> tuple[dict[str, int], int]:
    """The counts of all groups, and how many jobs they have."""
    counts = dict.fromkeys(STATES, 0)
    for group in groups:
        for state, count in group.counts.items():
            counts[state] += count
    return counts, sum(group.total for group in groups)


def summary(counts: Mapping[str, int], total: int, width: int) -> str:
    """How many jobs are in which state; words are cut until the line fits."""
    found = ""
    for letters in range(10, 1, -1):
        parts = [
            f"{number} {word[:letters]}"
            for word, states in _SUMMARY
            if (number := sum(counts[state] for state in states)) > 0
        ]
        found = f"Total: {total} jobs; {', '.join(parts)}"
        if len(found) <= width:
            break
    return found


def percentages(counts: Mapping[str, int], total: int) -> str:
    """The share of each state."""
    parts = [
        f"{round(100 * sum(counts[state] for state in states) / total) if total else 0}% {word}"
        for word, states in _SUMMARY
    ]
    return f"Total: {total} jobs; {', '.join(parts)}"
