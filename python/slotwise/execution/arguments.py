"""Arguments and environment as job ads carry them, in the old and the new syntax.

New (attributes ``Arguments``, ``Environment``): white space separates, single quotes keep it, two single quotes inside
quotes are one. Old (``Args``): white space separates, nothing quotes. Old (``Env``): entries end at a delimiter,
normally ``;``. HTCondor manual, condor_submit, "arguments" and "environment".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slotwise import _native
from slotwise.errors import UsageError


def split_new(text: str) -> list[str]:
    """The words of new-syntax text.

    :raises UsageError: when a quote is left open.
    """
    words, open_quote = _native.split_arguments(text)
    if open_quote is not None:
        position = len(text.encode(errors="surrogateescape")[:open_quote].decode(errors="surrogateescape"))
        raise UsageError(
            f"unbalanced single quote at position {position} of {text!r}", hint="write '' for a quote inside quotes"
        )
    return words


def join_new(words: Iterable[str]) -> str:
    """New-syntax text of words, spelled as HTCondor writes it: only what needs quotes is inside quotes."""
    return " ".join(_NEEDS_QUOTES.sub(_quoted, word) or "''" for word in words)


#: What :func:`split_new` takes for the end of a word, or for a quote.
_NEEDS_QUOTES = re.compile(r"[ \t\r\n']+")


def _quoted(found: re.Match[str]) -> str:
    return "'" + found[0].replace("'", "''") + "'"


def in_double_quotes(text: str) -> str | None:
    """New-syntax text that is inside double quotes, as the configuration has it (``""`` is one); None without them."""
    text = text.strip()
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return None
    return text[1:-1].replace('""', '"')


def split_old(text: str) -> list[str]:
    """The words of old-syntax arguments."""
    return text.split()


def of_job(new: object, old: object) -> list[str]:
    """The words of the arguments of a job, by its attributes of the new and the old syntax, of which the new counts.

    :raises UsageError: for an open quote.
    """
    if isinstance(new, str):
        return split_new(new)
    return split_old(old) if isinstance(old, str) else []


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
    """The entries of configuration text: new syntax inside double quotes, else old.

    :raises UsageError: when an entry is not understood.
    """
    quoted = in_double_quotes(text)
    return environment_old(text.strip()) if quoted is None else environment_new(quoted)
