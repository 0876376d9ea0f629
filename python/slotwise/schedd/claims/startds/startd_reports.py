"""What streams to startds bring: answers, reports on claims, and that a stream broke."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.matching.requesting import ClaimRequests
from slotwise.schedd.claims.records import ClaimRequestPending, ClaimTable, startd_of
from slotwise.schedd.claims.startds.claim_reports import ClaimReports
from slotwise.schedd.claims.startds.startd_link import Hello
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.startds.startd_messages import (
    ActivationRefused,
    ClaimRefused,
    ClaimsGranted,
    ClaimsKnown,
    ClaimTaken,
    KeptAlive,
    RunActivated,
    SlotChanged,
    StartdMessage,
)
from slotwise.schedd.claims.startds.whereabouts import nowhere
from slotwise.schedd.claims.transitions import ClaimTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.lifecycle import claim_events

_log = logging.getLogger(__name__)


class StartdReports:
    """Hands what startds send to those whom it concerns."""

    def __init__(
        self,
        schedd_name: str,
        address: str,
        *,
        claim_table: ClaimTable,
        claims: ClaimTransitions,
        turns: Turns,
        links: StartdLinks,
        requests: ClaimRequests,
        reports: ClaimReports,
        compare: Callable[[str, ClaimsKnown], None],
        failures: Failures,
        find: Callable[[str], Awaitable[str]],
        on_moved: Callable[[str, str], None],
    ) -> None:
        """
        :param find: where the startd with a slot of a name answers, as the collector knows it.
        :param on_moved: told of the former and the new address of a startd that answers elsewhere.
        :param address: where the schedd answers.
        :param compare: brings the claims at a startd into step with those that it knows.
        """
        self._schedd_name = schedd_name
        self._address = address
        self._claim_table = claim_table
        self._claims = claims
        self._turns = turns
        self._links = links
        self._requests = requests
        self._reports = reports
        self._compare = compare
        self._failures = failures
        self._find = find
        self._on_moved = on_moved

    def hello(self, startd: str, slot_name: str) -> Hello:
        """Who the schedd is, whom it means, and which of its claims it holds there."""
        name = startd_of(slot_name)
        held = [claim.id for claim in self._claim_table.at(startd) if startd_of(claim.slot_name) in ("", name)]
        return Hello(self._schedd_name, self._address, held, name)

    def mistaken(self, startd: str, slot_name: str, known: ClaimsKnown) -> bool:
        """Whether another startd has answered at an address than the one with a slot of this name.

        Its name tells, unless it has a claim of the hello: ids of claims are secrets of the startd that made them. An
        address serves for whoever listens there: after a restart with ports of the system's choice, or another lease
        of DHCP, that may be another startd. What is held of others there is held at no address until they are found.
        """
        meant = startd_of(slot_name)
        if not meant or not known.startd:
            return False
        another = known.startd != meant and not known.claims
        here = known.startd if another else meant
        displaced = sorted(self._claim_table.names_at(startd) - {here})
        for name in displaced:
            _log.warning("%s answers as the startd %s, not %s: the collector is asked for that", startd, here, name)
            self._displace(startd, name)
        if another:
            self._links.displaced(startd, nowhere(meant))
            if self._claim_table.names_at(startd):
                self._links.open(startd)
        for name in displaced:
            self._links.open(nowhere(name))
        return another

    def _displace(self, startd: str, name: str) -> None:
        """What is held at an address on slots of the startd ``name`` is held at no address until it is found."""
        self._claim_table.moved(startd, nowhere(name), name)
        self._on_moved(startd, nowhere(name))

    def slot_at(self, startd: str) -> str:
        """The name of a slot that is held at the startd; empty without one."""
        return self._claim_table.slot_at(startd)

    async def address_of(self, slot_name: str) -> str:
        """Where the startd with a slot of this name answers, as the collector knows it; empty where it knows none."""
        return await self._find(slot_name)

    def moved(self, former: str, startd: str) -> None:
        """The startd at ``former`` answers elsewhere: what is held there is held under the new address.

        What is held under that on slots of another startd is so no more: its address is the one of this startd now,
        unless that other one has just answered there, which the collector does not know yet.
        """
        name = startd_of(self._claim_table.slot_at(former))
        others = sorted(self._claim_table.names_at(startd) - {name}) if name else []
        if others and self._links.connected(startd) is not None:
            return
        for other in others:
            self._displace(startd, other)
            self._links.displaced(startd, nowhere(other))
            self._links.open(nowhere(other))
        _log.info("the startd at %s answers at %s now", former, startd)
        self._claim_table.moved(former, startd)
        self._on_moved(former, startd)
        self._links.moved(former, startd)

    def meet(self, slot_name: str, startd: str) -> None:
        """A slot is to be claimed at a startd, which may have been known at another address."""
        for former in self._claim_table.addresses_of(slot_name):
            if former != startd and self._links.connected(former) is None:
                self.moved(former, startd)

    def on_message(self, startd: str, message: StartdMessage) -> None:
        """Take a message of a startd."""
        match message:
            case ClaimsGranted():
                self._requests.granted(startd, message)
            case ClaimRefused():
                self._requests.refused(message)
            case ClaimsKnown():
                self._compare(startd, message)
                self._links.send_waiting(startd, self._claim_table.pending.keys())
            case KeptAlive(unknown):
                for claim_id in unknown:
                    if claim := self._claim_table.claims.get(claim_id):
                        ends = self._failures.of_claim(claim)
                        with contained(_log, f"the end of the claim on {claim.slot_name}", ends):
                            self._reports.claim_ended(claim, None)
            case ActivationRefused():
                self._reports.activation_refused(message)
            case RunActivated() | SlotChanged() | ClaimTaken():
                if claim := self._claim_table.claims.get(message.claim_id):
                    self._reports.take(claim, message)

    def on_break(self, startd: str, why: str) -> None:
        """Requests without an answer are lost; claims stay until the startd says otherwise.

        A stream on which the startd has answered is opened once more even without claims: the startd may not have heard
        that one was given back, and learns it from the hello. Claims that were given back while there was no stream are
        worth more attempts: the startd may just be starting again.
        """
        self._links.drop_waiting(startd)
        turn = self._turns.begin()
        for claim in self._claim_table.at(startd):
            with contained(_log, f"the break of the link to {startd}", self._failures.of_claim(claim)):
                self._claims.apply(claim, claim_events.LinkLost(), turn)
        for pending in self._claim_table.pending_at(startd):
            with contained(_log, f"withdrawing a request to {startd}", partial(self._failures.request, pending, None)):
                self._requests.unanswered(pending, f"its startd cannot be reached: {why}")
        if not self._claim_table.at(startd):
            self._links.stop_unheard(startd)

    def on_failure(self, startd: str, message: StartdMessage, error: Exception) -> None:
        """A message could not be processed: the claims, runs and requests that it is about end."""
        self._failures.sweep_soon()
        if isinstance(message, ClaimsGranted | ClaimRefused):
            granted = message if isinstance(message, ClaimsGranted) else None
            pending = self._claim_table.pending.get(message.serial)
            unknown = ClaimRequestPending(message.serial, startd, message.claim_id, "", "", 0, [], 0)
            self._failures.request(pending or unknown, granted, error)
        claim_id = "" if isinstance(message, ClaimsKnown | KeptAlive) else message.claim_id
        run_id = message.run_id if isinstance(message, ActivationRefused) else ""
        for run in list(self._claim_table.runs.values()):
            if run.id == run_id or (claim_id and run.claim.id == claim_id):
                self._failures.run(run, error)
        if claim := self._claim_table.claims.get(claim_id):
            self._failures.claim(claim, error)
