"""An execution point without any edge: knobs in, outbox out, time by hand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config
from slotwise.startd.host.claim_request import ClaimRequest
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.outbox import Granted, RefusedRun
from slotwise.startd.records.slot_record import Activation, Job, SlotRecord, Terms
from slotwise.startd.settings import Settings, machine_resources, slot_types
from slotwise.startd.slot import events as ev
from slotwise.startd.slot_types.custom import CustomResource
from slotwise.startd.slot_types.layout import plan
from slotwise.table import pack_ads

from tests.support.configured import configured

T0 = 1_000_000.0
DETECTED = {"TotalDisk": 1_000_000, "TotalVirtualMemory": 500_000, "DetectedCpus": 4, "DetectedMemory": 4096}


def knobs_of_point(**knobs: str) -> Config:
    """A configuration of only these knobs, on a machine of four cores."""
    return configured(**{"NUM_CPUS": "4", **knobs})


def job(**attributes: Any) -> Job:
    """A job that asks for one core, 128 MiB and 1 MiB of disk; :class:`ExprTree` texts by the caller."""
    ad = ClassAd(
        {
            "ClusterId": 1, "ProcId": 0, "Owner": "ann", "User": "ann@test", "JobUniverse": 5, "RequestCpus": 1,
            "RequestMemory": 128, "RequestDisk": 1024, "Requirements": ExprTree("true"), **attributes,
        }
    )  # fmt: skip
    for name in [name for name, value in attributes.items() if value is None]:
        del ad[name]
    return Job.of(pack_ads([ad]), ad, None, T0)


@dataclass
class Point:
    """The execution point and the clock it lives by."""

    knobs: Config
    custom: list[CustomResource] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    now: float = T0
    serial: int = 0
    boot: str = "1"

    def __post_init__(self) -> None:
        resources = machine_resources(self.knobs, DETECTED, self.custom)
        facts = {"Arch": "X86_64", "LastBenchmark": 1, **self.machine}
        settings = Settings.of(self.knobs, facts, resources, self.custom, "host")
        numbers = itertools.count(1)
        layout = plan(resources, slot_types(self.knobs, resources), suits=settings.device_suits)
        self.it = ExecutionPoint(settings, layout, lambda: f"<host>#{self.boot}#{next(numbers)}#secret", self.now)

    def again(self, boot: str) -> Point:
        """A fresh execution point of the same host, at the same time."""
        return Point(self.knobs, self.custom, self.machine, self.now, self.serial, boot)

    def __getitem__(self, local: str) -> SlotRecord:
        return self.it.slots[f"{local}@host"]

    def has(self, local: str) -> bool:
        """Whether there is such a slot."""
        return f"{local}@host" in self.it.slots

    def place(self, local: str) -> str:
        """``State/Activity``."""
        return "/".join(self[local].slot.state_activity)

    def poll(self, after: float = 0.0) -> None:
        """Time passes; policies are looked at."""
        self.now += after
        for record in self.it.slots:
            self.it.ads.show(record, self.now)
        self.it.poll(self.now)
        self.it.validate()

    def apply(self, local: str, stimulus: ev.SlotEvent, after: float = 0.0) -> None:
        """Something happens to a slot."""
        self.now += after
        self.it.apply(self[local], stimulus, self.now)
        self.it.validate()

    def request(self, local: str = "slot1", wanted: Job | None = None, schedd: str = "schedd", **terms: Any) -> Any:
        """A schedd asks for a slot; its answer, None if it must wait."""
        return self.request_id(self[local].ids.current, wanted, schedd, **terms)

    def request_id(self, claim_id: str, wanted: Job | None = None, schedd: str = "schedd", **terms: Any) -> Any:
        """As :meth:`request`, by claim id."""
        self.serial += 1
        ask = ClaimRequest(self.serial, claim_id, Terms(schedd, "addr", "ann@test", 300), wanted or job(), **terms)
        self.it.claims.request(ask, self.now)
        self.it.validate()
        return next((m.what for m in self.it.outbox.schedds if m.serial == self.serial), None)

    def claim(self, local: str = "slot1", wanted: Job | None = None, **terms: Any) -> str:
        """Claim a slot; its claim id."""
        granted = self.request(local, wanted, **terms)
        assert isinstance(granted, Granted), granted
        return granted.slots[0][0]

    def activate(self, claim_id: str, run_id: str = "1.0#1", wanted: Job | None = None) -> RefusedRun | None:
        """Start a job; why not, if so."""
        self.serial += 1
        self.it.claims.activate(claim_id, Activation(self.serial, run_id, "t", "s", wanted or job()), self.now)
        self.it.validate()
        said = next((m.what for m in self.it.outbox.schedds if m.serial == self.serial), None)
        return said if isinstance(said, RefusedRun) else None

    def run(self, local: str = "slot1", run_id: str = "1.0#1", wanted: Job | None = None) -> str:
        """Claim and start; the claim id."""
        claim_id = self.claim(local, wanted)
        assert self.activate(claim_id, run_id, wanted) is None
        return claim_id

    def gone(self, run_id: str = "1.0#1", **how: Any) -> None:
        """The run is over."""
        self.it.claims.run_gone(run_id, self.now, **how)
        self.it.validate()

    def ad(self, local: str) -> ClassAd:
        """The slot's ad, fresh."""
        record = self[local]
        self.it.ads.show(record, self.now)
        return record.ad

    def said(self, kind: type) -> list[Any]:
        """Messages of a kind to schedds since :meth:`forget`."""
        return [message for message in self.it.outbox.schedds if isinstance(message.what, kind)]

    def told(self, kind: type) -> list[Any]:
        """Commands of a kind to the starter since :meth:`forget`."""
        return [command for command in self.it.outbox.starter if isinstance(command, kind)]

    def forget(self) -> None:
        """Empty the outbox."""
        self.it.take_outbox()


def point(custom: list[CustomResource] | None = None, **knobs: str) -> Point:
    """An execution point of 4 cores and 4096 MiB with these knobs."""
    return Point(knobs_of_point(**knobs), custom or [])
