"""A simulated machine owner: when keys are pressed and what load programs make, and the events a policy makes of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slotwise.config import load
from slotwise.model.slot import State
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.outbox import Kill
from slotwise.startd.settings import Sampled, Settings, machine_resources, slot_types
from slotwise.startd.slot_types.layout import plan

from tests.support.startd_point import DETECTED, Point, knobs_of_point

#: A Monday at midnight, UTC.
MONDAY = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC).timestamp()
MINUTE, HOUR = 60, 3600


@dataclass
class Owner:
    """Spans of use: (from, to) in hours since Monday midnight, for the keyboard and for programs of their own."""

    typing: tuple[tuple[float, float], ...] = ()
    computing: tuple[tuple[float, float], ...] = ()
    load: float = 1.0

    def keyboard_idle(self, hours: float) -> int:
        """Seconds since the last key."""
        last = -1000.0
        for begin, end in self.typing:
            if begin <= hours:
                last = max(last, min(hours, end))
        return int((hours - last) * HOUR)

    def load_now(self, hours: float) -> float:
        """Load of the owner's own programs."""
        return self.load if any(begin <= hours < end for begin, end in self.computing) else 0.0


@dataclass
class Days(Point):
    """A point whose configuration is a text in condor_config syntax, and whose owner lives by the clock."""

    text: str = ""
    owner: Owner = field(default_factory=Owner)
    events: list[str] = field(default_factory=list)
    poll_s: int = 30
    #: Every command to end a job.
    kills: list[Kill] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = MONDAY
        self._places: dict[str, str] = {}
        self._busy_since = 0.0

    def configure(self, directory: Path) -> Days:
        """Read the text."""
        path = directory / "condor_config"
        path.write_text("NUM_CPUS = 4\n" + self.text + "\nRunBenchmarks = false\n")
        config = load(str(path), subsystem="STARTD", env={}, home=None)
        resources = machine_resources(config, DETECTED, [])
        settings = Settings.of(config, {"Arch": "X86_64"}, resources, [], "host")
        idle = self.owner.keyboard_idle(0)
        settings.sample = Sampled({"ClockMin": 0, "ClockDay": 1}, {}, (idle, idle), (idle, idle))
        numbers = iter(range(1, 1_000_000))
        self.it = ExecutionPoint(
            settings, plan(resources, slot_types(config, resources)), lambda: f"<host>#1#{next(numbers)}#s", self.now
        )
        self.notice()
        return self

    @property
    def hours(self) -> float:
        """Hours since Monday midnight."""
        return (self.now - MONDAY) / HOUR

    def until(self, hours: float, each: Callable[[], None] = lambda: None) -> None:
        """Let time pass, polling; ``each`` is called after every poll."""
        while self.hours < hours:
            self.now += self.poll_s
            self.sample()
            self.poll()
            self.kills += self.told(Kill)
            for kill in self.told(Kill):
                if kill.fast:
                    self.gone(kill.run_id)
            self.forget()
            claims = [record.slot.claim.claim_id for record in self.it.slots if record.slot.claim]
            self.it.claims.keep_alive(claims, self.now)
            self.notice()
            each()
            self.notice()

    def sample(self) -> None:
        """What the host would measure now."""
        hours, idle = self.hours, self.owner.keyboard_idle(self.hours)
        local = datetime.datetime.fromtimestamp(self.now, datetime.UTC)
        busy = [
            record
            for record in self.it.slots
            if record.slot.state.state is State.CLAIMED and record.slot.state_activity[1] == "Busy"
        ]
        loads = {
            record.name: (self.owner.load_now(hours) + (record in busy), float(record in busy))
            for record in self.it.slots
        }
        self._busy_since = (self._busy_since or self.now) if self.owner.load_now(hours) >= 0.5 else 0.0
        busy_for = int(self.now - self._busy_since) if self._busy_since else 0
        machine = {
            "ClockMin": local.hour * 60 + local.minute,
            "ClockDay": (local.weekday() + 1) % 7,
            "CpuIsBusy": busy_for > 0,
            "CpuBusyTime": busy_for,
        }
        self.it.settings.sample = Sampled(machine, loads, (idle, idle), (idle, idle))

    def use(self, slot: str, **usage: float) -> None:
        """The starter reports what the slot's job uses."""
        record = self[slot]
        record.usage.attributes.update(usage)
        assert record.activation is not None
        for name, value in usage.items():
            record.activation.job.ad[name] = value

    def notice(self) -> None:
        """Write down every slot that is somewhere else than before."""
        for record in self.it.slots:
            name = record.name
            place = "/".join(record.slot.state_activity)
            if self._places.get(name) != place:
                self._places[name] = place
                day, minute = divmod(round(self.now - MONDAY) // MINUTE, 24 * 60)
                stamp = (
                    f"{['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'][day % 7]} {minute // 60:02}:{minute % 60:02}"
                )
                self.events.append(f"{stamp} {name.partition('@')[0]} {place}")


def days(directory: Path, text: str, owner: Owner) -> Days:
    """A machine with this configuration and owner, at Monday midnight."""
    return Days(knobs_of_point(), text=text, owner=owner).configure(directory)
