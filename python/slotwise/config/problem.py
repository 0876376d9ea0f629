"""What is wrong, or doubtful, with a configuration: one thing at a time, with its place and its remedy."""

from __future__ import annotations

from msgspec import Struct

from slotwise.config.view import Origin

#: Severities, the worst first.
ERROR, WARNING, NOTE = "error", "warning", "note"


class Problem(Struct, frozen=True):
    """A fault or a doubt. ``code`` is stable; ``hint`` is the remedy, or empty."""

    severity: str
    code: str
    name: str
    message: str
    origin: Origin | None = None
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.origin.file}:{self.origin.line}: " if self.origin and self.origin.line else ""
        if self.origin and not self.origin.line:
            place = f"{self.origin.file}: "
        hint = f" ({self.hint})" if self.hint else ""
        what, newline, excerpt = self.message.partition("\n")
        return f"{place}{self.severity}: {what}{hint}{newline}{excerpt}"

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "Severity": self.severity,
            "Code": self.code,
            "Name": self.name,
            "Message": self.message,
            "File": self.origin.file if self.origin else None,
            "Line": self.origin.line if self.origin else None,
            "Hint": self.hint or None,
        }
