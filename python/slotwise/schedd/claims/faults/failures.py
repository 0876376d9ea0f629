"""What ends when an exception hits a claim, a run or a request, as those see it with whom it may happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slotwise.schedd.claims.records import Claim, ClaimRequestPending, Run
from slotwise.schedd.claims.startds.startd_messages import ClaimsGranted


class Failures(Protocol):
    """Ends what an exception has hit."""

    def run(self, run: Run, error: Exception, *, ended: bool = False) -> None:
        """End the run, release its claim and make the job runnable again; ``ended``: its starter reported its end."""
        ...

    def claim(self, claim: Claim, error: Exception) -> None:
        """Release the claim; a run on it ends, and a job that waits for it is runnable again."""
        ...

    def request(self, pending: ClaimRequestPending, granted: ClaimsGranted | None, error: Exception) -> None:
        """End a request for claims that was processed in part, or whose answer was."""
        ...

    def sweep_soon(self) -> None:
        """Something was left half done: have a sweep find it."""
        ...

    def of_claim(self, claim: Claim) -> Callable[[Exception], None]:
        """What ends a claim after an exception, and the run that is on it now."""
        ...
