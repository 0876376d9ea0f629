"""Runs the commands that a page shows, as they stand there, and compares what they print with what the page says.

A page's ``console`` blocks are one session: lines that begin with ``$ `` are commands, with the lines of a
here-document that they open; the other lines are what is printed, in this order, be it on standard output or error.
``...`` stands for anything within a line, or, alone, for any lines. Amounts of blanks do not count. A block that begins
with ``# not run:`` and a reason is shown to readers only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NOT_RUN = "# not run:"
_END = "@@ end of command"
#: What ``slotwise up`` says where the daemons are an ordinary user's.
_OF_THE_HOST = "NOTE: memory and CPU limits of jobs are not enforced here"


@dataclass
class Command:
    """A command of a page, and the lines that the page says it prints."""

    text: str
    printed: list[str] = field(default_factory=list)


def commands_of(markdown: str) -> list[Command]:
    """The commands of a page's console blocks, in order."""
    found: list[Command] = []
    for block in _BLOCK.findall(markdown):
        if not block.startswith(_NOT_RUN):
            found += _of_block(block)
    return found


def _of_block(block: str) -> list[Command]:
    found: list[Command] = []
    until = ""
    for line in block.splitlines():
        if until:
            found[-1].text += "\n" + line
            until = "" if line == until else until
        elif line.startswith("$ "):
            found.append(Command(line[2:]))
            here = re.search(r"<<-?\s*'?(\w+)'?", line)
            until = here[1] if here else ""
        elif line.endswith("\\") or (found and found[-1].text.endswith("\\")):
            found[-1].text += "\n" + line
        else:
            found[-1].printed.append(line)
    assert not until, f"a here-document does not end with {until}: {block}"
    return found


def _pattern(line: str) -> str:
    words = re.split(r"\s+", line.strip())
    return r"\s+".join(".*".join(re.escape(part) for part in word.split("...")) for word in words)


def missing_line(printed: str, wanted: list[str]) -> str | None:
    """The first line of a page that a command does not print, at its place; None: all are there.

    Lines that the page leaves out without a ``...`` of their own count as missing, but for empty ones and for what
    ``up`` says of a host that does not enforce limits.
    """
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not line.startswith(_OF_THE_HOST)]
    place, skips = 0, False
    for line in (line.strip() for line in wanted):
        if not line:
            continue
        if line == "...":
            skips = True
            continue
        pattern = re.compile(_pattern(line))
        rest = range(place, len(lines) if skips else min(place + 1, len(lines)))
        hit = next((at for at in rest if pattern.fullmatch(lines[at])), None)
        if hit is None:
            return line
        place, skips = hit + 1, False
    return None if skips or not wanted or place == len(lines) else f"(nothing more than) {wanted[-1]}"


def run(pool: Pool, markdown: str) -> None:
    """Run a page's commands in the directory of a pool, one session of a shell, and compare.

    :raises AssertionError: a command fails, or prints something else than the page says.
    """
    commands = commands_of(markdown)
    assert commands, "the page shows no commands"
    programs = pool.root / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "slotwise").write_text(f'#!/bin/sh\nexec {Pool.command[0]} "$@"\n')
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    script = "exec 2>&1\nset -u\n"
    for number, command in enumerate(commands):
        script += f"{command.text}\nstatus=$?; printf '\\n%s %d %d\\n' '{_END}' {number} $status\n"
        script += "test $status -eq 0 || exit 1\n"
    place = pool.root / "work"
    place.mkdir(exist_ok=True)
    shutil.chown(place, pool.root.owner(), pool.root.group())
    pool.env.pop("_CONDOR_SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES", None)
    env = pool.env | {"PATH": f"{programs}:/usr/bin:/bin", "TERM": "dumb", "COLUMNS": "120"}
    done = subprocess.run(
        [*pool.account, "bash", "-c", script],
        env=env, cwd=place, capture_output=True, text=True, timeout=4 * LIMIT_S, check=False,
    )  # fmt: skip
    pieces = re.split(rf"\n{re.escape(_END)} (\d+) (\d+)\n", done.stdout)
    for number, command in enumerate(commands):
        said = pieces[3 * number] if 3 * number < len(pieces) else ""
        status = pieces[3 * number + 2] if 3 * number + 2 < len(pieces) else "none"
        assert status == "0", f"$ {command.text}\nends with {status}:\n{said}"
        if command.printed:
            absent = missing_line(said, command.printed)
            assert absent is None, f"$ {command.text}\ndoes not print {absent!r}, but\n{said}"


def page(path: str) -> str:
    """The text of a page below ``docs``."""
    return (Path(__file__).parents[2] / "docs" / path).read_text(encoding="utf-8")
