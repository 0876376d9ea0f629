"""The table of priorities as ``condor_userprio`` lays it out, where ``slotwise userprio`` shows more.

Groups have rows only when they are asked for (``-allusers``) or were active; then their members stand below them
without the group's name. What is not known is left empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slotwise.classad import ClassAd
from slotwise.cli.render.userprio import EXTRA, FIELDS, Field, num, quota, total_of
from slotwise.model.durations import days_and_time

_SUBTREE = Field("Subtree", "Quota", quota("SubtreeQuota"))
_REQUESTED = Field("Weighted", "Requested", lambda ad, now: f"{num(ad, 'Requested'):g}" if is_group(ad) else "")
_USERS = ("effective", "factor", "in_use", "usage", "since", "floor", "ceiling")
_COLUMNS = {
    "default": _USERS,
    "most": _USERS,
    "all": ("effective", "real", "factor", "in_use", "usage", "begin", "last", "since", "floor", "ceiling"),
    "priority": ("effective", "real", "factor"),
    "usage": ("in_use", "usage", "begin", "last"),
    "quotas": ("quota", "config_quota", "surplus", "subtree", "requested"),
    "surplus": ("surplus",),
    "groupid": ("groupid",),
    "order": ("order",),
    "sortkey": ("sortkey",),
}
_POLICIES = {"byquota": "yes", "regroup": "Regroup"}
_SURPLUS = Field(
    "Use", "Surplus", lambda ad, now: _POLICIES.get(str(ad.get("SurplusPolicy")), "no") if is_group(ad) else ""
)
_OWN = {"surplus": _SURPLUS, "subtree": _SUBTREE, "requested": _REQUESTED}
_GROUPS_ALONE = ("quotas", "surplus")
#: The order of columns where several sets of them are shown.
_ORDER = (
    "quota", "config_quota", "surplus", "subtree", "effective", "real", "factor", "in_use", "usage", "begin", "last",
    "since", "requested", "floor", "ceiling", "groupid", "order", "sortkey",
)  # fmt: skip
_WITH_GROUPS = ("default", "most", "all")


def is_group(ad: ClassAd) -> bool:
    """Whether the ad is a group's."""
    return ad.get("IsAccountingGroup") is True


def table(ads: Sequence[ClassAd], which: Sequence[str], *, flat: bool, now: float, since: float | None) -> str:
    """The table, with the columns of each of the sets in ``which``.

    :param since: when usage must have been at last for a row, as a time; None: all rows are there.
    """
    wanted = {name for one in which for name in _COLUMNS[one]}
    names = list(_COLUMNS[which[0]]) if len(which) == 1 else [name for name in _ORDER if name in wanted]
    _add_up_requests(ads)
    users = [ad for ad in ads if not is_group(ad)]
    groups = [ad for ad in ads if is_group(ad)]
    alone = all(one in _GROUPS_ALONE for one in which)
    both = bool(groups) and any(one in _WITH_GROUPS for one in which)
    if both:
        wanted = {"config_quota", "surplus", "requested", *names}
        names = [name for name in _ORDER if name in wanted]
    fields = [_OWN.get(name) or FIELDS.get(name) or EXTRA[name] for name in names]
    if alone:
        rows = [[str(ad.get("Name")), *_cells(ad, names, fields, now)] for ad in sorted(groups, key=_by_name)]
    elif both:
        rows = [[label, *_cells(ad, names, fields, now)] for label, ad in _members(groups, users, flat=flat)]
    else:
        rows = [[str(ad.get("Name")), *_cells(ad, names, fields, now)] for ad in users]
    last = [f"Number of users: {len(users)}"]
    for name, field in zip(names, fields, strict=True):
        last.append(_last_cell(name, field, users, now, since))
    if alone:
        heads = ("Group", "Name") if rows else ("", "Group Name")
    else:
        heads = ("Group", "  User Name") if both and not flat else ("", "User Name")
    headings = [[heads[0], *(f.first for f in fields)], [heads[1], *(f.second for f in fields)]]
    return _laid_out(headings, rows, last, max((num(ad, "LastUpdate") for ad in ads), default=now))


def _add_up_requests(ads: Sequence[ClassAd]) -> None:
    """What the group of all others, the root, asks for contains what groups below it do."""
    below = sum(num(ad, "Requested") for ad in ads if is_group(ad) and ad.get("Name") != "<none>")
    for ad in ads:
        if ad.get("Name") == "<none>":
            ad["Requested"] = num(ad, "Requested") + below


def _by_name(ad: ClassAd) -> str:
    return str(ad.get("Name"))


def _members(groups: Sequence[ClassAd], users: Sequence[ClassAd], *, flat: bool) -> list[tuple[str, ClassAd]]:
    """Each group with those who are in it; the group of all others, ``<none>``, is the last."""
    found: list[tuple[str, ClassAd]] = []
    for group in sorted(groups, key=lambda ad: (ad.get("Name") == "<none>", _by_name(ad))):
        name = str(group.get("Name"))
        found.append((name, group))
        for user in users:
            if str(user.get("AccountingGroup") or "<none>") == name:
                label = str(user.get("Name"))
                found.append((label if flat else f"  {label.removeprefix(f'{name}.')}", user))
    return found


def _cells(ad: ClassAd, names: Sequence[str], fields: Sequence[Field], now: float) -> list[str]:
    unused = num(ad, "LastUsageTime") <= 0 and not num(ad, "WeightedResourcesUsed")
    cells = []
    for name, field in zip(names, fields, strict=True):
        text = field.cell(ad, now)
        if "?" in text or (name == "effective" and is_group(ad)):
            text = ""
        if name in ("in_use", "usage") and unused and not is_group(ad):
            text = ""
        cells.append(text)
    return cells


def _last_cell(name: str, field: Field, users: Sequence[ClassAd], now: float, since: float | None) -> str:
    if name == "surplus":
        return "ByQuota"
    if name == "last":
        return datetime.fromtimestamp(since).strftime("%m/%d/%Y %H:%M") if since else ""
    if name == "since":
        return (days_and_time(now - since)[:-3] if since <= now else "<now>") if since else ""
    return total_of(users, field)


def _laid_out(headings: list[list[str]], rows: list[list[str]], last: list[str], updated: float) -> str:
    widths = [max(len(row[place]) for row in (*headings, *rows, last)) for place in range(len(last))]

    def line(cells: Sequence[str], *, centred: bool = False) -> str:
        rest = zip(cells[1:], widths[1:], strict=True)
        shown = [cells[0].ljust(widths[0]), *(c.center(w) if centred else c.rjust(w) for c, w in rest)]
        return " ".join(shown).rstrip() + "\n"

    rule = " ".join("-" * width for width in widths) + "\n"
    at = datetime.fromtimestamp(updated)
    text = f"Last Priority Update: {at.month:2d}/{at.day:<2d} {at.hour:02d}:{at.minute:02d}\n"
    text += "".join(line(row, centred=True) for row in headings) + rule
    return text + "".join(map(line, rows)) + rule + line(last)
