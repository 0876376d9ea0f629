"""Wires and starts the defragmenter: every DEFRAG_INTERVAL it queries the pool's slots and asks startds to drain."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections import deque
from pathlib import Path

import grpc

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.config import Config
from slotwise.daemon import state_file, tasks
from slotwise.daemon.ad import daemon_ad
from slotwise.daemon.further_attributes import in_ad
from slotwise.daemon.locate import collector_target
from slotwise.daemon.publish import TablePublisher
from slotwise.daemon.runtime import DaemonContext
from slotwise.defrag import decide, rules
from slotwise.defrag.decide import Arrivals, Plan, Target
from slotwise.errors import SlotwiseError
from slotwise.table import unpack_ads
from slotwise.wire import channel
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, startd_pb2, startd_pb2_grpc
from slotwise.wire.stream import reason_of

_log = logging.getLogger(__name__)
_CALL_S = 20.0
_REMEMBERED = 10
_SCHEDULES = {0: "graceful", 10: "quick", 20: "fast"}


async def start(context: DaemonContext) -> Defrag:
    """Start the defragmenter."""
    return Defrag(context)


class Defrag:
    """The running daemon."""

    def __init__(self, context: DaemonContext) -> None:
        self._context = context
        self.rules = rules.read(context.config, context.address.name)
        self._state = Path(context.config.get("DEFRAG_STATE_FILE") or context.home.spool / "defrag_state")
        self._last_poll = self._recall()
        self._arrivals = Arrivals()
        self._numbers: dict[str, int | float] = {"DrainSuccesses": 0, "DrainFailures": 0}
        self._drains: deque[dict[str, Value]] = deque(maxlen=_REMEMBERED)
        self._cancels: deque[dict[str, Value]] = deque(maxlen=_REMEMBERED)
        self._random = random.Random()
        self._wake = asyncio.Event()
        self._publisher = TablePublisher(context, lambda: self.rules.update_s)
        self._publish()
        self._task = tasks.keep("choosing machines to drain", self._run)

    async def reconfig(self, config: Config) -> list[str]:
        """Adopt new knobs, which also say when the next poll is due."""
        self.rules = rules.read(config, self._context.address.name)
        self._publisher.publish()
        self._wake.set()
        return []

    async def stop(self, mode: str) -> None:
        """Stop polling; drains that were started go on."""
        await tasks.end(self._task)
        await self._publisher.stop()

    async def _run(self) -> None:
        while True:
            wait_s: float | None = None
            if self.rules.interval_s > 0:
                passed = self._context.clock.now() - self._last_poll
                wait_s = self.rules.interval_s - passed if 0 <= passed < self.rules.interval_s else 0.0
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
                continue
            try:
                await self._poll()
            except (grpc.RpcError, SlotwiseError, OSError) as error:
                _log.error("could not poll the machines: %s", error)
            except Exception:
                _log.exception("error while polling the machines")

    async def _poll(self) -> None:
        now, former = self._context.clock.now(), self._last_poll
        self._last_poll = now
        self._remember(now)  # before any drain: a crash makes too few of them, not too many
        slots = await self._slots()
        plan = decide.plan(self.rules, slots, former, now, self._shuffled)
        self._arrivals.seen(plan.whole, plan.draining, now)
        _log.info("%d machines are draining, %d are whole", len(plan.draining), len(plan.whole))
        for target in plan.cancel:
            await self._cancel(target, now)
        if plan.why_not:
            _log.info("not draining any machine: %s", plan.why_not)
        drained = 0
        for target in plan.drain:
            if drained >= plan.wanted:
                break
            drained += await self._drain(target, now)
        self._count(plan, slots, now)
        self._publish()

    def _shuffled(self, slots: list[ClassAd]) -> list[ClassAd]:
        slots = list(slots)
        self._random.shuffle(slots)
        return slots

    async def _slots(self) -> list[ClassAd]:
        """The pool's partitionable slots."""
        query = common_pb2.AdQuery(kind="Machine", constraint=decide.BASE)
        found: list[ClassAd] = []
        target = collector_target(self._context)
        async with channel.open_async(target) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            async for chunk in stub.Query(query, metadata=self._context.credential.metadata(target), timeout=_CALL_S):
                found += unpack_ads(chunk.data) if chunk.data else []
        return found

    async def _drain(self, target: Target, now: float) -> bool:
        request = startd_pb2.DrainRequest(
            schedule=self.rules.schedule,
            reason=self.rules.reason,
            on_completion="resume",
            check=target.check,
            start=self.rules.start if self.rules.schedule == 0 else "",
        )
        how = _SCHEDULES[self.rules.schedule]
        try:
            async with channel.open_async(target.address) as opened:
                stub = startd_pb2_grpc.StartdStub(opened)
                await stub.Drain(request, metadata=self._context.credential.metadata(target.address), timeout=_CALL_S)
        except (grpc.RpcError, SlotwiseError) as error:
            _log.error("could not drain %s: %s", target.slot, reason_of(error))
            self._numbers["DrainFailures"] += 1
            return False
        _log.info("draining %s (%s)", target.slot, how)
        self._numbers["DrainSuccesses"] += 1
        self._drains.appendleft({"when": int(now), "who": target.slot, "what": how})
        return True

    async def _cancel(self, target: Target, now: float) -> None:
        try:
            async with channel.open_async(target.address) as opened:
                stub = startd_pb2_grpc.StartdStub(opened)
                await stub.CancelDrain(
                    startd_pb2.CancelDrainRequest(),
                    metadata=self._context.credential.metadata(target.address),
                    timeout=_CALL_S,
                )
        except (grpc.RpcError, SlotwiseError) as error:
            _log.error("could not cancel the draining of %s: %s", target.slot, reason_of(error))
            return
        _log.info("cancelled the draining of %s", target.slot)
        self._cancels.appendleft({"when": int(now), "who": target.slot})

    # ------------------------------------------------------------------------------------------------- what is told

    def _count(self, plan: Plan, slots: list[ClassAd], now: float) -> None:
        badput, unclaimed = decide.costs(slots, now)
        numbers = self._numbers
        numbers.update(
            MachinesDraining=len(plan.draining),
            WholeMachines=len(plan.whole),
            MachinesDrainingPeak=max(len(plan.draining), numbers.get("MachinesDrainingPeak", 0)),
            WholeMachinesPeak=max(len(plan.whole), numbers.get("WholeMachinesPeak", 0)),
            AvgDrainingBadput=badput,
            AvgDrainingUnclaimed=unclaimed,
            DrainedMachines=self._arrivals.count,
            MeanDrainedArrival=self._arrivals.rate,
            MeanDrainedArrivalSD=self._arrivals.deviation,
        )

    def _publish(self) -> None:
        ad: dict[str, Value] = {**in_ad(self.rules.advertised)}
        ad |= {**daemon_ad(self._context, "Defrag", name=self.rules.name), **self._numbers}
        ad |= {"RecentDrainsList": list(self._drains), "RecentCancelsList": list(self._cancels)}
        self._publisher.table("Defrag").upsert(self.rules.name, ad)
        self._publisher.publish()

    # ------------------------------------------------------------------------------------------------- what is kept

    def _recall(self) -> float:
        try:
            return float(json.loads(self._state.read_text())["LastPoll"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0.0

    def _remember(self, now: float) -> None:
        state_file.save(self._state, {"LastPoll": now})
