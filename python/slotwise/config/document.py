"""Writes the reference pages of knobs, templates and submit commands from the tables that the programs use.

``python -m slotwise.config.document DIRECTORY`` writes ``configuration.md`` and ``submit.md`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import slotwise._native as _native
from slotwise.config.table import Knob, knobs, templates
from slotwise.submit.support import treatment

_APPLIES = {
    "reconfig": "`slotwise reconfig`",
    "restart": "restart",
    "next job": "the next job",
    "command": "each command",
    "": "",
}

_ABOUT_KNOBS = """\
# Configuration knobs

Generated from the tables in `rust/config/data` by
`python -m slotwise.config.document docs/reference`; do not edit.

Files are read in the language of `condor_config`, in this order: the root file (`CONDOR_CONFIG`, else
`condor_config` in `SLOTWISE_HOME`, else `/etc/condor/condor_config`), LOCAL_CONFIG_DIR, LOCAL_CONFIG_FILE, a
person's own file, the environment (`_CONDOR_X`, `_SLOTWISE_X`), and settings of `slotwise config set`. The last
setting wins; `STARTD.X` and, for a daemon with a local name, `name.X` win over `X`.

`slotwise config val -verbose NAME` shows a value, its origin and what running daemons have; `slotwise config check`
finds mistakes; `slotwise config explain START` shows how an expression comes about. `*` in a name stands for a part
that you choose. Defaults are the reference's, before expansion.
"""
_ABOUT_SUBMIT = """\
# Submit commands

Generated from `rust/config/data/submit.tsv` by
`python -m slotwise.config.document docs/reference`; do not edit.

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

In the last column: *done*; *kept*, in the ad only; *warned*, the job runs and a warning says what is missing;
*refused*, nothing is queued; *no effect* for jobs that run here, as in HTCondor.

| Command | Attribute | Value | In Slotwise |
| --- | --- | --- | --- |"""


def _cell(text: str | None) -> str:
    """Text for a cell of a table."""
    if text is None:
        return ""
    shown = text.replace("\n", " ⏎ ").replace("|", "\\|")
    return f"`{shown}`" if shown else "(empty)"


def _range(knob: Knob) -> str:
    low = "" if knob.lowest is None else f"{knob.lowest:g}"
    high = "" if knob.highest is None else f"{knob.highest:g}"
    return f", {low}..{high}" if low or high else ""


def _used(knob: Knob) -> str:
    default = knob.default if knob.default is not None else knob.implied
    unit = f" ({knob.unit})" if knob.unit else ""
    kind = f"{knob.type}{unit}{_range(knob)}"
    meaning = knob.description.replace("|", "\\|")
    return f"| `{knob.name}` | {kind} | {_cell(default)} | {_APPLIES[knob.applies]} | {meaning} |"


def configuration_page() -> str:
    """The page of knobs and templates."""
    used = [knob for knob in knobs() if knob.used]
    unused = sorted({knob.name for knob in knobs() if not knob.used and "." not in knob.name}, key=str.lower)
    lines = [_ABOUT_KNOBS]
    for daemon in sorted({knob.daemons.split(",")[0].strip() for knob in used}):
        lines += [
            f"## {daemon}",
            "",
            "| Knob | Type | Default | Applies with | Meaning |",
            "| --- | --- | --- | --- | --- |",
        ]
        chosen = [knob for knob in used if knob.daemons.split(",")[0].strip() == daemon]
        lines += [_used(knob) for knob in sorted(chosen, key=lambda knob: knob.name.lower())]
        lines.append("")
    lines += ["## Templates", "", "`use CATEGORY : NAME` and `use CATEGORY : NAME(arguments)`;"]
    lines += ["`slotwise config templates CATEGORY:NAME` prints what one expands to.", ""]
    for category in dict.fromkeys(row[0] for row in templates()):
        names = ", ".join(row[1] for row in templates() if row[0] == category)
        lines += [f"- **{category}**: {names}"]
    lines += [
        "",
        "## Known to HTCondor, not used here",
        "",
        "These are read and can be used in macros, but no daemon of Slotwise looks at them:",
        "",
        ", ".join(unused) + ".",
        "",
    ]
    return "\n".join(lines)


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
    lines += ["", "`request_<name> = amount` asks for a custom resource.", ""]
    return "\n".join(lines)


def write(directory: Path) -> None:
    """Write both pages."""
    (directory / "configuration.md").write_text(configuration_page(), encoding="utf-8")
    (directory / "submit.md").write_text(submit_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
