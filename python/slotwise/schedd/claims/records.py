"""The claims that the access point holds, and the runs on them. Records only; messages are the link's part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.ids import job_of_run
from slotwise.schedd.claims.ends.excess import ExcessBook
from slotwise.schedd.claims.matching.match_results import MatchOutcomes
from slotwise.schedd.claims.starter_link import StarterLink
from slotwise.schedd.claims.starts.slot_equivalence import Alike
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.match_substitution import MATCH_EXPR
from slotwise.schedd.jobs.node_ads import NodeAd
from slotwise.schedd.lifecycle.claim_states import ClaimState, Disconnected, Gone, Idle, Requested, Reserved
from slotwise.schedd.lifecycle.run_events import EndOfClaim
from slotwise.schedd.lifecycle.run_states import Ending, Failed, Over, RunState
from slotwise.schedd.parallel.gang import Gang, Node
from slotwise.schedd.storage.run_rows import StoredNode, StoredRun
from slotwise.table import pack_ads


class Claim(Struct, eq=False):
    """A slot that the schedd holds for a submitter, until it is released, or its startd or its lease ends it."""

    id: str
    startd: str
    slot_name: str
    submitter: str
    lease_s: int
    #: The slot's ad, packed; :attr:`slot` is the same, parsed.
    slot_ad: bytes
    #: Where it is in its life cycle. Changed by :meth:`ClaimTable.adopt`.
    state: ClaimState = field(default_factory=Requested)
    #: Runs in a row that failed through no fault of the job.
    failures: int = 0
    #: Concurrency limits of the jobs it was matched for; only equal ones may follow.
    limits: str = ""
    #: It is the dedicated scheduler's: parallel jobs of its submitter are gathered slots with it, and no others start.
    dedicated: bool = False
    #: The match it came of, 0 when it did not come of one or that was long ago.
    match_id: int = 0
    #: Whether a job of an autocluster fits, as far as known of this slot alone.
    fits: dict[int, bool] = field(default_factory=dict)
    #: The slots that are like it, and which jobs fit these.
    alike: Alike | None = None
    _slot: ClassAd | None = None

    @property
    def slot(self) -> ClassAd:
        """The slot's ad, parsed on first use."""
        if self._slot is None:
            self._slot = JobAds.parse(self.slot_ad)
        return self._slot

    @property
    def matched_name(self) -> str:
        """The name of the slot that it was matched with: of a dynamic slot, that of its partitionable one."""
        if self.slot.get("DynamicSlot") is not True:
            return self.slot_name
        local, at, host = self.slot_name.partition("@")
        return local.rpartition("_")[0] + at + host

    def renew_slot(self, slot_ad: bytes) -> None:
        """Replace the slot's ad: which jobs fit is no longer known. What the negotiator had added to it stays."""
        self.slot_ad, self._slot, self.alike = with_added(slot_ad, self.slot_ad), None, None
        self.fits.clear()

    @property
    def run(self) -> str:
        """Id of the run on it, or whose end is awaited; "" when there is none."""
        return self.state.run_id

    @property
    def reserved(self) -> Job | None:
        """The job that starts on it when JOB_START_DELAY allows, idle until then."""
        return self.state.job if isinstance(self.state, Reserved) else None

    @property
    def gone(self) -> bool:
        """Whether it was given back, or has ended at the startd."""
        return isinstance(self.state, Gone)


#: What the two clocks of a host differ by without anybody having set one, seconds.
_DRIFT_S = 1.0


class Run(Struct, eq=False):
    """One activation of a claim for one job: what the shadow knows of it."""

    id: str
    job: Job
    token: str
    claim: Claim
    born_at: float
    lease_s: int
    #: Where it is in its life cycle. Changed by :class:`slotwise.schedd.claims.transitions.RunTransitions`.
    state: RunState
    starter: str = ""
    #: The stream on which its starter speaks to the shadow, if one does.
    stream: StarterLink | None = None
    #: What is kept while files move; :class:`slotwise.schedd.transfer.transfers.Transfers` knows what it is.
    transfer: object = None
    #: Its starter keeps common input files for further jobs.
    keeps_common: bool = False
    sent_bytes: int = 0
    received_bytes: int = 0
    #: How many of these the job's ad counts already: received from the job, and sent to it.
    counted: tuple[int, int] = (0, 0)
    #: The node of a parallel job that it is the run of.
    node: Node | None = None
    #: ``born_at`` on the monotonic clock.
    born: float = math.nan

    def set_back_s(self, now: float, moment: float) -> float:
        """How far the clock was set back since its birth, seconds; ``moment``: ``now`` on the monotonic clock.

        A clock that runs ahead cannot be told from a host that slept, and counts.
        """
        seconds = (moment - self.born) - (now - self.born_at)
        return seconds if seconds > _DRIFT_S else 0.0

    @property
    def executing_at(self) -> float:
        """When the starter said that the job executes, epoch seconds; 0: not yet."""
        return self.state.executing_at

    @property
    def over(self) -> bool:
        """Whether its end has been recorded: later messages of it are answered from memory."""
        return isinstance(self.state, Over)

    @property
    def ends(self) -> bool:
        """Whether its starter has reported the end."""
        return isinstance(self.state, Ending | Over)

    @property
    def failed(self) -> bool:
        """Whether the access point has failed at a message of it."""
        return isinstance(self.state, Failed)

    @property
    def goes_on(self) -> bool:
        """Whether the job is meant to run: it was not held, removed or sent back since."""
        running = (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT)
        if self.job.status not in running or (self.node is not None and self.node.gang.outcome is not None):
            return False
        return self.job.run == self.run_of_job

    @property
    def run_of_job(self) -> str:
        """What its job has for the id of its run: of the nodes of a parallel job, that of the gang."""
        return self.node.gang.id if self.node is not None else self.id

    @property
    def node_ad(self) -> NodeAd | None:
        """What makes the ad that it gets another than its job's."""
        return self.node.ad if self.node is not None else None

    @property
    def end_of_claim(self) -> EndOfClaim:
        """Whether its claim is gone, and why."""
        state = self.claim.state
        return EndOfClaim(True, state.ended) if isinstance(state, Gone) else EndOfClaim()

    @property
    def key(self) -> str:
        """``cluster.proc`` of the job."""
        return job_of_run(self.id)

    @property
    def kinds(self) -> tuple[int | str, ...]:
        """By what it is remembered that its slot has refused the job: the autocluster, if it is known, and the job."""
        return (self.key,) if self.job.autocluster is None else (self.job.autocluster, self.key)

    def row(self) -> StoredRun | StoredNode:
        """Its row in the store."""
        row = StoredRun(
            self.job.cluster.number,
            self.job.proc,
            self.id,
            self.token,
            self.claim.id,
            self.born_at,
            self.executing_at,
            self.state.disconnect_logged,
        )
        return row if self.node is None else StoredNode(row, self.node.number, self.node.gang.id)


class ClaimRequestPending(Struct, eq=False):
    """A request for claims that a startd has not answered."""

    serial: int
    startd: str
    claim_id: str
    slot_name: str
    submitter: str
    autocluster: int
    #: Jobs reserved for the slots asked for.
    jobs: list[Job]
    lease_s: int
    limits: str = ""
    at: float = 0.0
    #: The match that led here, 0 for leftovers.
    match_id: int = 0
    #: Claims that become one slot.
    coalesced: tuple[Claim, ...] = ()
    #: For the dedicated scheduler: the cluster and proc for whose nodes it asks, and for how many. No job is reserved.
    part: tuple[int, int] | None = None
    nodes: int = 0
    #: The slot's ad as the negotiator passed it, packed, where it has added something to it.
    matched_ad: bytes = b""
    state: ClaimState = field(default_factory=Requested)

    @property
    def count(self) -> int:
        """How many slots it asks for."""
        return self.nodes if self.part is not None else len(self.jobs)

    @property
    def where(self) -> tuple[str, str]:
        """The slot's name and its startd's address."""
        return self.slot_name, self.startd


def with_added(slot_ad: bytes, matched_ad: bytes) -> bytes:
    """The slot's ad, packed, with what the negotiator has added to the one of the match (NEGOTIATOR_MATCH_EXPRS)."""
    if MATCH_EXPR.encode() not in matched_ad:
        return slot_ad
    ad, matched = JobAds.parse(slot_ad), JobAds.parse(matched_ad)
    ad.update({name: matched.lookup(name) for name in matched if name.startswith(MATCH_EXPR)})
    return pack_ads([ad])


def startd_of(slot_name: str) -> str:
    """The name of the startd that a slot of this name belongs to; empty where the name has no @."""
    return slot_name.partition("@")[2]


class ClaimTable:
    """All claims, runs and pending requests."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.runs: dict[str, Run] = {}
        self.pending: dict[int, ClaimRequestPending] = {}
        #: The parallel jobs that run, by id of their gangs.
        self.gangs: dict[str, Gang] = {}
        self.outcomes = MatchOutcomes()
        self.excess = ExcessBook()
        self._serial = 0
        self._at: dict[str, dict[str, Claim]] = {}
        #: Where claims are held on slots of startds, by what follows the @ in their names.
        self._addresses: dict[str, set[str]] = {}
        self._idle: dict[str, Claim] = {}
        self._unheard: dict[str, Claim] = {}

    def runs_of_job(self, run_id: str) -> list[Run]:
        """The runs that are not over of a job whose run has this id: one, or those of the nodes of a parallel job."""
        if (gang := self.gangs.get(run_id)) is not None:
            return [run for node in gang.alive if (run := self.runs.get(node.run_id)) is not None]
        run = self.runs.get(run_id)
        return [run] if run is not None else []

    def forget_gang(self, gang: Gang) -> None:
        """No node of the gang runs any more."""
        self.gangs.pop(gang.id, None)

    def has_run(self, run_id: str) -> bool:
        """Whether the run that a job has is known."""
        return run_id in self.runs or run_id in self.gangs

    def serial(self) -> int:
        """The next serial number of a request."""
        self._serial += 1
        return self._serial

    def at(self, startd: str) -> list[Claim]:
        """Claims at one startd."""
        return list(self._at.get(startd, {}).values())

    def idle(self) -> list[Claim]:
        """Claims that are kept for the next job of their submitters."""
        return [claim for claim in self._idle.values() if isinstance(claim.state, Idle) and not claim.state.pledged]

    def waiting(self) -> list[Claim]:
        """All claims that are kept without a job, and those without a run whose startds have not been heard since the
        schedd started."""
        return [*self._idle.values(), *self._unheard.values()]

    def adopt(self, claim: Claim, state: ClaimState) -> None:
        """The claim is in another state from now on."""
        claim.state = state
        if isinstance(state, Disconnected) and not state.run and claim.id in self.claims:
            self._unheard[claim.id] = claim
        else:
            self._unheard.pop(claim.id, None)
        if isinstance(state, Idle) and state.since is not None and claim.id in self.claims:
            self._idle[claim.id] = claim
        else:
            self._idle.pop(claim.id, None)

    def add(self, claim: Claim) -> None:
        """A claim was granted or restored."""
        self.claims[claim.id] = claim
        self._put(claim)

    def _put(self, claim: Claim) -> None:
        self._at.setdefault(claim.startd, {})[claim.id] = claim
        if name := startd_of(claim.slot_name):
            self._addresses.setdefault(name, set()).add(claim.startd)

    def drop(self, claim: Claim) -> None:
        """The claim has ended."""
        self._idle.pop(claim.id, None)
        self._unheard.pop(claim.id, None)
        if self.claims.pop(claim.id, None) is not None:
            self._forget_at(claim, claim.startd)
            if claim.startd not in self._at:
                self._left(claim, claim.startd)
            self.outcomes.over(claim.match_id)
            self.excess.gone(claim.slot_name, claim.submitter)

    def slot_at(self, startd: str) -> str:
        """The name of a slot that is held at a startd, or asked for there, by which the startd is known wherever it
        answers; empty where none is."""
        held = (claim.slot_name for claim in self._at.get(startd, {}).values())
        asked = (request.slot_name for request in self.pending_at(startd))
        return next((name for name in chain(held, asked) if "@" in name), "")

    def names_at(self, startd: str) -> set[str]:
        """The names of the startds whose slots are held, or asked for, at one address."""
        slots = [claim.slot_name for claim in self.at(startd)]
        slots += [request.slot_name for request in self.pending_at(startd)]
        return {name for slot in slots if (name := startd_of(slot))}

    def addresses_of(self, slot_name: str) -> list[str]:
        """Where the claims on the slots of one startd are held, by the name of one of its slots."""
        return sorted(self._addresses.get(startd_of(slot_name), ()))

    def moved(self, former: str, startd: str, name: str = "") -> None:
        """The startd at ``former`` answers elsewhere now; with ``name``, the startd of this name alone."""
        for claim in self.at(former):
            if not name or startd_of(claim.slot_name) == name:
                self._forget_at(claim, former)
                self._left(claim, former)
                claim.startd = startd
                self._put(claim)
        for request in self.pending_at(former):
            if not name or startd_of(request.slot_name) == name:
                request.startd = startd

    def _forget_at(self, claim: Claim, startd: str) -> None:
        here = self._at[startd]
        del here[claim.id]
        if not here:
            del self._at[startd]

    def _left(self, claim: Claim, startd: str) -> None:
        """No claim is held at an address any more; ``claim`` was one of them."""
        name = startd_of(claim.slot_name)
        addresses = self._addresses.get(name, set())
        addresses.discard(startd)
        if not addresses:
            self._addresses.pop(name, None)

    def pending_at(self, startd: str) -> Iterator[ClaimRequestPending]:
        """Unanswered requests at one startd."""
        return iter([request for request in self.pending.values() if request.startd == startd])

    def startds(self) -> set[str]:
        """Addresses of startds with which there is something to talk about."""
        return set(self._at) | {request.startd for request in self.pending.values()}


def reserved(pending: Iterable[ClaimRequestPending], submitter: str) -> int:
    """Jobs of the submitter that wait for the answer of a startd."""
    return sum(len(request.jobs) for request in pending if request.submitter == submitter)
