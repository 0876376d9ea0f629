"""Command-line options as HTCondor users type them: one dash or two, shortened down to a minimum fixed for each.

``-af:jh`` carries letters behind a colon; ``-af`` and its like take every word up to the next option.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from slotwise.errors import UsageError

#: As many words as come before the next option.
REST = -1
#: One word, unless the next one is an option.
OPTIONAL = -2


class UnknownOptionError(UsageError):
    """``word`` is not an option of the command."""

    def __init__(self, word: str) -> None:
        super().__init__(f"unknown option {word}", hint="--help lists the options")
        self.word = word


class MissingValueError(UsageError):
    """``option`` came without the words that it takes."""

    def __init__(self, word: str, option: str, count: int) -> None:
        super().__init__(f"{word} needs {count} value{'s' if count > 1 else ''}")
        self.option = option


class Option(Struct, frozen=True):
    """``name`` may be shortened to ``least`` letters (0: not at all) and takes ``values`` words."""

    name: str
    least: int = 0
    values: int = 0
    #: Name under which it is found when parsed, if another.
    stands_for: str = ""

    def means(self, word: str) -> bool:
        """Whether ``word`` (without dashes, lower case) is this option."""
        least = self.least or len(self.name)
        return len(word) >= least and self.name.startswith(word)


class Given(Struct):
    """One option as typed."""

    name: str
    letters: str = ""
    values: list[str] = field(default_factory=list)
    #: Whether there was a colon, be there letters behind it or none.
    colon: bool = False


class Parsed(Struct):
    """What was typed: options in order, and the other words."""

    options: list[Given] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return any(given.name == name for given in self.options)

    def all(self, name: str) -> list[Given]:
        """Every use of the option."""
        return [given for given in self.options if given.name == name]

    def value(self, name: str) -> str | None:
        """The (last) value of the option, or None."""
        found = [given.values[0] for given in self.options if given.name == name and given.values]
        return found[-1] if found else None

    def expressions(self, name: str) -> list[str]:
        """Every value of an option that takes ClassAd expressions, in the new syntax; each must be one by itself.

        :raises AdSyntaxError: when one is not an expression.
        """
        from slotwise.classad import ExprTree, new_syntax  # loaded by calls that have such options only

        texts = [given.values[0] for given in self.all(name)]
        for text in texts:
            ExprTree(text, old=True)
        return [new_syntax(text) for text in texts]

    def number(self, name: str) -> int | None:
        """The value as a whole number.

        :raises UsageError: when it is not a number.
        """
        text = self.value(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"-{name} needs a whole number, not {text!r}") from None


def parse(args: Sequence[str], options: Sequence[Option]) -> Parsed:
    """Sort ``args`` into options and words.

    :raises UsageError: for an unknown option, or one whose values are missing.
    """
    parsed = Parsed()
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if not is_option(word):
            parsed.words.append(word)
            continue
        name, colon, letters = word.lstrip("-").partition(":")
        option = _find(name.lower(), options, word)
        given = Given(option.stands_for or option.name, letters, colon=bool(colon))
        if option.values == OPTIONAL:
            given.values = [rest.pop(0)] if rest and not is_option(rest[0]) else []
        elif option.values == REST:
            while rest and not is_option(rest[0]):
                given.values.append(rest.pop(0))
        else:
            if len(rest) < option.values:
                raise MissingValueError(word, option.name, option.values)
            given.values, rest = rest[: option.values], rest[option.values :]
        parsed.options.append(given)
    return parsed


def is_option(word: str) -> bool:
    """Whether a word is an option: it begins with a dash, is longer than that, and is not a number."""
    return len(word) > 1 and word[0] == "-" and not word[1:].replace(".", "", 1).isdigit()


def _find(name: str, options: Sequence[Option], word: str) -> Option:
    for option in options:
        if option.name == name:
            return option
    found = [option for option in options if option.means(name)]
    if not found:
        raise UnknownOptionError(word)
    return found[0]
