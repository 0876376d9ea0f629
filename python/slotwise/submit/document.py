"""Writes the reference page of submit commands from the table that the programs use.

``python -m slotwise.submit.document DIRECTORY`` writes ``submit.md`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import slotwise._native as _native
from slotwise.submit.support import treatment

_ABOUT_SUBMIT = """\
# Submit commands

Generated from `rust/config/data/submit.tsv` by
`python -m slotwise.submit.document docs/reference`; do not edit.

A description is a list of `key = value` lines and queue statements. `+Attr = expr` and `MY.Attr = expr` set an
attribute of the job; `key @=tag` starts a text of several lines; `if`, `include`, macros and functions are those of
the configuration language.

| Queue statement | Jobs |
| --- | --- |
| `queue`, `queue N` | one, N |
| `queue [N] [var] in [slice] (a b, c)` | N for each word |
| `queue [N] [var] matching [files\\|dirs\\|any] [slice] (patterns)` | N for each file name that matches |
| `queue [N] [v1,v2] from [slice] FILE` | N for each line; fields at commas or blanks; the last takes the rest |
| `queue [N] [v1,v2] from COMMAND \\|` | N for each line that a command prints |
| `queue [N] [v1,v2] from (` lines `)` | N for each line that follows |

Slices are `[start:end:step]` as in Python. Automatic variables: Cluster, ClusterId, Process, ProcId, Row,
ItemIndex, Step, JobId, SUBMIT_FILE, SUBMIT_TIME, Year, Month, Day. `$$(attr)` is filled in from the slot.
No condition is added to `requirements` about an attribute of the slot that they read themselves, be it by
`TARGET["OpSys"]` or `eval("TARGET.OpSys")`.

In the last column: *done*; *kept*, in the ad only; *warned*, the job runs and a warning says what is missing;
*refused*, nothing is queued; *no effect* for jobs that run here, as in HTCondor.

| Command | Attribute | Value | In Slotwise |
| --- | --- | --- | --- |"""


_ABOUT_REQUIREMENTS = """\
No condition is added to `requirements` about an attribute of the slot that they read themselves, be it by
`TARGET["OpSys"]` or `eval("TARGET.OpSys")`."""


def submit_page() -> str:
    """The page of submit commands."""
    lines = [_ABOUT_SUBMIT]
    kinds = {
        "string": "text",
        "expr": "expression",
        "bool": "true or false",
        "int": "number",
        "uint": "number, not negative",
    }
    for name, attribute, kind in sorted(_native.submit_commands(), key=lambda row: row[0].lower()):
        what, words = treatment(name)
        told = what.value + (f" ({words})" if words else "")
        lines.append(f"| `{name}` | {attribute or '(none)'} | {kinds[kind]} | {told} |")
    lines += ["", "`request_<name> = amount` asks for a custom resource.", "", _ABOUT_REQUIREMENTS, ""]
    return "\n".join(lines)


def write(directory: Path) -> None:
    """Write the page."""
    (directory / "submit.md").write_text(submit_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
