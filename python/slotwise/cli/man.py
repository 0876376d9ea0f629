"""Writes man pages from what commands say about themselves.

``python -m slotwise.cli.man DIRECTORY`` writes ``slotwise.1`` and a page for each command (``slotwise-q.1``) into
``DIRECTORY/man1``. HTCondor's names have none: those pages would be in the way of an HTCondor beside this.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from slotwise import __version__
from slotwise.cli import help_text
from slotwise.cli.document import columns, help_of
from slotwise.cli.help_text import HelpText
from slotwise.cli.registry import COMMANDS

_FILES = """\
.SH FILES
.TP
.I /etc/slotwise/condor_config
The configuration, where neither
.B CONDOR_CONFIG
nor the pool's directory has one.
.TP
.I /etc/slotwise/home
Names the directory of the pool of this host.
.SH ENVIRONMENT
.TP
.B SLOTWISE_HOME
The directory of the pool; else
.IR ~/.slotwise ,
where there is a pool, else that of the host's.
.TP
.B CONDOR_CONFIG
The configuration file.
.SH EXIT STATUS
0: done. 1: failed. 2: bad usage.
"""


def _roff(text: str) -> str:
    """Text as roff takes it: nothing of it is a request, and hyphens of options stay hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _head(name: str, purpose: str) -> list[str]:
    title = name.upper().replace("-", "\\-")
    return [
        f'.TH "{title}" 1 "" "Slotwise {__version__}" "Slotwise"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(purpose)}",
    ]


def _body(help_: HelpText) -> list[str]:
    lines = [".SH SYNOPSIS", ".nf", *(_roff(form) for form in help_.usage), ".fi"]
    if help_.description:
        lines += [".SH DESCRIPTION", _roff(help_.description)]
    if any(section.entries for section in help_.sections):
        lines.append(".SH OPTIONS")
    for section in help_.sections:
        if section.heading and section.heading != "Options":
            lines.append(f".SS {_roff(section.heading)}")
        for entry in section.entries:
            # A line of its own without an explanation is a sentence as often as an option.
            lines += [".TP", f".B {_roff(entry.term)}", _roff(entry.text)] if entry.text else [".PP", _roff(entry.term)]
    return lines


def page(name: str) -> str:
    """The page of a command, with its verbs."""
    entry = COMMANDS[name]
    parts = help_text.read(help_of(name))
    lines = [*_head(f"slotwise-{name}", entry.help), *_body(parts)]
    for verb in parts.verbs:
        inner = _body(help_text.read(help_of(name, verb)))
        lines += [f'.SH "{name.upper()} {verb.upper()}"', *(re.sub(r"^\.SH ", ".SS ", line) for line in inner)]
    return "\n".join([*lines, *_FILES.splitlines(), ".SH SEE ALSO", ".BR slotwise (1)", ""])


def overview() -> str:
    """The page of ``slotwise`` itself."""
    lines = [
        *_head("slotwise", "resource manager for high-throughput computing pools"),
        ".SH SYNOPSIS",
        ".B slotwise",
        ".I COMMAND",
        "[arguments]",
        ".SH COMMANDS",
    ]
    for name, entry in COMMANDS.items():
        lines += [".TP", f".BR {_roff(f'slotwise-{name}')} (1)", _roff(entry.help)]
    return "\n".join([*lines, *_FILES.splitlines(), ""])


def write(directory: Path) -> None:
    """Write all pages into ``directory``."""
    place = directory / "man1"
    place.mkdir(parents=True, exist_ok=True)
    (place / "slotwise.1").write_text(overview(), encoding="utf-8")
    with columns(80):
        for name in COMMANDS:
            (place / f"slotwise-{name}.1").write_text(page(name), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
