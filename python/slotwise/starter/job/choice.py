"""What a job runs in."""

from __future__ import annotations

from msgspec import Struct

#: The name of the runtime of jobs that run on the bare host.
NONE = "none"


class Choice(Struct, frozen=True):
    """The runtime that a job runs in here, by name, and the image as the job or the configuration names it."""

    runtime: str = NONE
    image: str = ""
