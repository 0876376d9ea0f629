"""The parts of a command's help, for man pages and for completion in shells.

Help has a usage, sentences, and tables of options under headings. All of it is text, as commands print it; the rules of
its form: the usage comes first, headings stand at the margin before indented lines, and two spaces part an option from
what it does, which goes on in lines that are indented further.
"""

from __future__ import annotations

import re
from itertools import pairwise

from msgspec import Struct, field

_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_PARTED = re.compile(r"^( {2,4})(\S.*?)(?: {2,}(\S.*))?$")
_VERBS = re.compile(r"verbs are ([^;]+);")
#: Lines that are indented at least this far continue the text of the option above.
_CONTINUED = 8


class Entry(Struct):
    """An option, or several, with what it does."""

    term: str
    text: str = ""


class Section(Struct):
    """Entries under a heading; the first section of a command's help often has none."""

    heading: str
    entries: list[Entry] = field(default_factory=list)


class HelpText(Struct):
    """A command's help in its parts. ``usage``: without the word itself, a form of the call a line."""

    usage: list[str] = field(default_factory=list)
    description: str = ""
    sections: list[Section] = field(default_factory=list)

    @property
    def options(self) -> list[str]:
        """All options, as they are typed."""
        terms = [*self.usage, *(entry.term for section in self.sections for entry in section.entries)]
        # In tables without columns further options stand in the sentences.
        terms += [entry.text for section in self.sections for entry in section.entries if ";" in entry.text]
        found = {option for term in terms for option in _OPTION.findall(term)}
        return sorted(found)

    @property
    def verbs(self) -> list[str]:
        """Words of which one comes first: `slotwise token create`."""
        match = _VERBS.search(" ".join([*self.usage, self.description]))
        return match[1].split(", ") if match else []


def read(text: str) -> HelpText:
    """The parts of what ``--help`` prints."""
    found = HelpText()
    lines = text.rstrip().splitlines()
    rest = _usage(lines, found)
    sentences: list[str] = []
    for line, following in pairwise([*lines[rest:], ""]):
        stripped = line.strip()
        if not stripped:
            continue
        if not line.startswith(" "):
            if following.startswith(" ") and len(stripped) < 60 and not stripped.endswith("."):
                found.sections.append(Section(stripped.rstrip(":").capitalize()))
            else:
                sentences.append(stripped)
            continue
        _indented(line, found)
    found.description = " ".join(sentences)
    return found


def _usage(lines: list[str], found: HelpText) -> int:
    """Take the usage; returns the number of the first line behind it."""
    for number, line in enumerate(lines):
        text = line.strip()
        if number == 0:
            text = text.removeprefix("usage:").strip()
        elif not line.startswith("       "):
            return number
        if number == 0 or text.startswith("slotwise "):
            found.usage.append(text)
        else:
            found.usage[-1] += f" {text}"
    return len(lines)


def _indented(line: str, found: HelpText) -> None:
    if not found.sections:
        found.sections.append(Section(""))
    entries = found.sections[-1].entries
    if len(line) - len(line.lstrip()) >= _CONTINUED and entries:
        entries[-1].text = f"{entries[-1].text} {line.strip()}".strip()
        return
    match = _PARTED.match(line)
    term, text = (match[2], match[3] or "") if match else (line.strip(), "")
    entries.append(Entry(term, text))
