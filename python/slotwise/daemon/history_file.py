"""History files: ads of the past, each followed by a banner line of three stars with some facts, as in HTCondor.

``condor_history -file`` and ``slotwise history -file`` read them. Ads hold environments of jobs: a new file is for the
daemon's account alone, unless the one that was put aside was open to more (``chmod`` lasts through rotations).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from slotwise import whole_file
from slotwise.classad import ClassAd, parse_ads
from slotwise.config import Config
from slotwise.durable_files import synchronise

#: Suffix of a file that was put aside: when that was, and a number when there were more in that second.
ASIDE = re.compile(r"\.\d{8}T\d{6}(\.\d+)?")
_MODE = 0o600
_BANNER = re.compile(rb"^\*\*\* [^\n]*\n", re.MULTILINE)
_ANY_BANNER = re.compile(rb"^\*\*\*[^\n]*(?:\n|\Z)", re.MULTILINE)
_TAIL, _BLOCK = 65536, 1024 * 1024
#: How a file that holds nothing but a part of its first record begins.
_ATTRIBUTE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(\Z| \Z| =\Z| = )")


class Rotation(Struct, frozen=True):
    """When a file is put aside: before it grows beyond ``size_most`` bytes, and when it is of another day or month.

    ``rotations`` older ones are kept. A size that is not positive means no bound.
    """

    size_most: int = 20 * 1024 * 1024
    rotations: int = 2
    daily: bool = False
    monthly: bool = False

    @classmethod
    def of(cls, config: Config) -> Rotation:
        """That of job histories (MAX_HISTORY_LOG and others); without ENABLE_HISTORY_ROTATION never."""
        if not config.get_bool("ENABLE_HISTORY_ROTATION"):
            return cls(0)
        return cls(
            config.get_int("MAX_HISTORY_LOG"),
            max(1, config.get_int("MAX_HISTORY_ROTATIONS")),
            config.get_bool("ROTATE_HISTORY_DAILY"),
            config.get_bool("ROTATE_HISTORY_MONTHLY"),
        )

    def is_due(self, size: int, written_at: float, coming: int, now: float) -> bool:
        """Whether a file of ``size`` bytes, written at ``written_at``, is put aside before ``coming`` more bytes."""
        if size == 0:
            return False
        then, today = time.localtime(written_at), time.localtime(now)
        return (
            (self.size_most > 0 and size + coming > self.size_most)
            or (self.daily and (then.tm_year, then.tm_yday) < (today.tm_year, today.tm_yday))
            or (self.monthly and (then.tm_year, then.tm_mon) < (today.tm_year, today.tm_mon))
        )


class Record(Struct, frozen=True):
    """An ad in long form, and its banner without the stars; a ``chained`` one begins with the place of the former."""

    text: str
    banner: str
    chained: bool = False

    def data(self, former: int) -> tuple[bytes, int]:
        """The record as bytes, and how many of them come before its banner. The former banner is at ``former``."""
        body = encoded(self.text)
        offset = f"Offset = {former} " if self.chained else ""
        return body + encoded(f"*** {offset}{self.banner}\n"), len(body)


#: Does a step that opens and writes one file and says how many records that were; does it again where the file could
#: not be opened for a reason that passes.
Attempt = Callable[[Callable[[], int]], int]


def once(step: Callable[[], int]) -> int:
    """The attempt that is not repeated."""
    return step()


def append(
    path: str,
    records: Sequence[Record],
    rotation: Rotation,
    now: float,
    attempt: Attempt = once,
) -> None:
    """Append whole records in order; what a full disk leaves of them is taken back.

    :param attempt: does each step.
    :raises OSError: when that is not possible; then none of them, or only those before a rotation, are in files.
    """
    left = list(records)
    while left:
        left = left[attempt(partial(_append, path, left, rotation, now)) :]


def _append(path: str, records: Sequence[Record], rotation: Rotation, now: float) -> int:
    """Append as many records as belong into one file; how many those were."""
    mode = _put_aside(Path(path), len(records[0].data(0)[0]), rotation, now)
    with contextlib.closing(_Open(path, mode)) as file:
        size, banner = file.size, file.last_banner()
        data, taken = bytearray(), 0
        for record in records:
            piece, behind = record.data(banner)
            total = size + len(data)
            if taken and rotation.is_due(total, now, len(piece), now):
                break
            banner = total + behind
            data += piece
            taken += 1
        file.write(data)
    return taken


class _Open:
    """A file open for appending."""

    def __init__(self, path: str, mode: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        state = os.fstat(self._file)
        self.size = state.st_size
        if not stat.S_ISREG(state.st_mode):
            self.close()
            raise OSError(f"{path} is not a regular file")
        if not self.size:
            os.fchmod(self._file, mode)

    def close(self) -> None:
        os.close(self._file)

    def last_banner(self) -> int:
        """Where the last line begins; 0 in an empty file."""
        start = self.size
        while start > 0:
            start = max(0, start - _TAIL)
            found = os.pread(self._file, _TAIL, start).rstrip(b"\n").rfind(b"\n")
            if found >= 0:
                return start + found + 1
        return 0

    def write(self, data: bytes | bytearray) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise


def repair(path: str) -> str:
    """Take out a record that was cut, and tell the text of the last whole one; "" without any.

    The newest file that was put aside speaks for one that is missing or empty.

    :raises OSError: when that is not possible.
    """
    for place in reversed(parts_of(Path(path))):
        with place.open("r+b") as stream:
            data = _tail(stream)
            banners = list(_BANNER.finditer(data))
            end = banners[-1].end() if banners else 0
            if end < len(data) and (banners or _ATTRIBUTE.match(data)):
                stream.truncate(stream.seek(end - len(data), os.SEEK_END))
        if banners:
            begin = banners[-2].end() if banners[1:] else 0
            return data[begin:end].decode("utf-8", "surrogateescape")
    return ""


def _tail(stream: BinaryIO) -> bytes:
    """The end of a file with the last whole record in it, or all of the file."""
    size = stream.seek(0, os.SEEK_END)
    length = min(size, _TAIL)
    while True:
        stream.seek(size - length)
        data = stream.read(length)
        if length == size or len(_BANNER.findall(data)) > 2:
            return data
        length = min(size, length * 4)


def write_per_job(directory: str, name: str, text: str) -> None:
    """A file for one ad, which readers find whole or not at all. The group may read it where the directory is setgid.

    :raises OSError: when that is not possible.
    """
    place = Path(directory)
    mode = 0o640 if place.stat().st_mode & stat.S_ISGID else _MODE
    whole_file.write(place / name, text, mode=mode, exact=True, lasts=False)


def encoded(text: str) -> bytes:
    """Text of ads as it stands in files: bytes of a job's strings that are no UTF-8 stay what they were."""
    return text.encode("utf-8", "surrogateescape")


def parts_of(path: Path) -> list[Path]:
    """A history file with those that were put aside, the newest last."""
    return [*_older(path), *([path] if path.exists() else [])]


def read_ads(path: Path, kinds: Set[str], *, forwards: bool, block: int = _BLOCK) -> Iterator[ClassAd]:
    """The ads of a file, the newest (last) first unless ``forwards``; the file may be larger than memory.

    :param kinds: the first words of the banners of ads that are wanted, in upper case; empty for all. Ads without a
        banner are of any kind in a file without banners.
    :param block: how much is read at a time, in bytes.
    :raises OSError: when the file cannot be read.
    :raises AdSyntaxError: for a record that is not an ad.
    """
    with path.open("rb") as stream:
        for body, kind in _records(stream) if forwards else _records_backwards(stream, block):
            if not kinds or kind is None or kind in kinds:
                ads = list(parse_ads(body.decode(errors="replace").encode()))
                yield from ads if forwards else reversed(ads)


class Located(Struct, frozen=True):
    """A record: where it begins and ends in its file, the ad's text, and its banner line; empty while it has none."""

    begin: int
    end: int
    body: bytes
    banner: bytes

    def ads(self) -> Iterator[ClassAd]:
        """What the text holds: one ad, as a rule.

        :raises AdSyntaxError: it is not an ad.
        """
        return parse_ads(self.body.decode(errors="replace").encode())


def whole_records(stream: BinaryIO, offset: int = 0) -> Iterator[Located]:
    """The records from ``offset`` on, where one begins, without one of which only a part is written."""
    return (one for one in _located(stream, offset) if one.banner.endswith(b"\n"))


def _located(stream: BinaryIO, offset: int) -> Iterator[Located]:
    """Records, and at last what follows the last banner, however little."""
    stream.seek(offset)
    body: list[bytes] = []
    begin = place = offset
    for line in stream:
        place += len(line)
        if line.startswith(b"***"):
            yield Located(begin, place, b"".join(body), line)
            body, begin = [], place
        else:
            body.append(line)
    yield Located(begin, place, b"".join(body), b"")


def _records(stream: BinaryIO) -> Iterator[tuple[bytes, str | None]]:
    """Texts of ads, each with its kind: None in a file without banners, "" without a word or a banner."""
    for one in _located(stream, 0):
        yield one.body, _kind(one.banner) if one.banner else "" if one.begin else None


def _records_backwards(stream: BinaryIO, block: int) -> Iterator[tuple[bytes, str | None]]:
    """As :func:`_records`, from the end."""
    end = stream.seek(0, os.SEEK_END)
    data, is_first, size = b"", True, block
    while end > 0:
        start = max(0, end - size)
        stream.seek(start)
        piece = stream.read(end - start)
        if start > 0:  # begin with a whole line
            cut = piece.find(b"\n") + 1
            if cut in (0, len(piece)):
                size *= 2
                continue
            start, piece = start + cut, piece[cut:]
        data, end, size = piece + data, start, block
        banners = list(_ANY_BANNER.finditer(data))
        if is_first and (banners or end == 0):
            yield (data[banners[-1].end() :], "") if banners else (data, None)
            is_first = False
        if not banners:
            continue
        # The body of the first may begin in the block before.
        for former, banner in zip(reversed(banners[:-1]), reversed(banners[1:]), strict=True):
            yield data[former.end() : banner.start()], _kind(banner.group())
        if end == 0:
            yield data[: banners[0].start()], _kind(banners[0].group())
        data = data[: banners[0].end()]


def _kind(banner: bytes) -> str:
    words = banner[3:].split(maxsplit=1)
    return words[0].decode(errors="replace").upper() if words else ""


def _older(path: Path) -> list[Path]:
    found = []
    for one in path.parent.glob(f"{_literal(path.name)}.*"):
        if _is_aside(path, one):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile, as beyond MAX_HISTORY_ROTATIONS
                found.append((one.stat().st_mtime_ns, one.name, one))
    return [one for _, _, one in sorted(found)]


def _is_aside(path: Path, one: Path) -> bool:
    suffix = one.name.removeprefix(path.name)
    return ASIDE.fullmatch(suffix) is not None or suffix == ".old"


def _literal(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _put_aside(path: Path, coming: int, rotation: Rotation, now: float) -> int:
    """Put the file aside if it is time; the mode of the one that follows."""
    try:
        state = path.stat()
    except FileNotFoundError:
        older = _older(path)
        return stat.S_IMODE(older[-1].stat().st_mode) if older else _MODE
    mode = stat.S_IMODE(state.st_mode)
    if not rotation.is_due(state.st_size, state.st_mtime, coming, now):
        return mode
    stem = target = f"{path}.{time.strftime('%Y%m%dT%H%M%S', time.localtime(now))}"
    number = 0
    while Path(target).exists():
        number += 1
        target = f"{stem}.{number}"
    synchronise(str(path))  # under its new name nobody looks for what the disk does not hold yet
    path.rename(target)
    synchronise(str(path.parent))
    older = _older(path)
    for one in older[: max(0, len(older) - rotation.rotations)]:
        one.unlink()
    return mode


__all__ = [
    "ASIDE", "Located", "Record", "Rotation", "append", "encoded", "parts_of", "repair", "synchronise", "whole_records",
    "write_per_job",
]  # fmt: skip
