"""The configuration as one slot reads it: ``SLOT<N>_X``, then ``SLOT_TYPE_<N>_X``, then ``X``.

The first is spelled with the slot's name, as in HTCondor: where slots are called ``vm1``, ``VM1_X`` counts and
``SLOT1_X`` does not.
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.config import Config
from slotwise.config.slot_names import prefix_of


class SlotConfig(Struct, frozen=True):
    """One slot's view of a configuration; type 0 is none.

    A form of a knob that is set to nothing does not count.
    """

    config: Config
    slot_id: int
    type_number: int = 0

    def forms(self, name: str) -> list[str]:
        """The knobs of the slot, and of its type, that come before ``name``."""
        own = f"{prefix_of(self.config, self.type_number).upper()}{self.slot_id}_{name}"
        return [own, *([f"SLOT_TYPE_{self.type_number}_{name}"] if self.type_number else [])]

    def full_name(self, name: str) -> str:
        """The knob that has the value, which is the one to name in errors."""
        return next((full for full in self.forms(name) if self.config.get_str(full).strip()), name)

    def get(self, name: str) -> str | None:
        """See :meth:`Config.get`."""
        return self.config.get(self.full_name(name))

    def get_text(self, name: str) -> str:
        """See :meth:`Config.get_text`."""
        return self.config.get_text(self.full_name(name))

    def get_bool(self, name: str) -> bool:
        """See :meth:`Config.get_bool`."""
        return self.config.get_bool(self.full_name(name))

    def get_list(self, name: str) -> list[str]:
        """See :meth:`Config.get_list`."""
        return self.config.get_list(self.full_name(name))
