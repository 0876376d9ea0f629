"""Whether other accounts of the host can use the installation that the daemons of root run from.

Commands of users run the same interpreter and the same package. Below a directory that they cannot enter (``/root``,
say, or a home) every one of their commands fails before it can say why.
"""

from __future__ import annotations

import encodings
import sys
from collections.abc import Iterable
from pathlib import Path

import grpc

import slotwise
from slotwise.daemon.program_trust import directories_of

_SEARCHED, _READ, _RUN = 0o001, 0o004, 0o001


def parts() -> tuple[str, ...]:
    """What of the installation every process needs: the interpreter, its library, the package and what it imports."""
    return (sys.executable, encodings.__file__, slotwise.__file__, grpc.__file__)


def closed_to_others(of: Iterable[str] | None = None) -> tuple[str, str] | None:
    """The first part of an installation that other accounts cannot use, and the directory or file that is closed to
    them; None where they can use all. Links are followed as the kernel does.

    :param of: paths of files; :func:`parts` without.
    """
    for part in parts() if of is None else of:
        try:
            for place, _ in directories_of(part):
                if not place.stat().st_mode & _SEARCHED:
                    return part, str(place)
            needed = _READ | (_RUN if part == sys.executable else 0)
            if Path(part).stat().st_mode & needed != needed:
                return part, part
        except OSError:
            continue  # an archive, perhaps: what is not a file is not judged
    return None


def doubt() -> str:
    """What is to be told of an installation that other accounts cannot use; empty where they can."""
    found = closed_to_others()
    if found is None:
        return ""
    part, place = found
    why, mode = f"they cannot enter {place}, and {part} of this installation is reached through it", "o+x"
    if part == place:
        why, mode = f"they cannot use {place} of this installation", "o+rx" if part == sys.executable else "o+r"
    return (
        f"commands of users other than root fail: {why}; chmod {mode} {place}, or install Slotwise, and the Python "
        "that it runs on, where every account can reach it"
    )
