"""A file of the steps of a daemon's state machines, one JSON object in each line, for replay."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from slotwise.model.stored_form import Json

_log = logging.getLogger(__name__)


class StepFile(Struct):
    """Steps on disk, at most ``max_bytes`` and as many again in a file with ``.old`` behind its name.

    When the file cannot be written, as on a full disk, that is logged and nothing more is recorded.
    """

    path: Path
    max_bytes: int
    _gave_up: bool = False

    def append(self, step: Mapping[str, Json]) -> None:
        """Write a step down."""
        if self._gave_up:
            return
        try:
            self._write(json.dumps(step, separators=(",", ":")) + "\n")
        except OSError as error:
            _log.error("could not record events in %s, giving up: %s", self.path, error)
            self._gave_up = True

    def _write(self, line: str) -> None:
        if self.path.exists() and self.path.stat().st_size + len(line) > self.max_bytes:
            self.path.replace(self.path.with_name(self.path.name + ".old"))
        # Who may read which slot ran whose job when is the administrator's affair.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "a", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.write(line)
