"""The owner's policy: knobs compiled once, evaluated into :class:`~slotwise.startd.slot.events.PolicyEval`.

Source: manual, "condor_startd Policy Configuration". A knob may be given for one slot
(``SLOT1_START``), for a slot type (``SLOT_TYPE_1_START``), and for a universe (``PREEMPT_VANILLA``), which wins for
jobs of that universe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.evaluate import Expression, Value, compiled, number, truth
from slotwise.model.slot import State
from slotwise.startd.policy.slot_config import SlotConfig
from slotwise.startd.slot.events import PolicyEval
from slotwise.startd.slot.states import Claimed, Hold, Preempting, Slot

#: Knobs that decide about a slot and its job.
POLICY_KNOBS = (
    "START",
    "SUSPEND",
    "CONTINUE",
    "PREEMPT",
    "KILL",
    "WANT_SUSPEND",
    "WANT_VACATE",
    "WANT_HOLD",
    "WANT_HOLD_REASON",
    "WANT_HOLD_SUBCODE",
    "RANK",
    "MAXJOBRETIREMENTTIME",
    "MACHINEMAXVACATETIME",
    "CLAIM_WORKLIFE",
    "IS_OWNER",
    "START_BACKFILL",
    "EVICT_BACKFILL",
    "RunBenchmarks",
)

#: Names that knobs had in earlier manuals; they still win.
_FORMER = {"IS_OWNER": "IsOwner"}

#: Knobs that are in every slot's ad as they are.
_ALWAYS = frozenset({"start", "rank", "maxjobretirementtime", "machinemaxvacatetime"})

_UNIVERSES = {5: "VANILLA", 7: "SCHEDULER", 9: "GRID", 10: "JAVA", 11: "PARALLEL", 12: "LOCAL", 13: "VM"}


class Timers(Struct, frozen=True):
    """The startd's fixed times, in seconds."""

    killing_s: float = 30
    match_s: float = 120
    drain_grace_s: float = 20
    polling_s: float = 5
    update_s: float = 300
    #: Whether there is filler work at all (ENABLE_BACKFILL, BACKFILL_SYSTEM).
    backfill: bool = False


class Policy:
    """One slot's policy, compiled.

    :param config: the configuration as the slot reads it.
    :raises ConfigError: for a knob that is not an expression, named with its remedy.
    """

    def __init__(self, config: SlotConfig, timers: Timers) -> None:
        self.timers = timers
        #: The knobs as they are written, in the old syntax of ClassAds.
        self.texts: dict[str, str] = {}
        self._compiled: dict[str, Expression] = {}
        written: list[str] = []
        for knob in POLICY_KNOBS:
            name = _FORMER[knob] if knob in _FORMER and (config.get(_FORMER[knob]) or "").strip() else knob
            text = config.get_text(name)
            self.texts[knob] = text
            self._compiled[knob] = compiled(config.full_name(name), text)
            written.append(text)
            for suffix in _UNIVERSES.values():
                special = (config.get(f"{knob}_{suffix}") or "").strip()
                if special:
                    self._compiled[f"{knob}_{suffix}"] = compiled(config.full_name(f"{knob}_{suffix}"), special)
                    written.append(special)
        #: The low power state that the slot wants; None: HIBERNATE says nothing.
        self._hibernate: Expression | None = None
        if text := config.get_text("HIBERNATE"):
            self._hibernate = compiled(config.full_name("HIBERNATE"), text)
            written.append(text)
        text = config.get_text("UNHIBERNATE")
        compiled(config.full_name("UNHIBERNATE"), text)
        self.unhibernate = text
        #: Knobs that others read by name (``PREEMPT = SUSPEND && ...``); the slot's ad must have them.
        self.mentioned = _mentioned(self.texts, written)
        #: The owner's PREEMPT says itself what is to be done about conflicts of backfill slots.
        self.handles_conflicts = any(
            "resourceconflict" in config.get_text(name).lower() for name in self._compiled if name.startswith("PREEMPT")
        )
        #: The hold reason where there is no WANT_HOLD_REASON.
        self._held_without_reason = _held_without_reason(self.texts["WANT_HOLD"])
        self._special = {name.rpartition("_")[2] for name in self._compiled if name not in POLICY_KNOBS}
        self._draining_start: Expression | None = None

    def set_draining_start(self, expression: Expression | None) -> None:
        """Put ``expression`` in START's place while the machine drains; None gives START back."""
        self._draining_start = expression

    def value(self, knob: str, my: ClassAd, job: ClassAd | None, now: float, universe: int = 5) -> Value:
        """A knob's value for a job."""
        if knob == "START" and self._draining_start is not None:
            return self._draining_start.value(my, job, now)
        if self._special:
            special = self._compiled.get(f"{knob}_{_UNIVERSES.get(universe, '')}")
            if special is not None:
                return special.value(my, job, now)
        return self._compiled[knob].value(my, job, now)

    def start(self, my: ClassAd, job: ClassAd | None, now: float, universe: int = 5) -> bool | None:
        """START for a job, or without one; None where it needs to know more."""
        value = self.value("START", my, job, now, universe)
        return None if value is None or isinstance(value, str) else truth(value)

    def hibernate(self, my: ClassAd, job: ClassAd | None, now: float) -> Value:
        """HIBERNATE: the low power state that the slot wants, by name."""
        return self._hibernate.value(my, job, now) if self._hibernate is not None else None

    def rank(self, my: ClassAd, job: ClassAd, now: float) -> float:
        """How much the machine prefers a job; what is not a number counts as 0."""
        return number(self.value("RANK", my, job, now))

    def evaluate(self, slot: Slot, my: ClassAd, job: ClassAd | None, now: float, universe: int = 5) -> PolicyEval:
        """What the policy says about ``slot``; only what its state asks about is evaluated.

        ``my`` must show the slot as it is (State, Activity, times).
        """
        timers = self.timers
        state = slot.state.state
        if state in (State.OWNER, State.UNCLAIMED):
            return PolicyEval(
                start=None,
                is_owner=truth(self.value("IS_OWNER", my, None, now)),
                start_backfill=timers.backfill and truth(self.value("START_BACKFILL", my, None, now)),
                run_benchmarks=truth(self.value("RunBenchmarks", my, None, now)),
                match_timeout_s=timers.match_s,
            )
        if state is State.BACKFILL:
            return PolicyEval(
                evict_backfill=not timers.backfill or truth(self.value("EVICT_BACKFILL", my, None, now)),
                match_timeout_s=timers.match_s,
                killing_timeout_s=timers.killing_s,
            )
        if state is State.MATCHED:
            return PolicyEval(start=self.start(my, None, now), match_timeout_s=timers.match_s)
        if state is State.PREEMPTING:
            return PolicyEval(
                kill=truth(self.value("KILL", my, job, now, universe)),
                want_hold=self._want_hold(slot, False, my, job, now, universe),
                killing_timeout_s=timers.killing_s,
            )
        if state is not State.CLAIMED:
            return PolicyEval()
        return self._claimed(slot, my, job, now, universe)

    def _claimed(self, slot: Slot, my: ClassAd, job: ClassAd | None, now: float, universe: int) -> PolicyEval:
        timers = self.timers

        def yes(knob: str, otherwise: bool = False) -> bool:
            return truth(self.value(knob, my, job, now, universe), otherwise)

        preempt = yes("PREEMPT")
        return PolicyEval(
            start=self.start(my, job, now, universe),
            is_owner=yes("IS_OWNER"),
            suspend=yes("SUSPEND"),
            continue_=yes("CONTINUE"),
            preempt=preempt,
            want_suspend=yes("WANT_SUSPEND"),
            want_vacate=yes("WANT_VACATE", True),
            want_hold=self._want_hold(slot, preempt, my, job, now, universe),
            machine_retirement_s=number(self.value("MAXJOBRETIREMENTTIME", my, job, now, universe)),
            machine_vacate_s=max(0.0, number(self.value("MACHINEMAXVACATETIME", my, job, now, universe), 600)),
            worklife_s=self._worklife(my, job, now, universe),
            killing_timeout_s=timers.killing_s,
            drain_grace_s=timers.drain_grace_s,
        )

    def _want_hold(
        self, slot: Slot, preempt: bool, my: ClassAd, job: ClassAd | None, now: float, universe: int
    ) -> Hold | None:
        """What WANT_HOLD says of a job that PREEMPT ends: now that it fires, or later as long as nothing holds it."""
        state = slot.state
        asked = preempt or (isinstance(state, Claimed | Preempting) and state.may_hold)
        if not asked or not truth(self.value("WANT_HOLD", my, job, now, universe)):
            return None
        reason = self.value("WANT_HOLD_REASON", my, job, now, universe)
        subcode = number(self.value("WANT_HOLD_SUBCODE", my, job, now, universe))
        return Hold(
            reason if isinstance(reason, str) and reason else self._held_without_reason,
            int(subcode) if abs(subcode) < 2**31 else 0,
        )

    def _worklife(self, my: ClassAd, job: ClassAd | None, now: float, universe: int) -> float | None:
        seconds = number(self.value("CLAIM_WORKLIFE", my, job, now, universe), -1)
        return None if seconds < 0 else seconds


def _held_without_reason(want_hold: str) -> str:
    shown = ClassAd({"WANT_HOLD": ExprTree(want_hold, old=True)}).print_old().strip()
    return f"The startd put this job on hold.  (At preemption time, WANT_HOLD evaluated to true: {shown})"


def _mentioned(texts: Mapping[str, str], written: Iterable[str]) -> dict[str, str]:
    """The knobs of ``texts`` that one of the expressions as ``written`` reads of the slot's ad.

    An expression that may read anything (``eval`` of something computed) reads all of them.
    """
    read: set[str] = set()
    for text in written:
        found = ExprTree(text, old=True).references()
        if found.unbounded:
            read.update(knob.lower() for knob in texts)
        read.update(name.lower() for name in (*found.my, *found.bare))
    return {knob: text for knob, text in texts.items() if knob.lower() in read - _ALWAYS}
