"""Text in the language of man pages."""

from __future__ import annotations


def plain(text: str) -> str:
    """Text as roff takes it: nothing of it is a request, hyphens of options stay hyphens, other scripts are named."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text
