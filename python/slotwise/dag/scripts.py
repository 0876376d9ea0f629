"""Scripts of nodes as processes: the user's programs, on the host and with the rights of the runner."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

#: Bytes of a script's output that are kept at most.
_OUTPUT_MOST = 1 << 20


class Script(Struct, frozen=True):
    """A script that is to run.

    :ivar kind: "pre", "post" or "hold".
    :ivar line: as the DAG file has it, for the file of its output.
    :ivar debug: a file for its output, and which of it: STDOUT, STDERR or ALL.
    :ivar defer: a status that means "again", and after how many seconds.
    """

    node: int
    name: str
    kind: str
    words: Sequence[str]
    directory: Path
    defer: tuple[int, int] | None = None
    debug: tuple[Path, str] | None = None


class _Running(Struct):
    script: Script
    process: subprocess.Popen[bytes]
    output: IO[bytes] | None


class Scripts:
    """Those that run."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    def start(self, script: Script) -> int | None:
        """Start a script; gives its exit status if it could not be started, as HTCondor counts that."""
        output: IO[bytes] | None = None
        wanted = "" if script.debug is None else script.debug[1]
        if script.debug is not None:
            output = tempfile.TemporaryFile()  # noqa: SIM115 - read when the script has ended
        program = str(script.directory / script.words[0]) if script.words else ""
        try:
            process = subprocess.Popen(
                script.words, executable=program, cwd=script.directory, stdin=subprocess.DEVNULL,
                start_new_session=True, stdout=output if wanted in ("STDOUT", "ALL") else None,
                stderr=output if wanted in ("STDERR", "ALL") else None,
            )  # fmt: skip
        except (OSError, ValueError):
            _keep(script, output, 1)
            return 1
        self._running.append(_Running(script, process, output))
        return None

    def ended(self) -> Iterator[tuple[Script, int]]:
        """Scripts that have ended since the last call, and their exit statuses; signals are negative."""
        for one in list(self._running):
            value = one.process.poll()
            if value is not None:
                self._running.remove(one)
                _keep(one.script, one.output, value)
                yield one.script, value

    def kill(self) -> None:
        """End all that run, with the processes that they started."""
        for one in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()
        self._running.clear()

    def __len__(self) -> int:
        return len(self._running)


def _keep(script: Script, output: IO[bytes] | None, value: int) -> None:
    """Append what a script printed to the file that its DEBUG names; a file that cannot be written stops nothing."""
    if script.debug is None or output is None:
        return
    with output, contextlib.suppress(OSError):
        output.seek(0)
        text = output.read(_OUTPUT_MOST)
        command = " ".join(script.words)
        head = f"*** Node={script.name} Type={script.kind.upper()} ExitCode={value} Completion={int(time.time())} "
        with script.debug[0].open("ab") as file:
            file.write(f"{head}Cmd='{command}'\n".encode(errors="surrogateescape") + text)


__all__ = ["Script", "Scripts"]
