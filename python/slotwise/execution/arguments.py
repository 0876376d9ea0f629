"""Arguments and environment as job ads carry them, in the old and the new syntax.

New (attributes ``Arguments``, ``Environment``): white space separates, single quotes keep it, two single quotes inside
quotes are one. Old (``Args``): white space separates, nothing quotes. Old (``Env``): entries end at a delimiter,
normally ``;``. HTCondor manual, condor_submit, "arguments" and "environment".
"""

from __future__ import annotations

from slotwise.errors import UsageError

_BLANK = " \t\n\r"


def split_new(text: str) -> list[str]:
    """The words of new-syntax text.

    :raises UsageError: when a quote is left open.
    """
    words: list[str] = []
    word: list[str] | None = None
    at = 0
    while at < len(text):
        char = text[at]
        if char in _BLANK:
            if word is not None:
                words.append("".join(word))
                word = None
            at += 1
            continue
        word = word if word is not None else []
        if char != "'":
            word.append(char)
            at += 1
            continue
        quoted, at = _quoted(text, at + 1)
        word.append(quoted)
    if word is not None:
        words.append("".join(word))
    return words


def _quoted(text: str, start: int) -> tuple[str, int]:
    """What stands between the quotes from ``start`` on, and where it goes on behind them."""
    found: list[str] = []
    at = start
    while at < len(text):
        if text[at] != "'":
            found.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "'":
            found.append("'")
            at += 2
        else:
            return "".join(found), at + 1
    raise UsageError(
        f"unbalanced single quote at position {start} of {text!r}", hint="write '' for a quote inside quotes"
    )


def split_old(text: str) -> list[str]:
    """The words of old-syntax arguments."""
    return text.split()


def environment_new(text: str) -> dict[str, str]:
    """The entries of a new-syntax environment.

    :raises UsageError: for an entry without ``=`` or name, or an open quote.
    """
    return dict(_entry(word) for word in split_new(text))


def environment_old(text: str, delimiter: str = ";") -> dict[str, str]:
    """The entries of an old-syntax environment.

    :raises UsageError: for an entry without ``=`` or name.
    """
    entries = (piece.strip() for piece in text.split(delimiter))
    return dict(_entry(entry) for entry in entries if entry)


def _entry(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise UsageError(f"the environment entry {word!r} is not NAME=VALUE")
    return name, value


def environment_either(text: str) -> dict[str, str]:
    """Configuration text: new syntax inside double quotes (``""`` is one), else old.

    :raises UsageError: when an entry is not understood.
    """
    stripped = text.strip()
    if len(stripped) >= 2 and stripped[0] == stripped[-1] == '"':
        return environment_new(stripped[1:-1].replace('""', '"'))
    return environment_old(stripped)
