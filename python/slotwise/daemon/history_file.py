"""Files to which ads of the past are appended, put aside when they are full. As the reference's history files.

A record is an ad in long form, then a line of three stars with some facts. What is put aside gets the time as its
suffix (manual: MAX_HISTORY_LOG, MAX_HISTORY_ROTATIONS).
"""

from __future__ import annotations

import time
from pathlib import Path


def append(path: str, text: str, *, size_most: int, rotations: int) -> None:
    """Append whole records; a file that would grow beyond ``size_most`` bytes (0: no bound) is put aside first.

    :raises OSError: when that is not possible.
    """
    data = encoded(text)
    _rotate(Path(path), len(data), size_most, rotations)
    with Path(path).open("ab") as stream:
        stream.write(data)


def encoded(text: str) -> bytes:
    """Text of ads as it stands in files: bytes of a job's strings that are no UTF-8 stay what they were."""
    return text.encode("utf-8", "surrogateescape")


def size_of(path: str) -> int:
    """Where the next record begins."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _rotate(path: Path, coming: int, size_most: int, rotations: int) -> None:
    size = size_of(str(path))
    if size == 0 or size_most <= 0 or size + coming <= size_most:
        return
    stem = target = f"{path}.{time.strftime('%Y%m%dT%H%M%S')}"
    number = 0
    while Path(target).exists():
        number += 1
        target = f"{stem}.{number}"
    path.rename(target)
    older = sorted(path.parent.glob(path.name + ".2*"), key=lambda one: (one.stat().st_mtime_ns, one.name))
    for one in older[: max(0, len(older) - rotations)]:
        one.unlink()
