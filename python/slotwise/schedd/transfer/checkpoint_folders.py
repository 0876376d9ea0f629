"""What the access point keeps of checkpoints at a job's ``checkpoint_destination``: their manifests, in SPOOL.

Each such job has the directory ``checkpoints/CLUSTER/PROC``, the schedd's own, apart from all that jobs leave: what is
in it decides which files are deleted, and as whom. Manifests of good checkpoints have HTCondor's name; FAILURE stands
for MANIFEST in those of checkpoints that are not what they should be, and OLD in those that later ones have replaced.
Both are kept until the checkpoint's files are deleted. All of this blocks: it is for worker threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from slotwise import whole_file
from slotwise.daemon.host_faults import waited_out
from slotwise.transfer import checkpoint_manifest

_RECORD, _AD = "record.json", "job.ad"
_GOOD, _BAD, _OLD = "MANIFEST", "FAILURE", "OLD"


class Record(Struct, frozen=True):
    """Whose the checkpoints are: an account (empty: none here), and the URLs that each of them is below."""

    account: str
    places: dict[int, str] = field(default_factory=dict)


class Unwanted(Struct, frozen=True):
    """A checkpoint whose files are to be deleted. ``is_whole``: all of them should be there."""

    number: int
    path: Path
    is_whole: bool


class CheckpointFolder(Struct, frozen=True):
    """The directory of one job."""

    path: Path

    @property
    def key(self) -> str:
        """The job's id."""
        return f"{self.path.parent.name}.{self.path.name}"

    def record(self) -> Record | None:
        """Whose the checkpoints are; None when that cannot be read."""
        try:
            return msgspec.json.decode((self.path / _RECORD).read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError):
            return None

    def ad(self) -> str:
        """The job's ad when it wrote its last checkpoint, in long form."""
        return (self.path / _AD).read_text("utf-8", "surrogateescape")

    def keep(self, number: int, text: bytes, place: str, account: str, ad: str, *, good: bool) -> None:
        """Keep the manifest of a checkpoint below the URL ``place``.

        :raises OSError: when that is not possible.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self.record()
        places = known.places if known is not None and known.account == account else {}
        self._write(_RECORD, msgspec.json.encode(Record(account, {**places, number: place})))
        self._write(_AD, ad.encode("utf-8", "surrogateescape"))
        self._write(checkpoint_manifest.name_of(number), text)
        if not good:
            self.reject(number)

    def _write(self, name: str, data: bytes) -> None:
        waited_out(lambda: whole_file.write(self.path / name, data))

    def reject(self, number: int) -> None:
        """A checkpoint is not what it should be: no run begins with it any more."""
        self._rename(number, _BAD)

    def retire(self, kept: int) -> None:
        """Of the good checkpoints keep the last ``kept``, 1 or more."""
        for number in sorted(self._numbers(_GOOD))[:-kept]:
            self._rename(number, _OLD)

    def last_good(self) -> Path | None:
        """The manifest of the last good checkpoint; one that is damaged is none."""
        for number in sorted(self._numbers(_GOOD), reverse=True):
            path = self.path / checkpoint_manifest.name_of(number)
            if checkpoint_manifest.is_sound(str(path)):
                return path
        return None

    def unwanted(self, *, has_left: bool) -> list[Unwanted]:
        """The checkpoints to delete, in order; all of them once the job has left the queue."""
        kinds = (_BAD, _OLD, _GOOD) if has_left else (_BAD, _OLD)
        found = [(number, kind) for kind in kinds for number in self._numbers(kind)]
        return [Unwanted(number, self.path / _name(number, kind), kind != _BAD) for number, kind in sorted(found)]

    def remove(self) -> None:
        """Remove the directory, and that of its cluster if it was the last."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()

    def _rename(self, number: int, kind: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path / checkpoint_manifest.name_of(number), self.path / _name(number, kind))

    def _numbers(self, kind: str) -> Iterator[int]:
        start = _name(0, kind).removesuffix("0000")
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.path):
                digits = name.removeprefix(start)
                if name.startswith(start) and digits.isascii() and digits.isdigit():
                    yield int(digits)


def _name(number: int, kind: str) -> str:
    return checkpoint_manifest.name_of(number).replace(_GOOD, kind)


def folder_of(root: Path, cluster: int, proc: int) -> CheckpointFolder:
    """The directory of a job below ``root``."""
    return CheckpointFolder(root / str(cluster) / str(proc))


def with_work(
    root: Path, knows: Callable[[str, str], bool], jobs: Mapping[str, Iterable[str]] | None = None
) -> list[tuple[CheckpointFolder, bool]]:
    """The directories that have checkpoints to delete; whether their jobs have left the queue.

    :param knows: whether a job (cluster and proc) is in the queue.
    :param jobs: the procs to look at, by cluster; None: all that there are.
    """
    found = []
    for cluster in _directories(root) if jobs is None else _existing(root, jobs):
        for proc in _directories(cluster) if jobs is None else _existing(cluster, jobs[cluster.name]):
            folder, has_left = CheckpointFolder(proc), not knows(cluster.name, proc.name)
            if has_left or folder.unwanted(has_left=False):
                found.append((folder, has_left))
    return found


def _existing(place: Path, names: Iterable[str]) -> list[Path]:
    """Those directories in a place that are there."""
    return [path for path in map(place.joinpath, names) if path.is_dir() and not path.is_symlink()]


def _directories(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
