"""``slotwise report``: what has become of the pool's time and of jobs."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.render.picture import require
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotwise.analysis.periods import Periods, Step
    from slotwise.cli.pool.report_sources import Source

_OPTIONS = [
    Option("help", 1), Option("json", 1), Option("dark", 2), Option("plot", 2, 1), Option("since", 1, 1),
    Option("until", 1, 1), Option("by", 2, 1), Option("per", 3, 1), Option("file", 1, 1), Option("name", 1, 1),
    Option("pool", 2, 1),
]  # fmt: skip
USAGE = """usage: slotwise report usage|fairness|waste|wait [options]
  Of the jobs of an access point, past and present:
  usage          cores in use over time against the quota, by group or user
  fairness       what users got against what their priority factors let them expect
  waste          cores and memory that were asked for and not used; evictions and the work that they cost
  wait           how long jobs waited for their first run, by what they ask for
Which time
  -since TIME, -until TIME    from (30d) until (now): YYYY-MM-DD, 'YYYY-MM-DD HH:MM', epoch seconds, or 12h, 7d, 4w ago
  -by hour|day|week           the parts of the time that are told apart
  -per group|user|request     what is told apart: usage by group or user, wait by request, user or group
From where
  -file FILE     a file of `slotwise history -parquet`, instead of an access point; several times for several files
  -name NAME, -pool HOST:PORT    another access point
Form
  -json          everything, for programs
  -plot FILE     draw it, as a PNG or SVG file (needs matplotlib); -dark: on dark ground
  Needs the packages of slotwise[analysis]. On its host, who may read the access point's database reads it
  directly; everybody else asks the schedd, which takes longer."""
_DAYS = 30


class Shown(Struct, frozen=True):
    """A report in its three forms."""

    text: str
    record: dict[str, object]
    draw: Callable[[], Figure]


def main(args: list[str], inv: Invocation) -> int:
    """Read, count, and show."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    kind = parsed.words[0] if parsed.words else ""
    if kind not in _KINDS or len(parsed.words) != 1:
        raise UsageError("which report?" if not kind else f"there is no report {' '.join(parsed.words)!r}",
                         hint=f"one of {', '.join(_KINDS)}")  # fmt: skip
    for package in ("polars", "numpy", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"reports need {package}", hint="pip install 'slotwise[analysis]'")
    plot = parsed.value("plot")
    if plot is not None:
        require(plot)
    now = time.time()
    when = _periods(parsed, now)
    from slotwise.cli.pool.report_sources import source

    shown = _KINDS[kind](parsed, when, source(parsed, inv, when, now))
    if plot is not None:
        from slotwise.cli.render import picture

        with picture.theme(dark=parsed.has("dark")):
            picture.save(shown.draw(), inv.path(plot))
        inv.err(f"drawn: {plot}")
    if parsed.has("json"):
        head = {"report": kind, "since": int(when.since), "until": int(when.until), "by": when.step}
        inv.out(json.dumps(head | shown.record, indent=2))
    else:
        inv.out(shown.text, end="")
    return 0


def _periods(parsed: Parsed, now: float) -> Periods:
    from slotwise.analysis.periods import STEPS, moment, periods

    # Until now: what happens while the report is made is not in it.
    until = now if (told := parsed.value("until")) is None else min(moment(told, now), now)
    since = parsed.value("since")
    step: Step | None = None
    if (by := parsed.value("by")) is not None:
        step = next((one for one in STEPS if one == by or f"{one}s" == by), None)
        if step is None:
            raise UsageError(f"-by {by}: there are no such parts", hint=f"one of {', '.join(STEPS)}")
    return periods(until - _DAYS * 86400 if since is None else moment(since, now), until, step)


def _per(parsed: Parsed, choices: tuple[str, ...]) -> str:
    """The first of ``choices``, unless another is asked for."""
    per = parsed.value("per")
    if per is None:
        return choices[0]
    if per not in choices:
        raise UsageError(
            f"-per {per}: this report does not tell that apart",
            hint=f"one of {', '.join(choices)}" if choices[1:] else "leave -per out",
        )
    return per


def _usage(parsed: Parsed, when: Periods, given: Source) -> Shown:
    from slotwise.analysis.usage import usage
    from slotwise.cli.pool import report_pictures, report_tables

    per = _per(parsed, ("group", "user"))
    quotas = given.quotas() if per == "group" else {}
    found = usage(given.jobs(queue="started"), when, "user" if per == "user" else "group", quotas)
    return Shown(
        report_tables.usage_text(found), report_tables.usage_record(found), lambda: report_pictures.usage(found)
    )


def _fairness(parsed: Parsed, when: Periods, given: Source) -> Shown:
    from slotwise.analysis.fairness import fairness
    from slotwise.cli.pool import report_pictures, report_tables

    _per(parsed, ("user",))
    found = fairness(given.jobs(queue="all"), when, given.factors())
    return Shown(
        report_tables.fairness_text(found),
        report_tables.fairness_record(found),
        lambda: report_pictures.fairness(found),
    )


def _waste(parsed: Parsed, when: Periods, given: Source) -> Shown:
    from slotwise.analysis.waste import waste
    from slotwise.cli.pool import report_pictures, report_tables

    _per(parsed, ("user",))
    found = waste(given.jobs(queue="none"), when)
    return Shown(
        report_tables.waste_text(found), report_tables.waste_record(found), lambda: report_pictures.waste(found)
    )


def _wait(parsed: Parsed, when: Periods, given: Source) -> Shown:
    from slotwise.analysis.waits import waits
    from slotwise.cli.pool import report_pictures, report_tables

    per = _per(parsed, ("request", "user", "group"))
    found = waits(
        given.jobs(queue="all"), when, "request" if per == "request" else "user" if per == "user" else "group"
    )
    return Shown(
        report_tables.waits_text(found), report_tables.waits_record(found), lambda: report_pictures.waits(found)
    )


_KINDS: dict[str, Callable[[Parsed, Periods, Source], Shown]] = {
    "usage": _usage, "fairness": _fairness, "waste": _waste, "wait": _wait,
}  # fmt: skip
