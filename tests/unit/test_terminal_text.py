"""Control characters in what commands print reach no terminal."""

from __future__ import annotations

import os
import pty
from typing import IO

from slotwise.cli.common.terminal import as_it_is, shown

HOSTILE = "a\x1b]0;title\x07b\x1b[2J\x9b31m\x7f\x00 tab\there\né 東\n"
HARMLESS = "a\\x1b]0;title\\x07b\\x1b[2J\\x9b31m\\x7f\\x00 tab\there\né 東\n"


def printed(stream: IO[str], master: int) -> str:
    stream.flush()
    return os.read(master, 10_000).decode().replace("\r\n", "\n").replace("        here", "\there")


def test_a_terminal_gets_them_as_text_and_a_pipe_as_they_are() -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        shown(terminal).write(HOSTILE)
        assert printed(terminal, master) == HARMLESS
        as_it_is(shown(terminal)).write("\x1b[31mred")
        assert printed(terminal, master) == "\x1b[31mred"
    os.close(master)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        assert shown(pipe) is pipe
        shown(pipe).write(HOSTILE)
    assert os.read(reading, 10_000).decode() == HOSTILE
    os.close(reading)
