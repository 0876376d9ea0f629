"""The startd's gRPC service: claims for schedds, draining, vacating, queries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial

from slotwise.classad import ExprTree
from slotwise.classad.evaluate import literal_or_expression
from slotwise.daemon.ad_query import answer
from slotwise.daemon.containment import cause, contained
from slotwise.daemon.questions import Questions
from slotwise.errors import BusyError, NotFoundError
from slotwise.model.slot import SlotKind, VacateCode
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.host.claim_request import ClaimRequest
from slotwise.startd.host.drain_state import FAST, GRACEFUL, QUICK, schedule_of
from slotwise.startd.host.outbox import Granted
from slotwise.startd.publish.daemon_ad import advertised
from slotwise.startd.records.slot_record import Activation, Job, ScheddId, Terms
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Claimed, Preempting
from slotwise.table import AdTable, unpack_ads
from slotwise.wire.call import caller, peer_of, refusals
from slotwise.wire.claim_text import log_message
from slotwise.wire.context import Context
from slotwise.wire.frames import SendQueue, unbundled
from slotwise.wire.gen import common_pb2, startd_pb2, startd_pb2_grpc
from slotwise.wire.status import abort, answers_errors

_log = logging.getLogger(__name__)


class StartdServicer(startd_pb2_grpc.StartdServicer):
    """Adapts calls to the driver; decides nothing."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._questions = Questions(dispatcher.clock)

    # -------------------------------------------------------------------------------------------------------- claims

    async def Claims(
        self, requests: AsyncIterator[startd_pb2.ClaimRequest], context: Context
    ) -> AsyncIterator[startd_pb2.ClaimEvent]:
        """One schedd's stream."""
        session = _Session(self._dispatcher, peer_of(context))
        self._dispatcher.hang_up[session] = session.end
        reader = asyncio.get_running_loop().create_task(session.read(requests))
        try:
            while (frame := await session.frame()) is not None:
                yield frame
        finally:
            del self._dispatcher.hang_up[session]
            reader.cancel()
            session.close()
        if session.refusal is not None:
            await abort(context, session.refusal)

    # -------------------------------------------------------------------------------------------------- administrators

    @answers_errors
    async def Drain(self, request: startd_pb2.DrainRequest, context: Context) -> startd_pb2.DrainReply:
        """Begin to drain."""
        dispatcher = self._dispatcher
        request_id = dispatcher.point.drain.begin(
            schedule=request.schedule,
            reason=request.reason,
            on_completion=request.on_completion,
            check=request.check,
            start=request.start,
            deadline=request.deadline,
            now=dispatcher.clock.now(),
        )
        what = {GRACEFUL: "gracefully", QUICK: "quickly", FAST: "fast"}
        how = what[schedule_of(request.schedule)]
        _log.info("drain request %s: the machine is drained %s: %s", request_id, how, request.reason or "by command")
        dispatcher.touch_all()
        dispatcher.flush()
        return startd_pb2.DrainReply(request_id=request_id)

    @answers_errors
    async def CancelDrain(self, request: startd_pb2.CancelDrainRequest, context: Context) -> common_pb2.Empty:
        """End draining."""
        dispatcher = self._dispatcher
        if (order := dispatcher.point.drain.state.order) is not None:
            _log.info("drain request %s: cancelled by command", order.request_id)
        dispatcher.point.drain.cancel(request.request_id, dispatcher.clock.now())
        dispatcher.touch_all()
        dispatcher.flush()
        return common_pb2.Empty()

    @answers_errors
    async def Vacate(self, request: startd_pb2.VacateRequest, context: Context) -> common_pb2.Empty:
        """Make jobs leave: those of the named slots, or all."""
        dispatcher = self._dispatcher
        now = dispatcher.clock.now()
        names = _slots_named(dispatcher, list(request.slots))
        _log.info("received a command to vacate %s%s", ", ".join(names), ", fast" if request.fast else "")
        for name in names:
            record = dispatcher.point.slots.get(name)
            if record is not None:
                with contained(_log, f"vacating {name}", partial(dispatcher.abandon, [name])):
                    dispatcher.point.apply(record, ev.VacateCommanded(request.fast), now)
        dispatcher.flush()
        return common_pb2.Empty()

    @answers_errors
    async def NoticeMatch(self, request: startd_pb2.MatchNotice, context: Context) -> common_pb2.Empty:
        """The negotiator has matched these slots: they wait for their schedds (NEGOTIATOR_INFORM_STARTD)."""
        dispatcher = self._dispatcher
        for claim_id in request.claim_ids:
            record = dispatcher.point.claim_ids.slot_of(claim_id)
            if record is not None and record.ids.current == claim_id and record.kind is SlotKind.STATIC:
                dispatcher.point.apply(record, ev.MatchNoticed(), dispatcher.clock.now())
        dispatcher.flush()
        return common_pb2.Empty()

    @answers_errors
    async def UpdateMachineAd(self, request: common_pb2.AdBatch, context: Context) -> common_pb2.Empty:
        """Merge attributes into every slot's ad until the startd restarts."""
        for ad in unpack_ads(request.pack):
            added = {name: literal_or_expression(ad.lookup(name).print_old()) for name in ad}
            self._dispatcher.point.ads.added.update(added)
        self._dispatcher.touch_all()
        self._dispatcher.flush()
        return common_pb2.Empty()

    @answers_errors
    async def Query(self, request: common_pb2.AdQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """This host's slot ads, or the daemon's own (kind StartDaemon), fresh."""
        point, now = self._dispatcher.point, self._dispatcher.clock.now()
        table = AdTable()
        if request.kind == "StartDaemon":
            table.upsert(point.settings.name, advertised(point, now, self._dispatcher.clock.monotonic()))
        else:
            point.drain.publish(now)
            for record in point.slots:
                point.ads.show(record, now)
                table.upsert(record.name, record.ad)
        constraint = ExprTree(request.constraint) if request.constraint else None
        async for chunk in answer(self._questions, [table], constraint, request):
            yield chunk


def _slots_named(dispatcher: Dispatcher, names: list[str]) -> list[str]:
    """Full slot names; ``slot1`` alone is this host's, and a partitionable slot includes its dynamic ones.

    :raises NotFoundError: when this host has no slot of a name.
    """
    slots = dispatcher.point.slots
    if not names:
        return slots.names()
    found: list[str] = []
    for name in names:
        full = name if "@" in name else f"{name}@{dispatcher.point.settings.name}"
        record = slots.get(full)
        if record is None:
            here = ", ".join(sorted(slots.names()))
            raise NotFoundError(f"there is no slot {name!r} here", hint=f"slots are {here}")
        found += [full, *sorted(record.children)]
    return found


class _Session:
    """One schedd's stream: its requests, and the messages that are sent to it."""

    def __init__(self, dispatcher: Dispatcher, peer: str) -> None:
        self._dispatcher = dispatcher
        self._peer = peer
        self._queue: SendQueue[startd_pb2.ClaimEvent] = SendQueue()
        self._schedd = ScheddId()
        self._caller = caller.get()
        self.address = ""
        #: Why the schedd may not have its claims here.
        self.refusal: BusyError | None = None

    def send(self, messages: list[startd_pb2.ClaimEvent]) -> None:
        """Queue messages for the schedd."""
        for message in messages:
            self._queue.put(message)
            log_message("to the schedd %s: %s", self._schedd.name, message)

    async def frame(self) -> startd_pb2.ClaimEvent | None:
        """Wait for the next messages, in one frame; None at the end."""
        return await self._queue.frame()

    async def read(self, requests: AsyncIterator[startd_pb2.ClaimRequest]) -> None:
        """Take in the schedd's requests until it ends the stream."""
        try:
            async for frame in requests:
                now = self._dispatcher.clock.now()
                for request in unbundled(frame):
                    self._process(request, now)
                self._dispatcher.flush()
        finally:
            self.end()

    def _process(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        """Handle a request; when that fails, end the claims that it is about and notify the schedd."""
        point = self._dispatcher.point
        what = request.WhichOneof("what")
        if what != "hello" and self._dispatcher.streams.get(self._schedd) is not self:
            return  # the schedd has opened another stream and listed its claims there
        asked_for = what == "request"
        there = frozenset(point.slots.names()) if asked_for else frozenset()
        before = (point.claim_ids.by_id.get(request.claim_id, ""), there)
        doing = f"processing {what!r} of the schedd {self._schedd.name}"
        with contained(_log, doing, lambda error: self._failed(request, before, error)):
            self._handle(request, now)

    def _failed(self, request: startd_pb2.ClaimRequest, before: tuple[str, frozenset[str]], error: Exception) -> None:
        """``before``: the slot of the request's claim, and all slots if it asks for others."""
        dispatcher, what = self._dispatcher, request.WhichOneof("what")
        addressed, there = before
        names = [addressed] if addressed else []
        if what == "request":
            names += [name for name in dispatcher.point.slots.names() if name not in there]
            dispatcher.point.outbox.schedds = [
                message
                for message in dispatcher.point.outbox.schedds
                if not (isinstance(message.what, Granted) and message.serial == request.serial)
            ]
        dispatcher.abandon(names, error)
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
        """No more messages will come."""
        self._queue.end()

    def close(self) -> None:
        """The stream is over; claims live on."""
        if self._dispatcher.streams.get(self._schedd) is self:
            del self._dispatcher.streams[self._schedd]
            self._dispatcher.point.claims.schedd_lost(self._schedd, self._dispatcher.clock.now())
            self._dispatcher.flush()

    def _handle(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        what = request.WhichOneof("what")
        point = self._dispatcher.point
        claim_id = request.claim_id
        log_message("from the schedd %s: %s", self._schedd.name, request)
        if what == "hello":
            self._hello(request, now)
        elif what == "request":
            self._request(request, now)
        elif what == "activate":
            self._activate(request, now)
        elif what == "keep_alive":
            unknown = []
            for renewed in (*request.keep_alive.claim_ids, *([claim_id] if claim_id else [])):
                record = point.claim_ids.slot_of(renewed)
                names = [record.name] if record is not None else []
                with contained(_log, "renewing a claim's lease", partial(self._dispatcher.abandon, names)):
                    unknown += point.claims.keep_alive([renewed], now)
            reply = startd_pb2.KeepAliveReply(unknown=unknown)
            self.send([startd_pb2.ClaimEvent(serial=request.serial, claim_id=claim_id, alive=reply)])
        elif what is not None:
            stimulus = _stimulus(what, request)
            known = point.claims.apply(claim_id, request.serial if what == "release" else 0, stimulus, now)
            if not known and what == "release" and request.serial:
                ended = startd_pb2.ClaimEnded(
                    reason="the claim is not known (any more)", reason_code=VacateCode.CLAIM_NOT_FOUND
                )
                self.send([startd_pb2.ClaimEvent(serial=request.serial, claim_id=claim_id, ended=ended)])

    def _hello(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        """Answer with the claims of the schedd that still exist.

        A schedd that was started again is not connected from where it was. One that is, and says hello from elsewhere,
        too, has been copied: the copy must not take the original's jobs.
        """
        hello, dispatcher = request.hello, self._dispatcher
        name = dispatcher.point.settings.name
        if hello.startd_name not in ("", name) and not any(map(dispatcher.point.claim_ids.slot_of, hello.claim_ids)):
            # Claims of the schedd that this hello does not name live on: it means another startd, which was here.
            text = "the schedd %s at %s looks for the startd %s here, and is told that this is another"
            _log.info(text, hello.schedd_name, hello.schedd_address, hello.startd_name)
            known = startd_pb2.ClaimsKnown(startd_name=name)
            self.send([startd_pb2.ClaimEvent(serial=request.serial, known=known)])
            self.end()
            return
        schedd = ScheddId(hello.schedd_name, self._caller)
        present = dispatcher.streams.get(schedd)
        if present is not None and present.address != hello.schedd_address:
            why = f"the schedd {schedd.name} is connected from {present.address}, and another of its name may not be"
            text = "refused the claims of %s to a schedd at %s: %s"
            refusals.note(schedd.caller, self._peer, text, schedd.name, hello.schedd_address, why)
            self.refusal = BusyError(why, hint="stop one of the two: they have the same job queue")
            self.end()
            return
        self._schedd, self.address = schedd, hello.schedd_address
        dispatcher.streams[schedd] = self
        known = startd_pb2.ClaimsKnown(startd_name=name)
        for claim_id in hello.claim_ids:
            record = dispatcher.point.claim_ids.slot_of(claim_id)
            claim = record.slot.claim if record is not None else None
            if record is None or claim is None or claim.claim_id != claim_id:
                continue
            dispatcher.point.claims.keep_alive([claim_id], now)
            run = record.slot.run or None
            run_id = run.run_id if run else (record.queued.activation.run_id if record.queued else "")
            dispatcher.point.ads.show(record, now)
            known.claims.append(
                startd_pb2.ClaimsKnown.One(
                    claim_id=claim_id,
                    slot_name=record.name,
                    state=str(record.slot.state.state),
                    activity=str(record.slot.state.activity),
                    run_id=run_id,
                    slot_ad=dispatcher.slot_pack(record.name),
                )
            )
        dispatcher.point.claims.greeted([one.claim_id for one in known.claims], self._speaker())
        self.send([startd_pb2.ClaimEvent(serial=request.serial, known=known)])
        self._drop_unclaimed(set(hello.claim_ids), now)

    def _speaker(self) -> Terms:
        """Who speaks on this stream."""
        return Terms(self._schedd.name, self.address, caller=self._caller)

    def _drop_unclaimed(self, believed: set[str], now: float) -> None:
        """Release claims of this schedd that it does not know: their grant was lost on the way."""
        for record in self._dispatcher.point.slots:
            claim = record.slot.claim
            mine = record.terms.are_of(self._speaker()) and isinstance(record.slot.state, Claimed | Preempting)
            mine = mine and claim is not None and not claim.fetched
            if claim is not None and mine and claim.claim_id not in believed:
                with contained(_log, f"releasing {record.name}", partial(self._dispatcher.abandon, [record.name])):
                    released = ev.Released(fast=True, reason="the schedd does not know the claim")
                    self._dispatcher.point.apply(record, released, now)

    def _request(self, request: startd_pb2.ClaimRequest, now: float) -> None:
        asked = request.request
        job = _job(asked.job_ad, asked.user, now)
        if job is None:
            refused = startd_pb2.ClaimRefused(code=VacateCode.BAD_REQUEST, reason="the request names no job and user")
            self.send([startd_pb2.ClaimEvent(serial=request.serial, claim_id=request.claim_id, refused=refused)])
            return
        every_s = asked.alive_interval_s or 300
        terms = Terms(self._schedd.name, self.address, asked.submitter, every_s, self._caller)
        self._dispatcher.point.claims.request(
            ClaimRequest(
                serial=request.serial,
                claim_id=request.claim_id,
                terms=terms,
                job=job,
                lease_s=asked.lease_s or None,
                count=asked.num_dynamic_slots or (0 if asked.claim_pslot_itself else 1),
                pslot_itself=asked.claim_pslot_itself,
                pslot_claim_s=asked.pslot_claim_s,
                want_leftovers=asked.want_leftovers,
                preempt=tuple(asked.preempt_claim_ids),
                coalesce=tuple(asked.coalesce_claim_ids),
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
        self._dispatcher.point.claims.activate(request.claim_id, activation, now, schedd=self._speaker())


def _job(pack: bytes, user: str, now: float) -> Job | None:
    """The job of a request; None when the bytes are not an ad, or no owner is named."""
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
