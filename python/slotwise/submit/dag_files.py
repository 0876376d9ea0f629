"""How many nodes a DAG has, by its files, for the job of HTCondor's condor_dagman, which cannot tell this schedd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.errors import UsageError
from slotwise.execution.dagman import dag_files, is_dagman

_SCHEDULER = 7
#: Commands that make a node; SUBDAG is followed by EXTERNAL. Service nodes are none of the DAG's.
_NODES = frozenset(("JOB", "FINAL", "PROVISIONER", "SUBDAG"))
#: Files of a DAG that are looked at, and bytes of each.
_FILES_MOST, _BYTES_MOST = 1000, 256 * 1024 * 1024


def nodes_total(ad: ClassAd) -> int | None:
    """The nodes of the DAG that a job drives, those of splices and included files among them; None of any other job,
    and where a file cannot be read."""
    if ad.get("JobUniverse") != _SCHEDULER or not is_dagman(ad.get("Cmd")):
        return None
    base = Path(str(ad.get("Iwd", "/")))
    try:
        files = [base / name for name in dag_files(ad)]
        left = [_FILES_MOST]
        return sum(_nodes(file, base, left) for file in files) if files else None
    except (OSError, UsageError, RecursionError):
        return None


def _nodes(file: Path, base: Path, left: list[int]) -> int:
    left[0] -= 1
    if left[0] < 0 or not file.is_file() or file.stat().st_size > _BYTES_MOST:
        raise UsageError(f"{file} is no file, or part of a DAG with too many or too large ones")
    count = 0
    for words in _commands(file):
        command = words[0].upper()
        if command in _NODES:
            count += 1
        elif command == "SPLICE" and len(words) > 2:
            place = base / words[4] if len(words) > 4 and words[3].upper() == "DIR" else base
            count += _nodes(place / words[2], place, left)
        elif command == "INCLUDE" and len(words) > 1:
            count += _nodes(base / words[1], base, left)
    return count


def _commands(file: Path) -> Iterator[list[str]]:
    """The words of each line; ``#`` begins a comment, and a line that ends with ``\\\\`` goes on in the next."""
    begun = ""
    for line in file.read_text(errors="replace").splitlines():
        text = begun + line.strip()
        if text.startswith("#"):
            begun = ""
            continue
        if text.endswith("\\"):
            begun = text[:-1] + " "
            continue
        begun = ""
        if words := text.split():
            yield words


__all__ = ["nodes_total"]
