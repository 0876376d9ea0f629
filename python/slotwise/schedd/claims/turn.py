"""What is decided about claims, runs and jobs together."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotwise.schedd.claims.records import Run
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.storage.store import Batch


@dataclass(slots=True)
class Turn:
    """What is decided about claims and runs together, and made durable in one transaction."""

    decision: Decision
    batch: Batch = field(default_factory=Batch)
    #: Runs to be activated once that is durable.
    started: list[Run] = field(default_factory=list)
    #: Jobs that waited for a slot and may not start on it; runnable again when all slots have been considered.
    refused: list[Job] = field(default_factory=list)
