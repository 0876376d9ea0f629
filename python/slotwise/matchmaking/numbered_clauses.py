"""A Requirements as numbered steps, and which of them matter over some ads: what ``condor_q -better-analyze`` counts.

Each comparison, each operand of ``&&``, ``||`` and ``!`` and each of these operators is a step; a step names the steps
that it joins by their numbers. Steps that decide nothing are left out: those that are constant beside others, those
that a stricter neighbour implies, and operators that come down to one of their sides. The rules are those of HTCondor
25.14 (``tests/conformance/analyze`` has its answers). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree

#: The attribute that is the time wherever it is read.
_TIME = "currenttime"
_COMPARISONS = frozenset({"<", "<=", "==", "!=", ">=", ">", "is", "isnt"})


class Join(Enum):
    """What a step does with the steps that it names."""

    NOT = "!"
    OR = "||"
    AND = "&&"
    CHOICE = "ifthenelse"


class Step(Struct):
    """One step. Numbers of other steps are places in the list of all of them."""

    tree: ExprTree
    join: Join | None = None
    left: int | None = None
    right: int | None = None
    third: int | None = None
    #: Its text where that is not what it joins, nor the expression.
    label: str = ""
    #: It asks for the time.
    varies: bool = False
    #: Whether it is true whatever it is asked of; None when it depends on the other ad.
    constant: bool | None = None
    #: The step that it comes down to.
    effective: int | None = None
    #: Another step makes it irrelevant.
    ignored: bool = False
    #: Ads that satisfy it, and those that would if their machines were drained.
    matched: int = 0
    drained: int = 0

    @property
    def shown(self) -> bool:
        """Whether it decides anything by itself."""
        return self.effective is None and not self.ignored

    @property
    def count(self) -> int:
        """Ads that satisfy it, drained ones with them."""
        return self.matched + self.drained

    def joined(self) -> str:
        """The operator over numbers; empty for steps that join nothing."""
        if self.join is None or (self.join is Join.NOT and self.left is None):
            return ""
        if self.join is Join.NOT:
            return f" ! [{self.left}]"
        if self.join is Join.CHOICE:
            return f"ifThenElse([{self.left}],[{self.right}],[{self.third}])"
        return f"[{self.left}] {self.join.value} [{self.right}]"

    def text(self) -> str:
        """The step as the table of counts has it."""
        return self.label or self.joined() or str(self.tree)

    def numbered(self) -> str:
        """The step as the list of all steps has it."""
        text = self.joined()
        return text or (str(self.tree) if self.left is None else f"[{self.left}] {self.tree}")


def steps_of(ad: ClassAd, name: str, inlined: frozenset[str] = frozenset(), *, choices: bool = False) -> list[Step]:
    """The steps of an expression of an ad, those that it is made of first; none when it has no such attribute.

    :param inlined: attributes of the ad, in lower case, whose steps stand in their place.
    :param choices: whether ``ifThenElse`` is taken apart.
    """
    if name not in ad:
        return []
    numbering = _Numbering(ad, choices)
    numbering.visit(ad.lookup(name), inlined - {name.lower()}, keep=True)
    return numbering.steps


class _Numbering:
    def __init__(self, ad: ClassAd, choices: bool) -> None:
        self.steps: list[Step] = []
        self._ad = ad
        self._choices = choices

    def visit(self, tree: ExprTree, inlined: frozenset[str], *, keep: bool) -> tuple[int | None, bool]:
        """Number an expression; its own number, if it has one, and whether it asks for the time.

        ``keep``: it is an operand, and becomes a step whatever it is.
        """
        kind, word, below = tree.parts()
        varies = False
        join: Join | None = None
        label = ""
        inside = False  # operands of operators are steps
        if kind == "literal":
            label = str(tree)
        elif kind == "attribute":
            varies = not below and word.lower() == _TIME
            if not below and word.lower() in inlined and word in self._ad:
                below, inlined = [self._ad.lookup(word)], frozenset()
        elif kind == "operation":
            join = next((one for one in (Join.NOT, Join.OR, Join.AND) if one.value == word), None)
            inside = join is not None
            keep = keep or inside or word in _COMPARISONS
        elif kind == "parentheses":
            keep, inside = False, True
        elif kind == "call":
            varies = not below and word.lower() == "time"
            if self._choices and len(below) == 3 and word.lower() == "ifthenelse":
                join, keep, inside = Join.CHOICE, True, True
            else:
                below = []
            label = str(tree) if keep else f"{word}()"
        else:
            below = []
        found = [self.visit(part, inlined, keep=inside) for part in below]
        varies = varies or any(one[1] for one in found)
        numbers = [one[0] for one in found]
        alone = numbers[0] if len(numbers) == 1 else None
        if not keep:
            return alone, varies
        if alone is not None:
            if join is Join.NOT and alone == len(self.steps) - 1:  # the negation takes the place of what it negates
                last = self.steps[-1]
                last.tree, last.join = tree, join
                last.label = last.label and f"! {last.label}"
            return alone, varies
        left, right, third = (*numbers, None, None, None)[:3]
        self.steps.append(Step(tree, join, left, right, third, label, varies))
        return len(self.steps) - 1, varies


#: How many ads satisfy an expression of the ad whose steps are counted, and how many more would if drained.
Count = Callable[[ExprTree], tuple[int, int]]


def judge(steps: Sequence[Step], ad: ClassAd, ads: int, count: Count) -> None:
    """Count the steps of an ad's expression over ``ads`` other ads, and leave out what decides nothing."""
    for step in steps:
        read = step.tree.references(ad)
        asked = {*read.target, *(name for name in (*read.bare, *read.my) if name not in ad)}
        if not any(name.lower() != _TIME for name in asked):
            value = step.tree.eval(ad)
            step.constant = isinstance(value, bool | int | float) and bool(value)
    for number, step in enumerate(steps):
        if step.join is not None:
            _settle(steps, number)
    for step in steps:
        _shorten(steps, step)
    for number, step in enumerate(steps):
        if step.shown and step.constant is None:
            _count(steps, number, ads, count)


def _ignore(steps: Sequence[Step], number: int | None) -> None:
    if number is not None:
        step = steps[number]
        step.ignored = True
        for part in (step.left, step.right, step.third):
            _ignore(steps, part)


def _shorten(steps: Sequence[Step], step: Step) -> None:
    """Have a step name what its sides come down to."""
    for side in ("left", "right", "third"):
        number = getattr(step, side)
        if number is not None and (effective := steps[number].effective) is not None:
            setattr(step, side, effective)
            step.label = ""


def _last(steps: Sequence[Step], number: int) -> int:
    """What a step comes down to in the end."""
    while (further := steps[number].effective) is not None:
        number = further
    return number


class _Side(Struct, frozen=True):
    """What is known of a side before any ad is looked at."""

    number: int | None
    constant: bool | None
    #: Constant, but for the time.
    soft: bool

    @property
    def text(self) -> str:
        """Its number, with a letter for what it always is."""
        if self.constant is None:
            return f"[{self.number}]"
        letter = "t" if self.constant else "f"
        return f"[{self.number}]{letter if self.soft else letter.upper()}"


def _side(steps: Sequence[Step], number: int | None) -> _Side:
    if number is None or steps[number].constant is None:
        return _Side(number, None, False)
    return _Side(number, steps[number].constant, steps[number].varies)


def _settle(steps: Sequence[Step], number: int) -> None:
    """What follows for an operator from sides that are constant."""
    step = steps[number]
    left, right, third = (_side(steps, side) for side in (step.left, step.right, step.third))
    if step.join is Join.NOT:
        if not step.label and left.number is not None:
            step.label = f" ! {left.text}"
        return
    if step.join is Join.CHOICE:
        step.label = f"ifThenElse({left.text}, {right.text}, {third.text})"
        chosen, other = (right, third) if left.constant else (third, right)
        if left.constant is None or chosen.number is None:
            return
        if steps[chosen.number].constant is not None:
            step.constant, step.varies = steps[chosen.number].constant, left.soft
        _comes_down(steps, step, chosen.number, other.number, soft=left.soft)
        return
    assert step.join is not None
    step.label = f"{left.text} {step.join.value} {right.text}"
    # One side that is `decides` settles the whole, whatever the other is.
    decides = step.join is Join.OR
    if decides in (left.constant, right.constant):
        strong, weak = (left, right) if left.constant is decides else (right, left)
        step.constant = decides
        if decides:
            step.varies = left.soft and right.soft
            soft = strong.soft and (weak.constant is not False or weak.soft)
        else:
            step.varies = left.soft or right.soft
            soft = strong.soft
        _comes_down(steps, step, strong.number, weak.number, soft=soft)
    elif left.constant is not None and right.constant is not None:
        step.constant, step.varies = not decides, left.soft or right.soft
    elif left.constant is not None or right.constant is not None:
        idle, other = (left, right) if left.constant is not None else (right, left)
        _comes_down(steps, step, other.number, idle.number, soft=idle.soft if decides else step.varies)


def _comes_down(steps: Sequence[Step], step: Step, to: int | None, beside: int | None, *, soft: bool) -> None:
    """A step is what another one is; ``soft``: the rest may matter at another time, and stays."""
    if to is not None:
        step.effective = _last(steps, to)
    if not soft:
        _ignore(steps, beside)


def _count(steps: Sequence[Step], number: int, ads: int, count: Count) -> None:
    """Count a step, and leave out what its sides show to be of no consequence."""
    step = steps[number]
    left, right = step.left, step.right
    both = step.join is not None and left is not None and right is not None
    if both:
        assert left is not None
        assert right is not None
        _before(steps, step, left, right, ads)
    step.matched, step.drained = count(step.tree)
    if both:
        assert left is not None
        assert right is not None
        effective = _stricter(steps, step, left, right) if step.join is Join.AND else None
        if effective is not None:
            step.effective, step.label = _last(steps, effective), ""
        else:
            _shorten(steps, step)


def _before(steps: Sequence[Step], step: Step, left: int, right: int, ads: int) -> None:
    """What follows from the counts of the sides alone."""
    of_left, of_right = steps[left].count, steps[right].count
    effective = beside = None
    if step.join is Join.AND:
        effective = left if of_left == 0 else right if of_right == 0 else None
    elif step.join is Join.OR:
        if of_left == ads:
            effective, beside = left, right
        elif of_right == ads or (of_left == 0 and of_right != 0):
            effective, beside = right, left
        elif of_left != 0 and of_right == 0:
            effective, beside = left, right
    _ignore(steps, beside)
    if effective is not None:
        step.effective = _last(steps, effective)
    else:
        _shorten(steps, step)


def _stricter(steps: Sequence[Step], step: Step, left: int, right: int) -> int | None:
    """The side of a conjunction that lets no more pass than both; the other one is left out if it lets more pass."""
    for one, other in ((left, right), (right, left)):
        if steps[one].count == step.count:
            if steps[other].count > step.count:
                steps[other].ignored = True
            return one
    return None
