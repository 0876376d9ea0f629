"""What a job runs in."""

from __future__ import annotations

from dataclasses import dataclass

#: The name of the runtime of jobs that run on the bare host.
NONE = "none"


@dataclass(frozen=True)
class Choice:
    """The runtime that a job runs in here, by name, and the image as the job or the configuration names it."""

    runtime: str = NONE
    image: str = ""
