"""The slots of a host, by name and by what they run."""

from __future__ import annotations

from collections.abc import Iterator

from slotwise.startd.records.slot_record import SlotRecord


class Slots:
    """The records of all slots, dynamic ones included."""

    def __init__(self) -> None:
        self._by_name: dict[str, SlotRecord] = {}
        #: The names of the slots that run something, by run id.
        self.by_run: dict[str, str] = {}

    def __iter__(self) -> Iterator[SlotRecord]:
        """Every slot; one that is deleted during the iteration is left out."""
        for record in list(self._by_name.values()):
            if self._by_name.get(record.name) is record:
                yield record

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> SlotRecord:
        return self._by_name[name]

    def get(self, name: str | None) -> SlotRecord | None:
        """The slot of this name (``slot1_2@host``), if there is one."""
        return None if name is None else self._by_name.get(name)

    def names(self) -> list[str]:
        """The names of all slots."""
        return list(self._by_name)

    def add(self, record: SlotRecord) -> None:
        """Add a slot, or replace the one of its name."""
        self._by_name[record.name] = record

    def remove(self, record: SlotRecord) -> None:
        """Delete a slot."""
        del self._by_name[record.name]

    def children(self, record: SlotRecord) -> list[SlotRecord]:
        """The dynamic slots of a partitionable one, by number."""
        return sorted((self._by_name[name] for name in record.children), key=lambda child: child.dslot_id)

    def of_run(self, run_id: str) -> SlotRecord | None:
        """The slot that runs ``run_id``."""
        return self.get(self.by_run.get(run_id))

    def names_of_run(self, run_id: str) -> list[str]:
        """The name of the slot that runs ``run_id``; empty where there is none."""
        name = self.by_run.get(run_id)
        return [] if name is None else [name]
