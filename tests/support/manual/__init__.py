"""The examples of the manual's chapters on policy as cases: a text, and what its knobs give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Macros that the chapters define once, for all examples after them (with the parenthesis that the print misses).
MACROS = """
MINUTE          = 60
HOUR            = (60 * $(MINUTE))
StateTimer      = (time() - EnteredCurrentState)
ActivityTimer   = (time() - EnteredCurrentActivity)
ActivationTimer = (time() - JobStart)
NonCondorLoadAvg        = (LoadAvg - CondorLoadAvg)
BackgroundLoad          = 0.3
HighLoad                = 0.5
StartIdleTime           = 15 * $(MINUTE)
ContinueIdleTime        = 5 * $(MINUTE)
MaxSuspendTime          = 10 * $(MINUTE)
MaxVacateTime           = 10 * $(MINUTE)
KeyboardBusy            = KeyboardIdle < $(MINUTE)
ConsoleBusy             = (ConsoleIdle  < $(MINUTE))
CPUIdle                = $(NonCondorLoadAvg) <= $(BackgroundLoad)
CPUBusy                = $(NonCondorLoadAvg) >= $(HighLoad)
KeyboardNotBusy         = ($(KeyboardBusy) == False)
MachineBusy             = ($(CPUBusy) || $(KeyboardBusy))
LastCkpt        = (time() - LastPeriodicCheckpoint)
JustCpu = ($(CPUBusy) && ($(KeyboardBusy) == False))
SmallJob = (TARGET.ImageSize < (15 * 1024))
IsVanilla = (TARGET.JobUniverse == 5)
IsPVM = (TARGET.JobUniverse == 4)
"""
NOW = 1_000_000
IDLE = {"KeyboardIdle": 3600, "ConsoleIdle": 3600, "LoadAvg": 0.1, "CondorLoadAvg": 0.0, "State": "Unclaimed"}
BUSY = IDLE | {"KeyboardIdle": 5, "LoadAvg": 2.0}


@dataclass(frozen=True)
class Example:
    """``texts``: knob to expanded text. ``gives``: (knob, machine, job, value)."""

    name: str
    text: str
    texts: dict[str, str | None] = field(default_factory=dict)
    gives: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = field(default_factory=list)
    macros: bool = True


def owner(name: str) -> dict[str, Any]:
    return {"Owner": name}
