"""Gives jobs their tokens: as they start, and again while they run when a token was renewed (SEC_CREDENTIAL_REFRESH).

Starters get the tokens that jobs use, never what these are made with, and over connections that nobody reads.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Mapping
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.daemon.pause import pause
from slotwise.errors import SlotwiseError
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Hold
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.credentials.keeping import CredentialKeeper
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import RunOutcome
from slotwise.schedd.lifecycle.run_instructions import GiveUp
from slotwise.schedd.shadow.run_tasks import RunTasks
from slotwise.wire.gen import schedd_pb2

_log = logging.getLogger(__name__)


class CredentialDelivery:
    """Sends tokens to starters.

    :param give_up: ends a run without a word of its starter.
    """

    def __init__(
        self,
        keeper: CredentialKeeper,
        ads: JobAds,
        claim_table: ClaimTable,
        tasks: RunTasks,
        give_up: Callable[[Run, GiveUp], None],
    ) -> None:
        self._keeper = keeper
        self._ads = ads
        self._claim_table = claim_table
        self._tasks = tasks
        self._give_up = give_up
        #: The tokens of runs that are about to start.
        self._found: dict[str, Mapping[str, bytes]] = {}
        #: Digests of what runs were sent, by the names of files.
        self._sent: dict[str, dict[str, bytes]] = {}

    # ---- as it starts

    def of(self, run: Run) -> schedd_pb2.CredentialFiles | None:
        """The tokens for a run that starts, an empty message where it needs none; None while they are to be waited
        for. An access point that keeps no credentials has none; the starter holds a job that needs some."""
        if self._keeper.settings.directory is None or not self._needed(run):
            return schedd_pb2.CredentialFiles()
        found = self._found.pop(run.id, None)
        if found is None:
            return None
        self._sent[run.id] = {name: _digest(token) for name, token in found.items()}
        return _message(found)

    def begin(self, run: Run, found: Callable[[], None]) -> None:
        """Read the tokens; ``found`` is called when they are there. Without them the job is held."""
        self._tasks.begin(run, "reading its credentials", partial(self._read, run, found))

    def over(self, run: Run) -> None:
        """The run is over."""
        self._found.pop(run.id, None)
        self._sent.pop(run.id, None)

    def _needed(self, run: Run) -> str:
        value = self._ads.value(run.job, "OAuthServicesNeeded") if self._ads.has(run.job) else None
        return value if isinstance(value, str) else ""

    async def _read(self, run: Run, found: Callable[[], None]) -> None:
        if run.stream is not None and not run.stream.private:
            why = "the connection to the execution point is not encrypted"
        else:
            try:
                self._found[run.id] = await self._keeper.for_job(run.job.cluster.user, self._needed(run))
            except SlotwiseError as error:
                why = str(error)
            else:
                found()
                return
        reason = f"Job credentials are not available: {why}"
        _log.error("%s: %s (run %s)", run.job.key, reason, run.id)
        self._give_up(run, GiveUp(RunOutcome.HELD, reason, int(Hold.CORRUPTED_CREDENTIAL)))

    # ---- while it runs

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await pause(lambda: self._keeper.settings.refresh_s or math.inf)
            if self._keeper.settings.directory is not None:
                await self.look()

    async def look(self) -> None:
        """Send running jobs the tokens that were renewed since they were sent."""
        read: dict[tuple[str, str], Mapping[str, bytes]] = {}
        for run in list(self._claim_table.runs.values()):
            with contained(_log, doing_for_run(run.id, "looking at its credentials")):
                await self._look(run, read)

    async def _look(self, run: Run, read: dict[tuple[str, str], Mapping[str, bytes]]) -> None:
        """Look at one; ``read``: what was read already, as jobs of a user mostly need the same."""
        stream, needed = run.stream, self._needed(run)
        if run.over or stream is None or not stream.private or not needed:
            return
        if run.id not in self._sent and not run.executing_at:
            return
        key = (run.job.cluster.user, needed)
        try:
            tokens = read.get(key) or await self._keeper.for_job(*key)
        except SlotwiseError as error:
            _log.error("%s: its credentials cannot be renewed (run %s): %s", run.job.key, run.id, error)
            return
        read[key] = tokens
        if run.over or run.stream is not stream:
            return
        # What a former schedd sent is not known here: it is sent again.
        known = self._sent.setdefault(run.id, {})
        renewed = {name: token for name, token in tokens.items() if known.get(name) != _digest(token)}
        if renewed:
            stream.send(schedd_pb2.ShadowMessage(run_id=run.id, credentials=_message(renewed)))
            known.update((name, _digest(token)) for name, token in renewed.items())
            names = ", ".join(renewed)
            _log.info(
                "%s: sent renewed credentials to %s (run %s): %s", run.job.key, run.claim.slot_name, run.id, names
            )


def _message(tokens: Mapping[str, bytes]) -> schedd_pb2.CredentialFiles:
    files = [schedd_pb2.CredentialFile(name=name, content=token) for name, token in tokens.items()]
    return schedd_pb2.CredentialFiles(files=files)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
