"""What a condition that keeps a job from all slots would have to ask for instead, for people and programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slotwise.classad import ExprTree, quote

Row = dict[str, Any]


def hints(clauses: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The hints among the clauses of a job's Requirements, each with its ``clause`` and as ``text``.

    ``nearest``: the value that comes nearest, of all slots, and how many have it; None unless no slot satisfies the
    clause. ``among_rest``: the same of the slots that satisfy all other clauses. ``command``: what the job would set.
    """
    found = []
    for row in clauses:
        if row["hint"] is not None:
            hint = {"clause": row["clause"], **row["hint"], "command": _command(row["hint"]["job_attribute"])}
            found.append(hint | {"text": _text(hint)})
    return found


def _command(attribute: str | None) -> str | None:
    """The submit command, or else the job's attribute, that says what the clause wants."""
    if attribute is None or not attribute.lower().startswith("request"):
        return attribute
    return f"request_{attribute[len('request') :].lower()}"


def _text(hint: Row) -> str:
    name, relation = hint["attribute"], hint["relation"]
    if not hint["known"]:
        return f"{name}: no slot has this attribute"
    nearest, rest = hint["nearest"], hint["among_rest"]
    if nearest is None:
        return f"{name}: of the slots that satisfy all other conditions the {relation} is {_of(rest, hint)}"
    text = f"{name}: {relation} is {_of(nearest, hint)}"
    if rest is not None and rest != nearest:
        text += f"; of the slots that satisfy all other conditions the {relation} is {_of(rest, hint)}"
    return text


def _of(found: Mapping[str, Any], hint: Row) -> str:
    """A value, and how many slots one gets by asking for it."""
    value = found["value"]
    shown = quote(value) if isinstance(value, str) else ExprTree(value).print_old()
    slots = "1 slot" if found["slots"] == 1 else f"{found['slots']} slots"
    if hint["command"] is None:
        return f"{shown}, of {slots}"
    how = "=" if not hint["strict"] else "below" if hint["relation"] == "largest" else "above"
    return f"{shown}; {slots} with {hint['command']} {how} {shown}"
