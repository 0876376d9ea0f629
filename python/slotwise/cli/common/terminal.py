"""What is printed to a terminal: control characters of ads and messages are shown, not sent.

Any user may put any text into an ad, a reason or a file name. Sent as it is to a terminal it could set its title, clear
it, or write over what stands there. Programs that read the output through a pipe get every byte as it is.
"""

from __future__ import annotations

from typing import IO

#: C0 but for tab, line feed and carriage return; DEL; C1, which some terminals obey too.
_SHOWN = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}


def escaped(text: str) -> str:
    """``text`` with its control characters as escapes."""
    return text.translate(_SHOWN)


class TerminalText:
    """A stream of text to a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` with its control characters as escapes."""
        return self._stream.write(escaped(text))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def shown(stream: IO[str]) -> IO[str]:
    """``stream``, or one that shows control characters if it is a terminal."""
    return TerminalText(stream) if stream.isatty() else stream  # type: ignore[return-value]


def as_it_is(stream: IO[str]) -> IO[str]:
    """The stream behind :func:`shown`: for what a job has written, which may colour its output."""
    return stream._stream if isinstance(stream, TerminalText) else stream
