"""Which machines to wake now. Pure: ads, rules, earlier calls and the time in; machines out.

Source: HTCondor's rooster. Unlike there, a machine that was called is not called again until ROOSTER_WAKEUP_TIMEOUT
has passed; then the call has failed, and the waits between further calls grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import ClassAd, ExprTree
from slotwise.rooster.rules import RoosterRules

#: The longest wait of a machine for another call (seconds).
_MOST_S = 6 * 3600.0


class Call(Struct, frozen=True):
    """The calls of a machine that still sleeps: the time of the last one, and how many have failed."""

    at: float
    count: int = 1
    failed: int = 0


class Book(Struct):
    """The machines that were called, by name."""

    calls: dict[str, Call] = field(default_factory=dict)

    def record(self) -> dict[str, tuple[float, int, int]]:
        """The form in the state file."""
        return {name: (call.at, call.count, call.failed) for name, call in self.calls.items()}

    @classmethod
    def of(cls, record: Mapping[str, Sequence[float]]) -> Book:
        """Read the form in the state file.

        :raises ValueError: it is not such a record.
        """
        try:
            return cls({str(n): Call(float(at), int(count), int(failed)) for n, (at, count, failed) in record.items()})
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None


class Plan(Struct, frozen=True):
    """What to do: slots to wake, best first; machines that failed; machines that came back."""

    wake: tuple[ClassAd, ...] = ()
    failed: tuple[str, ...] = ()
    back: tuple[str, ...] = ()


def machine_of(ad: ClassAd) -> str:
    """The machine of a slot."""
    name = ad.eval("Machine")
    return name if isinstance(name, str) else str(ad.get("Name", ""))


def plan(rules: RoosterRules, candidates: Iterable[ClassAd], asleep: frozenset[str], book: Book, now: float) -> Plan:
    """Decide on the slots for which ROOSTER_UNHIBERNATE is true. ``asleep``: all machines that still have offline ads.

    Updates ``book`` with machines that failed or came back; :func:`called` notes the calls themselves.
    """
    back = tuple(sorted(name for name in book.calls if name not in asleep))
    for name in back:
        del book.calls[name]
    failed = []
    for name, call in book.calls.items():
        if call.failed < call.count and now - call.at >= rules.timeout_s:
            book.calls[name] = replace(call, failed=call.count)
            failed.append(name)
    rank = ExprTree(rules.rank) if rules.rank.strip() else None
    ranked = sorted(candidates, key=lambda ad: (-_rank(rank, ad, now), str(ad.get("Name", ""))))
    wake: dict[str, ClassAd] = {}
    for ad in ranked:
        machine = machine_of(ad)
        if machine not in wake and due(rules, book.calls.get(machine), now):
            wake[machine] = ad
    return Plan(tuple(wake.values()), tuple(sorted(failed)), back)


def due(rules: RoosterRules, call: Call | None, now: float) -> bool:
    """Whether a machine may be called: not while it may still wake up, and the later the more often it has failed."""
    if call is None or now < call.at:
        return True
    wait_s = rules.timeout_s * 2 ** min(max(0, call.failed - 1), 20)
    return now - call.at >= max(rules.timeout_s, min(wait_s, _MOST_S))


def called(book: Book, machine: str, now: float) -> Call:
    """Note that a machine was called."""
    former = book.calls.get(machine)
    book.calls[machine] = call = Call(now) if former is None else replace(former, at=now, count=former.count + 1)
    return call


def still_wanted(rules: RoosterRules, ad: ClassAd, now: float) -> bool:
    """Evaluate ROOSTER_UNHIBERNATE again right before the call: it may depend on the time."""
    return ExprTree(rules.unhibernate).eval(ad, now=int(now)) is True


def _rank(rank: ExprTree | None, ad: ClassAd, now: float) -> float:
    value = rank.eval(ad, now=int(now)) if rank is not None else 0.0
    return float(value) if isinstance(value, bool | int | float) else 0.0
