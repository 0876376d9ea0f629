"""A machine saved to files: its memory and devices, and what a host needs to go on with them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from slotwise.starter.runtimes.vm.machine import Machine

#: The machine's state, in the scratch directory; both files go with the disks from start to start.
STATE = "vm_checkpoint.state"
FACTS = "vm_checkpoint.json"


class SavedFacts(Struct, frozen=True):
    """What a saved state was made by, and of."""

    driver: str
    #: The type and version of the machine, as the driver names it.
    version: str
    accelerator: str
    memory_mib: int
    vcpus: int
    #: Sizes of the disks at that time, by device.
    disks: Mapping[str, int]

    def encode(self) -> str:
        """As text, for :func:`decode_facts`."""
        return json.dumps(asdict(self))


def facts_of(machine: Machine, driver: str, version: str, accelerator: str, sizes: Mapping[str, int]) -> SavedFacts:
    """The facts of a machine that is saved now."""
    return SavedFacts(driver, version, accelerator, machine.memory_mib, machine.vcpus, dict(sizes))


def decode_facts(text: str) -> SavedFacts:
    """The facts of a text that :meth:`SavedFacts.encode` made.

    :raises ValueError: when it is none.
    """
    try:
        return SavedFacts(**json.loads(text))
    except TypeError as error:
        raise ValueError(f"not the facts of a saved machine: {error}") from None


def obstacle(saved: SavedFacts, now: SavedFacts) -> str:
    """Why a machine cannot go on from a saved state, in words; empty: it can.

    :param now: the facts of the machine as it would start here.
    """
    if saved.driver != now.driver:
        return f"it was saved by {saved.driver}, and {now.driver} runs machines here"
    if saved.accelerator != now.accelerator:
        return f"it was saved under {saved.accelerator}, and machines run under {now.accelerator} here"
    if (saved.memory_mib, saved.vcpus) != (now.memory_mib, now.vcpus):
        return f"it was saved with {saved.memory_mib} MiB and {saved.vcpus} cores"
    if dict(saved.disks) != dict(now.disks):
        return "its disks are not those that it was saved with"
    return ""
