"""Finds out whether this host can run jobs of the java universe, by running its virtual machine."""

from __future__ import annotations

import logging
import os

from slotwise.execution import child_programs
from slotwise.starter.host.machine import Machine
from slotwise.starter.job.java import PROPERTIES, attributes_of

_log = logging.getLogger(__name__)
_PATH = "/usr/bin:/bin"
#: How long the virtual machine may take to answer, in seconds.
_PATIENCE_S = 60.0


async def look_for_java(machine: Machine) -> None:
    """Ask the program that JAVA names for its properties, and report what this host offers when that has changed."""
    program = machine.settings.java.program
    found = ""
    if program and os.access(program, os.X_OK):
        words = ["nice", "-n", "10", program, *PROPERTIES]
        try:
            status, _, said = await child_programs.call(
                words, machine.control, cwd="/", env={"PATH": _PATH, "LC_ALL": "C"}, limit_s=_PATIENCE_S
            )
            found = said if status == 0 else ""
        except OSError as error:
            _log.warning("JAVA: could not run %s: %s", program, error)
        else:
            if not attributes_of(found):
                _log.warning("JAVA: %s does not tell its properties (exit %d): no java jobs run here", program, status)
    machine.note_java(attributes_of(found))
