"""Which program deletes the files of checkpoints at a URL: the lines of CHECKPOINT_DESTINATION_MAPFILE.

A line is ``* URL-PREFIX PROGRAM,ARGUMENT,...``; the longest prefix of a URL counts, and ``\\0`` stands for it. Manual,
"Registering a Checkpoint Destination".
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from slotwise._native import MapFile
from slotwise.errors import UsageError

KNOB = "CHECKPOINT_DESTINATION_MAPFILE"


def read(text: bytes) -> MapFile:
    """The lines of a map."""
    return MapFile(text, hash_keys=False, prefixes=True)


def words_for(lines: MapFile, place: str, programs: str) -> list[str]:
    """The program that deletes what is below a URL, and its own arguments.

    :param programs: the directory of programs that are named without one (LIBEXEC).
    :raises UsageError: when no line is about such URLs.
    """
    found = lines.lookup("*", place)
    words = [word for word in (part.strip() for part in (found or "").split(",")) if word]
    if not words:
        raise UsageError(
            f"nothing is known of how to delete {place}: no line of {KNOB} is about it",
            hint="add one: * URL-PREFIX cleanup_locally_mounted_checkpoint,-prefix,\\0,-path,DIRECTORY",
        )
    return [os.path.join(programs, words[0]), *words[1:]]


def call_for(words: Sequence[str], place: str, name: str, ad: str, *, is_whole: bool) -> list[str]:
    """The call that deletes one file; ``is_whole`` false: it may not be there."""
    call = [*words, "-from", place.rstrip("/"), "-delete", name, "-jobad", ad]
    return call if is_whole else [*call, "-ignore-missing-files"]
