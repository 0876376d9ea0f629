"""A pool in simulated time: what decides is the code that daemons run, only time, machines and jobs are made up.

The negotiator's cycle, the access point's book of claims to be given back, its expectation of how long jobs run and the
defragmenter's plan are called as the daemons call them. What a simulation adds is when jobs come and end, the reuse of
claims until CLAIM_WORKLIFE, carving, draining and vacating. One access point; jobs of a submitter start in the order in
which they came. All numbers are seconds, cores and epoch seconds; the same arguments give the same outcome.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from slotwise.classad import ClassAd
from slotwise.classad.values import whole
from slotwise.defrag import decide
from slotwise.defrag.rules import DefragRules
from slotwise.matchmaking import kept_machines
from slotwise.matchmaking.engine import Accounting, CycleOutcome, Engine, Knobs
from slotwise.matchmaking.rows import KeptMachine
from slotwise.schedd.claims.ends.excess import Excess, ExcessBook
from slotwise.schedd.jobs.durations import Durations
from slotwise.table import AdTable

#: Where simulated time starts, epoch seconds.
START = 1_800_000_000
SCHEDD = "ap1"
_MEMORY_PER_CORE = 4096
#: A regular cycle (NEGOTIATOR_INTERVAL), and the least time between those that new work or free slots ask for.
_INTERVAL_S, _LEAST_GAP_S = 60.0, 10.0
_EXCESS_LASTS_S = 3 * _INTERVAL_S
#: Free cores are looked at by size of job; requests beyond so many of a submitter wait for these.
_REQUIREMENTS = "TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory"


@dataclass
class Job:
    """One job: who submits it when, how many cores it takes and how long it runs."""

    number: int
    user: str
    cores: int
    seconds: float
    submitted: float
    cluster: int
    #: What it says of how long it runs, if it does.
    stated: float | None = None
    started: float | None = None
    ended: float | None = None
    evictions: int = 0


@dataclass
class Claim:
    """A dynamic slot held by a user."""

    slot: str
    machine: int
    user: str
    cores: int
    since: float
    job: Job | None = None
    #: Told apart from an end that was planned for a job that was evicted.
    run: int = 0


@dataclass
class Machine:
    """What is free of a machine, and its claims."""

    cores: int
    free: int
    claims: dict[str, Claim] = field(default_factory=dict)
    numbers: int = 0
    draining_since: float | None = None


@dataclass(frozen=True)
class Policy:
    """What is done for large jobs."""

    name: str
    knobs: dict[str, str] = field(default_factory=dict)
    defrag: DefragRules | None = None
    #: MAXJOBRETIREMENTTIME: jobs on a machine that drains run so long in all (looked at when the defragmenter polls).
    retirement_s: float = 0.0


@dataclass
class Result:
    """What became of a workload."""

    jobs: list[Job]
    #: (time, cores in use, idle cores while jobs wait) of each stretch; cores are those of jobs that run.
    use: list[tuple[float, float, int, int]] = field(default_factory=list)
    evictions: int = 0
    #: Core-seconds of work that was lost by evictions.
    lost: float = 0.0
    cycles: int = 0
    cycle_s: float = 0.0


class Simulation:
    """One run of a workload under a policy."""

    def __init__(
        self,
        jobs: Iterable[Job],
        machines: int,
        cores: int,
        policy: Policy,
        *,
        worklife_s: float = 1200.0,
        factors: dict[str, float] | None = None,
        restart_at: float | None = None,
        seed: int = 1,
    ) -> None:
        self.jobs = sorted(jobs, key=lambda job: (job.submitted, job.number))
        self.machines = [Machine(cores, cores) for _ in range(machines)]
        self.policy = policy
        self.worklife_s, self.restart_at = worklife_s, restart_at
        self.rng = random.Random(seed)
        knobs = {"NEGOTIATOR_CONSIDER_PREEMPTION": "False", "NEGOTIATOR_MAX_TIME_PER_SUBMITTER": "1000000"}
        self.knobs = Knobs(knobs | policy.knobs)
        records = {user: {"factor": factor, "priority": 0.5} for user, factor in (factors or {}).items()}
        self.accounting = Accounting(records=records)
        self.engine = Engine()
        self.slots, self.requests, self.submitters = AdTable(), AdTable(), AdTable()
        for number in range(machines):
            self.slots.upsert(_slot(number), self._machine_ad(number))
        self.now = float(START)
        self.durations = Durations()
        self.excess = ExcessBook()
        self.queues: dict[str, dict[int, deque[Job]]] = {}
        self.claims: dict[str, Claim] = {}
        self.ends: list[tuple[float, int, Claim, int]] = []
        self.serial = 0
        self.in_use = 0
        self.waiting = 0
        self.urgent = False
        self.result = Result(self.jobs)
        self.reservations: list[KeptMachine] = []
        #: Called after each cycle.
        self.look: Callable[[Simulation, CycleOutcome], None] | None = None

    def _machine_ad(self, number: int) -> ClassAd:
        machine = self.machines[number]
        cpus = machine.cores
        return ClassAd(
            f'[Name = "{_slot(number)}"; Machine = "m{number:04}"; SlotID = 1; PartitionableSlot = true; '
            f'SlotType = "Partitionable"; Cpus = {cpus}; TotalCpus = {cpus}; TotalSlotCpus = {cpus}; '
            f'Memory = {cpus * _MEMORY_PER_CORE}; Disk = 1000000000; MachineResources = "Cpus Memory Disk"; '
            f'State = "Unclaimed"; Activity = "Idle"; SlotWeight = Cpus; Rank = 0.0; CurrentRank = 0.0; '
            f"Draining = false; START = true; Requirements = START && {_REQUIREMENTS}; "
            f'MyAddress = "<10.0.{number >> 8}.{number & 255}:9618>"; Offline = false]'
        )

    # What happens when.

    def run(self, until_s: float) -> Result:
        """Simulate so long."""
        end = START + until_s
        coming = 0
        next_cycle, last_cycle = self.now, -1e18
        next_poll = START + self.policy.defrag.interval_s if self.policy.defrag else end + 1
        last_poll = 0.0
        while True:
            cycle_at = max(last_cycle + _LEAST_GAP_S, self.now) if self.urgent else next_cycle
            cycle_at = min(cycle_at, next_cycle)
            moment = min(cycle_at, next_poll)
            if coming < len(self.jobs):
                moment = min(moment, self.jobs[coming].submitted)
            if self.ends:
                moment = min(moment, self.ends[0][0])
            if self.restart_at is not None:
                moment = min(moment, START + self.restart_at)
            if moment >= end:
                self._pass(end)
                return self.result
            self._pass(moment)
            if self.restart_at is not None and moment >= START + self.restart_at:
                self.restart_at, self.engine = None, Engine()
                # What the accountant's file keeps.
                old = self.accounting
                self.accounting = Accounting(old.records, old.remainder_times, old.reservations)
            elif self.ends and self.ends[0][0] <= moment:
                _, _, claim, run = heapq.heappop(self.ends)
                if claim.run == run and claim.job is not None:
                    self._job_ended(claim)
            elif coming < len(self.jobs) and self.jobs[coming].submitted <= moment:
                self._submit(self.jobs[coming])
                coming += 1
            elif next_poll <= moment:
                self._poll(last_poll)
                last_poll = moment
                assert self.policy.defrag is not None
                next_poll = moment + self.policy.defrag.interval_s
            else:
                self._cycle()
                last_cycle, next_cycle, self.urgent = moment, moment + _INTERVAL_S, False

    def _pass(self, moment: float) -> None:
        if moment > self.now:
            idle = sum(machine.cores for machine in self.machines) - self.in_use if self.waiting else 0
            self.result.use.append((self.now, moment, self.in_use, idle))
            self.now = moment

    # The access point.

    def _submit(self, job: Job) -> None:
        self.queues.setdefault(job.user, {}).setdefault(job.cores, deque()).append(job)
        self.waiting += 1
        self.urgent = True

    def _next_job(self, claim: Claim, ends_by: float = 0.0) -> Job | None:
        """The first job of the claim's user that fits it."""
        best: Job | None = None
        for cores, queue in self.queues.get(claim.user, {}).items():
            if not queue or cores > claim.cores or (best and best.number < queue[0].number):
                continue
            if ends_by:
                seconds = queue[0].stated or self.durations.expected(queue[0].cluster, claim.user)
                if seconds is None or self.now + seconds > ends_by:
                    continue
            best = queue[0]
        if best is not None:
            self.queues[claim.user][best.cores].popleft()
            self.waiting -= 1
        return best

    def _start(self, claim: Claim, job: Job) -> None:
        claim.job = job
        self.serial += 1
        claim.run = self.serial
        if job.started is None:
            job.started = self.now
        self.in_use += job.cores
        heapq.heappush(self.ends, (self.now + job.seconds, self.serial, claim, self.serial))
        facts: dict[str, Any] = {"JobStart": int(self.now), "JobId": f"{job.number}.0"}
        expected = self.durations.expected(job.cluster, job.user)
        gone = [] if expected is not None else ["EstimatedRuntime"]
        if expected is not None:
            facts["EstimatedRuntime"] = expected
        if job.stated is not None:
            facts["ExpectedRuntime"] = int(job.stated)
        self.slots.update(claim.slot, facts, gone)

    def _job_ended(self, claim: Claim) -> None:
        job = claim.job
        assert job is not None
        job.ended = self.now
        self.in_use -= job.cores
        claim.job = None
        self.durations.note(job.cluster, job.user, job.seconds)
        machine = self.machines[claim.machine]
        over = self.now - claim.since >= self.worklife_s or machine.draining_since is not None
        excess = self.excess.why(claim.slot, claim.user, self.now)
        if over:
            following = None
        elif excess is not None:
            following = self._next_job(claim, excess.until) if excess.until else None
        else:
            following = self._next_job(claim)
        if following is not None:
            self._start(claim, following)
        else:
            self._release(claim)

    def _release(self, claim: Claim) -> None:
        self.excess.gone(claim.slot, claim.user)
        machine = self.machines[claim.machine]
        del machine.claims[claim.slot], self.claims[claim.slot]
        machine.free += claim.cores
        self.slots.remove(claim.slot)
        if machine.draining_since is not None and machine.free == machine.cores:
            machine.draining_since = None
        self._tell_free(claim.machine)
        self.urgent = True

    def _tell_free(self, number: int) -> None:
        machine = self.machines[number]
        draining = machine.draining_since is not None
        facts = {
            "Cpus": machine.free,
            "Memory": machine.free * _MEMORY_PER_CORE,
            "Draining": draining,
            "START": not draining,
        }
        reason = {"DrainReason": self.policy.defrag.reason} if draining and self.policy.defrag else {}
        self.slots.update(_slot(number), {**facts, **reason}, [] if reason else ["DrainReason"])

    # The negotiator.

    def _cycle(self) -> None:
        self._ask()
        now = int(self.now)
        outcome = self.engine.run(self.slots, self.requests, self.submitters, self.knobs, self.accounting, now)
        self.result.cycles += 1
        self.result.cycle_s += outcome.timings()["total_s"]
        self.accounting = outcome.accounting()
        for match in outcome.matches():
            queue = self.queues[match.submitter][whole(self.requests.value(match.request, "RequestCpus"))]
            if queue:
                self._claim(match.slot, match.submitter, queue.popleft())
        self.reservations = outcome.reservations()
        told = (*outcome.excess(), *kept_machines.claims_to_end(self.reservations, self.slots))
        excess = [
            Excess(
                row.submitter,
                dict(zip(row.slots, row.weights, strict=True)),
                sum(row.weights) - row.weight,
                until=row.until,
            )
            for row in told
        ]
        held = ((claim.slot, claim.user) for claim in self.claims.values())
        self.excess.replace(excess, held, self.now + _EXCESS_LASTS_S)
        if self.look:
            self.look(self, outcome)

    def _ask(self) -> None:
        self.requests, self.submitters = AdTable(), AdTable()
        for user, queues in sorted(self.queues.items()):
            idle = sum(len(queue) * cores for cores, queue in queues.items())
            if not idle:
                continue
            self.submitters.upsert(
                user, {"Name": user, "ScheddName": SCHEDD, "IdleJobs": idle, "WeightedIdleJobs": idle}
            )
            waiting = sorted((queue[0].number, cores) for cores, queue in queues.items() if queue)
            for order, (number, cores) in enumerate(waiting):
                job = queues[cores][0]
                ad: dict[str, Any] = {
                    "ClusterId": job.cluster,
                    "ProcId": number,
                    "Submitter": user,
                    "User": user,
                    "ScheddName": SCHEDD,
                    "JobUniverse": 5,
                    "JobStatus": 1,
                    "AutoClusterId": cores,
                    "RequestOrder": order,
                    "ResourceRequestCount": len(queues[cores]),
                    "RequestCpus": cores,
                    "RequestMemory": cores * _MEMORY_PER_CORE // 2,
                    "RequestDisk": 1,
                    "Requirements": True,
                }
                if job.stated is not None:
                    ad["ExpectedRuntime"] = int(job.stated)
                self.requests.upsert(f"{user}/{cores}", ad)

    def _claim(self, slot: str, user: str, job: Job) -> None:
        self.waiting -= 1
        number = int(slot.rpartition("m")[2])
        machine = self.machines[number]
        assert machine.free >= job.cores, "more was carved than there is"
        machine.free -= job.cores
        machine.numbers += 1
        name = f"slot1_{machine.numbers}@m{number:04}"
        claim = Claim(name, number, user, job.cores, self.now)
        machine.claims[name] = self.claims[name] = claim
        ad = self._machine_ad(number)
        del ad["PartitionableSlot"]
        ad.update(
            {
                "Name": name,
                "DynamicSlot": True,
                "SlotType": "Dynamic",
                "Cpus": job.cores,
                "Memory": job.cores * _MEMORY_PER_CORE // 2,
                "State": "Claimed",
                "Activity": "Busy",
                "RemoteUser": user,
                "RemoteOwner": user,
                "AccountingGroup": user,
                "RemoteScheddName": SCHEDD,
                "EnteredCurrentState": int(self.now),
                "EnteredCurrentActivity": int(self.now),
            }
        )
        self.slots.upsert(name, ad)
        self._tell_free(number)
        self._start(claim, job)

    # The defragmenter.

    def _poll(self, last_poll: float) -> None:
        rules = self.policy.defrag
        assert rules is not None
        ads = []
        for number, machine in enumerate(self.machines):
            ad = self.slots.get(_slot(number))
            assert ad is not None
            running = [(claim.cores, self.now - claim.since) for claim in machine.claims.values()]
            ad["ExpectedMachineGracefulDrainingBadput"] = int(sum(cores * ran for cores, ran in running))
            ad["ExpectedMachineGracefulDrainingCompletion"] = int(self.now)
            ads.append(ad)

        def shuffled(slots: list[ClassAd]) -> list[ClassAd]:
            return self.rng.sample(slots, len(slots))

        plan = decide.plan(rules, ads, last_poll, self.now, shuffled)
        for target in plan.drain[: plan.wanted]:
            number = int(target.machine[1:])
            machine = self.machines[number]
            machine.draining_since = self.now
            if not machine.claims:
                machine.draining_since = None
            self._tell_free(number)
        for machine in self.machines:
            if machine.draining_since is None:
                continue
            for claim in list(machine.claims.values()):
                # A job that has used up its retirement is vacated; its work is lost.
                if self.now - claim.since >= self.policy.retirement_s:
                    self._evict(claim)

    def _evict(self, claim: Claim) -> None:
        job = claim.job
        assert job is not None
        job.evictions += 1
        self.result.evictions += 1
        end = next(at for at, _, other, run in self.ends if other is claim and run == claim.run)
        self.result.lost += job.cores * (job.seconds - (end - self.now))
        self.in_use -= job.cores
        claim.job, claim.run = None, 0
        self.queues[job.user][job.cores].appendleft(job)
        self.waiting += 1
        self._release(claim)


def _slot(machine: int) -> str:
    return f"slot1@m{machine:04}"
