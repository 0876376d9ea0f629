"""Words that stand for truth values, where text comes from outside the configuration's own types."""

from __future__ import annotations

#: What HTCondor and its users write.
TRUE = frozenset({"true", "t", "yes", "y", "1"})
FALSE = frozenset({"false", "f", "no", "n", "0"})


def truth(text: str) -> bool | None:
    """What a word says, in any case of letters and with blanks around it; None for any other text."""
    word = text.strip().lower()
    return True if word in TRUE else False if word in FALSE else None
