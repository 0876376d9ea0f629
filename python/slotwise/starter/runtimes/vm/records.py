"""Which virtual machines there are on this host: one small file each, which outlives starter and machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from slotwise import whole_file


class VmRecord(Struct, frozen=True):
    """A machine: the name of its run's directory, its own, its memory, its address, and the libvirt that it is in."""

    run: str
    machine: str
    memory_mib: int
    mac: str = ""
    #: Empty: it lives and dies with the job's own processes.
    uri: str = ""


class VmRecords:
    """The records of one EXECUTE."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, record: VmRecord) -> None:
        """Write a record, whole or not at all.

        :raises OSError: when the file system refuses.
        """
        self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        whole_file.write(self._directory / f"{record.run}.json", json.dumps(asdict(record)), lasts=False)

    def remove(self, run: str) -> None:
        """The machine of a run is gone."""
        with contextlib.suppress(FileNotFoundError):
            (self._directory / f"{run}.json").unlink()

    def get(self, run: str) -> VmRecord | None:
        """The record of a run; None when it has none."""
        try:
            return VmRecord(**json.loads((self._directory / f"{run}.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def __iter__(self) -> Iterator[VmRecord]:
        for path in sorted(self._directory.glob("*.json")):
            if (record := self.get(path.stem)) is not None:
                yield record

    def gone(self, live: Collection[str]) -> list[VmRecord]:
        """Records of runs that are not ``live``."""
        return [record for record in self if record.run not in live]
