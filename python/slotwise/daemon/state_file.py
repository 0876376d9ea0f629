"""A small file with what a daemon keeps over its restarts, replaced as a whole."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from slotwise import whole_file

_log = logging.getLogger(__name__)


def save(path: Path, state: object, *, lasts: bool = True) -> None:
    """Write ``state`` as JSON beside ``path``, and put it there; a failure is logged.

    :param lasts: it is there after a power cut, too; else the file says only what holds while the daemon runs.
    """
    try:
        whole_file.write(path, json.dumps(state), lasts=lasts)
    except OSError as error:
        _log.error("could not write %s: %s", path, error)
