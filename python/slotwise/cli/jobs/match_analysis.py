"""How jobs and slots suit each other: conditions counted one by one, and what became of the slots that match.

Decides from ads alone, for ``q -better-analyze`` and its kin (manual page of condor_q, "analyze").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slotwise.classad import ClassAd, ExprTree

#: What a partitionable slot would have without dynamic slots.
_WHOLE = {"Cpus": "TotalSlotCpus", "Memory": "TotalSlotMemory", "Disk": "TotalSlotDisk", "GPUs": "TotalSlotGPUs"}
#: How deep attributes that stand for conditions are looked into (``START`` of a slot's Requirements).
_DEPTH = 4


@dataclass(frozen=True)
class Step:
    """A condition: how many ads satisfy it, how many more would if their machines were drained."""

    number: int
    text: str
    matched: int
    drained: int = 0
    #: It is made of others, and its text names their numbers.
    compound: bool = False


@dataclass
class Fit:
    """What is known of one job over some slots. Lists hold names of slots."""

    slots: int = 0
    steps: list[Step] = field(default_factory=list)
    by_job: list[str] = field(default_factory=list)
    by_slot: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)
    willing: list[str] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)

    @property
    def matches(self) -> int:
        """Slots that suit the job and accept it."""
        return len(self.own) + len(self.others) + len(self.offline) + len(self.willing)


def clauses_of(ad: ClassAd, name: str = "Requirements", depth: int = _DEPTH) -> list[ExprTree]:
    """The conditions of an expression, those of the attributes it names included; each once."""
    found: dict[int, ExprTree] = {}
    value = ad.lookup(name) if name in ad else None
    for clause in value.conjuncts() if isinstance(value, ExprTree) else ():
        plain = bare(clause).removeprefix("MY.")
        if depth and plain.isidentifier() and plain in ad and isinstance(ad.get(plain), ExprTree):
            inner = clauses_of(ad, plain, depth - 1)
        else:
            inner = [clause]
        for one in inner:
            found.setdefault(one.canonical_hash, one)
    return list(found.values())


def bare(clause: ExprTree) -> str:
    """The text of a condition without parentheses around all of it."""
    text = str(clause).strip()
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    """Where the parenthesis that a text begins with is closed; those inside strings do not count."""
    depth, quoted, escaped = 0, False, False
    for place, letter in enumerate(text):
        if quoted:
            quoted, escaped = escaped or letter != '"', letter == "\\" and not escaped
        elif letter == '"':
            quoted = True
        else:
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                return place
    return -1


def steps_of(
    clauses: Sequence[ExprTree], my: Sequence[ClassAd], target: Sequence[ClassAd], drained: bool
) -> list[Step]:
    """Count the conditions over pairs of ads: ``my`` and ``target``, of which one is the same all along.

    ``drained``: count pairs whose slot (the target) would satisfy the condition if its machine were empty.
    """
    whole = [emptied(ad) if drained else None for ad in target]
    steps: list[Step] = []
    passing = [True] * max(len(my), len(target))
    shown = ""
    for clause in clauses:
        truth, later = [], 0
        for place in range(len(passing)):
            ours, theirs = my[place % len(my)], target[place % len(target)]
            truth.append(clause.eval(ours, theirs) is True)
            empty = whole[place % len(target)]
            later += empty is not None and not truth[-1] and clause.eval(ours, empty) is True
        if bare(clause).lower() == "true":
            continue
        place = len(steps)
        steps.append(Step(place, bare(clause), sum(truth), later))
        both = [a and b for a, b in zip(passing, truth, strict=True)]
        former, passing = sum(passing), both
        name = f"[{place}]"
        if shown and sum(both) not in (former, sum(truth)):
            steps.append(Step(len(steps), f"{shown} && {name}", sum(both), compound=True))
            shown = f"[{len(steps) - 1}]"
        elif not shown or sum(both) < former:
            shown = name
    return steps


def emptied(slot: ClassAd) -> ClassAd | None:
    """A partitionable slot as it would be without dynamic slots; None for other slots."""
    if slot.get("PartitionableSlot") is not True:
        return None
    made = slot.copy()
    for name, total in _WHOLE.items():
        if total in slot:
            made[name] = slot[total]
    return made


def fit(job: ClassAd, slots: Sequence[ClassAd], submitter: str) -> Fit:
    """How a job fits the slots."""
    found = Fit(slots=len(slots))
    found.steps = steps_of(clauses_of(job), [job], slots, drained=True) if slots else []
    for slot in slots:
        _place(found, job, slot, submitter).append(str(slot.get("Name")))
        whole = emptied(slot)
        if whole is not None and not _both(job, slot) and _both(job, whole):
            found.drained.append(str(slot.get("Name")))
    return found


def _both(job: ClassAd, slot: ClassAd) -> bool:
    return accepts(job, slot) and accepts(slot, job)


def accepts(ad: ClassAd, other: ClassAd) -> bool:
    """Whether the Requirements of ``ad`` are true of ``other``."""
    return ad.eval("Requirements", other) is True


def _place(found: Fit, job: ClassAd, slot: ClassAd, submitter: str) -> list[str]:
    if not accepts(job, slot):
        return found.by_job
    if not accepts(slot, job):
        return found.by_slot
    if slot.get("Offline") is True:
        return found.offline
    users = {_text(slot, name) for name in ("RemoteUser", "AccountingGroup")} - {""}
    if slot.get("State") in ("Claimed", "Preempting") and users:
        return found.own if submitter in users else found.others
    return found.willing


def _text(ad: ClassAd, name: str) -> str:
    value = ad.eval(name) if name in ad else None
    return value if isinstance(value, str) else ""


def submitter_of(job: ClassAd) -> str:
    """Whom the job is charged to."""
    group = _text(job, "AccountingGroup")
    user = _text(job, "User") or _text(job, "Owner")
    return f"{group}@{user.partition('@')[2]}" if group and "@" not in group else group or user
