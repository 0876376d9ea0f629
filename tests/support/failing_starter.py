"""A starter that fails on request: ``SLOTWISE_HOME/fault`` names a kind of message and the call at which it is to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slotwise.cli.main import run
from slotwise.execution.keeper_link import KeeperLink
from slotwise.starter.run.run import Run
from slotwise.starter.service import StarterServicer

from tests.support.injection import Injection

_ORDER = Path(os.environ["SLOTWISE_HOME"]) / "fault"


def _fails(owner: type, name: str, kind_of: Callable[[Any], str]) -> None:
    plain = getattr(owner, name)

    def call(self: Any, argument: Any) -> Any:
        kind, _, at = _ORDER.read_text().rpartition(" ") if _ORDER.exists() else ("", "", "0")
        if kind != kind_of(argument):
            return plain(self, argument)
        _ORDER.unlink()
        injection = Injection("/slotwise/starter/", ("faults.py", "Run.job_id", "Run.run_id", "Assignment.job_id"))
        injection.arm(int(at))
        try:
            return injection.wrapped(plain, lambda *args: True)(self, argument)
        finally:
            _ORDER.with_name("raised").write_text(injection.raised)

    setattr(owner, name, call)


if __name__ == "__main__":
    _fails(StarterServicer, "_obey", lambda command: f"startd {command.WhichOneof('what')}")
    _fails(Run, "_hear", lambda message: f"shadow {type(message).__name__}")
    _fails(Run, "_do", lambda action: f"action {type(action).__name__}")
    _fails(KeeperLink, "notice", lambda what: f"keeper {what.partition(' ')[0]}")
    sys.argv[1:] = ["daemon", "starter"]
    sys.exit(run())
