"""Wires and starts the rooster: every ROOSTER_INTERVAL it looks for machines to wake, and wakes them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging

import grpc

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.config import Config
from slotwise.daemon import state_file, tasks
from slotwise.daemon.locate import collector_target
from slotwise.daemon.merging import merge_into_slots
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.rooster import decide, rules
from slotwise.rooster.decide import Book
from slotwise.rooster.waking import wake
from slotwise.table import unpack_ads
from slotwise.wire import channel
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.stream import reason_of

_log = logging.getLogger(__name__)
_CALL_S = 20.0
_ASLEEP = "Offline =?= true"


async def start(context: DaemonContext) -> Rooster:
    """Start the rooster."""
    return Rooster(context)


class Rooster:
    """The running daemon."""

    def __init__(self, context: DaemonContext) -> None:
        self._context = context
        self.rules = rules.read(context.config)
        self._state = context.home.spool / "rooster_state"
        self._book = self._recall()
        self._wake = asyncio.Event()
        self._task = tasks.keep("looking for machines to be woken", self._run)

    async def reconfig(self, config: Config) -> list[str]:
        """Adopt new knobs, and look for machines at once."""
        self.rules = rules.read(config)
        self._wake.set()
        return []

    async def stop(self, mode: str) -> None:
        """Stop looking; machines that were called wake up nevertheless."""
        await tasks.end(self._task)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if self.rules.interval_s > 0:
                try:
                    await self._poll()
                except (grpc.RpcError, SlotwiseError, OSError) as error:
                    _log.error("could not look for machines to be woken: %s", reason_of(error))
                except Exception:
                    _log.exception("error while looking for machines to be woken")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.rules.interval_s if self.rules.interval_s > 0 else None):
                    await self._wake.wait()

    async def _poll(self) -> None:
        clock = self._context.clock
        asleep = await self._ask(_ASLEEP, ["Name", "Machine"])
        candidates = await self._ask(self.rules.unhibernate) if asleep else []
        machines = frozenset(map(decide.machine_of, asleep))
        plan = decide.plan(self.rules, candidates, machines, self._book, clock.now())
        for name in plan.back:
            _log.info("%s is back", name)
        marks: dict[str, dict[str, Value]] = {}
        for name in plan.failed:
            call = self._book.calls[name]
            _log.warning("%s has not come within %g s of call %d", name, self.rules.timeout_s, call.count)
            marks |= {
                str(ad.get("Name")): {"WakeupFailures": call.failed} for ad in asleep if decide.machine_of(ad) == name
            }
        count = 0
        for ad in plan.wake:
            if not decide.still_wanted(self.rules, ad, clock.now()):
                _log.info("skipping %s: ROOSTER_UNHIBERNATE is no longer true", ad.get("Name"))
                continue
            if self.rules.most and count >= self.rules.most:
                _log.info("ROOSTER_MAX_UNHIBERNATE is reached: %d machines have to wait", len(plan.wake) - count)
                break
            count += 1
            marks.setdefault(str(ad.get("Name")), {}).update(await self._call(ad))
        self._remember()
        await merge_into_slots(self._context, marks)

    async def _call(self, ad: ClassAd) -> dict[str, Value]:
        """Wake one machine; returns the attributes that its ad gets."""
        machine, now = decide.machine_of(ad), self._context.clock.now()
        _log.info("waking %s for %s", machine, ad.get("Name"))
        call = decide.called(self._book, machine, now)
        self._remember()  # before the call: a crash costs one call, and does not call a machine for ever
        await wake(ad, self.rules.command)
        return {"LastWakeupCall": int(now), "WakeupCalls": call.count}

    async def _ask(self, constraint: str, projection: list[str] | None = None) -> list[ClassAd]:
        query = common_pb2.AdQuery(kind="Machine", constraint=constraint, projection=projection or [])
        found: list[ClassAd] = []
        target = collector_target(self._context)
        async with channel.open_async(target) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            async for chunk in stub.Query(query, metadata=self._context.credential.metadata(target), timeout=_CALL_S):
                found += unpack_ads(chunk.data) if chunk.data else []
        return found

    # ------------------------------------------------------------------------------------------------- what is kept

    def _recall(self) -> Book:
        try:
            return Book.of(json.loads(self._state.read_text()))
        except (OSError, ValueError):
            return Book()

    def _remember(self) -> None:
        state_file.save(self._state, self._book.record())
