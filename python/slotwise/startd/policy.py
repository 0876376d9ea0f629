"""The owner's policy: knobs compiled once, evaluated into :class:`~slotwise.startd.events.Facts`.

Source: manual, "condor_startd Policy Configuration"; spec section 2. A knob may be given for one slot
(``SLOT1_START``), for a slot type (``SLOT_TYPE_1_START``), and for a universe (``PREEMPT_VANILLA``), which wins for
jobs of that universe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slotwise.classad import ClassAd, ExprTree, new_syntax
from slotwise.model.slot import State
from slotwise.startd.evaluate import Expression, Value, compiled, number, truth
from slotwise.startd.events import Facts
from slotwise.startd.states import Claimed, Hold, Preempting, Slot

#: Knobs that judge a job, and their defaults.
JUDGING: Mapping[str, str] = {
    "START": "True",
    "SUSPEND": "False",
    "CONTINUE": "True",
    "PREEMPT": "False",
    "KILL": "False",
    "WANT_SUSPEND": "False",
    "WANT_VACATE": "True",
    "WANT_HOLD": "False",
    "WANT_HOLD_REASON": "undefined",
    "WANT_HOLD_SUBCODE": "undefined",
    "RANK": "0",
    "MAXJOBRETIREMENTTIME": "0",
    "MACHINEMAXVACATETIME": "600",
    "CLAIM_WORKLIFE": "1200",
    "IS_OWNER": "False",
    "START_BACKFILL": "False",
    "EVICT_BACKFILL": "False",
    "RunBenchmarks": "LastBenchmark =?= undefined || LastBenchmark == 0",
}

#: Names that knobs had in former manuals; they still win.
_FORMER = {"IS_OWNER": "IsOwner"}

_UNIVERSES = {5: "VANILLA", 7: "SCHEDULER", 9: "GRID", 10: "JAVA", 11: "PARALLEL", 12: "LOCAL", 13: "VM"}
Get = Callable[[str], str | None]


@dataclass(frozen=True)
class Timers:
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

    :param get: the value of a knob for this slot (see :func:`knobs_of`).
    :raises ConfigError: for a knob that is not an expression, named with its remedy.
    """

    def __init__(self, get: Get, timers: Timers) -> None:
        self.timers = timers
        self.texts: dict[str, str] = {}
        self._compiled: dict[str, Expression] = {}
        for knob, default in JUDGING.items():
            text = (get(_FORMER.get(knob, knob)) or "").strip() or (get(knob) or "").strip() or default
            self.texts[knob] = new_syntax(text)
            self._compiled[knob] = compiled(full_name(get, knob), text)
            for suffix in _UNIVERSES.values():
                special = (get(f"{knob}_{suffix}") or "").strip()
                if special:
                    self._compiled[f"{knob}_{suffix}"] = compiled(full_name(get, f"{knob}_{suffix}"), special)
        #: Knobs that others mention by name (``PREEMPT = SUSPEND && ...``); the slot's ad must have them.
        self.mentioned = {knob: text for knob, text in self.texts.items() if _is_mentioned(knob, self.texts, get)}
        #: The owner's PREEMPT says itself what is to be done about conflicts of backfill slots.
        self.judges_conflicts = any(
            "resourceconflict" in (get(name) or "").lower() for name in self._compiled if name.startswith("PREEMPT")
        )
        #: What is said of a job that is held without WANT_HOLD_REASON.
        self._held_without_reason = _held_without_reason(self.texts["WANT_HOLD"])
        self._special = {name.rpartition("_")[2] for name in self._compiled if name not in JUDGING}
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

    def rank(self, my: ClassAd, job: ClassAd, now: float) -> float:
        """How much the machine likes a job; what is no number counts as 0."""
        return number(self.value("RANK", my, job, now))

    def facts(self, slot: Slot, my: ClassAd, job: ClassAd | None, now: float, universe: int = 5) -> Facts:
        """What the policy says about ``slot``; only what its state asks about is evaluated.

        ``my`` must show the slot as it is (State, Activity, times).
        """
        timers = self.timers
        state = slot.state.state
        if state in (State.OWNER, State.UNCLAIMED):
            return Facts(
                start=None,
                is_owner=truth(self.value("IS_OWNER", my, None, now)),
                start_backfill=timers.backfill and truth(self.value("START_BACKFILL", my, None, now)),
                run_benchmarks=truth(self.value("RunBenchmarks", my, None, now)),
                match_timeout_s=timers.match_s,
            )
        if state is State.BACKFILL:
            return Facts(
                evict_backfill=not timers.backfill or truth(self.value("EVICT_BACKFILL", my, None, now)),
                match_timeout_s=timers.match_s,
                killing_timeout_s=timers.killing_s,
            )
        if state is State.MATCHED:
            return Facts(start=self.start(my, None, now), match_timeout_s=timers.match_s)
        if state is State.PREEMPTING:
            return Facts(
                kill=truth(self.value("KILL", my, job, now, universe)),
                want_hold=self._want_hold(slot, False, my, job, now, universe),
                killing_timeout_s=timers.killing_s,
            )
        if state is not State.CLAIMED:
            return Facts()
        return self._claimed(slot, my, job, now, universe)

    def _claimed(self, slot: Slot, my: ClassAd, job: ClassAd | None, now: float, universe: int) -> Facts:
        timers = self.timers

        def yes(knob: str, otherwise: bool = False) -> bool:
            return truth(self.value(knob, my, job, now, universe), otherwise)

        preempt = yes("PREEMPT")
        return Facts(
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
    shown = ClassAd({"WANT_HOLD": ExprTree(want_hold)}).print_old().strip()
    return f"The startd put this job on hold.  (At preemption time, WANT_HOLD evaluated to true: {shown})"


def _is_mentioned(knob: str, texts: Mapping[str, str], get: Get) -> bool:
    """Whether a policy expression names ``knob``, which then must be an attribute."""
    if knob in ("START", "RANK", "MAXJOBRETIREMENTTIME", "MACHINEMAXVACATETIME"):
        return False  # in every ad
    pattern = re.compile(rf"\b{knob}\b", re.IGNORECASE)
    special = [get(f"{name}_{suffix}") or "" for name in texts for suffix in ("VANILLA", "VM")]
    return any(pattern.search(text) for text in (*texts.values(), *special))


@dataclass(frozen=True)
class OfSlot:
    """A slot's view of the configuration: ``SLOT<n>_X``, then ``SLOT_TYPE_<N>_X``, then ``X``."""

    get: Get
    prefixes: tuple[str, ...]

    def __call__(self, name: str) -> str | None:
        """The knob's value for the slot."""
        return self.get(self.full_name(name))

    def full_name(self, name: str) -> str:
        """The knob that has the value."""
        return next((full for prefix in self.prefixes if (self.get(full := prefix + name) or "").strip()), name)


def knobs_of(get: Get, slot_id: int, type_number: int) -> Get:
    """The knobs of a slot; type 0 is none."""
    return OfSlot(get, (f"SLOT{slot_id}_", *([f"SLOT_TYPE_{type_number}_"] if type_number else [])))


def full_name(get: Get, name: str) -> str:
    """The knob to name in errors: the one of the slot or its type, where it is that one's."""
    return get.full_name(name) if isinstance(get, OfSlot) else name
