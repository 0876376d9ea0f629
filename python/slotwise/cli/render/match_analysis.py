"""The texts of ``condor_q -analyze`` and its kin as HTCondor 25.14 lays them out; programs read some of their lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import number, whole
from slotwise.matchmaking.failed_starts import failed_start
from slotwise.matchmaking.kept_out import kept_back
from slotwise.matchmaking.numbered_clauses import Count, Step, judge, steps_of
from slotwise.matchmaking.slot_verdicts import Priorities, Verdict, Verdicts

_UNITS_OF_JOB = {"RequestDisk": " (kb)", "RequestMemory": " (mb)"}
_UNITS_OF_SLOT = {"Disk": " (kb)", "Memory": " (mb)"}
_MOST_NAMES = 10
#: How wide lines are on no terminal.
WIDTH = 80


class Detail(Struct, frozen=True):
    """How much is shown."""

    #: ``-better-analyze``: conditions of jobs that match, too.
    better: bool = False
    #: Steps that decide nothing, too.
    every_step: bool = False
    #: ``ifThenElse`` is taken apart.
    choices: bool = False
    #: Names of slots behind their numbers.
    verbose: bool = False
    width: int = WIDTH


def name_of(job: ClassAd, digits: int = 3) -> str:
    """``cluster.proc``, padded with zeros."""
    return f"{whole(job.get('ClusterId')):0{digits}}.{whole(job.get('ProcId')):03}"


def folded(text: str, indent: int, width: int) -> str:
    """An expression over several lines: broken behind ``&&`` and ``||``, indented by its parentheses.

    The first line is taken to stand behind ``indent`` columns. Line breaks that are there already count as letters.
    """
    if indent > width:
        indent = width * 2 // 3
    lines: list[str] = []
    begin = cut = 0  # of the line, and where it may be broken
    column, depth, depth_at_cut = indent, indent, indent
    lead = ""
    for at, letter in enumerate(text):
        before = text[at - 1] if at else ""
        depth += 2 * ((letter == "(") - (letter == ")"))
        if column >= width and cut > begin:
            lines.append(lead + text[begin:cut])
            begin, cut = cut + 1, cut + 1
            lead = " " * max(depth_at_cut, 0)
            column = len(lead) + at - begin
            depth_at_cut = depth
        if at > 1 and before in "&|" and text[at - 2] == before:
            cut, depth_at_cut = at, depth
        column += 1
    return "\n".join([*lines, lead + text[begin:]])


def steps_listed(steps: Iterable[Step]) -> str:
    """Every step with its number, a line each."""
    return "".join(f"    {f'[{number}]':<6.6} : {step.numbered()}\n" for number, step in enumerate(steps))


def attributes(ad: ClassAd, hidden: Iterable[str]) -> str:
    """The attributes of an ad that its Requirements read, a line each, as they are written."""
    without = {name.lower() for name in hidden}
    names = {name for name in ad.lookup("Requirements").references(ad).my if name.lower() not in without and name in ad}
    return "".join(
        f"    {name} = {ad.lookup(name)}{_UNITS_OF_JOB.get(name, '')}\n" for name in sorted(names, key=str.lower)
    )


def read_of_others(ad: ClassAd) -> list[str]:
    """The attributes that an ad's Requirements read of other ads."""
    if "Requirements" not in ad:
        return ["Requirements"]
    read = ad.lookup("Requirements").references(ad)
    names = {*read.target, *(name for name in read.bare if name not in ad)}
    if "AvailableGPUs" in names:
        names.add("GPUs")  # its elements are read
    return sorted(names, key=str.lower)


def attributes_of_other(names: Iterable[str], other: ClassAd, asking: ClassAd) -> str:
    """These attributes of another ad, a line each, evaluated; below a list of ads the ads."""
    lines = []
    for name in names:
        if name not in other:
            continue
        lines.append(f"    TARGET.{name} = {_value(other, name, asking)}{_UNITS_OF_SLOT.get(name, '')}\n")
        kind, _, items = other.lookup(name).parts()
        for item in items if kind == "list" else ():
            of, word, _ = item.parts()
            if of == "attribute" and word in other:
                lines.append(f"       {word} = {_value(other, word, asking)}\n")
    return "".join(lines)


def _value(ad: ClassAd, name: str, asking: ClassAd) -> str:
    tree = ad.lookup(name)
    if tree.parts()[0] in ("list", "ad"):
        return tree.print_old()
    return tree.simplify(ad, asking).print_old()


def counted(steps: Sequence[Step], what: str, *, drained: bool, detail: Detail) -> str:
    """The table of steps with the number of ads that satisfy each; ``what`` is counted."""
    margin = " " * 3 if detail.every_step else ""
    if drained:
        heads = ("  Slots      If    ", " Matched   Drained ", "--------- ---------")
    else:
        heads = (f"{what:>5}s", " Matched ", "-" * 9)
    lines = [
        f"{margin}{'':7}{heads[0]}",
        f"{margin}Step  {heads[1]} Condition",
        f"{margin}----- {heads[2]} ---------",
    ]
    for place, step in enumerate(steps):
        if not step.shown and not detail.every_step:
            continue
        mark = "" if not detail.every_step else " * " if step.shown else "   "
        label = f"{f'[{place}]':<5.5}"
        if step.constant is not None:
            always = ("now" if step.constant else "not now") if step.varies else "always" if step.constant else "never"
            lines.append(f"{mark}{label} {always:>9}  {step.text()}")
        else:
            number_of = f"{step.matched:>9} {step.drained:>9}" if drained else f"{step.matched:>9}"
            lines.append(f"{mark}{label} {number_of}  {step.text()}")
    return "".join(f"{line}\n" for line in lines)


def requirements(job: ClassAd, detail: Detail) -> str:
    """The job's Requirements: the expression, its steps, and the job's attributes in it."""
    name = name_of(job, 1)
    parts = []
    if "Requirements" in job:
        text = folded(str(job.lookup("Requirements")), 4, detail.width)
        parts.append(f"The Requirements expression for job {name} is\n\n    {text}\n\n")
        parts.append(steps_listed(steps_of(job, "Requirements", choices=detail.choices)) + "\n")
    return "".join(parts)


def attributes_of_job(job: ClassAd) -> str:
    """The job's attributes in its Requirements, under their heading."""
    shown = attributes(job, ["Requirements"]) if "Requirements" in job else ""
    return f"Job {name_of(job, 1)} defines the following attributes:\n\n{shown}"


def conditions(job: ClassAd, ads: int, count: Count, *, drained: bool, detail: Detail) -> str:
    """How many slots satisfy each step of the job's Requirements."""
    steps = steps_of(job, "Requirements", choices=detail.choices)
    judge(steps, job, ads, count)
    table = counted(steps, "Slot", drained=drained, detail=detail) if "Requirements" in job else ""
    return f"The Requirements expression for job {name_of(job, 1)} reduces to these conditions:\n\n{table}"


_OF_UNIVERSE = {
    7: "\nWARNING: Analysis is not complete for Scheduler or Local universe jobs.\n",
    8: "\nWARNING: Analysis is meaningless for MPI universe jobs.\n",
    9: "\nWARNING: Analysis is only meaningful for Grid universe jobs using matchmaking.\n",
    12: "\nWARNING: Analysis is not complete for Scheduler or Local universe jobs.\n",
}
_MATCHED_UNIVERSES = (5, 10, 11, 13)


def warning_of_universe(job: ClassAd) -> str:
    """What is said of jobs that need no match."""
    universe = whole(job.get("JobUniverse"))
    if universe in _MATCHED_UNIVERSES or (universe == 9 and "$$" in str(job.get("GridResource", ""))):
        return ""
    return _OF_UNIVERSE.get(universe, "\nWARNING: Job universe unknown.  Analysis may not be meaningful.\n")


def totals(job: ClassAd, found: Verdicts, priorities: Priorities | None, *, verbose: bool) -> str:
    """What became of the slots."""

    def line(verdict: Verdict, words: str, count: int | None = None) -> str:
        names = found.by[verdict] if verbose else []
        shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        return f"  {found.count(verdict) if count is None else count:>5} slots {words}{f': {shown}' if names else ''}\n"

    parts = []
    user = str(job.get("User"))
    if priorities is not None:
        parts.append(f"Submittor {user} has a priority of {priorities.of.get(user, 0.0):.3f}\n")
    how = "ignoring" if priorities is None else "considering"
    parts.append(
        f"\n{name_of(job)}:  Run analysis summary {how} user priority."
        f"  Of {found.slots} slots on {found.machines} machines,\n"
    )
    parts.append(line(Verdict.REFUSED_BY_JOB, "are rejected by your job's requirements"))
    parts.append(line(Verdict.REFUSES_JOB, "reject your job because of their own requirements"))
    if priorities is not None:
        parts.append(f"  {found.count(Verdict.OWN):>5} slots match and are already running one of your jobs\n")
        parts.append(line(Verdict.OTHERS, "match but are serving users with a better priority in the pool"))
        parts.append(line(Verdict.NOT_PREEMPTED, "match but will not currently preempt their existing job"))
        offline = line(Verdict.OFFLINE, "match but are currently offline")
        head, _, names = offline.partition(":")
        parts.append(f"{head.rstrip()}\n{f':{names.rstrip()}' if names else ''}\n")
    else:
        if own := found.count(Verdict.OWN):
            parts.append(f"  {own:>5} slots match and are already running your jobs\n")
        if found.busy:
            parts.append(line(Verdict.OTHERS, "match but are serving other users", found.busy - own))
        if found.count(Verdict.OFFLINE):
            parts.append(line(Verdict.OFFLINE, "match but are currently offline"))
    parts.append(line(Verdict.WILLING, "match and are willing to run your job"))
    if found.count(Verdict.WILLING_IF_DRAINED):
        parts.append(line(Verdict.WILLING_IF_DRAINED, "would match if drained"))
    if not found.accepted:
        parts.append("\nWARNING:  Be advised:\n   No machines matched the job's constraints\n")
    elif not found.matches:
        parts.append(
            "\nWARNING:  Be advised:\n   Job did not match any machines' constraints\n"
            "   To see why, pick a machine that you think should match and add\n"
            "     -reverse -machine <name>\n   to your query.\n"
        )
    return "".join(parts)


class Alike(Struct, frozen=True):
    """What the matchmaker said of jobs that ask for the same; times in epoch seconds, 0 for never."""

    rejected_at: int = 0
    reason: str = ""
    negotiator: str = ""
    matched_at: int = 0
    running: int = 0


def state(job: ClassAd, extra: str = "") -> str:
    """What the job does that needs no match; empty for idle ones. ``extra``: what its access point says of it."""
    status = whole(job.get("JobStatus"))
    text = {2: "Job is running.", 3: "Job is removed.", 4: "Job is completed."}.get(status, "")
    if status in (6, 7):
        text = "Job is running."
    if status == 5:
        reason = job.get("HoldReason")
        text = "Job is held." + (f"\n\nHold reason: {reason}" if reason else "")
    cool = whole(job.get("JobCoolDownExpiration"))
    if status == 1 and cool > whole(job.get("ServerTime"), int(time.time())):
        text = "Job is in cool down."
    return "\n\n".join(part for part in (text, extra) if part)


def start_here(job: ClassAd, schedd: ClassAd | None) -> str:
    """Whether the access point would start a job of the scheduler or local universe."""
    if schedd is None:
        return "WARNING: A schedd ClassAd is needed to do analysis for scheduler or Local universe jobs.\n"
    condition = "StartLocalUniverse" if job.get("JobUniverse") == 12 else "StartSchedulerUniverse"
    value = schedd.eval(condition, job) if condition in schedd else None
    if not isinstance(value, bool | int | float):
        return f"This schedd's {condition} policy failed to evalute for this job.\n"
    return f"This schedd's {condition} evalutes to {'true' if value else 'false'} for this job.\n"


def totals_here(job: ClassAd, schedd: ClassAd) -> str:
    """As :func:`totals` for a job of the scheduler or local universe: the schedd is its only slot."""
    condition = "StartLocalUniverse" if job.get("JobUniverse") == 12 else "StartSchedulerUniverse"
    value = schedd.eval(condition, job) if condition in schedd else None
    found = Verdicts(slots=1)
    if isinstance(value, bool | int | float) and not value:
        found.by[Verdict.REFUSES_JOB].append("")
    return totals(job, found, None, verbose=False)


def matches(job: ClassAd, said: str, alike: Alike | None) -> str:
    """The job's state, and when it was matched and turned away last."""
    parts = [f"\n{name_of(job)}:  {said}\n\n"] if said else []
    if (failed := failed_start(job)) is not None:
        parts += [f"{line}\n" for line in failed.lines()]
    if (reason := kept_back(job)) is not None:
        parts.append(f"Kept back by its access point: {reason}\n")
    matched, rejected = whole(job.get("LastMatchTime")), whole(job.get("LastRejMatchTime"))
    if matched:
        parts.append(f"Last successful match: {time.ctime(matched)}\n")
    elif rejected:
        parts.append("No successful match recorded.\n")
    if rejected > matched:
        by = job.get("LastRejMatchNegotiator")
        parts.append(f"Last failed match: {time.ctime(rejected)}{f' from {by}' if by else ''}\n")
        if "LastRejMatchReason" in job:
            parts.append(f"Reason for last match failure: {job.get('LastRejMatchReason')}\n")
    elif alike is not None:
        if alike.rejected_at > matched:
            by = f" from {alike.negotiator}" if alike.negotiator else ""
            parts.append(f"Last failed match for this autocluster: {time.ctime(alike.rejected_at)}{by}\n")
            if alike.reason:
                parts.append(f"\tReason: {alike.reason}\n")
        if alike.matched_at:
            parts.append(f"Last successful match for this autocluster: {time.ctime(alike.matched_at)}\n")
        if alike.running:
            parts.append(f"This autocluster currently has {alike.running} running jobs.\n")
    return "".join(parts)


_SUMMARY = "{:<13} {:>12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n"


def summary_head(slots: int, machine: str | None, *, owners: bool) -> str:
    """The headings of the summary of jobs."""
    whose = f"{machine}: " if machine else ""
    rows = (
        ("", " Autocluster", "   Matches  ", "  Machine  ", "  Running  ", "  Serving ", "", ""),
        (" JobId", "Members/Idle", "Requirements", "Rejects Job", " Users Job ", "Other User", "Available",
         "Owner" if owners else ""),
        ("-" * 13, "-" * 12, "-" * 12, "-" * 11, "-" * 11, "-" * 10, "-" * 9, "-----" if owners else ""),
    )  # fmt: skip
    return f"{whose}Analyzing matches for {slots} slots\n" + "".join(_SUMMARY.format(*row) for row in rows)


def summary_row(jobs: Sequence[ClassAd], group: int | None, found: Verdicts, *, owners: bool, verbose: bool) -> str:
    """One line for jobs that are alike; ``group``: the number of their autocluster, if they have one."""
    first = jobs[0]
    statuses = [whole(job.get("JobStatus")) for job in jobs]
    running = sum(status in (2, 6, 7) for status in statuses)
    members = f"{len(jobs)}/{statuses.count(1)}" if group is not None else ""
    if verbose and group is not None:
        members = f"{group}:{members}"
    own = found.count(Verdict.OWN)
    cells = (
        f"{whole(first.get('ClusterId'))}.{whole(first.get('ProcId'))}", f"{members:<12}", found.accepted,
        found.count(Verdict.REFUSES_JOB), f"{running}/{own}" if running else str(own), found.busy - own,
        found.count(Verdict.WILLING), str(first.get("Owner", "")) if owners else "",
    )  # fmt: skip
    return _SUMMARY.format(*cells)


class OfJobs(Struct):
    """How jobs and a slot suit each other."""

    jobs: int = 0
    groups: int = 0
    #: The slot's requirements accept so many jobs; so many jobs' requirements accept the slot; both.
    accepted: int = 0
    accepting: int = 0
    both: int = 0
    #: The same of the slot as it would be if drained; None where that makes no difference.
    drained: tuple[int, int, int] | None = None


def slot_type(slot: ClassAd) -> str:
    """Part, Dyn or Stat."""
    if slot.get("DynamicSlot") is True:
        return "Dyn"
    return "Part" if slot.get("PartitionableSlot") is True else "Stat"


def slots_head(width: int) -> str:
    """The headings of the table of slots."""
    rows = (
        ("", "Slot", "Slot's Req ", "  Job's Req ", "Both   "),
        ("Name", "Type", "Matches Job", "Matches Slot", "Match %"),
        ("-" * 24, "----", "-" * 12, "-" * 12, "-" * 10),
    )
    return "".join(f"{row[0]:<{width}.{width}} {row[1]:>4} {row[2]:>12} {row[3]:>12} {row[4]:>10}\n" for row in rows)


def slots_row(slot: ClassAd, found: OfJobs, width: int) -> str:
    """One line about a slot."""
    name, share = str(slot.get("Name")), 100.0 * found.both / found.jobs if found.jobs else 0.0
    head = f"{name:<{width}.{width}} {slot_type(slot):<4}"
    return f"{head} {found.accepted:>12} {found.accepting:>12} {share:>10.2f}\n"


def reversed_(
    slot: ClassAd,
    jobs: Sequence[ClassAd],
    found: OfJobs,
    drained: ClassAd | None,
    count: Count,
    detail: Detail,
    *,
    inline_limits: bool,
) -> str:
    """A slot's Requirements over jobs. ``jobs``: one of each that are alike."""
    name = str(slot.get("Name"))
    parts = [f"\n-- Slot: {name} : Analyzing matches for {found.jobs} Jobs in {found.groups} autoclusters\n"]
    if "Requirements" in slot:
        inlined = ["Requirements"]
        # HTCondor's tool folds all that it has so far with each expression that it adds.
        text = folded(str(slot.lookup("Requirements")), 4, detail.width)
        for attribute, written in (("Start", "START"), ("WithinResourceLimits", "WithinResourceLimits")):
            if attribute in slot:
                text = folded(f"{text}\n\n  {written} is\n    {slot.lookup(attribute)}", 4, detail.width)
                inlined.append(attribute)
        parts.append(f"\nThe Requirements expression for this slot is\n\n    {text}\n\n")
        lower = frozenset(name.lower() for name in inlined)
        parts.append(steps_listed(steps_of(slot, "Requirements", lower, choices=detail.choices)) + "\n")
        parts.append("This slot defines the following attributes:\n\n" + attributes(slot, inlined))
        names = read_of_others(slot)
        if drained is not None:
            read = drained.lookup("Requirements").references(drained).my
            read += [f"TotalSlot{one}" for one in read]  # what it has then is that
            shown = sorted({one for one in read if one.lower() not in lower and one in drained}, key=str.lower)
            values = "".join(f"    {one} = {_value(drained, one, drained)}\n" for one in shown)
            parts.append(f"When drained, this slot has the following attributes:\n\n{values}")
        if len(jobs) == 1 and (values := attributes_of_other(names, jobs[0], slot)):
            whose = f"Job {whole(jobs[0].get('ClusterId'))}.{whole(jobs[0].get('ProcId'))}"
            parts.append(f"\n{whose} has the following attributes:\n\n{values}")
        parts.append("\nThe Requirements expression for this slot reduces to these conditions:\n\n")
        if not inline_limits:
            lower = frozenset({"start", "withinresourcelimits"})
        steps = steps_of(slot, "Requirements", lower, choices=detail.choices)
        judge(steps, slot, len(jobs), count)
        parts.append(counted(steps, "Cluster", drained=False, detail=detail))
    share = 100.0 * found.both / found.jobs if found.jobs else 0.0
    parts.append(
        f"\n{name}: Run analysis summary of {found.jobs} jobs.\n"
        f"{found.both:>5} ({share:.2f} %) match both slot and job requirements.\n"
        f"{found.accepted:>5} match the requirements of this slot.\n"
        f"{found.accepting:>5} have job requirements that match this slot.\n"
    )
    if found.drained is not None:
        both, accepted, accepting = found.drained
        parts.append(
            f"{both:>5} would match both slot and job requirments if the slot was drained.\n"
            f"{accepted:>5} would match the requirements of this slot when drained.\n"
            f"{accepting:>5} would have job requirements that match this slot when drained\n"
        )
    return "".join(parts)


def priorities_of(table: Mapping[str, float], requirements_text: str) -> Priorities:
    """Users' priorities with the expression of PREEMPTION_REQUIREMENTS."""
    return Priorities(
        {name: number(value) for name, value in table.items()}, ExprTree(requirements_text or "false", old=True)
    )
