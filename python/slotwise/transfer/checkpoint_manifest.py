"""Manifests of checkpoints: a line ``SHA256 *FILE`` for each file, and a last one for the lines before it.

They are what ``sha256sum --binary`` writes, so that HTCondor's and ours check each other's. With a job's
``checkpoint_destination`` there is one for each checkpoint that it has written there; the checkpoints of one job are at
``DESTINATION/GLOBAL_JOB_ID/NUMBER/``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from slotwise.errors import UsageError
from slotwise.transfer import depth

_PREFIX = "_condor_checkpoint_MANIFEST."
_PIECE = 1024 * 1024
#: The largest manifest of a checkpoint that goes to a destination, bytes.
MOST = 16 * 1024 * 1024


def name_of(number: int) -> str:
    """The name of the manifest of a checkpoint."""
    return f"{_PREFIX}{number:04d}"


def place_of(destination: str, global_job_id: str, number: int) -> str:
    """The URL below which the files of a checkpoint are, with a slash at its end."""
    start = destination if destination.endswith("/") else f"{destination}/"
    return f"{start}{global_job_id.replace('#', '_')}/{number:04d}/"


def not_stored(reason: str) -> str:
    """Why a job is held whose checkpoint cannot go to its destination, in HTCondor's words."""
    return f"Starter failed to upload checkpoint: {reason}"


def text_of(files: Iterable[tuple[str, str]], name: str) -> bytes:
    """The text of a manifest with the name ``name``, of the checksums and names of files.

    :raises UsageError: for a file that it cannot list, see :func:`files_in`.
    """
    lines = b""
    for checksum, file in files:
        if fault := _fault(file):
            raise UsageError(f"a checkpoint cannot have the file {file[:100]!r}: {fault}")
        lines += f"{checksum} *{file}\n".encode(errors="surrogateescape")
    return lines + f"{hashlib.sha256(lines).hexdigest()} *{name}\n".encode()


def files_in(text: bytes) -> list[tuple[str, str]]:
    """The checksums and names of the files that a manifest lists, but for itself.

    :raises UsageError: for a name that leads out of the checkpoint: what was written elsewhere says which files are
        fetched and deleted.
    """
    found = []
    for raw in text.splitlines(keepends=True)[:-1]:
        line = raw.decode(errors="surrogateescape").rstrip("\n")
        name = file_in(line)
        if fault := _fault(name):
            raise UsageError(f"the manifest lists {name[:100]!r}: {fault}")
        found.append((checksum_in(line), name))
    return found


def _fault(name: str) -> str:
    """What is wrong with the name of a file of a checkpoint; empty when nothing is."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts:
        return "it is not in the job's directory"
    if any(character in name for character in "\0\n\r") or name != name.strip():
        return "the name has line breaks, or blanks at an end"
    return depth.TOO_DEEP if depth.is_too_deep(name) else ""


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
        with open(path, "rb") as file:
            return is_sound_text(file.read(), path)
    except OSError:
        return False


def is_sound_text(text: bytes, path: str) -> bool:
    """:func:`is_sound`, of the text of the manifest ``path``."""
    lines = text.splitlines(keepends=True)
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
