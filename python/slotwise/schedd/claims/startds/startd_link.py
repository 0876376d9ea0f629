"""One stream to one startd, over which all claims there are asked for, used and given back.

It says with ``hello`` which claims it believes to hold; requests go out once the startd has answered which it knows.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import grpc
from msgspec import Struct

from slotwise.daemon.containment import contained
from slotwise.errors import PeerUnavailableError, SlotwiseError
from slotwise.schedd.claims.convert import startd_message
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.startds.startd_messages import ClaimsKnown, StartdMessage
from slotwise.schedd.claims.startds.whereabouts import is_nowhere
from slotwise.schedd.jobs.decision import Kill
from slotwise.wire.claim_text import log_message
from slotwise.wire.credential import Credential
from slotwise.wire.gen import startd_pb2, startd_pb2_grpc
from slotwise.wire.stream import BundledStream

_log = logging.getLogger(__name__)
#: For so many attempts in a row, two seconds apart, a startd is looked for that has not heard which claims were given
#: back: half an hour, after which it has ended them itself (ALIVE_INTERVAL, MAX_CLAIM_ALIVES_MISSED).
_OWED_ATTEMPTS = 900


class Hello(Struct, frozen=True):
    """Who the schedd is, the startd that it means, and the ids of the claims that it believes to hold there."""

    schedd_name: str
    schedd_address: str
    claim_ids: list[str]
    startd_name: str = ""


class ClaimAsk(Struct, frozen=True):
    """A request for a slot, or for up to ``slots`` dynamic ones. ``job_ad``: that of the first job, packed."""

    serial: int
    claim_id: str
    job_ad: bytes
    lease_s: int
    alive_interval_s: int
    slots: int
    want_leftovers: bool
    preempt_claim_ids: Sequence[str]
    submitter: str
    user: str
    #: Claims of which one slot is to be made.
    coalesce_claim_ids: Sequence[str] = ()


class LinkOwner(Protocol):
    """Takes what a link brings."""

    def hello(self, startd: str, slot_name: str) -> Hello:
        """What to say first on a new stream to the startd that has a slot of this name (empty: to any)."""
        ...

    def mistaken(self, startd: str, slot_name: str, known: ClaimsKnown) -> bool:
        """Whether another startd has answered at an address than the one that has a slot of this name. What is held
        there of others is looked for elsewhere, then."""
        ...

    def on_message(self, startd: str, message: StartdMessage) -> None:
        """The startd sent a message."""
        ...

    def on_failure(self, startd: str, message: StartdMessage, error: Exception) -> None:
        """:meth:`on_message` has raised: end what the message is about."""
        ...

    def slot_at(self, startd: str) -> str:
        """The name of a slot that the schedd holds at the startd, or asks for there; empty without one."""
        ...

    async def address_of(self, slot_name: str) -> str:
        """Where the startd with a slot of this name answers, as the collector knows it; empty where it knows none."""
        ...

    def moved(self, former: str, startd: str) -> None:
        """The startd with which the schedd has spoken at ``former`` answers elsewhere."""
        ...

    def meet(self, slot_name: str, startd: str) -> None:
        """A slot is to be claimed at a startd that there is no stream to."""
        ...

    def on_break(self, startd: str, why: str) -> None:
        """The stream broke, or could not be opened; requests without an answer are lost."""
        ...


class StartdLink(BundledStream[startd_pb2.ClaimRequest, startd_pb2.ClaimEvent]):
    """The stream to the startd at ``address``."""

    def __init__(self, address: str, owner: LinkOwner, credential: Credential) -> None:
        super().__init__(f"the startd at {address}")
        self.address = address
        self._owner = owner
        self._credential = credential
        #: Another attempt is worth it without claims, too: the stream that broke last had got as far as the startd's
        #: answer to hello, or claims were given back since.
        self.heard = False
        self._owes = False
        self._why = ""
        #: A slot of the startd, by which it is found where it comes back at another address.
        self._slot_name = ""

    def send(self, message: startd_pb2.ClaimRequest) -> None:
        """Say something; it is lost if the stream breaks before."""
        super().send(message)
        log_message("to the startd at %s: %s", self.address, message)

    # ---- what is asked of the startd

    def ask(self, ask: ClaimAsk) -> None:
        """Ask for a slot."""
        request = startd_pb2.RequestClaim(
            job_ad=ask.job_ad,
            lease_s=ask.lease_s,
            alive_interval_s=ask.alive_interval_s,
            num_dynamic_slots=ask.slots,
            want_leftovers=ask.want_leftovers,
            preempt_claim_ids=ask.preempt_claim_ids,
            submitter=ask.submitter,
            user=ask.user,
            coalesce_claim_ids=ask.coalesce_claim_ids,
        )
        self.send(startd_pb2.ClaimRequest(serial=ask.serial, claim_id=ask.claim_id, request=request))

    def activate(self, serial: int, run: Run, job_ad: bytes, shadow: str) -> None:
        """Have the run's claim activated; its starter speaks to the schedd at ``shadow``."""
        activate = startd_pb2.ActivateClaim(
            run_id=run.id, run_token=run.token, job_ad=job_ad, shadow_address=shadow, user=run.job.cluster.user
        )
        self.send(startd_pb2.ClaimRequest(serial=serial, claim_id=run.claim.id, activate=activate))

    def deactivate(self, claim_id: str, kill: Kill) -> None:
        """Have the run on the claim ended."""
        ending = startd_pb2.DeactivateClaim(fast=kill.fast, reason=kill.reason, reason_code=kill.code)
        self.send(startd_pb2.ClaimRequest(claim_id=claim_id, deactivate=ending))

    def release(self, claim_id: str, reason: str, *, fast: bool) -> None:
        """Give the claim back; without a stream the next hello does, which does not name it."""
        if not self.connected:
            self._owes = True
            return
        release = startd_pb2.ReleaseClaim(reason=reason, fast=fast)
        self.send(startd_pb2.ClaimRequest(claim_id=claim_id, release=release))

    def suspend(self, claim_id: str, *, resume: bool) -> None:
        """Have the job on the claim suspended, or continued."""
        self.send(startd_pb2.ClaimRequest(claim_id=claim_id, suspend=startd_pb2.SuspendClaim(resume=resume)))

    def keep_alive(self, claim_ids: list[str]) -> None:
        """Renew the leases of the claims."""
        self.send(startd_pb2.ClaimRequest(keep_alive=startd_pb2.KeepAlive(claim_ids=claim_ids)))

    # ---- the stream

    async def target(self) -> str:
        """Where the startd answers: the collector knows, once it does not answer where it did.

        :raises PeerUnavailableError: when another startd answers where it did, and the collector knows no other place.
        """
        self._slot_name = self._owner.slot_at(self.address) or self._slot_name
        if self._failures and self._slot_name and not self.address.startswith("unix:"):
            found = ""
            with contextlib.suppress(grpc.RpcError, SlotwiseError):  # the collector may be away, too
                found = await self._owner.address_of(self._slot_name)
            if found and found != self.address:
                self._owner.moved(self.address, found)
        if is_nowhere(self.address):
            raise PeerUnavailableError("another startd answers where it did, and the collector knows of no other place")
        return self.address

    def move(self, startd: str) -> None:
        """The startd answers at another address, from the next attempt on."""
        self.address, self.peer = startd, f"the startd at {startd}"

    def call(self, opened: grpc.aio.Channel, target: str) -> Any:
        """Claims."""
        return startd_pb2_grpc.StartdStub(opened).Claims(metadata=self._credential.metadata(target))

    def greeting(self) -> list[startd_pb2.ClaimRequest]:
        """Which claims this schedd believes to hold."""
        hello = self._owner.hello(self.address, self._slot_name)
        told = startd_pb2.ScheddHello(
            schedd_name=hello.schedd_name,
            schedd_address=hello.schedd_address,
            claim_ids=hello.claim_ids,
            startd_name=hello.startd_name,
        )
        return [startd_pb2.ClaimRequest(hello=told)]

    def take(self, messages: list[startd_pb2.ClaimEvent]) -> None:
        """Hand messages to the owner.

        :raises SlotwiseError: when the list of known claims cannot be compared: only a new stream brings another one.
        :raises PeerUnavailableError: when another startd answers than the one that is meant.
        """
        for event in messages:
            what = event.WhichOneof("what")
            log_message("from the startd at %s: %s", self.address, event)
            message = startd_message(event)
            if isinstance(message, ClaimsKnown):
                if self._owner.mistaken(self.address, self._slot_name, message):
                    raise PeerUnavailableError(f"another startd answers there: {message.startd}")
                self._owes = False
                self.established()
            if message is None:
                continue
            recover = partial(self._owner.on_failure, self.address, message)
            with contained(_log, f"processing {what!r} of {self.peer}", recover) as attempt:
                self._owner.on_message(self.address, message)
            if attempt.failed and what == "known":
                raise SlotwiseError("the claims that the startd knows could not be compared with those held")

    def broke(self, why: str) -> None:
        """Remember why, for whoever waits for an answer."""
        self._why = why
        super().broke(why)

    def lost(self, *, was_connected: bool) -> None:
        """Requests without an answer are lost."""
        self._slot_name = self._owner.slot_at(self.address) or self._slot_name
        self.heard = was_connected or (self._owes and self._failures < _OWED_ATTEMPTS)
        self._owner.on_break(self.address, self._why)
