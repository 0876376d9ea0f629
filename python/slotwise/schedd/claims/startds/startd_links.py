"""The streams to the startds at which the schedd holds claims, or asks for them: one to each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from slotwise.schedd.claims.records import Claim
from slotwise.schedd.claims.startds.startd_link import ClaimAsk, LinkOwner, StartdLink
from slotwise.schedd.jobs.decision import Kill
from slotwise.wire.credential import Credential


class StartdLinks:
    """Opens streams to startds, and sends on them what can be sent."""

    def __init__(self, credential: Credential, owner: Callable[[], LinkOwner]) -> None:
        """
        :param owner: takes what startds send.
        """
        self._credential = credential
        self._owner = owner
        self._links: dict[str, StartdLink] = {}
        #: Requests for startds to which there is no connection yet.
        self._unsent: dict[str, list[ClaimAsk]] = {}

    def __iter__(self) -> Iterator[StartdLink]:
        return iter(list(self._links.values()))

    def open(self, startd: str) -> StartdLink:
        """The stream to a startd, opened if need be."""
        found = self._links.get(startd)
        if found is None:
            found = self._links[startd] = StartdLink(startd, self._owner(), self._credential)
            found.start()
        return found

    def moved(self, former: str, startd: str) -> None:
        """The startd at ``former`` answers elsewhere now: one stream goes there, which says what is held."""
        link, there = self._links.pop(former, None), self._links.pop(startd, None)
        if there is not None:  # its hello did not name what is held under the former address
            there.stop_soon()
        if link is not None:
            link.move(startd)
            self._links[startd] = link
        if waiting := self._unsent.pop(former, None):
            self._unsent.setdefault(startd, []).extend(waiting)

    def displaced(self, former: str, nowhere: str) -> None:
        """Another startd answers at ``former`` than the one that is meant, which is looked for from ``nowhere``."""
        if (link := self._links.pop(former, None)) is None:
            return
        link.move(nowhere)
        if nowhere in self._links:
            link.stop_soon()
        else:
            self._links[nowhere] = link

    def connected(self, startd: str) -> StartdLink | None:
        """The stream to a startd that has answered on it, if there is one."""
        link = self._links.get(startd)
        return link if link is not None and link.connected else None

    async def close(self) -> None:
        """End all streams."""
        for link in self:
            await link.close()

    # ---- requests

    def ask(self, startd: str, ask: ClaimAsk, slot_name: str) -> None:
        """Ask for a claim, as soon as the startd has told which claims it knows; ``slot_name``: on which slot."""
        if startd not in self._links:
            self._owner().meet(slot_name, startd)
        link = self.open(startd)
        if link.connected:
            link.ask(ask)
        else:
            self._unsent.setdefault(startd, []).append(ask)

    def send_waiting(self, startd: str, wanted: Collection[int]) -> None:
        """Send the requests that wait for the connection, those whose serial numbers are still ``wanted``."""
        for ask in self._unsent.pop(startd, []):
            if ask.serial in wanted:
                self._links[startd].ask(ask)

    def drop_waiting(self, startd: str) -> None:
        """Drop the requests that wait for the connection."""
        self._unsent.pop(startd, None)

    def stop_unheard(self, startd: str) -> None:
        """End a stream that nobody waits for: the startd has not answered on it, and has nothing to learn by it."""
        link = self._links.get(startd)
        if link is not None and not link.heard:
            del self._links[startd]
            link.stop_soon()

    # ---- claims

    def release(self, startd: str, claim_id: str, reason: str = "", *, fast: bool = False) -> None:
        """Tell the startd that a claim is not wanted; it need not be in the table."""
        if (link := self._links.get(startd)) is not None:
            link.release(claim_id, reason, fast=fast)

    def deactivate(self, claim: Claim, kill: Kill) -> None:
        """Have the startd end the run on a claim, whose starter cannot be reached."""
        if not claim.gone and (link := self.connected(claim.startd)) is not None:
            link.deactivate(claim.id, kill)

    def suspend(self, claim: Claim, *, resume: bool) -> bool:
        """Have the startd suspend the job on a claim, or continue it; false when the startd cannot be reached."""
        link = self.connected(claim.startd)
        if link is not None:
            link.suspend(claim.id, resume=resume)
        return link is not None
