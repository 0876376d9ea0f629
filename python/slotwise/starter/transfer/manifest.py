"""The manifest of a run: what lay in its scratch directory before and after the job, and the job's environment.

A directory with the files ``in``, ``environment`` and ``out`` that goes back with the outputs, for jobs with
``manifest`` or ``manifest_dir``. A list has one name a line, as the file system spells it, from ``./`` on; a directory
ends in a slash, and links are named, not followed. All of it is done with the job's own rights, since the directory is
the job's: nothing that it plants there is written through, waited for or left. Manual, condor_submit, "manifest".
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from slotwise.daemon.user_paths import open_path
from slotwise.execution.arguments import join_new
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.enforcement.privilege import rights_of

#: Most names of a list: a job may make as many files as its disk has room for.
MOST_NAMES = 1_000_000
#: Most directories within directories that are looked into; each is open while those in it are.
MOST_LEVELS = 64
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def record_files(scratch: Path, directory: str, name: str, identity: Identity, most: int = MOST_NAMES) -> None:
    """Write the list ``name`` (``in`` or ``out``) of all that lies in the scratch directory. Blocks.

    A list that is cut short says so in its last line, which does not begin with ``./``.

    :raises OSError: when the file system refuses, or the job has put something else in the way.
    """
    with rights_of(identity), _fresh(scratch, directory, name) as file, _opened(scratch) as top:
        for count, line in enumerate(_names(top, b".", most)):
            if count == most:
                file.write(b"(more than %d names: the others are left out)\n" % most)
                break
            file.write(line + b"\n")


def record_environment(scratch: Path, directory: str, env: Mapping[str, str], identity: Identity) -> None:
    """Write the environment that the job is given, in the syntax of its ad, entries by name.

    :raises OSError: as :func:`record_files`.
    """
    text = join_new(f"{name}={value}" for name, value in sorted(env.items()))
    with rights_of(identity), _fresh(scratch, directory, "environment") as file:
        file.write(os.fsencode(text) + b"\n")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = open_path(path, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _fresh(scratch: Path, directory: str, name: str) -> Iterator[BinaryIO]:
    """A new, empty file in the manifest's directory, open; whatever had the name is gone, not written to."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(_opened(scratch))
        for part in PurePosixPath(directory).parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=place)
            place = os.open(part, _DIRECTORY, dir_fd=place)
            stack.callback(os.close, place)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        yield stack.enter_context(open(os.open(name, flags, 0o644, dir_fd=place), "wb"))


def _names(place: int, prefix: bytes, most: int, level: int = 0) -> Iterator[bytes]:
    """All names below an open directory, those of each in order, a directory's own before what is in it.

    Of a directory with more than ``most`` names some are left out: they are not all kept in memory.
    """
    with os.scandir(place) as entries:
        kept = islice(entries, most + 1)
        ordered = sorted((os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in kept)
    for name, is_directory in ordered:
        path = prefix + b"/" + name
        yield path + b"/" if is_directory else path
        if not is_directory or level == MOST_LEVELS:
            continue
        try:
            below = os.open(name, _DIRECTORY, dir_fd=place)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            continue  # one that the job may not read, or has just gone, is named all the same
        try:
            yield from _names(below, path, most, level + 1)
        finally:
            os.close(below)
