"""What the master decides: which daemons, in which order, and how long to wait before a restart. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from slotwise.daemon.registry import PARTS_OF_SCHEDD

#: The order of starting; stopping reverses it. A daemon may rely on those before it. The starter comes before the
#: startd, which restores its claims from the starter's report of live runs.
START_ORDER = (
    "shared_port", "collector", "negotiator", "schedd", "starter", "startd", "front", "defrag", "rooster",
    "librarian", "web",
)  # fmt: skip
#: Daemons that run only where DAEMON_LIST names them.
OPTIONAL = frozenset({"shared_port", "defrag", "rooster", "librarian", "web"})

#: Daemons whose orderly end ends the jobs that they serve. Of one that is killed, keepers keep them for the next.
END_JOBS = frozenset({"starter", "startd"})

#: A daemon that lived this long before it died is not in a crash loop.
STABLE_S = 5.0


class Backoff(Struct, frozen=True):
    """Knobs MASTER_BACKOFF_CONSTANT, _FACTOR, _CEILING and MASTER_RECOVER_FACTOR (seconds, manual section 4.5.9)."""

    constant_s: float = 9.0
    factor: float = 2.0
    ceiling_s: float = 3600.0
    recover_s: float = 300.0


def restart_delay_s(failures: int, backoff: Backoff) -> float:
    """How long to wait before a restart after ``failures`` deaths in a row that came soon after a start.

    HTCondor waits ``constant + factor ** failures``, at most the ceiling, even after the first death. A pool
    whose schedd is away for eleven seconds loses work for nothing, so here the first restart is immediate and the wait
    then grows fourfold from 0.4 s until it meets HTCondor's curve.
    """
    if failures <= 0:
        return 0.0
    quick = 0.1 * 4.0 ** min(failures, 20)
    reference = backoff.constant_s + backoff.factor ** min(failures, 60)
    return min(quick, reference, backoff.ceiling_s)


def failures_after(failures: int, ran_s: float, backoff: Backoff) -> int:
    """Consecutive deaths, this one included: a run longer than ten times the last wait (and 5 s) resets the count."""
    stable = min(max(STABLE_S, 10 * restart_delay_s(failures, backoff)), backoff.recover_s)
    return 0 if ran_s >= stable else failures + 1


def start_order(names: Iterable[str]) -> list[str]:
    """The daemons of ``names`` in starting order."""
    wanted = set(names)
    return [name for name in START_ORDER if name in wanted]


def daemons_of(daemon_list: Sequence[str] | None, *, shares_port: bool = False) -> tuple[list[str], list[str]]:
    """The daemons that DAEMON_LIST means, in starting order, and the words in it that name none.

    Unset, or MASTER alone (HTCondor's default), means a personal pool with all daemons but the optional ones. The
    starter service comes with the startd and the command server with the schedd, because users' lists name neither.
    The daemon of the shared port comes where the host has one, named or not.
    """
    words = [word.strip().lower() for word in daemon_list or () if word.strip()]
    named = [word for word in words if word != "master"]
    named = [word for word in named if word != "shared_port" and word not in PARTS_OF_SCHEDD]
    shared = {"shared_port"} if shares_port else set()
    if not named:
        return start_order({name for name in START_ORDER if name not in OPTIONAL} | shared), []
    wanted = set(named) | shared
    if "startd" in wanted:
        wanted.add("starter")
    if "schedd" in wanted:
        wanted.add("front")
    unknown = [word.upper() for word in named if word not in START_ORDER]
    return start_order(wanted), unknown
