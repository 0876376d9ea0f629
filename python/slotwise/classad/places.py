r"""Where text becomes an expression, and in which syntax of ClassAds its strings are read.

In the old syntax a backslash in a string is itself unless a quote follows: ``"\.org$"`` is the pattern that it looks
like. In the new one it begins an escape, and the same takes ``"\\.org$"``. HTCondor reads some places so and some
otherwise. The answers are its own, place by place (`tests/conformance/dialects.jsonl`): a test holds this table and
what each place does against them.

``python -m slotwise.classad.places DIRECTORY`` writes ``expressions.md`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec import Struct

OLD, NEW = "old", "new"


class Place(Struct, frozen=True):
    """A place: the option, knob, statement or function of a module as people name it; the syntax of strings there."""

    name: str
    syntax: str


def _places(group: str) -> tuple[Place, ...]:
    found = []
    for line in group.strip().splitlines():
        syntax, _, name = line.strip().partition(" ")
        found.append(Place(name, syntax))
    return tuple(found)


#: By group, in the order of the page.
GROUPS: tuple[tuple[str, tuple[Place, ...]], ...] = (
    (
        "Options of commands",
        _places("""
            old condor_q -af
            old condor_q -format
            old condor_q -constraint
            old condor_q -print-format, column
            old condor_q -print-format, column with PRINTF
            old condor_q -print-format, WHERE
            old condor_q -jobads -constraint
            old condor_status -af
            old condor_status -format
            old condor_status -constraint
            old condor_status -print-format, column
            old condor_status -print-format, WHERE
            old condor_status -sort
            old condor_history -af
            old condor_history -constraint
            old condor_history -since
            old condor_history -print-format, column
            old condor_history -format
            old condor_history -file -constraint
            old condor_status -schedd -constraint
            old condor_hold -constraint
            old condor_qedit, value
            old condor_qedit -constraint
        """),
    ),
    (
        "Files of ads",
        _places("""
            old condor_q -jobads, the file
            old condor_status -ads, the file in the old syntax
            new condor_status -ads, the file in the new syntax
            new condor_status -ads, the file in XML
            new condor_status -ads, the file in JSON
            old condor_advertise, the file
        """),
    ),
    (
        "Submit descriptions",
        _places("""
            old condor_submit, +Attribute
            old condor_submit, MY.Attribute
            old condor_submit, an expression of a command
            old condor_submit, requirements
            old condor_submit, $INT()
            old condor_submit, $EVAL()
            old condor_submit -append
        """),
    ),
    (
        "Configuration",
        _places("""
            old STARTD_ATTRS
            old SCHEDD_ATTRS
            old MASTER_ATTRS
            old COLLECTOR_ATTRS
            old NEGOTIATOR_ATTRS
            old SUBMIT_ATTRS
            old START
            old RANK
            old SLOT_WEIGHT
            old MAXJOBRETIREMENTTIME
            old NEGOTIATOR_JOB_CONSTRAINT
            old NEGOTIATOR_SLOT_CONSTRAINT
            old SYSTEM_PERIODIC_HOLD
            new SYSTEM_PERIODIC_HOLD_REASON
            new SYSTEM_PERIODIC_HOLD_SUBCODE
            old SYSTEM_PERIODIC_REMOVE
            new SYSTEM_PERIODIC_REMOVE_REASON
            old APPEND_REQUIREMENTS
            old JOB_DEFAULT_REQUESTDISK
            new SUBMIT_REQUIREMENT_<name>
            new SUBMIT_REQUIREMENT_<name>_REASON
            old a configuration, $INT()
            old a configuration, $STRING()
            old a configuration, $EVAL()
        """),
    ),
    (
        "Transforms",
        _places("""
            old condor_transform_ads, REQUIREMENTS
            old condor_transform_ads, SET
            old condor_transform_ads, DEFAULT
            new condor_transform_ads, EVALSET
            new condor_transform_ads, EVALMACRO
            old condor_transform_ads, $INT()
            old condor_transform_ads, $(MY.Attribute)
            old JOB_TRANSFORM_<name>, SET
            old JOB_TRANSFORM_<name>, DEFAULT
            new JOB_TRANSFORM_<name>, EVALSET
            new JOB_TRANSFORM_<name>, EVALMACRO
        """),
    ),
    (
        "Python modules",
        _places("""
            old htcondor2, Schedd.query
            old htcondor2, Schedd.query of an ExprTree
            old htcondor2, Schedd.act
            old htcondor2, Schedd.edit, jobs
            old htcondor2, Schedd.edit, value
            old htcondor2, Schedd.edit, value of an ExprTree
            old htcondor2, Schedd.history
            old htcondor2, Collector.query
            old htcondor2, Collector.query of an ExprTree
            new classad2.ExprTree
            new classad2.ClassAd of text
            old classad2.parseOne, old
            new classad2.parseOne, new
        """),
    ),
)

PLACES: tuple[Place, ...] = tuple(place for _, places in GROUPS for place in places)

_ABOUT = r"""# Where text becomes an expression

Generated from `python/slotwise/classad/places.py` by `python -m slotwise.classad.places docs/reference`; do not edit.

ClassAds have two ways to write a string. In the **old** syntax a backslash stands for itself unless a quote follows:
the pattern of `regexp("\.org$", Host)` is `\.org$`. In the **new** one it begins an escape: `"\n"` is the end of a
line, and that pattern takes `regexp("\\.org$", Host)`. All else means the same in both. Each place below reads what
HTCondor 25.14 reads there; that was asked of HTCondor, not taken from its manual.

What follows a complete expression (`1 + 2 junk`) is an error, but behind EVALSET and EVALMACRO, where it is ignored
with a warning: configurations in use end in a bracket too many.

The Python package `slotwise`, the REST interface and `slotwise classad` read the new syntax. The modules `htcondor`
and `htcondor2` send what they are given to daemons that read the old syntax: an `ExprTree`, too, whose text is in the
new. So `schedd.query(classad.ExprTree(r'regexp("\\.org$", Host)'))` looks for a backslash, in HTCondor and here; give
`r'regexp("\.org$", Host)'` as a string.
"""


def page() -> str:
    """The page of the reference."""
    lines = [_ABOUT]
    for title, places in GROUPS:
        lines += [f"## {title}", "", "| Place | Strings |", "| --- | --- |"]
        lines += [f"| {place.name} | {place.syntax} |" for place in places]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    (Path(sys.argv[1]) / "expressions.md").write_text(page(), encoding="utf-8")
