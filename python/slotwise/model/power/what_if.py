"""What a policy would have saved: replays the runs of one machine with the startd's own power decision. Pure.

What is known of the past is which run had which slot from when to when. Slots are idle in between, keyboards are not
touched, and the load is that of the runs. A run whose machine sleeps wakes it: the rooster looks at whole multiples of
its interval, and the machine takes its time. The run then takes as long as it did; later runs in its slot wait for it.
Runs stay on the machine that they had; the negotiator would rather have given some of them to one that is awake.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Expression, Value
from slotwise.model.power import decision
from slotwise.model.power.decision import Asleep, Awake, Rules, Usage
from slotwise.model.power.levels import name_of

#: KeyboardIdle of a machine whose keyboard nobody has touched.
_NEVER = 2**31 - 1


class Run(Struct, frozen=True):
    """A run of a job: its slot, and from when to when (epoch seconds)."""

    job: str
    slot: str
    begin: float
    end: float


class Plan(Struct, frozen=True):
    """The policy, and what sleeping and waking cost (seconds).

    :param policy: HIBERNATE; a truth value stands for ``level`` or awake.
    :param rules: as the startd has them.
    :param rooster_s: ROOSTER_INTERVAL; 0: a machine is called at once.
    :param wake_s: how long a machine takes from the call until it runs jobs, by level.
    """

    policy: Expression
    level: int
    rules: Rules
    rooster_s: float
    wake_s: tuple[float, ...]


class Outcome(Struct):
    """What became of one machine (seconds). ``busy_s + asleep_s + waking_s + idle_s`` is the span of the replay.

    :param past_idle_s: what the machine was idle in fact.
    :param asleep_s: from falling asleep until the call.
    :param waking_s: from the call until it is awake.
    :param idle_s: awake, with nothing to do.
    :param delays: by how much later runs began that began later, in the order of their beginnings.
    :param vacated: runs that the policy sent away; the rest of them is not replayed.
    :param complaints: what the startd would have logged instead of sleeping.
    """

    machine: str
    past_idle_s: float = 0.0
    busy_s: float = 0.0
    asleep_s: float = 0.0
    waking_s: float = 0.0
    idle_s: float = 0.0
    sleeps: int = 0
    runs: int = 0
    delays: list[float] = field(default_factory=list)
    vacated: list[str] = field(default_factory=list)
    complaints: set[str] = field(default_factory=set)


def replay(
    machine: str, ads: Sequence[ClassAd], runs: Iterable[Run], plan: Plan, since: float, until: float
) -> Outcome:
    """Replay one machine from ``since`` to ``until``.

    :param ads: its slots' ads as they are now, without dynamic slots; what runs change is filled in.
    """
    return _Replay(machine, ads, runs, plan, since, until).outcome()


def base_slot(name: str) -> str:
    """``slot1@host`` for the dynamic slot ``slot1_3@host``; any other name is itself."""
    slot, at, host = name.partition("@")
    base, bar, number = slot.rpartition("_")
    return f"{base}{at}{host}" if bar and base and number.isdigit() else name


class _Replay:
    def __init__(
        self, machine: str, ads: Sequence[ClassAd], runs: Iterable[Run], plan: Plan, since: float, until: float
    ) -> None:
        self._plan = plan
        self._since, self._until = since, until
        cut = (Run(r.job, r.slot, max(r.begin, since), min(r.end, until)) for r in runs)
        self._coming = sorted((r for r in cut if r.begin < r.end), key=lambda r: (r.begin, r.slot, r.job), reverse=True)
        self._found = Outcome(machine, runs=len(self._coming))
        self._found.past_idle_s = until - since - _covered(self._coming)
        self._slots = {str(ad.get("Name")): ad.copy() for ad in ads}
        for run in reversed(self._coming):
            base = base_slot(run.slot)
            if base not in self._slots:
                self._slots[base] = ClassAd({"Name": base, "Machine": machine, "PartitionableSlot": base != run.slot})
        self._entered = dict.fromkeys(self._slots, since)
        #: When each slot that is in use will be free, and the run that it has.
        self._in_use: dict[str, tuple[float, Run]] = {}
        self._waiting: list[Run] = []
        self._unclaimed_since: float | None = since
        self._stage: decision.Stage = decision.begin(plan.rules, since)
        self._awake_at: float | None = None
        self._now = since

    def outcome(self) -> Outcome:
        """Take every step until the end."""
        while (at := self._next()) < self._until:
            self._pass_to(at)
            self._arrive()
            self._wake()
            self._end_runs()
            self._begin_runs()
            self._look()
        self._pass_to(self._until)
        return self._found

    def _next(self) -> float:
        times = [end for end, _ in self._in_use.values()]
        if self._coming:
            times.append(self._coming[-1].begin)
        if self._awake_at is not None:
            times.append(self._awake_at)
        if isinstance(self._stage, Awake) and self._plan.rules.interval_s > 0:
            times.append(self._stage.look_at)
        return max(self._now, min(times, default=math.inf))

    def _pass_to(self, at: float) -> None:
        """Account the time until ``at``, during which nothing changes but that a machine is called."""
        found, spent = self._found, at - self._now
        if self._in_use:
            found.busy_s += spent
        elif isinstance(self._stage, Asleep):
            called = at if self._awake_at is None else self._awake_at - self._wake_s()
            asleep = min(max(0.0, called - self._now), spent)
            found.asleep_s += asleep
            found.waking_s += spent - asleep
        else:
            found.idle_s += spent
        self._now = at

    def _wake_s(self) -> float:
        return self._plan.wake_s[self._stage.level] if isinstance(self._stage, Asleep) else 0.0

    def _arrive(self) -> None:
        while self._coming and self._coming[-1].begin <= self._now:
            self._waiting.append(self._coming.pop())
        if self._waiting and isinstance(self._stage, Asleep) and self._awake_at is None:
            every = self._plan.rooster_s
            called = math.ceil(self._now / every) * every if every > 0 else self._now
            self._awake_at = called + self._wake_s()

    def _wake(self) -> None:
        if self._awake_at is not None and self._now >= self._awake_at:
            self._awake_at = None
            self._stage, _ = decision.step(self._stage, decision.Woke(slept=True), self._plan.rules, self._now)

    def _end_runs(self) -> None:
        for slot in [slot for slot, (end, _) in self._in_use.items() if end <= self._now]:
            self._leave(slot)

    def _leave(self, slot: str) -> None:
        del self._in_use[slot]
        if slot in self._slots:
            self._entered[slot] = self._now
        if not self._in_use:
            self._unclaimed_since = self._now

    def _begin_runs(self) -> None:
        if isinstance(self._stage, Asleep):
            return
        left = []
        for run in self._waiting:
            if run.slot in self._in_use:
                left.append(run)
                continue
            self._in_use[run.slot] = (self._now + run.end - run.begin, run)
            self._entered[run.slot] = self._now
            self._unclaimed_since = None
            if self._now > run.begin:
                self._found.delays.append(self._now - run.begin)
        self._waiting = left
        self._end_runs()

    def _look(self) -> None:
        if not isinstance(self._stage, Awake) or self._now < self._stage.look_at or self._plan.rules.interval_s <= 0:
            return
        usage = Usage(claims=frozenset(run.job + slot for slot, (_, run) in self._in_use.items()))
        self._take(decision.Look(self._votes(), usage))

    def _take(self, event: decision.Event) -> None:
        self._stage, action = decision.step(self._stage, event, self._plan.rules, self._now)
        match action:
            case decision.Complain(why):
                self._found.complaints.add(why)
            case decision.Clear():
                for slot, (_, run) in list(self._in_use.items()):
                    self._found.vacated.append(run.job)
                    self._leave(slot)
                self._take(decision.Look((), Usage()))
            case decision.Tell():
                self._take(decision.Told(True, Usage()))
            case decision.Sleep():
                self._found.sleeps += 1

    def _votes(self) -> tuple[object, ...]:
        votes: list[object] = []
        load = float(len(self._in_use))
        # Slots in use first: the first that keeps the machine awake is enough.
        dynamic = [name for name in self._in_use if name not in self._slots]
        static = sorted(self._slots, key=lambda name: name not in self._in_use)
        for name in (*dynamic, *static):
            ad = self._slots[name] if name in self._slots else self._slots[base_slot(name)].copy()
            busy = name in self._in_use
            ad.update(self._shown(name, busy, load))
            if name in dynamic:
                ad.update({"Name": name, "DynamicSlot": True, "PartitionableSlot": False})
            vote = self._plan.policy.value(ad, None, self._now)
            if isinstance(vote, bool):
                vote = name_of(self._plan.level if vote else 0)
            votes.append(vote)
            if not decision.agreed([vote]):
                break
        return tuple(votes)

    def _shown(self, name: str, busy: bool, load: float) -> dict[str, Value]:
        entered = int(self._entered[name])
        since = self._unclaimed_since
        return {
            "State": "Claimed" if busy else "Unclaimed",
            "Activity": "Busy" if busy else "Idle",
            "EnteredCurrentState": entered,
            "EnteredCurrentActivity": entered,
            "MyCurrentTime": int(self._now),
            "LoadAvg": float(busy),
            "CondorLoadAvg": float(busy),
            "TotalLoadAvg": load,
            "TotalCondorLoadAvg": load,
            "KeyboardIdle": _NEVER,
            "ConsoleIdle": _NEVER,
            "Offline": False,
            "UnclaimedSince": None if since is None else int(since),
        }


def _covered(runs: Sequence[Run]) -> float:
    """How long at least one of these runs was there; they are sorted, the latest first."""
    covered = 0.0
    reached = -math.inf
    for run in reversed(runs):
        covered += max(0.0, run.end - max(run.begin, reached))
        reached = max(reached, run.end)
    return covered
