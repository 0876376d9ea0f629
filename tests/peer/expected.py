"""Which of HTCondor's tests are run, and why some of their functions do not pass here: one table for all.

``functions.tsv`` has a row for each file, with ``*`` for its functions, and one for each function, or pattern of their
names, that is not expected to pass. A function counts by its last matching row.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct
from slotwise.errors import UsageError

TABLE = Path(__file__).with_name("functions.tsv")


class Expectation(StrEnum):
    """What a function is expected to do here."""

    PASS = "pass"
    #: Differs on purpose.
    INTENDED = "intended"
    #: Reads logs, files or modules that are inside HTCondor.
    INTERNAL = "internal"
    #: Wants what is not there.
    NOT_YET = "not yet"
    #: The whole file is not run.
    NOT_RUN = "not run"

    @property
    def is_red(self) -> bool:
        """Whether the function is run, and not expected to pass."""
        return self in (Expectation.INTENDED, Expectation.INTERNAL, Expectation.NOT_YET)


class Row(Struct, frozen=True):
    """A row of the table. ``file`` and ``functions`` are patterns as of file names; functions as ``Class::test_x``."""

    file: str
    functions: str
    expectation: Expectation
    reason: str = ""


def read(text: str) -> list[Row]:
    """The rows of a table.

    :raises UsageError: for a line that is none, with its number.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        words = line.split("\t")
        try:
            file, functions, expectation, *reason = words
            row = Row(file, functions, Expectation(expectation), *reason)
        except (TypeError, ValueError):
            raise UsageError(
                f"line {number} of the table is not FILE, FUNCTIONS, EXPECTATION and REASON with tabs between",
                hint=f"expectations are {', '.join(Expectation)}",
            ) from None
        if (row.expectation is Expectation.PASS) == bool(row.reason):
            raise UsageError(f"line {number} of the table: what does not pass has a reason, and nothing else has")
        found.append(row)
    return found


def table() -> list[Row]:
    """The rows of ``functions.tsv``."""
    return read(TABLE.read_text(encoding="utf-8"))


def files(rows: Iterable[Row]) -> list[str]:
    """The files to run, in the order of the table."""
    return [row.file for row in rows if row.functions == "*" and row.expectation is not Expectation.NOT_RUN]


def expected(rows: Iterable[Row], file: str, function: str) -> Row:
    """The row that counts for a function; of one that the table does not know, that it passes."""
    found = Row(file, "*", Expectation.PASS)
    for row in rows:
        if fnmatchcase(file, row.file) and fnmatchcase(function, row.functions):
            found = row
    return found
