"""What a condition that keeps a job from all slots would have to ask for instead, for people and programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.classad import UNDEFINED, ExprTree, quote
from slotwise.matchmaking.rows import ClauseCount, ClauseHint, NearestValue

#: What slots can do, by the attribute that says so; lower case.
_ABILITIES = {
    "hasdocker": "Docker",
    "hascontainer": "a container runtime",
    "hasdockerurl": "a container runtime that pulls images",
    "hassingularity": "Apptainer or Singularity",
    "hassif": "a container runtime for image files (.sif)",
    "hassandboximage": "a container runtime for unpacked images",
    "hasvm": "virtual machines",
}
#: What numbers of these attributes count; lower case.
_UNITS = {"memory": " MB", "totalslotmemory": " MB", "disk": " KB", "totalslotdisk": " KB"}


def hints(clauses: Iterable[ClauseCount]) -> list[dict[str, object]]:
    """The hints among the clauses of a job's Requirements as JSON objects, each with its ``clause`` and as ``text``.

    ``nearest``: the value that comes nearest, of all slots, and how many have it; None unless no slot satisfies the
    clause. ``among_rest``: the same of the slots that satisfy all other clauses. ``command``: what the job would set.
    ``alike``: one spelt like an attribute that is missing (of the job with ``of_job``, else of all slots).
    """
    return [_hint(row.clause, row.hint) for row in clauses if row.hint is not None]


def _hint(clause: str, hint: ClauseHint) -> dict[str, object]:
    command = _command(hint.job_attribute)
    return {
        "clause": clause,
        "attribute": hint.attribute,
        "wanted": None if hint.wanted is UNDEFINED else hint.wanted,
        "job_attribute": hint.job_attribute,
        "relation": hint.relation,
        "strict": hint.strict,
        "known": hint.known,
        "of_job": hint.of_job,
        "alike": hint.alike,
        "nearest": _nearest(hint.nearest),
        "among_rest": _nearest(hint.among_rest),
        "command": command,
        "text": _text(hint, command),
    }


def _nearest(found: NearestValue | None) -> dict[str, object] | None:
    return None if found is None else {"value": found.value, "slots": found.slots}


def _command(attribute: str | None) -> str | None:
    """The submit command, or else the job's attribute, that says what the clause wants."""
    if attribute is None or not attribute.lower().startswith("request"):
        return attribute
    return f"request_{attribute[len('request') :].lower()}"


def _text(hint: ClauseHint, command: str | None) -> str:
    name, relation = hint.attribute, hint.relation
    ability = _ABILITIES.get(name.lower())
    if ability is not None and (not hint.known or (hint.nearest is not None and hint.nearest.value is False)):
        return f"{name}: no slot has {ability}"
    if not hint.known:
        meant = "" if hint.alike is None else f"; is {hint.alike} meant?"
        return f"{name}: {'the job lacks' if hint.of_job else 'no slot has'} this attribute{meant}"
    nearest, rest = hint.nearest, hint.among_rest
    others = "of the slots that satisfy all other conditions"
    if nearest is None:
        return f"{name}: {others} the {relation} is {_of(rest, hint, command)}"
    text = f"{name}: {relation} is {_of(nearest, hint, command)}"
    if rest is not None and rest != nearest:
        text += f"; {others} the {relation} is {_of(rest, hint, command)}"
    return text


def _of(found: NearestValue | None, hint: ClauseHint, command: str | None) -> str:
    """A value, and how many slots one gets by asking for it."""
    assert found is not None, "a hint names a value of all slots or of the rest"
    value = found.value
    shown = quote(value) if isinstance(value, str) else ExprTree(value).print_old()
    unit = _UNITS.get(hint.attribute.lower(), "")
    slots = "1 slot" if found.slots == 1 else f"{found.slots} slots"
    if command is None:
        return f"{shown}{unit}, of {slots}"
    how = "=" if not hint.strict else "below" if hint.relation == "largest" else "above"
    return f"{shown}{unit}; {slots} with {command} {how} {shown}"
