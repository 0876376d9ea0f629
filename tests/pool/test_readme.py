"""The commands that the README shows, run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

README = Path(__file__).parents[2] / "README.md"


def _commands(heading: str) -> list[str]:
    """The commands of the console block under a heading, each with the lines that belong to it."""
    section = README.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    block = re.search(r"```console\n(.*?)```", section, re.DOTALL)
    assert block is not None, heading
    found: list[str] = []
    for line in block[1].splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        else:
            found[-1] += "\n" + line
    return found


def _run(pool: Pool, script: str) -> str:
    programs = pool.root / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "slotwise").write_text(f'#!/bin/sh\nexec {sys.executable} -m slotwise "$@"\n')
    (programs / "slotwise").chmod(0o755)
    env = pool.env | {"PATH": f"{programs}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=env,
        cwd=pool.root,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_what_the_readme_shows_works(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 2\n")
    build, *commands, down = _commands("A pool of your own")
    assert build.startswith("make build") and down == "slotwise down"
    said = _run(pool, "\n".join(commands))
    assert all(f"hello from job {n}" in said for n in range(10))

    # Files as the next section wants them, with a job that waits.
    _run(
        pool,
        "slotwise status -long > slots.ads; cp slots.ads slot.ad\n"
        "printf 'executable = /bin/true\\nrequest_memory = 900G\\nqueue\\n' > never.sub\n"
        "slotwise submit never.sub; slotwise q -long > jobs.ads; cp jobs.ads job.ad\n",
    )
    without = "\n".join(_commands("Without a pool"))
    assert "analyze 12.0" in without
    said = _run(pool, without.replace("analyze 12.0", "analyze 2.0"))
    assert "RequestMemory" in said
    assert "is down" in _run(pool, down)
