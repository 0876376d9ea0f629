"""What parts that serve several daemons need of a configuration."""

from __future__ import annotations

from typing import Protocol


class Knobs(Protocol):
    """A configuration, for those who read a few knobs of it: `slotwise.config.Config` is one."""

    def get(self, name: str) -> str | None:
        """The text of a knob; None when undefined or empty."""
        ...

    def is_set(self, name: str) -> bool:
        """Whether the configuration sets it, rather than the built-in default."""
        ...

    def get_text(self, name: str) -> str:
        """The text of a knob, or of its built-in default."""
        ...

    def get_int(self, name: str) -> int:
        """An integer knob."""
        ...

    def get_bool(self, name: str) -> bool:
        """A truth knob."""
        ...
