"""The startd's gRPC service: claims for schedds, draining, vacating, queries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.evaluate import literal_or_expression
from slotwise.daemon.ad_query import answer
from slotwise.daemon.containment import cause, contained
from slotwise.daemon.questions import Questions
from slotwise.errors import NotFoundError
from slotwise.model.slot import SlotKind, VacateCode
from slotwise.startd.dispatcher import Driver
from slotwise.startd.host import claims, drain
from slotwise.startd.host.claim_request import Ask
from slotwise.startd.host.outbox import Granted
from slotwise.startd.publish.daemon_ad import daemon_attributes
from slotwise.startd.records.slot_record import Activation, Job, Terms
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Claimed, Preempting
from slotwise.table import AdTable, unpack_ads
from slotwise.wire.claim_text import log_message
from slotwise.wire.frames import SendQueue, unbundled
from slotwise.wire.gen import common_pb2, startd_pb2, startd_pb2_grpc
from slotwise.wire.status import answers_errors

_log = logging.getLogger(__name__)


class StartdServicer(startd_pb2_grpc.StartdServicer):
    """Adapts calls to the driver; decides nothing."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._questions = Questions(driver.clock)

    # -------------------------------------------------------------------------------------------------------- claims

    async def Claims(self, requests: AsyncIterator[startd_pb2.ClaimRequest], context: Any) -> AsyncIterator[Any]:
        """One schedd's stream."""
        session = _Session(self._driver)
        self._driver.hang_up[session] = session.end
        reader = asyncio.get_running_loop().create_task(session.read(requests))
        try:
            while (frame := await session.frame()) is not None:
                yield frame
        finally:
            del self._driver.hang_up[session]
            reader.cancel()
            session.close()

    # -------------------------------------------------------------------------------------------------- administrators

    @answers_errors
    async def Drain(self, request: startd_pb2.DrainRequest, context: Any) -> startd_pb2.DrainReply:
        """Begin to drain."""
        driver = self._driver
        request_id = drain.begin(
            driver.point,
            schedule=request.schedule,
            reason=request.reason,
            on_completion=request.on_completion,
            check=request.check,
            start=request.start,
            deadline=request.deadline,
            now=driver.clock.now(),
        )
        what = {drain.GRACEFUL: "gracefully", drain.QUICK: "quickly", drain.FAST: "fast"}
        how = what[drain.schedule_of(request.schedule)]
        _log.info("drain request %s: the machine is drained %s: %s", request_id, how, request.reason or "by command")
        driver.touch_all()
        driver.flush()
        return startd_pb2.DrainReply(request_id=request_id)

    @answers_errors
    async def CancelDrain(self, request: startd_pb2.CancelDrainRequest, context: Any) -> common_pb2.Empty:
        """End draining."""
        driver = self._driver
        if (order := driver.point.order) is not None:
            _log.info("drain request %s: cancelled by command", order.request_id)
        drain.cancel(driver.point, request.request_id, driver.clock.now())
        driver.touch_all()
        driver.flush()
        return common_pb2.Empty()

    @answers_errors
    async def Vacate(self, request: startd_pb2.VacateRequest, context: Any) -> common_pb2.Empty:
        """Make jobs leave: those of the named slots, or all."""
        driver = self._driver
        now = driver.clock.now()
        names = _slots_named(driver, list(request.slots))
        _log.info("received a command to vacate %s%s", ", ".join(names), ", fast" if request.fast else "")
        for name in names:
            h = driver.point.holdings.get(name)
            if h is not None:
                with contained(_log, f"vacating {name}", partial(driver.abandon, [name])):
                    driver.point.happen(h, ev.VacateCommanded(request.fast), now)
        driver.flush()
        return common_pb2.Empty()

    @answers_errors
    async def NoticeMatch(self, request: startd_pb2.MatchNotice, context: Any) -> common_pb2.Empty:
        """The negotiator has matched these slots: they wait for their schedds (NEGOTIATOR_INFORM_STARTD)."""
        driver = self._driver
        for claim_id in request.claim_ids:
            h = driver.point.holding_of_claim(claim_id)
            if h is not None and h.capability == claim_id and h.kind is SlotKind.STATIC:
                driver.point.happen(h, ev.MatchNoticed(), driver.clock.now())
        driver.flush()
        return common_pb2.Empty()

    @answers_errors
    async def UpdateMachineAd(self, request: common_pb2.AdBatch, context: Any) -> common_pb2.Empty:
        """Merge attributes into every slot's ad until the startd restarts."""
        for ad in unpack_ads(request.pack):
            added = {name: literal_or_expression(str(ad.lookup(name))) for name in ad}
            self._driver.point.extra.update(added)
        self._driver.touch_all()
        self._driver.flush()
        return common_pb2.Empty()

    @answers_errors
    async def Query(self, request: common_pb2.AdQuery, context: Any) -> AsyncIterator[common_pb2.AdChunk]:
        """This host's slot ads, or the daemon's own (kind StartDaemon), fresh."""
        point, now = self._driver.point, self._driver.clock.now()
        table = AdTable()
        if request.kind == "StartDaemon":
            table.upsert(point.settings.name, ClassAd(daemon_attributes(point, now)))
        else:
            drain.publish(point, now)
            for h in point.holdings.values():
                point.show(h, now)
                table.upsert(h.name, h.ad)
        constraint = ExprTree(request.constraint) if request.constraint else None
        async for chunk in answer(self._questions, [table], constraint, request):
            yield chunk


def _slots_named(driver: Driver, names: list[str]) -> list[str]:
    """Full slot names; ``slot1`` alone is this host's, and a partitionable slot stands for its dynamic ones.

    :raises NotFoundError: when a name is none of this host's.
    """
    holdings = driver.point.holdings
    if not names:
        return list(holdings)
    found: list[str] = []
    for name in names:
        full = name if "@" in name else f"{name}@{driver.point.settings.name}"
        h = holdings.get(full)
        if h is None:
            raise NotFoundError(f"there is no slot {name!r} here", hint=f"slots are {', '.join(sorted(holdings))}")
        found += [full, *sorted(h.children)]
    return found


class _Session:
    """One schedd's stream: what it said, and what it is to be told."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._queue: SendQueue[startd_pb2.ClaimEvent] = SendQueue()
        self._schedd = ""
        self._address = ""
        self._send = self.send

    def send(self, events: list[startd_pb2.ClaimEvent]) -> None:
        """Queue events for the schedd."""
        for event in events:
            self._queue.put(event)
            log_message("to the schedd %s: %s", self._schedd, event)

    async def frame(self) -> startd_pb2.ClaimEvent | None:
        """Wait for the next events, in one frame; None at the end."""
        return await self._queue.frame()

    async def read(self, requests: AsyncIterator[startd_pb2.ClaimRequest]) -> None:
        """Take in the schedd's requests until it ends the stream."""
        try:
            async for frame in requests:
                now = self._driver.clock.now()
                for request in unbundled(frame):
                    self._process(request, now)
                self._driver.flush()
        finally:
            self.end()

    def _process(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        """Handle a request; when that fails, the claims that it is about end and the schedd is told."""
        holdings, by_claim = self._driver.point.holdings, self._driver.point.by_claim
        what = request.WhichOneof("what")
        if what != "hello" and self._driver.streams.get(self._schedd) is not self._send:
            return  # the schedd has opened another stream and said there what it holds
        asked_for = what == "request"
        before = (by_claim.get(request.claim_id, ""), frozenset(holdings) if asked_for else frozenset())
        doing = f"processing {what!r} of the schedd {self._schedd}"
        with contained(_log, doing, lambda error: self._failed(request, before, error)):
            self._handle(request, now)

    def _failed(self, request: startd_pb2.ClaimRequest, before: tuple[str, frozenset[str]], error: Exception) -> None:
        """``before``: the slot of the request's claim, and all slots if it asks for others."""
        driver, what = self._driver, request.WhichOneof("what")
        addressed, there = before
        names = [addressed] if addressed else []
        if what == "request":
            names += [name for name in driver.point.holdings if name not in there]
            driver.point.outbox.schedds = [
                message
                for message in driver.point.outbox.schedds
                if not (isinstance(message.what, Granted) and message.serial == request.serial)
            ]
        driver.abandon(names, error)
        reason = f"the execution point failed to process the request: {cause(error)}"
        event = startd_pb2.ClaimEvent(serial=request.serial, claim_id=request.claim_id)
        if what == "request":
            event.refused.code, event.refused.reason = VacateCode.EXCEPTION, reason
        elif what == "activate":
            event.activation_refused.run_id = request.activate.run_id
            event.activation_refused.code, event.activation_refused.reason = VacateCode.EXCEPTION, reason
        elif what == "hello":
            self.end()  # the schedd opens another stream
            return
        else:
            return
        self.send([event])

    def end(self) -> None:
        """No more events will come."""
        self._queue.end()

    def close(self) -> None:
        """The stream is over; claims live on."""
        if self._driver.streams.get(self._schedd) is self._send:
            del self._driver.streams[self._schedd], self._driver.ends[self._schedd]
            claims.schedd_lost(self._driver.point, self._schedd, self._driver.clock.now())
            self._driver.flush()

    def _handle(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        what = request.WhichOneof("what")
        point = self._driver.point
        claim_id = request.claim_id
        log_message("from the schedd %s: %s", self._schedd, request)
        if what == "hello":
            self._hello(request, now)
        elif what == "request":
            self._request(request, now)
        elif what == "activate":
            self._activate(request, now)
        elif what == "keep_alive":
            unknown = []
            for renewed in (*request.keep_alive.claim_ids, *([claim_id] if claim_id else [])):
                h = point.holding_of_claim(renewed)
                names = [h.name] if h is not None else []
                with contained(_log, "renewing a claim's lease", partial(self._driver.abandon, names)):
                    unknown += claims.keep_alive(point, [renewed], now)
            reply = startd_pb2.KeepAliveReply(unknown=unknown)
            self.send([startd_pb2.ClaimEvent(serial=request.serial, claim_id=claim_id, alive=reply)])
        elif what is not None:
            stimulus = _stimulus(what, request)
            known = claims.tell_claim(point, claim_id, request.serial if what == "release" else 0, stimulus, now)
            if not known and what == "release" and request.serial:
                ended = startd_pb2.ClaimEnded(reason="the claim is not known (any more)", reason_code=1034)
                self.send([startd_pb2.ClaimEvent(serial=request.serial, claim_id=claim_id, ended=ended)])

    def _hello(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        """Who speaks, and which of its claims live."""
        hello, driver = request.hello, self._driver
        self._schedd, self._address = hello.schedd_name, hello.schedd_address
        driver.streams[self._schedd], driver.ends[self._schedd] = self._send, self.end
        known = startd_pb2.ClaimsKnown()
        for claim_id in hello.claim_ids:
            h = driver.point.holding_of_claim(claim_id)
            claim = h.slot.claim if h is not None else None
            if h is None or claim is None or claim.claim_id != claim_id:
                continue
            claims.keep_alive(driver.point, [claim_id], now)
            run = h.slot.run or None
            run_id = run.run_id if run else (h.queued.run_id if h.queued else "")
            driver.point.show(h, now)
            known.claims.append(
                startd_pb2.ClaimsKnown.One(
                    claim_id=claim_id,
                    slot_name=h.name,
                    state=str(h.slot.state.state),
                    activity=str(h.slot.state.activity),
                    run_id=run_id,
                    slot_ad=driver.slot_pack(h.name),
                )
            )
        self.send([startd_pb2.ClaimEvent(serial=request.serial, known=known)])
        self._drop_unclaimed(set(hello.claim_ids), now)

    def _drop_unclaimed(self, believed: set[str], now: float) -> None:
        """Claims of this schedd that it does not know: their grant was lost on the way. Free them."""
        for h in list(self._driver.point.holdings.values()):
            claim = h.slot.claim
            mine = h.terms.schedd_name == self._schedd and isinstance(h.slot.state, Claimed | Preempting)
            mine = mine and claim is not None and not claim.fetched
            if claim is not None and mine and claim.claim_id not in believed:
                with contained(_log, f"releasing {h.name}", partial(self._driver.abandon, [h.name])):
                    released = ev.Released(fast=True, reason="the schedd does not know the claim")
                    self._driver.point.happen(h, released, now)

    def _request(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        asked = request.request
        job = _job(asked.job_ad, asked.user, now)
        if job is None:
            refused = startd_pb2.ClaimRefused(code=VacateCode.BAD_REQUEST, reason="the request names no job and user")
            self.send([startd_pb2.ClaimEvent(serial=request.serial, claim_id=request.claim_id, refused=refused)])
            return
        terms = Terms(self._schedd, self._address, asked.submitter, asked.alive_interval_s or 300)
        claims.request(
            self._driver.point,
            Ask(
                serial=request.serial,
                claim_id=request.claim_id,
                terms=terms,
                job=job,
                lease_s=asked.lease_s or None,
                count=asked.num_dynamic_slots or (0 if asked.claim_pslot_itself else 1),
                whole=asked.claim_pslot_itself,
                whole_s=asked.pslot_claim_s,
                want_leftovers=asked.want_leftovers,
                preempt=tuple(asked.preempt_claim_ids),
            ),
            now,
        )

    def _activate(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        asked = request.activate
        job = _job(asked.job_ad, asked.user, now)
        if job is None:
            refused = startd_pb2.ActivationRefused(
                run_id=asked.run_id, code=VacateCode.BAD_REQUEST, reason="the activation names no job and user"
            )
            event = startd_pb2.ClaimEvent(serial=request.serial, claim_id=request.claim_id, activation_refused=refused)
            self.send([event])
            return
        activation = Activation(request.serial, asked.run_id, asked.run_token, asked.shadow_address, job)
        claims.activate(self._driver.point, request.claim_id, activation, now, schedd=self._schedd)


def _job(pack: bytes, user: str, now: float) -> Job | None:
    """The job of a request; None when the bytes are not an ad, or nobody is named as its owner."""
    try:
        ads = unpack_ads(pack)
    except ValueError:
        return None
    return Job.of(pack, ads[0], None, now, user=user) if ads and user else None


def _stimulus(what: str, request: startd_pb2.ClaimRequest) -> ev.SlotEvent:
    if what == "release":
        asked = request.release
        default = ev.Released()
        return ev.Released(asked.fast, asked.reason or default.reason, asked.reason_code or default.code)
    if what == "deactivate":
        ended = request.deactivate
        plain = ev.Deactivated(False)
        return ev.Deactivated(ended.fast, ended.reason or plain.reason, ended.reason_code or plain.code)
    return ev.ContinueCommanded() if request.suspend.resume else ev.SuspendCommanded()
