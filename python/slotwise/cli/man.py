"""Writes man pages from what commands say about themselves, and from the documentation.

``python -m slotwise.cli.man DIRECTORY [DOCS]`` writes ``slotwise.1`` and a page for each command (``slotwise-q.1``)
into ``DIRECTORY/man1``, and the pages of sections 5 and 7 where ``DOCS`` is the documentation. HTCondor's names have
none: those pages would be in the way of an HTCondor beside this.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from slotwise import __version__
from slotwise.cli import help_text
from slotwise.cli.document import columns, help_of
from slotwise.cli.help_text import HelpText
from slotwise.cli.man_of_docs import PAGES, text_of
from slotwise.cli.registry import COMMANDS
from slotwise.cli.roff import plain as roff

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


def _head(name: str, purpose: str) -> list[str]:
    title = name.upper().replace("-", "\\-")
    return [
        f'.TH "{title}" 1 "" "Slotwise {__version__}" "Slotwise"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(purpose)}",
    ]


def _body(help_: HelpText) -> list[str]:
    lines = [".SH SYNOPSIS", ".nf", *(roff(form) for form in help_.usage), ".fi"]
    if help_.description:
        lines += [".SH DESCRIPTION", roff(help_.description)]
    if any(section.entries for section in help_.sections):
        lines.append(".SH OPTIONS")
    for section in help_.sections:
        if section.heading and section.heading != "Options":
            lines.append(f".SS {roff(section.heading)}")
        for entry in section.entries:
            # A line of its own without an explanation is a sentence as often as an option.
            lines += [".TP", f".B {roff(entry.term)}", roff(entry.text)] if entry.text else [".PP", roff(entry.term)]
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
        lines += [".TP", f".BR {roff(f'slotwise-{name}')} (1)", roff(entry.help)]
    lines.append(".SH FILES AND LANGUAGES")
    for made in PAGES:
        lines += [".TP", f".BR {roff(made.name)} ({made.section})", roff(made.purpose)]
    return "\n".join([*lines, *_FILES.splitlines(), ""])


def write(directory: Path, docs: Path | None = None) -> None:
    """Write all pages into ``directory``; those of sections 5 and 7 where ``docs`` is the documentation."""
    place = directory / "man1"
    place.mkdir(parents=True, exist_ok=True)
    (place / "slotwise.1").write_text(overview(), encoding="utf-8")
    with columns(80):
        for name in COMMANDS:
            (place / f"slotwise-{name}.1").write_text(page(name), encoding="utf-8")
    if docs is None:
        return
    for made in PAGES:
        place = directory / f"man{made.section}"
        place.mkdir(exist_ok=True)
        (place / f"{made.name}.{made.section}").write_text(text_of(made, docs), encoding="utf-8")


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:3]))
