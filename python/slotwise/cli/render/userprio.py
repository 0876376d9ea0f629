"""The table of priorities, as condor_userprio lays it out: headings of two lines, a rule, a line of sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.model.durations import days_and_time


class Field(Struct, frozen=True):
    """A column: two lines of heading, what a row shows, and the attribute whose sum stands below."""

    first: str
    second: str
    cell: Callable[[ClassAd, float], str]
    total: str = ""
    right: bool = True


def num(ad: ClassAd, name: str) -> float:
    """A number of the ad; 0 when it has none."""
    value = ad.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _amount(name: str, form: str = "{:.2f}", scale: float = 1.0) -> Callable[[ClassAd, float], str]:
    return lambda ad, now: form.format(num(ad, name) * scale)


def _limit(name: str, unlimited: float) -> Callable[[ClassAd, float], str]:
    return lambda ad, now: "" if num(ad, name) == unlimited else f"{num(ad, name):.0f}"


def _date(name: str) -> Callable[[ClassAd, float], str]:
    def cell(ad: ClassAd, now: float) -> str:
        at = num(ad, name)
        return datetime.fromtimestamp(at).strftime("%m/%d/%Y %H:%M") if at > 0 else "?????"

    return cell


def _idle_for(ad: ClassAd, now: float) -> str:
    if num(ad, "WeightedResourcesUsed") > 0:
        return "<now>"
    last = num(ad, "LastUsageTime")
    return days_and_time(now - last)[:-3] if last > 0 else "?????"


def quota(name: str) -> Callable[[ClassAd, float], str]:
    """A cell of groups alone."""
    return lambda ad, now: f"{num(ad, name):.2f}" if ad.get("IsAccountingGroup") is True else ""


def _real_priority(ad: ClassAd, now: float) -> str:
    factor = num(ad, "PriorityFactor") or 1.0
    return f"{num(ad, 'Priority') / factor:.2f}"


def _of_group(name: str) -> Callable[[ClassAd, float], str]:
    return lambda ad, now: f"{num(ad, name):g}" if ad.get("IsAccountingGroup") is True and name in ad else ""


FIELDS: dict[str, Field] = {
    "config_quota": Field("Config", "Quota", quota("ConfigQuota")),
    "quota": Field("Effective", "Quota", quota("EffectiveQuota")),
    "surplus": Field(
        "Use", "Surplus", lambda ad, now: str(ad.get("SurplusPolicy") or "") if ad.get("IsAccountingGroup") else ""
    ),
    "effective": Field("Effective", "Priority", _amount("Priority")),
    "real": Field("Real", "Priority", _real_priority),
    "factor": Field("Priority", "Factor", _amount("PriorityFactor")),
    "in_use": Field("Wghted", "In Use", _amount("WeightedResourcesUsed", "{:g}"), "WeightedResourcesUsed"),
    "usage": Field(
        "Total Usage",
        "(wghted-hrs)",
        _amount("WeightedAccumulatedUsage", "{:.2f}", 1 / 3600),
        "WeightedAccumulatedUsage",
    ),
    "begin": Field("Usage", "Start Time", _date("BeginUsageTime")),
    "last": Field("Last", "Usage Time", _date("LastUsageTime")),
    "since": Field("Time Since", "Last Usage", _idle_for),
    "requested": Field("Weighted", "Requested", quota("Requested")),
    "floor": Field("Submitter", "Floor", _limit("Floor", 0)),
    "ceiling": Field("Submitter", "Ceiling", _limit("Ceiling", -1)),
}
#: Columns that are shown on request only, behind the names.
EXTRA = {
    "groupid": Field("Group", "Id", _of_group("AccountingGroupId")),
    "order": Field("Group", "Order", _of_group("AccountingGroupId")),
    "sortkey": Field("Group", "Sort Key", _of_group("GroupSortKey")),
    "surplus": FIELDS["surplus"],
}
_QUOTAS = ["config_quota", "quota", "surplus"]
_SETS = {
    "default": ["effective", "factor", "in_use", "usage", "since", "floor", "ceiling"],
    "priority": ["effective", "real", "factor", "in_use", "since"],
    "usage": ["in_use", "usage", "begin", "last"],
    "quotas": [*_QUOTAS, "requested", "in_use"],
    "most": ["effective", "factor", "in_use", "usage", "begin", "since", "floor", "ceiling"],
}
_SETS["all"] = [*_QUOTAS, *(name for name in FIELDS if name not in _QUOTAS)]


def priorities_text(
    ads: Sequence[ClassAd],
    which: str,
    *,
    flat: bool,
    now: float,
    extra: Sequence[str] = (),
    groups_first: bool = False,
    width: int = 0,
) -> str:
    """The table. ``which`` names the set of columns; quotas are shown when there are groups; ``extra`` ones on request.

    Submitters are expected by effective priority, best first; without ``flat`` each group is followed by its members,
    with ``groups_first`` all groups stand before all submitters. On a terminal of ``width`` columns (0: on none) that
    the table does not fit, columns are left out from the right in which nobody has anything.
    """
    groups = [ad for ad in ads if ad.get("IsAccountingGroup") is True]
    for number, group in enumerate(sorted(groups, key=lambda ad: str(ad.get("Name")))):
        group["AccountingGroupId"] = number
    names = list(_SETS[which])
    if not groups:
        names = [name for name in names if name not in (*_QUOTAS, "requested")]
    elif which in ("default", "most"):
        names = ["quota", *names]
    fields = [EXTRA[name] for name in extra if name not in names] + [FIELDS[name] for name in names]
    if groups_first:
        above = sorted(groups, key=lambda ad: (str(ad.get("Name")).count("."), num(ad, "GroupSortKey")))
        ordered = [(ad, 0) for ad in [*above, *(ad for ad in ads if ad.get("IsAccountingGroup") is not True)]]
    else:
        ordered = [(ad, 0) for ad in ads] if flat or not groups else _by_group(ads, groups)
    rows = [["  " * depth + str(ad.get("Name")), *(f.cell(ad, now) for f in fields)] for ad, depth in ordered]
    users = [ad for ad in ads if ad.get("IsAccountingGroup") is not True]
    sums = [f"Number of users: {len(users)}", *(total_of(users, field) for field in fields)]
    first = ["Group" if groups else "User Name", *(f.first for f in fields)]
    second = ["  User Name" if groups else "", *(f.second for f in fields)]
    table = [first, second, *rows, sums]
    widths = [max(len(row[place]) for row in table) for place in range(len(first))]
    for place in range(len(first) - 1, 0, -1):
        if 0 < width < sum(widths) + len(widths) - 1 and not any(row[place] for row in [*rows, sums]):
            for row in table:
                del row[place]
            del widths[place]

    def line(cells: Sequence[str]) -> str:
        shown = [cells[0].ljust(widths[0])]
        shown += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return " ".join(shown).rstrip() + "\n"

    rule = " ".join("-" * width for width in widths) + "\n"
    updated = max((num(ad, "LastUpdate") for ad in ads), default=now)
    at = datetime.fromtimestamp(updated)
    text = f"Last Priority Update: {at.month:2d}/{at.day:<2d} {at.hour:02d}:{at.minute:02d}\n"
    return text + line(first) + line(second) + rule + "".join(map(line, rows)) + rule + line(sums)


#: What groups above add up, and how the times of those below count.
_SUMS = ("ResourcesUsed", "WeightedResourcesUsed", "AccumulatedUsage", "WeightedAccumulatedUsage")


def rolled_up(ads: Sequence[ClassAd]) -> list[ClassAd]:
    """The ads with usage of every group added to the groups above it (``-grouprollup``); the root has its own only.

    Usage begins with the first of them that has any, and lasts until the last.
    """
    groups = {
        str(ad.get("Name")).lower(): ad.copy()
        for ad in ads
        if ad.get("IsAccountingGroup") is True and ad.get("Name") != "<none>"
    }
    for name in sorted(groups, key=lambda name: -name.count(".")):
        above, below = groups.get(name.rpartition(".")[0]), groups[name]
        if above is None:
            continue
        for attribute in _SUMS:
            total = num(above, attribute) + num(below, attribute)
            above[attribute] = int(total) if attribute == "ResourcesUsed" else total
        begins = [at for ad in (above, below) if (at := int(num(ad, "BeginUsageTime"))) > 0]
        above["BeginUsageTime"] = min(begins, default=0)
        above["LastUsageTime"] = int(max(num(above, "LastUsageTime"), num(below, "LastUsageTime")))
    return [groups.get(str(ad.get("Name")).lower(), ad) if ad.get("IsAccountingGroup") is True else ad for ad in ads]


def total_of(ads: Sequence[ClassAd], field: Field) -> str:
    """The sum below a column; empty where there is none."""
    if not field.total:
        return ""
    total = sum(num(ad, field.total) for ad in ads)
    return f"{total / 3600:.2f}" if field.total == "WeightedAccumulatedUsage" else f"{total:g}"


def _by_group(ads: Sequence[ClassAd], groups: Sequence[ClassAd]) -> list[tuple[ClassAd, int]]:
    ordered: list[tuple[ClassAd, int]] = []
    names = {str(ad.get("Name")) for ad in groups}
    for group in sorted(groups, key=lambda ad: (num(ad, "GroupSortKey"), str(ad.get("Name")))):
        ordered.append((group, 0))
        ordered += [
            (ad, 1)
            for ad in ads
            if ad.get("IsAccountingGroup") is not True and ad.get("AccountingGroup") == group.get("Name")
        ]
    return ordered + [
        (ad, 0) for ad in ads if ad.get("IsAccountingGroup") is not True and ad.get("AccountingGroup") not in names
    ]
