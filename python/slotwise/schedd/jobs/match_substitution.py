"""What a job takes from the slot it is matched to: the values of ``$$()`` references, and MachineAttr attributes."""

from __future__ import annotations

from collections.abc import Callable

from slotwise.schedd.jobs.values import Changes, Value

#: The value of an attribute of the slot or of an expression over it; None when undefined.
Lookup = Callable[[str], object]


class UnresolvedError(Exception):
    """A ``$$()`` reference without a value and without a default; the job is held."""


def expand(text: str, lookup: Lookup, evaluate: Lookup) -> str:
    """``text`` with ``$$(attr)``, ``$$(attr:default)`` and ``$$([expression])`` filled in.

    :raises UnresolvedError: naming the reference.
    """
    out: list[str] = []
    position = 0
    while (start := text.find("$$(", position)) >= 0:
        end = _closing(text, start + 3)
        if end < 0:
            break
        out.append(text[position:start])
        out.append(_filled(text[start + 3 : end], lookup, evaluate))
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


def _filled(inner: str, lookup: Lookup, evaluate: Lookup) -> str:
    if inner == "DOLLARDOLLAR":
        return "$$"
    if inner.startswith("[") and inner.endswith("]"):
        value, default = evaluate(inner[1:-1]), None
    else:
        name, colon, tail = inner.partition(":")
        value, default = lookup(name.strip()), tail if colon else None
    if value is None:
        if default is None:
            # Not the reference itself: it would be substituted, or fail, in the hold reason as well.
            raise UnresolvedError(
                f"Cannot expand $$ expression ({inner}). The matched slot has no value for it; "
                "change the job with qedit, or give a default behind a colon, and release it."
            )
        return default
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def machine_attributes(
    names: list[str], length: int, former: Callable[[str], Value], slot: Callable[[str], Value]
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
