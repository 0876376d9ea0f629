"""Creates a job's container, and becomes the client that is attached to it.

The keeper runs this file in an interpreter of its own (it imports nothing of the package): whenever the job is started
or started again, its container is made anew, and a starter that has died is not missed. Arguments: where to write why
the container cannot be created, the container's name, how many words the client has, these words, how many words
follow for the start, these words, and the arguments of ``create``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

#: The exit status when there is no container; Docker's own for an error of the daemon.
NO_CONTAINER = 125


def words(errors: str, name: str, client: Sequence[str], start: Sequence[str], create: Sequence[str]) -> list[str]:
    """The arguments for this file."""
    return [errors, name, str(len(client)), *client, str(len(start)), *start, *create]


def parsed(arguments: Sequence[str]) -> tuple[str, str, list[str], list[str], list[str]]:
    """What :func:`words` made of."""
    errors, name, *rest = arguments
    count = int(rest[0])
    client, rest = rest[1 : 1 + count], rest[1 + count :]
    count = int(rest[0])
    return errors, name, client, rest[1 : 1 + count], rest[1 + count :]


def main(arguments: Sequence[str]) -> int:
    """Do it; returns only when there is no container."""
    errors, name, client, start, create = parsed(arguments)
    made = _run([*client, *create])
    if made.returncode != 0 and name in made.stderr and "in use" in made.stderr:
        _run([*client, "rm", "--force", "--volumes", name])  # of a former start, whose keeper was killed
        made = _run([*client, *create])
    if made.returncode == 0:
        os.execv(client[0], [*client, *start, name])
    with open(errors, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(made.stderr or f"docker create ended with status {made.returncode}")
    return NO_CONTAINER


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
