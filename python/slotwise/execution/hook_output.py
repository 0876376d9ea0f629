"""What hooks that prepare a job print, at the execution point and at the access point, and what follows from it.

Source: manual, "Job Hooks That Modify and Monitor Execution"; the words are HTCondor's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.errors import AdSyntaxError

#: From this HookStatusCode on the job goes back to idle; below it is held.
TO_IDLE = 300


class HookOutput(Struct, frozen=True):
    """What came of a hook: exit status (below 0: a signal), and the attributes that it printed."""

    status: int
    attributes: Mapping[str, ExprTree]

    def value(self, name: str) -> object:
        """A printed attribute's value; None where it has none."""
        found = ClassAd(dict(self.attributes)).eval(name)
        return None if isinstance(found, SpecialValue) else found

    @property
    def message(self) -> str:
        """HookStatusMessage, or ""."""
        message = self.value("HookStatusMessage")
        return message if isinstance(message, str) else ""

    @property
    def _verdict(self) -> tuple[int, str]:
        """The status that counts, and how the hook gave it: a code that it prints wins over its exit status."""
        code = self.value("HookStatusCode")
        if self.status >= 0 and isinstance(code, int) and code >= 0:
            return code, f"reported status {code:03d}"
        how = f"exited with status {self.status}" if self.status >= 0 else f"died with signal {-self.status}"
        return self.status, how

    @property
    def code(self) -> int:
        """The status that counts: 0 for success."""
        return self._verdict[0]

    def told(self, hook: str, path: str) -> str:
        """What the job's event log or hold reason says of it."""
        code, how = self._verdict
        return (
            f"{hook} ({Path(path).name}) {'failed' if code else 'succeeded'} ({how}): {self.message or '<no message>'}"
        )


def parse_output(output: str) -> dict[str, ExprTree]:
    """The attributes of ``Name = expression`` lines; others are skipped."""
    found: dict[str, ExprTree] = {}
    for line in output.splitlines():
        name, equals, expression = line.partition("=")
        if equals and name.strip().isidentifier():
            with contextlib.suppress(AdSyntaxError):
                found[name.strip()] = ExprTree(expression.strip(), old=True)
    return found
