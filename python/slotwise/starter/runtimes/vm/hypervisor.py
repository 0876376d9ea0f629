"""What the supervisor needs of whatever runs its machine."""

from __future__ import annotations

from typing import Protocol


class MachineGoneError(Exception):
    """The machine, or what runs it, cannot be reached any more."""


class Hypervisor(Protocol):
    """Runs one machine. Methods block; all but :meth:`destroy` raise :class:`MachineGoneError` when it is gone.

    Those that start it raise `MachineError` when it cannot be had.
    """

    @property
    def driver(self) -> str:
        """Its name, for saved states."""
        ...

    @property
    def accelerator(self) -> str:
        """What executes the machine's instructions."""
        ...

    def fileno(self) -> int:
        """Readable when :meth:`ended` is worth asking; -1: only now and then."""
        ...

    def start(self) -> None:
        """Start the machine anew."""
        ...

    def resume(self, path: str, version: str) -> None:
        """Start the machine from a saved state."""
        ...

    def ended(self) -> bool:
        """Whether the machine has powered itself off.

        :raises MachineGoneError: when it has ended otherwise.
        """
        ...

    def pause(self) -> None:
        """Stop the machine; it keeps its memory."""
        ...

    def go_on(self) -> None:
        """Let a paused machine go on."""
        ...

    def save(self, path: str) -> str:
        """Write the machine's state to a file; it is gone then. Returns its type and version."""
        ...

    def press_power_button(self) -> None:
        """Ask the machine to power itself off (ACPI)."""
        ...

    def destroy(self) -> None:
        """End the machine at once, if it is there."""
        ...
