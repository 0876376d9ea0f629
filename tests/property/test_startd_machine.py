"""Laws of the startd, whatever happens in whatever order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from slotwise.model.claim import Claim, Run
from slotwise.model.slot import SlotKind, State
from slotwise.startd.journal import Journal
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import next_timer, step, validate
from slotwise.startd.slot.replay import Log
from slotwise.startd.slot.states import Draining, Hold, Owner, Slot
from slotwise.startd.slot_ad.owner_load import LoadOf, share_load, smoothed
from slotwise.table import unpack_ads

from tests.support.startd_point import Point, job, point

T0 = 1_000_000.0

FACTS = st.builds(
    ev.PolicyEval,
    start=st.sampled_from([True, False, None]),
    is_owner=st.booleans(),
    suspend=st.booleans(),
    continue_=st.booleans(),
    preempt=st.booleans(),
    kill=st.booleans(),
    want_suspend=st.booleans(),
    want_vacate=st.booleans(),
    want_hold=st.sampled_from([None, Hold("too big", 102)]),
    run_benchmarks=st.booleans(),
    machine_retirement_s=st.sampled_from([-1.0, 0.0, 100.0, 3600.0]),
    machine_vacate_s=st.sampled_from([0.0, 10.0, 600.0]),
    worklife_s=st.sampled_from([None, 0.0, 1200.0]),
    longest_retirement_s=st.sampled_from([0.0, 500.0]),
    start_in_force=st.booleans(),
    waiting_start=st.sampled_from([True, False, None]),
    all_drained=st.booleans(),
    start_backfill=st.booleans(),
    evict_backfill=st.booleans(),
)
COMMANDS = st.sampled_from(
    [
        ev.Evaluate(), ev.MatchNoticed(), ev.PreempterWithdrawn(), ev.RunFinishing(), ev.RunGone(),
        ev.Deactivated(False), ev.Deactivated(True), ev.Released(), ev.Released(fast=True), ev.KeptAlive(),
        ev.SuspendCommanded(), ev.ContinueCommanded(), ev.VacateCommanded(), ev.VacateCommanded(True),
        ev.DrainBegun(Draining(0, "1", "x", T0)), ev.DrainBegun(Draining(10, "1", "x", T0)),
        ev.DrainBegun(Draining(20, "1", "x", T0)), ev.DrainEnded(), ev.BenchmarksDone(), ev.ShadowLost(),
        ev.EvictedForPslot(), ev.BackfillStarted(), ev.BackfillEnded(),
        ev.MarkedBroken("leftovers"), ev.Repaired(), ev.Checkpointing(),
    ]
)  # fmt: skip


class OneSlot(RuleBasedStateMachine):
    """A static slot under every stimulus and any policy. A move that is not in the table raises by itself."""

    @initialize(facts=FACTS)
    def begin(self, facts: ev.PolicyEval) -> None:
        self.now = T0
        self.number = 0
        self.facts = facts
        self.slot = Slot("slot1", SlotKind.STATIC, Owner(), T0, T0)
        self.log = Log(self.slot)

    def apply(self, stimulus: ev.SlotEvent) -> tuple[ev.Action, ...]:
        outcome = self.log.step(self.slot, stimulus, lambda _: self.facts, self.now)
        self.slot = outcome.slot
        return outcome.actions

    @rule(facts=FACTS, after=st.sampled_from([0.0, 1.0, 31.0, 700.0]))
    def the_policy_says_otherwise(self, facts: ev.PolicyEval, after: float) -> None:
        self.facts = facts
        self.now += after
        self.apply(ev.Evaluate())

    @rule(stimulus=COMMANDS)
    def something_happens(self, stimulus: ev.SlotEvent) -> None:
        self.apply(stimulus)

    @rule(rank=st.sampled_from([0.0, 1.0, 2.0]), lease=st.sampled_from([60.0, 1200.0]))
    def a_schedd_asks(self, rank: float, lease: float) -> None:
        self.number += 1
        claim = Claim(f"claim-{self.number}", "schedd", self.now, lease, self.now, rank)
        actions = self.apply(ev.ClaimRequested(claim))
        answers = [a for a in actions if isinstance(a, ev.ClaimGranted | ev.ClaimQueued | ev.ClaimRefused)]
        assert answers, "a request is always answered or queued"

    @rule(rank=st.sampled_from([0.0, 1.0, 2.0]))
    def work_is_fetched(self, rank: float) -> None:
        self.number += 1
        claim = Claim(f"claim-{self.number}", "", self.now, 60.0, self.now, rank, fetched=True)
        before = self.slot.state
        actions = self.apply(ev.WorkFetched(claim, Run(f"{self.number}.0#f", self.now)))
        taken = {type(a) for a in actions if isinstance(a, ev.StartRun | ev.ClaimQueued)}  # both where a claim is idle
        refused = [a for a in actions if isinstance(a, ev.ClaimRefused) and a.claim_id == claim.claim_id]
        assert bool(taken) + len(refused) == 1, "fetched work starts, waits or is refused"
        if refused:
            assert self.slot.state == before

    @rule()
    def no_work_is_fetched(self) -> None:
        self.apply(ev.NoWorkFetched())

    @rule(why=st.sampled_from(["", "it failed"]))
    def work_is_over(self, why: str) -> None:
        self.apply(ev.RunGone(unfinished=why))

    @rule(retirement=st.sampled_from([None, 0.0, 200.0]), vacate=st.sampled_from([None, 5.0, 900.0]))
    def a_job_starts(self, retirement: float | None, vacate: float | None) -> None:
        self.number += 1
        run = Run(f"{self.number}.0#1", self.now, vacate_s=vacate, retirement_s=retirement)
        actions = self.apply(ev.Activated(run))
        assert any(isinstance(a, ev.StartRun | ev.ActivationRefused) for a in actions)

    @invariant()
    def the_slot_is_sound(self) -> None:
        validate(self.slot)
        times = self.slot.time_in(self.now)
        assert abs(sum(times.values()) - (self.now - T0)) < 1e-3

    @invariant()
    def timers_lead_out(self) -> None:
        """From Matched, Retiring, Vacating and Killing, time alone leads on, if nothing else happens."""
        slot, now = self.slot, self.now
        place = slot.state_activity
        waits = place[0] is State.MATCHED or place[1] in ("Retiring", "Vacating", "Killing")
        if not waits or place[0] in (State.DRAINED, State.BACKFILL):  # the end of a killed filler leads out
            return
        for _ in range(40):
            timer = next_timer(slot, self.facts, now)
            assert timer is not None, f"nothing leads out of {place}"
            now = max(now + 0.001, timer)
            slot = step(slot, ev.Evaluate(), lambda _: self.facts, now).slot
            if slot.state_activity != place:
                return
        raise AssertionError(f"nothing leads out of {place}")

    def teardown(self) -> None:
        assert self.log.replay() == self.slot, "the same stimuli with the same facts give the same slot"


TestOneSlot = OneSlot.TestCase
TestOneSlot.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def _restored(claim: Claim | None, now: float) -> Claim | None:
    """A claim as it is after a restart of the startd."""
    return claim if claim is None or claim.fetched else replace(claim, unheard_since=now)


def held(p: Point) -> dict[str, object]:
    """Every claim, what it does, and with how much."""
    return {
        record.name: (record.slot.state_activity, record.slot.claim, record.slot.run, record.total)
        for record in p.it.slots
        if record.slot.claim
    }


class WholeMachine(RuleBasedStateMachine):
    """A partitionable slot whose resources are asked for, used and given back."""

    @initialize(retirement=st.sampled_from(["0", "300"]))
    def begin(self, retirement: str) -> None:
        self.p: Point = point(MaxJobRetirementTime=retirement, MachineMaxVacateTime="60", CLAIM_WORKLIFE="500")
        self.claims: list[str] = []
        self.runs: list[str] = []
        self.number = 0

    def known(self, index: int) -> str:
        return self.claims[index % len(self.claims)]

    @rule(cpus=st.integers(0, 5), memory=st.integers(1, 5000), count=st.integers(1, 3))
    def a_schedd_asks(self, cpus: int, memory: int, count: int) -> None:
        wanted = job(RequestCpus=cpus, RequestMemory=memory)
        answer = self.p.request(wanted=wanted, count=count)
        self.claims += [claim_id for claim_id, _ in getattr(answer, "slots", ())]

    @precondition(lambda self: self.claims)
    @rule(index=st.integers(0, 50))
    def a_job_starts(self, index: int) -> None:
        self.number += 1
        run_id = f"{self.number}.0#1"
        claim_id = self.known(index)
        self.p.activate(claim_id, run_id)
        self.runs.append(run_id)

    @precondition(lambda self: self.runs)
    @rule(index=st.integers(0, 50), broken=st.sampled_from([None, None, None, "scratch"]))
    def a_job_ends(self, index: int, broken: str | None) -> None:
        self.p.gone(self.runs[index % len(self.runs)], broken=broken)

    @precondition(lambda self: self.claims)
    @rule(index=st.integers(0, 50), fast=st.booleans())
    def a_claim_is_released(self, index: int, fast: bool) -> None:
        self.p.it.claims.apply(self.known(index), 0, ev.Released(fast=fast), self.p.now)

    @precondition(lambda self: self.claims)
    @rule(index=st.integers(0, 50))
    def claims_make_room(self, index: int) -> None:
        answer = self.p.request(wanted=job(RequestCpus=2), preempt=(self.known(index),))
        self.claims += [claim_id for claim_id, _ in getattr(answer, "slots", ())]

    @rule(schedule=st.sampled_from([0, 10, 20]), start=st.sampled_from(["", "TARGET.RequestCpus < 2"]))
    def an_administrator_drains(self, schedule: int, start: str) -> None:
        if self.p.it.drain.state.order is None:
            begin: dict[str, Any] = {"reason": "x", "on_completion": "resume", "check": "", "start": start}
            self.p.it.drain.begin(schedule=schedule, now=self.p.now, **begin)

    @rule()
    def draining_is_cancelled(self) -> None:
        self.p.it.drain.cancel("", self.p.now)

    @rule(after=st.sampled_from([0.0, 5.0, 100.0, 1300.0]))
    def time_passes(self, after: float) -> None:
        self.p.poll(after)
        self.p.it.drain.settle(self.p.now)

    @rule()
    def the_startd_is_killed(self) -> None:
        """And starts again: what the journal has is what there was."""
        before = {
            record.name: (
                record.slot.state_activity,
                _restored(record.slot.claim, self.p.now),
                record.slot.run,
                record.total,
            )
            for record in self.p.it.slots
            if record.slot.claim
        }
        capability = self.p["slot1"].ids.current
        with tempfile.TemporaryDirectory() as directory:
            journal = Journal(Path(directory) / "journal")
            journal.save(self.p.it.slots, [])
            kept = journal.load()
            journal.close()
        lost = self.p["slot1"].withheld.total
        self.p.serial += 1000
        fresh = self.p.again(f"boot{self.p.serial}")
        fresh.it.restore(kept, unpack_ads, fresh.now)
        after = {
            record.name: (record.slot.state_activity, record.slot.claim, record.slot.run, record.total)
            for record in fresh.it.slots
            if record.slot.claim
        }
        assert {name: what[1:3] for name, what in after.items()} == {name: what[1:3] for name, what in before.items()}
        assert [what[0] for what in after.values()] == [before[name][0] for name in after]
        assert fresh.it.claim_ids.slot_of(capability) is None
        assert lost.cpus + fresh["slot1"].free.cpus >= 0
        self.p = fresh

    @invariant()
    def amounts_add_up(self) -> None:
        self.p.it.validate()

    def teardown(self) -> None:
        """Once all jobs are gone and all leases over, the machine is whole, less what broke."""
        self.p.it.drain.cancel("", self.p.now)
        for _ in range(3):
            for record in self.p.it.slots:
                if record.slot.run:
                    self.p.gone(record.slot.run.run_id)
            self.p.poll(2000)
        slot = self.p["slot1"]
        assert self.p.it.slots.names() == ["slot1@host"]
        assert slot.free.cpus + slot.withheld.total.cpus == 4
        assert set(self.p.it.claim_ids.by_id) == {slot.ids.current}
        assert not self.p.it.slots.by_run


TestWholeMachine = WholeMachine.TestCase
TestWholeMachine.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@given(
    total=st.floats(0, 64), rooms=st.lists(st.integers(1, 8), min_size=1, max_size=8), states=st.lists(
        st.sampled_from([State.OWNER, State.UNCLAIMED, State.CLAIMED]), min_size=8, max_size=8)
)  # fmt: skip
def test_load_is_dealt_out_once_and_owners_come_first(total: float, rooms: list[int], states: list[State]) -> None:
    slots = [LoadOf(f"slot{n}", states[n], room, 0.0) for n, room in enumerate(rooms)]
    shares = {name: load for name, (load, _) in share_load(total, slots).items()}
    dealt = sum(shares.values())
    assert dealt <= total + 0.01 * len(slots)
    assert dealt >= min(total, sum(rooms)) - 0.05 - 0.01 * len(slots)
    full = all(shares[s.name] >= s.room - 0.01 for s in slots if s.state is State.OWNER)
    assert full or not any(shares[s.name] for s in slots if s.state is not State.OWNER)


def test_a_claim_keeps_its_terms() -> None:
    claim = Claim("c", "s", T0, 100, T0)
    assert replace(claim, last_alive=T0 + 50).lease_ends() == T0 + 150


@given(st.lists(st.tuples(st.floats(0, 8), st.floats(0.1, 300)), min_size=1))
def test_a_moving_average_stays_within_what_it_averages(rates: list[tuple[float, float]]) -> None:
    load = 0.0
    for rate, seconds in rates:
        load = smoothed(load, rate, seconds)
    assert 0 <= load <= max(rate for rate, _ in rates) + 1e-9
