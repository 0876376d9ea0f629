"""``slotwise userprio``: priorities and usage of submitters, and their settings (manual page of condor_userprio)."""

from __future__ import annotations

import time

import grpc
from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.classad.values import number
from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import REST, Option, Parsed, parse
from slotwise.cli.render import userprio_of_htcondor
from slotwise.cli.render.ads import chosen, json_array, json_lines, long_text, read_file, xml_text
from slotwise.cli.render.autoformat import Columns, Shape, lines, moment
from slotwise.cli.render.userprio import EXTRA, priorities_text, rolled_up
from slotwise.errors import NotFoundError, UsageError
from slotwise.model.durations import days_and_time
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, negotiator_pb2, negotiator_pb2_grpc
from slotwise.wire.status import to_error

_What = negotiator_pb2.AccountingEdit

#: Edit options: what they change, and how many words they take.
_EDITS: dict[str, tuple[negotiator_pb2.AccountingEdit.What, int]] = {
    "setprio": (_What.PRIORITY, 2),
    "setfactor": (_What.FACTOR, 2),
    "setceiling": (_What.CEILING, 2),
    "setceil": (_What.CEILING, 2),
    "setfloor": (_What.FLOOR, 2),
    "setaccum": (_What.ACCUMULATED_USAGE, 2),
    "setbegin": (_What.BEGIN_TIME, 2),
    "setlast": (_What.LAST_TIME, 2),
    "delete": (_What.DELETE, 1),
    "resetusage": (_What.RESET_USAGE, 1),
    "resetall": (_What.RESET_ALL, 0),
    "cancelfactorlease": (_What.CANCEL_FACTOR_LEASE, 1),
    "cancelceilinglease": (_What.CANCEL_CEILING_LEASE, 1),
    "cancelfloorlease": (_What.CANCEL_FLOOR_LEASE, 1),
}
_WORDS = {
    "setprio": "The priority of {0} was set to {1}",
    "setfactor": "The priority factor of {0} was set to {1}",
    "setceiling": "The ceiling of {0} was set to {1}",
    "setceil": "The ceiling of {0} was set to {1}",
    "setfloor": "The floor of {0} was set to {1}",
    "setaccum": "The accumulated usage of {0} was set to {1}",
    "setbegin": "The usage start time of {0} was set to {1}",
    "setlast": "The last usage time of {0} was set to {1}",
    "delete": "The accounting record of {0} was deleted",
    "resetusage": "The accumulated usage of {0} was reset",
    "resetall": "The accumulated usage of all submitters was reset",
    "cancelfactorlease": "The lease on the priority factor of {0} was cancelled",
    "cancelceilinglease": "The lease on the ceiling of {0} was cancelled",
    "cancelfloorlease": "The lease on the floor of {0} was cancelled",
}
#: In the words of HTCondor's tool, where they differ; {1} is a real number there, of times a whole one.
_WORDS_OF_HTCONDOR = {
    "setprio": "The priority of {0} was set to {1:f}",
    "setfactor": "The priority factor of {0} was set to {1:f}",
    "setaccum": "The Accumulated Usage of {0} was set to {1:f}",
    "setbegin": "The Begin Usage Time of {0} was set to {1:.0f}",
    "setlast": "The Last Usage Time of {0} was set to {1:.0f}",
    "delete": "The accountant record named {0} was deleted",
    "resetall": "The accumulated usage was reset for all users",
    "cancelfactorlease": "Cancelled priority-factor lease for {0}",
    "cancelceilinglease": "Cancelled ceiling lease for {0}",
    "cancelfloorlease": "Cancelled floor lease for {0}",
}
#: What HTCondor's tool calls that which is set for a time.
_LEASED = {"setfactor": "priority-factor", "setceiling": "ceiling", "setceil": "ceiling", "setfloor": "floor"}
_NO_FULL_NAME = """You must specify the full name of the submittor you wish
\tto update the {0} of (user@uid.domain or user@full.host.name){1}"""
OPTIONS = [
    Option("help", 1),
    Option("debug", 2),
    *(Option(name, len(name) if "ceil" in name else 4, count) for name, (_, count) in _EDITS.items()),
    Option("duration", 2, 1),
    Option("allusers", 4),
    Option("all", 3),
    Option("activefrom", 3, 3),
    Option("usage", 2),
    Option("quotas", 2),
    Option("surplus", 3),
    Option("priority", 2),
    Option("most", 2),
    Option("order", 1),
    Option("flat", 2),
    Option("hierarchical", 2, stands_for="hier"),
    Option("grouprollup", 6),
    Option("grouporder", 6),
    Option("groupid", 6),
    Option("sortkey", 3),
    Option("inputfile", 1, 1),
    Option("attributes", 2, 1),
    Option("xml", 3),
    Option("getreslist", 4, 1),
    Option("constraint", 3, 1),
    Option("long", 1),
    Option("json", 2),
    Option("jsonl", 5),
    Option("autoformat", 5, REST, stands_for="af"),
    Option("af", 2, REST),
    Option("modular", 3),
    Option("legacy", 3),
    Option("negotiator", 3),
    Option("collector", 3),
    Option("pool", 2, 1),
    Option("name", 1, 1),
]  # fmt: skip
_ACTIVE_S = 24 * 3600
USAGE = """usage: slotwise userprio [options] [USER ...]
  -allusers, -activefrom M D Y     who is shown (default: active in the last 24 hours)
  -all, -most, -usage, -quotas, -priority    which columns; -groupid, -order, -sortkey, -surplus: these too
  -flat, -hierarchical, -grouporder (groups first), -constraint EXPR
  -grouprollup                     groups with the sums of the groups below them
  -inputfile FILE                  ads from a file, as -long prints them
  -long, -xml, -json, -jsonl, -attributes A,B, -af[:letters] ATTRIBUTE...
  -getreslist USER                 slots of a submitter
  -setprio USER V, -setfactor USER V, -setceiling USER V, -setfloor USER V    with -duration SECONDS: for a while
  -setaccum USER S, -setbegin USER T, -setlast USER T
  -cancelfactorlease USER, -cancelceilinglease USER, -cancelfloorlease USER
  -delete USER, -resetusage USER, -resetall
  USER is the full name, user@domain, or group.user@domain."""


def main(args: list[str], inv: Invocation) -> int:
    """Show or change priorities."""
    parsed = parse(args, OPTIONS)
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    try:
        edits = [given for given in parsed.options if given.name in _EDITS]
        if edits:
            if parsed.words:
                raise UsageError(f"unexpected word {parsed.words[0]!r}", hint="--help lists the options")
            for given in edits:
                _edit(given.name, given.values, parsed, inv)
            return 0
        if parsed.has("getreslist"):
            return _slots_of(parsed.value("getreslist") or "", inv)
        return _show(parsed, inv)
    except NotFoundError as error:
        if not (inv.called and parsed.has("name")):
            raise
        inv.err(htcondor_words.failure(error, inv))
        return 0  # as HTCondor's tool
    except grpc.RpcError as error:
        raise to_error(error, peer="the negotiator") from None


def _edit(name: str, values: list[str], parsed: Parsed, inv: Invocation) -> None:
    what, _ = _EDITS[name]
    edit = negotiator_pb2.AccountingEdit(what=what)
    if values:
        if inv.called and "@" not in values[0]:
            limits = {"setfloor": "floor", "setceiling": "ceiling"}
            which = limits.get(name, "priority")
            raise UsageError(_NO_FULL_NAME.format(which, f" (not {values[0]})" if name in limits else ""))
        if "@" not in values[0] and not (name == "delete" and values[0]):
            raise UsageError(f"{values[0]!r} is not a full name", hint="write it as user@domain")
        edit.submitter = values[0]
    if len(values) > 1:
        try:
            edit.value = float(values[1])
        except ValueError:
            if inv.called and name == "setfactor":
                raise SmallFactorError from None
            raise UsageError(f"-{name} needs a number, not {values[1]!r}") from None
        if inv.called and name == "setfactor" and edit.value < 1:
            raise SmallFactorError
    duration = parsed.number("duration")
    if duration is not None:
        if name not in ("setfactor", "setceiling", "setceil", "setfloor"):
            raise UsageError("-duration goes with -setfactor, -setceiling and -setfloor only")
        if duration <= 0:
            raise UsageError("-duration needs a number of seconds above 0")
        edit.duration_s = duration
    stub = inv.stub(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
    try:
        stub.EditAccounting(edit, timeout=60)
    except grpc.RpcError as error:
        # HTCondor's negotiator makes the record, or has none to change: both are what was asked for.
        lenient = inv.called and not name.startswith("cancel")
        if not (lenient and error.code() is grpc.StatusCode.NOT_FOUND):
            raise
    if inv.called and name in _WORDS_OF_HTCONDOR:
        text = _WORDS_OF_HTCONDOR[name].format(edit.submitter, edit.value)
    else:
        text = _WORDS[name].format(*values)
    if inv.called and duration:
        number = f"{edit.value:f}" if name == "setfactor" else f"{edit.value:.0f}"
        text = f"Set {_LEASED[name]} lease on {edit.submitter} to {number}"
    inv.out(f"{text} for {duration} seconds" if duration else text)


class SmallFactorError(UsageError):
    """A priority factor below 1, in the words of HTCondor's tool."""

    bare = True

    def __init__(self) -> None:
        super().__init__("Priority factors must be greater than or equal to 1.")


def _slots_of(user: str, inv: Invocation) -> int:
    from slotwise.classad import quote

    query = common_pb2.AdQuery(
        kind="Machine",
        constraint=f"AccountingGroup == {quote(user)} || RemoteUser == {quote(user)}",
        projection=["Name", "EnteredCurrentState"],
    )
    stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
    found = [ad for chunk in stub.Query(query) if chunk.data for ad in unpack_ads(chunk.data)]
    if inv.called:
        inv.out(f"{'Resource Name':<32} {'Start Time':<12} Match Time")
        inv.out(f"{'-' * 13:<32} {'-' * 10:<12} {'-' * 10}")
        for ad in sorted(found, key=lambda ad: str(ad.get("Name"))):
            at = ad.get("EnteredCurrentState")
            began = moment(at) if isinstance(at, int) else "?????"
            lasts = days_and_time(time.time() - at)[:-3] if isinstance(at, int) else ""
            inv.out(f"{ad.get('Name')!s:<32} {began:<12} {lasts}")
        inv.out(f"{'-' * 13:<32} {'-' * 12:<12} {'-' * 12}")
        inv.out(f"Number of Resources Used: {len(found)}")
        return 0
    inv.out(f"{'Resource Name':<34} Start Time")
    for ad in sorted(found, key=lambda ad: str(ad.get("Name"))):
        at = ad.get("EnteredCurrentState")
        began = time.strftime("%m/%d/%Y %H:%M", time.localtime(at)) if isinstance(at, int) else "?????"
        inv.out(f"{ad.get('Name')!s:<34} {began}")
    inv.out(f"Number of Resources Used: {len(found)}")
    return 0


def _ask(constraint: str, inv: Invocation) -> list[ClassAd]:
    stub = inv.reading(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
    query = common_pb2.AdQuery(kind="Accounting", constraint=constraint)
    replies = stub.Accounting(query)
    return [ad for chunk in replies if chunk.data for ad in unpack_ads(chunk.data)]


def _show(parsed: Parsed, inv: Invocation) -> int:
    constraint = " && ".join(f"({text})" for text in parsed.expressions("constraint"))
    file = parsed.value("inputfile")
    rollup = parsed.has("grouprollup")
    # Sums are over all ads; what is shown of them is chosen afterwards.
    found = _ask("" if rollup else constraint, inv) if file is None else list(read_file(inv.path(file)))
    if rollup:
        found = rolled_up(found)
    if rollup or file is not None:
        found = list(chosen(found, constraint, None))
    ads = [ad for ad in found if inv.called or ad.get("Name") != "<none>"]
    since = _since(parsed)
    if parsed.words:
        wanted = {word.lower() for word in parsed.words}
        names_of = [{name := str(ad.get("Name")).lower(), name.partition("@")[0]} for ad in ads]
        if inv.called and not wanted <= set().union(*names_of):
            inv.err("Not all user(s) found in collector, querying negotiator...")
        ads = [ad for ad, names in zip(ads, names_of, strict=True) if names & wanted]
        since = None
        if inv.called and not ads:
            return 0
    elif since is not None:
        ads = [ad for ad in ads if _active(ad, since, groups=not inv.called or parsed.has("af"))]
    ads.sort(key=lambda ad: (number(ad.get("Priority")), _name_in_group(ad) if inv.called else str(ad.get("Name"))))
    attributes = (parsed.value("attributes") or "").replace(",", " ").split() or None
    if parsed.has("long") or parsed.has("xml"):
        inv.stdout.write(long_text(ads, attributes) if parsed.has("long") else xml_text(ads, attributes))
        return 0
    if parsed.has("json") or parsed.has("jsonl"):
        array = json_array(ads, attributes)
        inv.stdout.write(array if parsed.has("json") else json_lines(array))
        return 0
    af = parsed.all("af")
    if af:
        columns = Columns([name for given in af for name in given.values])
        shape = Shape.parse("".join(given.letters for given in af))
        if inv.called:  # HTCondor's tool has no ids of ads, and passes the letter j over
            shape = replace(shape, job_id=False)
        for line in lines(ads, columns, shape, lambda ad: str(ad.get("Name"))):
            inv.stdout.write(line)
        return 0
    if inv.called:
        shapes = ("all", "most", "usage", "quotas", "priority", "surplus", "groupid", "order", "sortkey")
        which = [name for name in shapes if parsed.has(name)] or ["default"]
        inv.stdout.write(userprio_of_htcondor.table(ads, which, flat=parsed.has("flat"), now=time.time(), since=since))
        return 0
    shown = next((name for name in ("all", "most", "usage", "quotas", "priority") if parsed.has(name)), "default")
    extra = [name for name in EXTRA if parsed.has(name)]
    table = priorities_text(
        ads,
        shown,
        flat=parsed.has("flat"),
        now=time.time(),
        extra=extra,
        groups_first=parsed.has("grouporder"),
        width=inv.screen,
    )
    inv.stdout.write(table)
    return 0


def _since(parsed: Parsed) -> float | None:
    """Usage since when makes a submitter shown; None: all are."""
    if parsed.has("allusers"):
        return None
    given = parsed.all("activefrom")
    if not given:
        return time.time() - _ACTIVE_S
    try:
        month, day, year = (int(word) for word in given[-1].values)
        return time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))
    except (ValueError, OverflowError):
        raise UsageError("-activefrom needs month, day and year as numbers") from None


def _name_in_group(ad: ClassAd) -> str:
    """The name without that of the group."""
    return str(ad.get("Name")).removeprefix(f"{ad.get('AccountingGroup')}.")


def _active(ad: ClassAd, since: float, *, groups: bool) -> bool:
    """Whether the ad is shown; ``groups``: those of groups always are."""
    if ad.get("IsAccountingGroup") is True:
        return groups
    in_use = number(ad.get("WeightedResourcesUsed")) > 0 and since <= time.time()
    return in_use or number(ad.get("LastUsageTime")) >= since
