"""What runs left behind that could not be removed, and what of it is gone by now: kept until the startd has it in its
journal that the slots are broken, or repaired.

The startd may be away when it happens, and the starter may die before the startd is back; so it goes to a file beside
the runs' control directories, which lives as long as the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from slotwise import whole_file
from slotwise.execution.job_view import SlotView
from slotwise.starter.convert import decode_list, encode_list
from slotwise.starter.messages import Leftover, RunList

#: SlotBrokenCode and SlotBrokenReason, as HTCondor has them.
CANNOT_CLEAN = (4, "Could not clean up after job")
CANNOT_CLEAN_VOLUME = (5, "Could not clean up Logical Volume")
CANNOT_KILL = (6, "Could not terminate all job processes")
NAME = "left"


class Leftovers:
    """The runs that left something, by id; ``directory`` is where the file goes."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._known: dict[str, Leftover] = {}
        self._repaired: dict[str, None] = {}
        with contextlib.suppress(OSError, ValueError):
            kept = decode_list(self._path.read_bytes())
            self._known = {left.run_id: left for left in kept.left}
            self._repaired = dict.fromkeys(kept.repaired)

    def __iter__(self) -> Iterator[Leftover]:
        return iter(list(self._known.values()))

    @property
    def repaired(self) -> list[str]:
        """The runs whose leftovers are gone."""
        return list(self._repaired)

    def note(self, run_id: str, slot: SlotView, code: int, reason: str) -> Leftover:
        """A run left something; the first reason stays."""
        if run_id not in self._known:
            self._known[run_id] = Leftover(
                run_id=run_id, slot_name=slot.name, reason=reason, code=code, cpus=slot.cpus,
                memory_mib=slot.memory_mib, disk_kib=slot.disk_kib, assigned=dict(slot.assigned),
            )  # fmt: skip
            self._write()
        return self._known[run_id]

    def confirm(self, run_id: str) -> None:
        """The startd has it in its journal that the run left something."""
        if self._known.pop(run_id, None) is not None:
            self._write()

    def note_repair(self, run_id: str) -> None:
        """The leftovers of a run are gone."""
        self._known.pop(run_id, None)
        self._repaired[run_id] = None
        self._write()

    def confirm_repair(self, run_id: str) -> None:
        """The startd has it in its journal that the leftovers of a run are gone."""
        if run_id in self._repaired:
            del self._repaired[run_id]
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # no room for it: the startd hears it if it is there
            if not self._known and not self._repaired:
                self._path.unlink(missing_ok=True)
                return
            known = RunList((), tuple(self._known.values()), tuple(self._repaired))
            whole_file.write(self._path, encode_list(known), lasts=False)
