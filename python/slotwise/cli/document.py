"""Writes the reference page of commands from what they say about themselves.

``python -m slotwise.cli.document DIRECTORY`` writes ``commands.md`` there. A test fails when the page in the
repository is not the one that this makes.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slotwise.cli import help_text, main
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.registry import COMMANDS, CONDOR_NAMES

_ABOUT_COMMANDS = """\
# Commands

Generated from the commands' own help by `python -m slotwise.cli.document docs/reference`; do not edit. Commands about
[jobs](job-commands.md) and about [the pool](pool-commands.md) are explained on pages of their own.

`slotwise COMMAND --help` prints a section of this page. Options have one dash or two and may be shortened. Exit status:
0 done, 1 failed, 2 bad usage.

| Command | Purpose | HTCondor's name |
| --- | --- | --- |
"""


@contextmanager
def columns(width: int) -> Iterator[None]:
    """Help for a terminal of this width, whatever the caller's."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def help_of(*words: str) -> str:
    """What a command prints about itself.

    :raises SystemExit: when it has no help.
    """
    out = io.StringIO()
    err = io.StringIO()
    status = main.dispatch([*words, "--help"], Invocation(Path("/"), {}, io.StringIO(), out, err))
    if status != 0:
        raise SystemExit(f"slotwise {' '.join(words)} --help ends with status {status}: {err.getvalue()}")
    return out.getvalue().rstrip()


def _section(level: str, *words: str) -> list[str]:
    text = help_of(*words)
    lines = [f"{level} slotwise {' '.join(words)}", "", "```text", *text.splitlines(), "```", ""]
    for verb in help_text.read(text).verbs:
        lines += _section(f"{level}#", *words, verb)
    return lines


def commands_page() -> str:
    """The page of commands."""
    named = {entry: f"`{name}`" for name, entry in CONDOR_NAMES.items()}
    rows = [
        f"| [`{name}`](#slotwise-{name}) | {entry.help} | {named.get(entry, '')} |" for name, entry in COMMANDS.items()
    ]
    with columns(80):
        sections = [line for name in COMMANDS for line in _section("##", name)]
    return "\n".join([_ABOUT_COMMANDS + "\n".join(rows), "", *sections])


def write(directory: Path) -> None:
    """Write the page."""
    (directory / "commands.md").write_text(commands_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
