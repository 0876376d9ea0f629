"""A small file with what a daemon keeps over its restarts, replaced as a whole."""

from __future__ import annotations

import json
import logging
from pathlib import Path

_log = logging.getLogger(__name__)


def save(path: Path, state: object) -> None:
    """Write ``state`` as JSON beside ``path``, and put it there; a failure is logged."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_text(json.dumps(state))
        fresh.replace(path)
    except OSError as error:
        _log.error("could not write %s: %s", path, error)
