"""What a call of ``slotwise submit`` asks for, once its command line is read."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.cli.common.options import Parsed


class SubmitArgs(Struct):
    """A call, read: the description's text and name, statements around it, and the options."""

    parsed: Parsed
    text: str
    filename: str
    before: list[str] = field(default_factory=list)
    append: list[str] = field(default_factory=list)
    queue: str | None = None
    #: Whether the command line names standard input as the description, with ``-``.
    names_stdin: bool = False
    #: Whether files need not be there.
    unchecked: bool = False

    @property
    def spool(self) -> bool:
        """Whether the files travel too."""
        return self.parsed.has("spool") or self.parsed.has("remote")

    @property
    def verbose(self) -> bool:
        """Whether the ads are shown."""
        return not self.parsed.has("terse") and (self.parsed.has("verbose") or self.names_stdin)
