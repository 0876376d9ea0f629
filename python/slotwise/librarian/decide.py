"""What has become of the files of a history, which of them are forgotten, and how the figures go on. Pure.

Source: HTCondor's librarian. A file is known again by its inode and the first record in it, whatever its name is by
then. Unlike there, a copy takes the place of a file that is gone (of one from a backup, or one that was copied and then
emptied); files that were cut, replaced or put back are found so; what is removed first is counted in records, and a
record of a job in a file that is still there stays when another of the same job goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

#: What is added to the name of a file that was not put aside and is gone all the same.
REMOVED = ".REMOVED"


class Found(Struct, frozen=True):
    """A file of the history as it is now.

    :param fingerprint: of its first record; empty while none is whole, None when the file cannot be read.
    :param rotated_at: when it was put aside, epoch seconds; None for the one that grows.
    """

    path: str
    inode: int
    size: int
    fingerprint: str | None
    rotated_at: int | None = None


class Known(Struct, frozen=True):
    """A file as the library has it: what was read of it (bytes, records and their mean size), and when it was gone."""

    file_id: int
    path: str
    inode: int
    fingerprint: str
    offset: int = 0
    rotated_at: int | None = None
    gone_at: int | None = None
    is_read: bool = False
    mean_size: float = 0.0
    records: int = 0


class Plan(Struct, frozen=True):
    """What the library has to change.

    :param new: files that it does not have.
    :param changed: its files under another name, put aside or back, as they are to be.
    :param cut: its files that became shorter than what was read of them, to be read anew.
    :param gone: its files that are there no more.
    """

    new: tuple[Found, ...] = ()
    changed: tuple[Known, ...] = ()
    cut: tuple[Known, ...] = ()
    gone: tuple[Known, ...] = ()


def plan(known: Iterable[Known], found: Sequence[Found], now: int) -> Plan:
    """Compare what the library has with what there is."""
    by_identity = {(one.inode, one.fingerprint): one for one in known}
    identities = {(file.inode, file.fingerprint) for file in found}
    #: Those that are not there under their inodes; of two with one first record, the one that was there last.
    missing = {
        one.fingerprint: one
        for key, one in sorted(by_identity.items(), key=lambda item: (item[1].gone_at is None, item[1].gone_at or 0))
        if key not in identities
    }
    # A file that cannot be read now is there, and may be any of those with its inode.
    unread = {one.inode for one in found if one.fingerprint is None}
    new, changed, cut = [], [], []
    there: set[int] = set()
    for file in found:
        if not file.fingerprint:
            continue
        former = by_identity.get((file.inode, file.fingerprint))
        if former is None and (copied := missing.get(file.fingerprint)) is not None and file.size >= copied.offset:
            former = missing.pop(file.fingerprint)
        if former is None:
            new.append(file)
            continue
        there.add(former.file_id)
        current = replace(former, path=file.path, inode=file.inode, rotated_at=file.rotated_at, gone_at=None)
        if file.size < former.offset:
            cut.append(replace(current, offset=0, is_read=False, mean_size=0.0, records=0))
        elif current != former:
            changed.append(current)
    gone = tuple(
        replace(one, gone_at=now, path=one.path if one.rotated_at is not None else f"{one.path}{REMOVED}")
        for one in by_identity.values()
        if one.gone_at is None and one.file_id not in there and one.inode not in unread
    )
    return Plan(tuple(new), tuple(changed), tuple(cut), gone)


def with_records(file: Known, sizes: Iterable[int], offset: int) -> Known:
    """The file once records of these sizes were read, up to ``offset``."""
    mean, count = file.mean_size, file.records
    for size in sizes:
        count += 1
        mean += (size - mean) / count
    return replace(file, offset=offset, mean_size=mean, records=count)


def as_read(file: Known) -> Known:
    """A file that was put aside and read to its end."""
    return replace(file, is_read=True)


def backlog(files: Iterable[tuple[Known, int]]) -> int:
    """About how many records are still to be read, from files and their sizes."""
    read = unread = 0
    weight = 0.0
    for file, size in files:
        unread += max(0, size - file.offset)
        weight += file.mean_size * file.records
        read += file.records
    return round(unread * read / weight) if weight else 0


# ------------------------------------------------------------------------------------------------------------ removal


class Removable(Struct, frozen=True):
    """A file that is gone: since when, and how many records of it the library has."""

    file_id: int
    gone_at: int
    records: int


def is_over(size: int, size_most: int, high: float) -> bool:
    """Whether a database of ``size`` bytes has to become smaller."""
    return size > size_most * high


def to_forget(files: Iterable[Removable], size: int, records: int, target: float) -> list[int]:
    """The files whose records go so that ``size`` bytes, which hold ``records``, become about ``target``.

    Those that were gone first go first. The last one goes whole, too: records of one file stay together.
    """
    each = size / max(1, records)
    chosen: list[int] = []
    for file in sorted(files, key=lambda file: (file.gone_at, file.file_id)):
        if size <= target:
            break
        chosen.append(file.file_id)
        size -= round(each * file.records)
    return chosen


# ------------------------------------------------------------------------------------------------------------ figures


class Cycle(Struct):
    """One update: when it ended (epoch seconds), how far it came, and what it did.

    :param lost: records that do not say which job they are of.
    :param hit_most: LIBRARIAN_MAX_UPDATES_PER_CYCLE ended it.
    """

    ended_at: int = 0
    last_file: int = 0
    last_offset: int = 0
    records: int = 0
    lost: int = 0
    duration_ms: int = 0
    backlog: int = 0
    hit_most: bool = False
    collected: bool = False


class Totals(Struct, frozen=True):
    """Sums and means over all updates; ``at_ms``: when the last one ended, in epoch milliseconds."""

    mean_records: float = 0.0
    mean_ms: float = 0.0
    mean_ingest_hz: float = 0.0
    mean_arrival_hz: float = 0.0
    mean_backlog: float = 0.0
    cycles: int = 0
    records: int = 0
    lost: int = 0
    hit_rate: float = 0.0
    left_backlog: bool = False
    at_ms: int = 0


def with_cycle(totals: Totals, cycle: Cycle, waiting: int, now_ms: int) -> Totals:
    """The totals with one more update; ``waiting``: about how many records had come since the one before."""
    n = totals.cycles + 1
    since_ms = now_ms - totals.at_ms
    arrival = totals.mean_arrival_hz
    if not totals.left_backlog and totals.at_ms and since_ms > 0:
        arrival += (waiting * 1000 / since_ms - arrival) / n
    hz = cycle.records * 1000 / cycle.duration_ms if cycle.duration_ms else 0.0
    return Totals(
        totals.mean_records + (cycle.records - totals.mean_records) / n,
        totals.mean_ms + (cycle.duration_ms - totals.mean_ms) / n,
        totals.mean_ingest_hz + (hz - totals.mean_ingest_hz) / n,
        arrival,
        totals.mean_backlog + (cycle.backlog - totals.mean_backlog) / n,
        n,
        totals.records + cycle.records,
        totals.lost + cycle.lost,
        totals.hit_rate + (cycle.hit_most - totals.hit_rate) / n,
        cycle.hit_most,
        now_ms,
    )
