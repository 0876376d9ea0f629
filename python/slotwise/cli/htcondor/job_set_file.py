"""The file of ``htcondor jobset submit``: a name, a table of items, and job descriptions queued for each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from slotwise.classad import quote
from slotwise.errors import UsageError
from slotwise.submit import Outline, outline

_COMMANDS = frozenset(("name", "iterator", "job"))
#: Separates the fields of an item in a queue statement.
_FIELD = "\x1f"
#: The text of a file that the job set's file names; raises OSError.
Reader = Callable[[str], str]


class JobSetFile(Struct):
    """What a file says: the set's name, the names of the table's columns, its rows, and the jobs' descriptions, each
    with the columns by the names that it has for them."""

    name: str | None = None
    columns: tuple[str, ...] = ()
    rows: list[list[str]] | None = None
    jobs: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    def descriptions(self) -> list[str]:
        """The submit descriptions, each with a queue statement for all rows.

        :raises SubmitError: one cannot be read.
        """
        return [self._description(outline(text), columns) for text, columns in self.jobs]

    def _description(self, found: Outline, columns: Mapping[str, str]) -> str:
        lines = []
        for key, raw, _ in found.statements:
            for name, column in columns.items():
                raw = re.sub(rf"\$\({re.escape(name)}\)", f"$({column})".replace("\\", r"\\"), raw, flags=re.IGNORECASE)
            lines.append(f"{key} @=end_of_value\n{raw}\n@end_of_value" if "\n" in raw else f"{key} = {raw}")
        count = re.match(r"\s*(\d+)", found.queue or "")
        items = "".join(_FIELD.join(row) + "\n" for row in self.rows or ())
        return "\n".join(
            (
                *lines,
                f"MY.JobSetName = {quote(self.name or '')}",
                "MY.InJobSet = True",
                f"queue {count[1] if count else 1} {','.join(self.columns)} from (\n{items})\n",
            )
        )


def parse(text: str, file: str, read: Reader) -> JobSetFile:
    """Read a job set's file.

    :param file: its name, for errors.
    :raises UsageError: names file and line.
    """
    found = JobSetFile()
    lines = _Lines(text, file)
    for line in lines:
        if not line or line.startswith("#"):
            continue
        command = line.split()[0].split("=")[0].casefold()
        if command not in _COMMANDS:
            raise UsageError(f'Unrecognized command "{command}" in {lines.place}.')
        if command == "job":
            found.jobs.append(_job(line, lines, read))
        elif command == "iterator":
            if found.rows is not None:
                raise UsageError(f"Job set iterator can only be set once, second iterator found in {lines.place}.")
            found.columns, found.rows = _iterator(_value(line, command, lines), lines, read)
        elif found.name is not None:
            raise UsageError(f"Job set name can only be set once, second name found in {lines.place}.")
        else:
            found.name = _value(line, command, lines)
            if not found.name:
                raise UsageError(f"Blank job set name found in {lines.place}.")
    if found.name is None:
        raise UsageError(f"Required name not found in {file}")
    if found.rows is None:
        raise UsageError(f"Required iterator not found in {file}")
    return found


class _Lines:
    """The lines of a file, and blocks in braces."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.number = 0
        self._left = iter(text.splitlines())

    def __iter__(self) -> Iterator[str]:
        for line in self._left:
            self.number += 1
            yield line.strip()

    @property
    def place(self) -> str:
        return f"{self.file} at line {self.number}"

    def block(self) -> str:
        """The lines up to the closing brace."""
        start = self.number
        kept: list[str] = []
        for line in self:
            words = line.split("#")[0].split()
            if words == ["}"]:
                return "\n".join(kept) + "\n"
            if words and words[-1] == "{":
                break
            kept.append(line)
        raise UsageError(f"Unclosed bracket in {self.file} starting at line {start}.")


def _value(line: str, command: str, lines: _Lines) -> str:
    _, equals, value = line.split("#")[0].partition("=")
    if not equals:
        raise UsageError(f"Malformed {command} command in {lines.place}.")
    return value.partition("=")[0].strip()


def _iterator(value: str, lines: _Lines, read: Reader) -> tuple[tuple[str, ...], list[list[str]]]:
    words = value.split()
    if len(words) < 3:
        raise UsageError(f'Unparseable iterator "{value}" in {lines.place}.')
    if words[0] != "table":
        raise UsageError(f'Unknown iterator type "{words[0]}" in {lines.place}.')
    names, source = tuple(value.replace(",", " ").split()[1:-1]), words[-1]
    if source == "{":
        start = lines.number
        return names, _rows(names, lines.block(), lines.file, start)
    try:
        table = read(source)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Error opening table file {source} in {lines.place}:\n{error}") from None
    return names, _rows(names, table, source, 0)


def _rows(names: tuple[str, ...], text: str, file: str, start: int) -> list[list[str]]:
    rows = []
    for number, line in enumerate(text.split("\n"), start + 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        row = [word.strip() for word in line.split(",")]
        if len(row) != len(names):
            raise UsageError(
                f"Mismatch between number of iterator names ({len(names)}) and values ({len(row)}) in {file} "
                f"at line {number}."
            )
        rows.append(row)
    return rows


def _job(line: str, lines: _Lines, read: Reader) -> tuple[str, Mapping[str, str]]:
    *mappings, source = line.split("#")[0].split()[1:] or [""]
    columns = {}
    if mappings and "=" not in "".join(mappings):
        raise UsageError(f'Unsupported mapping "{" ".join(mappings)}" in {lines.place}.')
    for mapping in ",".join(mappings).split(",") if mappings else ():
        name, equals, column = (part.strip() for part in mapping.partition("="))
        if not equals or "=" in column:
            raise UsageError(f'Unsupported mapping "{mapping}" in {lines.place}.')
        columns[name] = column
    if source == "{":
        return lines.block(), columns
    if not source:
        raise UsageError(f"Malformed job command in {lines.place}.")
    try:
        return read(source), columns
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Error opening submit description file {source} in {lines.place}:\n{error}") from None
