"""Carries out what :mod:`slotwise.model.power.decision` decides, on the machine that it is about."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from slotwise.classad.evaluate import Value
from slotwise.config import Config
from slotwise.daemon import children, tasks
from slotwise.daemon.containment import contained
from slotwise.model.power import decision
from slotwise.model.power.decision import Asleep, Awake, Clearing, Rules, Stage, Usage
from slotwise.model.power.levels import OFF, listed, name_of
from slotwise.model.slot import State
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.power import methods
from slotwise.startd.power.wake_on_lan import WakeOnLan
from slotwise.startd.publish.slot_publisher import SlotPublisher
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Backfill

_log = logging.getLogger(__name__)
#: How long the collector may take to acknowledge the offline ads (seconds).
_ACKNOWLEDGE_S = 5.0
#: How often slots whose jobs are leaving are checked.
_LOOK_S = 0.2
#: How long a command may take (seconds awake): some end when the machine wakes.
_COMMAND_S = 600.0
#: A machine whose clocks drift apart by this much was asleep (seconds).
_SLEPT_S = 1.0
#: A machine takes longer to shut down than to fall asleep.
_OFF_TAKES = 30


class Hibernation:
    """Looks at HIBERNATE every HIBERNATE_CHECK_INTERVAL, and puts the machine to sleep when all slots want it.

    :param card: what the network card says of being woken.
    """

    def __init__(
        self,
        config: Config,
        dispatcher: Dispatcher,
        publisher: SlotPublisher,
        card: WakeOnLan,
        sample: Callable[[], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._publisher = publisher
        self._card = card
        self._sample = sample
        self._method = methods.find(config)
        self._wait_s = 0.0
        self._watts: dict[str, float] = {}
        self._unclaimed_since: float | None = dispatcher.clock.now()
        self._rules = Rules()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.stage: Stage = Awake(0.0)
        self.follow(config)
        _log.debug("hibernation: method %s, levels %s", self._method.name, listed(self._method.levels) or "none")

    @property
    def asleep(self) -> bool:
        """Whether the machine sleeps, or is on its way to."""
        return isinstance(self.stage, Asleep)

    def follow(self, config: Config) -> None:
        """Take over knobs; how the machine is put to sleep stays until a restart."""
        former = self._rules.interval_s
        self._rules = Rules(
            interval_s=config.get_float("HIBERNATE_CHECK_INTERVAL"),
            uptime_s=config.get_float("SLOTWISE_HIBERNATION_MIN_UPTIME"),
            supported=self._method.levels,
            wakeable=self._card.wakes or config.get_bool("HIBERNATION_OVERRIDE_WOL"),
        )
        self._wait_s = config.get_float("SLOTWISE_HIBERNATION_WAIT")
        idle_watts = config.get_float("SLOTWISE_POWER_WATTS")
        asleep_watts = max(0.0, config.get_float("SLOTWISE_POWER_ASLEEP_WATTS"))
        self._watts = {"IdleWatts": idle_watts, "AsleepWatts": asleep_watts} if idle_watts > 0 else {}
        if self._rules.interval_s != former and isinstance(self.stage, Awake):
            _log.info("hibernation is %s", "enabled" if self._rules.interval_s > 0 else "disabled")
            self.stage = decision.begin(self._rules, self._dispatcher.clock.now())
            self._changed.set()

    def attributes(self) -> dict[str, Value]:
        """What every slot's ad says of sleeping and waking."""
        level = 0 if isinstance(self.stage, Awake | Clearing) else self.stage.level
        return {
            "CanHibernate": bool(self._method.levels),
            "HibernationLevel": level,
            "HibernationState": name_of(level),
            "HibernationSupportedStates": listed(self._method.levels),
            "UnclaimedSince": None if self._unclaimed_since is None else int(self._unclaimed_since),
            **self._watts,
            **self._card.attributes(),
        }

    def watch(self, now: float) -> None:
        """Note in the slots' ads since when nothing of the machine is claimed (UnclaimedSince)."""
        point = self._dispatcher.point
        claimed = any(record.slot.claim is not None for record in point.slots)
        if claimed == (self._unclaimed_since is None):
            return
        self._unclaimed_since = None if claimed else now
        point.ads.machine.update(self.attributes())
        for record in point.slots:
            point.ads.show(record, now)
        self._dispatcher.touch_all()
        self._dispatcher.flush()

    def clock_was_set(self, by_s: float) -> None:
        """The wall clock was set: times that are counted from move with it."""
        if self._unclaimed_since is not None:
            self._unclaimed_since += by_s
            self._dispatcher.point.ads.machine.update(self.attributes())
        if isinstance(self.stage, Awake):
            self.stage = Awake(self.stage.look_at + by_s)
            self._changed.set()

    def start(self) -> None:
        """Begin to look."""
        self._task = tasks.keep("looking at HIBERNATE", self._run)

    async def stop(self) -> None:
        """Look no more. A machine that is going to sleep goes on doing so, and its ads stay offline."""
        await tasks.end(self._task)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s()):
                    await self._changed.wait()
            with contained(_log, "looking at HIBERNATE", self._recover):
                await self._apply(self._look())

    def _recover(self, error: Exception) -> None:
        self.stage = decision.begin(self._rules, self._dispatcher.clock.now())
        self._advertise_awake()

    def _pause_s(self) -> float | None:
        if not isinstance(self.stage, Awake):
            return _LOOK_S
        if self._rules.interval_s <= 0:
            return None
        return min(max(0.0, self.stage.look_at - self._dispatcher.clock.now()), self._rules.interval_s)

    def _look(self) -> decision.Look:
        point, now = self._dispatcher.point, self._dispatcher.clock.now()
        if not isinstance(self.stage, Awake):
            return decision.Look((), self._usage())
        self._sample()
        self.watch(now)
        votes: list[Value] = []
        for record in point.slots:
            point.ads.refresh(record, now)
            votes.append(
                point.settings.policy(record.slot_id, record.type_number).hibernate(
                    record.ad, record.job.ad if record.job else None, now
                )
            )
        return decision.Look(tuple(votes), self._usage())

    def _usage(self) -> Usage:
        slots = [record.slot for record in self._dispatcher.point.slots]
        return Usage(
            frozenset(slot.claim.claim_id for slot in slots if slot.claim is not None),
            any(slot.state.state is State.MATCHED for slot in slots),
            any(isinstance(slot.state, Backfill) for slot in slots),
        )

    async def _apply(self, event: decision.Event) -> None:
        self.stage, action = decision.step(self.stage, event, self._rules, self._dispatcher.clock.now())
        match action:
            case decision.Complain(why):
                _log.error("this machine cannot hibernate as HIBERNATE asks: %s", why)
            case decision.Clear(level):
                _log.info("HIBERNATE is %s for all slots: vacating their jobs", name_of(level))
                self._clear()
            case decision.Tell(level):
                _log.info("this machine is about to go to sleep (%s)", name_of(level))
                await self._apply(await self._advertise_offline())
            case decision.Sleep(level):
                await self._apply(decision.Woke(await self._sleep(level)))
            case decision.StayAwake(why):
                _log.info("this machine stays awake: %s", why)
                self._advertise_awake()
            case decision.Return():
                self._advertise_awake()

    def _clear(self) -> None:
        point, now = self._dispatcher.point, self._dispatcher.clock.now()
        for record in point.slots:
            point.apply(record, ev.HibernateBegun(), now)
        self._dispatcher.flush()

    async def _advertise_offline(self) -> decision.Told:
        self._dispatcher.point.ads.machine.update(self.attributes())
        await self._publisher.pause()
        acknowledged = await self._publisher.advertise_offline(_ACKNOWLEDGE_S)
        return decision.Told(acknowledged, self._usage())

    def _advertise_awake(self) -> None:
        """Advertise that this machine is here, whatever its offline ads say."""
        self._dispatcher.point.ads.machine.update(self.attributes())
        self._sample()
        if not self._publisher.running:
            self._publisher.start()
        self._dispatcher.touch_all()
        self._dispatcher.flush()
        self._dispatcher.wake.set()

    async def _sleep(self, level: int) -> bool:
        """Run the method, and return when the machine is awake again; whether it has slept."""
        point = self._dispatcher.point
        for record in point.slots:  # ids from before the sleep become invalid
            point.claim_ids.renew(record)
        self._dispatcher.flush()
        before, began = _asleep_so_far(), time.monotonic()
        done = True
        for command in self._method.commands[level]:
            done = done and await _ran(command)
        wait_s = self._wait_s * (_OFF_TAKES if level == OFF else 1)
        while done and _asleep_so_far() - before < _SLEPT_S and time.monotonic() - began < wait_s:
            await asyncio.sleep(min(_LOOK_S, wait_s))
        slept_s = _asleep_so_far() - before
        if not done:
            _log.error("this machine does not go to sleep (%s)", name_of(level))
        elif slept_s >= _SLEPT_S:
            _log.info("this machine is awake again after %.0f s", slept_s)
        else:
            _log.info("this machine counts as awake again, %.0f s after the command", time.monotonic() - began)
        return done


def _asleep_so_far() -> float:
    """How long this machine has slept since it was started (seconds)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


async def _ran(command: tuple[str, ...]) -> bool:
    """Run a command to its end, which may come only when the machine wakes."""
    try:
        ended = await children.run_command(command, limit_s=_COMMAND_S)
    except OSError as error:
        _log.error("cannot run %s: %s", command[0], error)
        return False
    if ended.timed_out:
        _log.error("%s took longer than %g s", " ".join(command), _COMMAND_S)
    elif ended.status:
        _log.error("%s: exit status %d: %s", " ".join(command), ended.status, ended.said[-300:])
    return ended.status == 0
