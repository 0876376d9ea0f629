"""When the machine goes to sleep, and what has to be done for it, step by step. Pure.

``step(stage, event, rules, now) -> (stage, action)``. All slots must agree; of several levels the deepest is taken.
A claim or a match that arrives on the way wins: the machine stays awake.

Source: manual, "Power Management"; HTCondor's ResMgr::checkHibernate.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from slotwise.model.power.levels import OFF, level_of, listed, name_of


class Rules(Struct, frozen=True):
    """What configuration and hardware say (seconds).

    :param interval_s: HIBERNATE_CHECK_INTERVAL; 0: the machine never sleeps.
    :param uptime_s: how long a machine that was woken stays awake at least.
    :param supported: the levels that the method of this machine has.
    :param wakeable: whether a packet wakes the machine, or that does not matter (HIBERNATION_OVERRIDE_WOL).
    """

    interval_s: float = 0.0
    uptime_s: float = 3600.0
    supported: frozenset[int] = frozenset()
    wakeable: bool = False


class Usage(Struct, frozen=True):
    """What slots are in use for.

    :param claims: ids of claims.
    :param matched: whether a slot waits for the schedd that it was matched with.
    :param filler: whether backfill runs.
    """

    claims: frozenset[str] = frozenset()
    matched: bool = False
    filler: bool = False

    @property
    def idle(self) -> bool:
        """Whether nothing is in use."""
        return not (self.claims or self.matched or self.filler)


# ------------------------------------------------------------------------------------------------------------- stages


class Awake(Struct, frozen=True):
    """Nothing is under way; HIBERNATE is evaluated next at ``look_at``."""

    look_at: float


class Clearing(Struct, frozen=True):
    """The slots were told to send their jobs away, those of ``claims``."""

    level: int
    claims: frozenset[str]


class Telling(Struct, frozen=True):
    """The ads are being advertised as offline."""

    level: int


class Asleep(Struct, frozen=True):
    """The method was asked to put the machine to sleep; new claims are refused."""

    level: int


Stage = Awake | Clearing | Telling | Asleep


# ------------------------------------------------------------------------------------------------------------- events


class Look(Struct, frozen=True):
    """Time to look: what HIBERNATE is for each slot (anything but a text is no vote), and what is in use."""

    votes: tuple[object, ...]
    usage: Usage


class Told(Struct, frozen=True):
    """Whether the collector has acknowledged all slots' ads, and what is in use now."""

    acknowledged: bool
    usage: Usage


class Woke(Struct, frozen=True):
    """The machine runs; ``slept``: it did sleep."""

    slept: bool


Event = Look | Told | Woke


# ------------------------------------------------------------------------------------------------------------ actions


class Nothing(Struct, frozen=True):
    """Go on."""


class Complain(Struct, frozen=True):
    """The machine should sleep and cannot."""

    why: str


class Clear(Struct, frozen=True):
    """Send jobs and filler work away."""

    level: int


class Tell(Struct, frozen=True):
    """Tell the collector, slot by slot, that the machine is offline."""

    level: int


class Sleep(Struct, frozen=True):
    """Put the machine to sleep."""

    level: int


class StayAwake(Struct, frozen=True):
    """Give up, and advertise that the machine is here."""

    why: str


class Return(Struct, frozen=True):
    """The machine is back: advertise it."""


Action = Nothing | Complain | Clear | Tell | Sleep | StayAwake | Return


def agreed(votes: Iterable[object]) -> int:
    """The level that all slots agree to: 0 when one of them wants none, or does not say; else the deepest one."""
    levels = [level_of(vote) if isinstance(vote, str) else 0 for vote in votes]
    return max(levels) if levels and all(levels) else 0


def begin(rules: Rules, now: float) -> Awake:
    """The startd has started, or its interval was changed."""
    return Awake(now + rules.interval_s)


def step(stage: Stage, event: Event, rules: Rules, now: float) -> tuple[Stage, Action]:
    """The next stage, and what is to be done."""
    again = Awake(now + rules.interval_s)
    match stage, event:
        case Awake(look_at), Look(votes, usage):
            if rules.interval_s <= 0 or now < look_at:
                return stage, Nothing()
            level = agreed(votes)
            if not level or usage.matched:
                return again, Nothing()
            if (why := _why_not(level, rules)) is not None:
                return again, Complain(why)
            if usage.idle:
                return Telling(level), Tell(level)
            return Clearing(level, usage.claims), Clear(level)
        case Clearing(level, claims), Look(_, usage):
            if usage.matched or usage.claims - claims:
                return again, StayAwake("a claim has arrived meanwhile")
            return (Telling(level), Tell(level)) if usage.idle else (stage, Nothing())
        case Telling(level), Told(acknowledged, usage):
            if not acknowledged:
                return again, StayAwake("the collector has not acknowledged the offline ads")
            if not usage.idle:
                return again, StayAwake("a claim has arrived meanwhile")
            return Asleep(level), Sleep(level)
        case Asleep(level), Woke(slept):
            rest_s = max(rules.uptime_s, rules.interval_s) if slept and level != OFF else rules.interval_s
            return Awake(now + rest_s), Return()
    return stage, Nothing()


def _why_not(level: int, rules: Rules) -> str | None:
    if not rules.supported:
        return "it has no low power states that can be used"
    if not rules.wakeable:
        return "its network card does not wake it (see HIBERNATION_OVERRIDE_WOL)"
    if level not in rules.supported:
        return f"{name_of(level)} is none of its low power states ({listed(rules.supported)})"
    return None
