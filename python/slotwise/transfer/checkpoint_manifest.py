"""Manifests of checkpoints: a line ``SHA256 *FILE`` for each file, and a last one for the lines before it.

They are what ``sha256sum --binary`` writes, so that HTCondor's and ours check each other's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from slotwise.errors import UsageError

_PREFIX = "_condor_checkpoint_MANIFEST."
_PIECE = 1024 * 1024


def number_in(name: str) -> int:
    """The checkpoint that a manifest's file name is of; -1 for names of other files."""
    digits = name.removeprefix(_PREFIX)
    return int(digits) if name.startswith(_PREFIX) and digits.isascii() and digits.isdigit() else -1


def file_in(line: str) -> str:
    """The file that a line is about; empty when it is about none."""
    return line.partition(" ")[2].removeprefix("*")


def checksum_in(line: str) -> str:
    """The checksum in a line."""
    return line.partition(" ")[0]


def checksum_of(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal digits.

    :raises OSError: when it cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_PIECE):
            digest.update(data)
    return digest.hexdigest()


def line_for(path: str) -> str:
    """The line for a file.

    :raises OSError: when it cannot be read.
    """
    return f"{checksum_of(path)} *{path}\n"


def is_sound(path: str) -> bool:
    """Whether a manifest's last line is that of the manifest, with the checksum of all lines before it."""
    try:
        lines = _lines(path)
    except OSError:
        return False
    if not lines:
        return False
    last = lines[-1].decode(errors="surrogateescape").strip()
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    return path.endswith(file_in(last)) and checksum_in(last) == digest


def check_files(path: str) -> None:
    """Check the files that a manifest lists, but for itself; their names are those of this process.

    :raises UsageError: when one differs or is missing, or the manifest lists none.
    """
    try:
        lines = _lines(path)
    except OSError:
        raise UsageError("Failed to open MANIFEST, aborting.") from None
    if not lines:
        raise UsageError("Failed to read first line of MANIFEST, aborting.")
    if len(lines) == 1:
        raise UsageError("")
    for raw in lines[:-1]:
        line = raw.decode(errors="surrogateescape").strip()
        name, listed = file_in(line), checksum_in(line)
        try:
            found = checksum_of(name)
        except OSError:
            raise UsageError(f"Failed to open checkpoint file ('{name}') to compute checksum.") from None
        if found != listed:
            raise UsageError(f"Checkpoint file '{name}' did not have expected checksum ({found} vs {listed}).")


def create(directory: str, path: str) -> None:
    """Write the manifest of all files below a directory.

    :raises OSError: when one cannot be read, or the manifest not be written.
    """
    text = "".join(line_for(name) for name in _files_below(directory))
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    own = line_for(path)
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(own)


def _lines(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        return file.readlines()


def _files_below(directory: str) -> Iterator[str]:
    """Files and links to files, by name: neither pipes nor sockets nor devices."""

    def fail(error: OSError) -> None:
        raise error

    for place, inner, names in os.walk(directory, onerror=fail):
        inner.sort()
        yield from (path for name in sorted(names) if os.path.isfile(path := os.path.join(place, name)))
