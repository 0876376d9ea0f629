"""Writes the reference page of knobs and templates from the tables that the programs use.

``python -m slotwise.config.document DIRECTORY`` writes ``configuration.md`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from slotwise.config.table import Knob, knobs, templates

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

Files are read in the language of `condor_config`, in this order: the root file (`CONDOR_CONFIG`, else the file that
the pool was brought up with, else `condor_config` in `SLOTWISE_HOME`, else in `/etc/slotwise`, else in `/etc/condor`),
LOCAL_CONFIG_DIR, LOCAL_CONFIG_FILE, a person's own file, the environment (`_CONDOR_X`, `_SLOTWISE_X`), and settings of
`slotwise config set`. The last setting wins; `STARTD.X` and, for a daemon with a local name, `name.X` win over `X`.

`slotwise config val -verbose NAME` shows a value, its origin and what running daemons have; `slotwise config check`
finds mistakes; `slotwise config explain START` shows how an expression comes about. `<...>` in a name stands for a
part that you choose: `<N>` for a number, `<DAEMON>` for a daemon or TOOL. Defaults are shown before expansion.
"""


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


def write(directory: Path) -> None:
    """Write the page."""
    (directory / "configuration.md").write_text(configuration_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
