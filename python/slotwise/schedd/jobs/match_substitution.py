"""What a job takes from the slot it starts on: the values of ``$$()`` references, amounts, and MachineAttr attributes.

As in HTCondor, what was taken stays in the job's ad (25.14: ``dollarDollarExpand``): ``MATCH_<attribute>`` is an
attribute of the slot as the slot has it, ``MATCH_EXP_<attribute>`` one of the job's own with its references filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.classad.values import Value as AdValue
from slotwise.execution.job_view import SCRATCH_TEXT
from slotwise.schedd.jobs.values import Changes, Expr, Value

#: How the attributes begin that the negotiator adds to slots for NEGOTIATOR_MATCH_EXPRS.
MATCH_EXPR = "NegotiatorMatchExpr"
#: The attribute that stands for the scratch directory in a job's environment and arguments, in lower case.
_SCRATCH = "condorscratchdir"
_KEPT, _KEPT_WHOLE = "MATCH_", "MATCH_EXP_"
#: How those begin in the ads of jobs that were matched so.
KEPT_MATCH_EXPR = _KEPT_WHOLE + MATCH_EXPR


class UnresolvedError(Exception):
    """A ``$$()`` reference without a value and without a default; the job is held."""

    def __init__(self, reference: str) -> None:
        # Not the reference itself: it would be substituted, or fail, in the hold reason as well.
        super().__init__(
            f"Cannot expand $$ expression ({reference}). The matched slot has no value for it; "
            "change the job with qedit, or give a default behind a colon, and release it."
        )


class Filled(Struct):
    """A job's attributes with their references filled in, and what of them stays in the job's ad."""

    attributes: dict[str, AdValue] = field(default_factory=dict)
    kept: Changes = field(default_factory=dict)


def filled(ad: ClassAd, slot: ClassAd) -> Filled:
    """The attributes of ``ad`` that have references, filled in from ``slot``.

    :raises UnresolvedError: for a reference without a value.
    """
    found = Filled()
    for name, value in ad.items():
        if name[: len(_KEPT)].upper() == _KEPT:
            continue  # of an earlier start; the values may contain what looks like a reference
        if isinstance(value, str):
            if "$$(" in value:
                text = expand(value, _Slot(ad, slot, found.kept, inside=False).value)
                found.attributes[name] = found.kept[_KEPT_WHOLE + name] = text
        elif isinstance(value, ExprTree) and "$$(" in (old := value.print_old()):
            text = expand(old, _Slot(ad, slot, found.kept, inside=True).value)
            try:
                tree = ExprTree(text, old=True)
            except ValueError:
                raise UnresolvedError(f"{name}: the slot's values make it no expression") from None
            found.attributes[name], found.kept[_KEPT_WHOLE + name] = tree, Expr(str(tree))
    return found


class _Slot(Struct):
    """Answers references from a slot. ``inside``: the text is that of an expression, and references are in strings."""

    ad: ClassAd
    slot: ClassAd
    kept: Changes
    inside: bool

    def value(self, reference: str) -> str:
        """The text that takes the place of a reference.

        :raises UnresolvedError: when it has no value.
        """
        if reference == "DOLLARDOLLAR":
            return "$$"
        if reference.startswith("[") and reference.endswith("]"):
            return self._quoted(self._evaluated(reference))
        name, colon, default = reference.partition(":")
        name = name.strip()
        if name in self.slot:
            kept = _as_kept(self.slot, name)
            text = kept if type(kept) is str else self.slot.lookup(name).print_old()
        elif name.lower() == _SCRATCH:
            kept = text = SCRATCH_TEXT  # the starter knows which directory that is
        elif colon:
            kept = text = default
        else:
            raise UnresolvedError(reference)
        if name.isascii() and name.isidentifier():  # in the text of an ad another one could be a line of its own
            self.kept[_KEPT + name] = kept
        return self._quoted(text)

    def _evaluated(self, reference: str) -> str:
        text = reference[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        try:
            value = ExprTree(f"string({text})", old=True).eval(self.ad, self.slot)
        except ValueError:
            raise UnresolvedError(reference) from None
        if not isinstance(value, str) or isinstance(value, SpecialValue):
            raise UnresolvedError(reference)
        return value

    def _quoted(self, text: str) -> str:
        if self.inside and text.endswith("\\"):
            # It would take the end of its string away, and the slot's next value could go on as an expression.
            raise UnresolvedError("a value that ends with a back-slash, within a string")
        return text.replace('"', '\\"') if self.inside else text


def _as_kept(slot: ClassAd, name: str) -> Value:
    """An attribute of the slot as the job's ad keeps it: not evaluated, as in HTCondor."""
    value = slot[name]
    if isinstance(value, bool | int | float | str) and not isinstance(value, SpecialValue):
        return value
    return Expr(str(slot.lookup(name)))


def expand(text: str, value: Callable[[str], str]) -> str:
    """``text`` with ``$$(attr)``, ``$$(attr:default)`` and ``$$([expression])`` replaced by the ``value`` of what is
    between the parentheses."""
    out: list[str] = []
    position = 0
    while (start := text.find("$$(", position)) >= 0:
        end = _closing(text, start + 3)
        if end < 0:
            break
        out.append(text[position:start])
        out.append(value(text[start + 3 : end]))
        position = end + 1
    out.append(text[position:])
    return "".join(out)


def _closing(text: str, start: int) -> int:
    depth = 1
    for i in range(start, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return i
    return -1


def provisioned(slot: ClassAd) -> Changes:
    """What the slot gives to the job: ``<R>Provisioned`` of each resource, and ``Assigned<R>`` where it is devices.

    None where the slot has no such devices: those of an earlier start do not stay.
    """
    listed = slot.eval("MachineResources")
    found: Changes = {}
    for name in listed.split() if isinstance(listed, str) else ("Cpus", "Memory", "Disk"):
        amount = slot.eval(name)
        if isinstance(amount, bool | int | float):
            found[f"{name}Provisioned"] = amount
        assigned = slot.eval(f"Assigned{name}")
        found[f"Assigned{name}"] = assigned if isinstance(assigned, str) else None
    return found


def by_negotiator(slot: ClassAd) -> Changes:
    """What the negotiator told of the match (NEGOTIATOR_MATCH_EXPRS), as it is kept in the job's ad."""
    found: Changes = {}
    for name in slot:
        if name.startswith(MATCH_EXPR):
            found[_KEPT_WHOLE + name] = _as_kept(slot, name)
    return found


def machine_attributes(
    names: Iterable[str], length: int, former: Callable[[str], Value], slot: Callable[[str], Value]
) -> Changes:
    """``MachineAttr<name><n>``: the newest slot at 0, earlier ones shifted up, at most ``length`` of each."""
    changes: Changes = {}
    for name in names:
        for n in range(length - 1, 0, -1):
            value = former(f"MachineAttr{name}{n - 1}")
            if value is not None:
                changes[f"MachineAttr{name}{n}"] = value
        changes[f"MachineAttr{name}0"] = slot(name)
    return {name: value for name, value in changes.items() if value is not None}
