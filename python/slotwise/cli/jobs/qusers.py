"""``slotwise qusers``: the users and the projects of an access point (manual page of condor_qusers)."""

from __future__ import annotations

import time

import grpc

from slotwise.classad import ClassAd, new_syntax, quote
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.render import daily_usage, output_format
from slotwise.cli.render.output_format import Form
from slotwise.cli.render.printas import Scene
from slotwise.cli.render.printformat import parse as print_format
from slotwise.errors import DeniedError, InUseError, NotFoundError, SlotwiseError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

_What = schedd_pb2.UsersEdit
#: What the commands do, as options or as the first word, and the attributes that they set besides.
_COMMANDS: dict[str, tuple[schedd_pb2.UsersEdit.What, dict[str, str]]] = {
    "add": (_What.ADD, {}),
    "enable": (_What.ENABLE, {}),
    "disable": (_What.DISABLE, {}),
    "suspend": (_What.DISABLE, {"MaxJobsRunning": "0"}),
    "unsuspend": (_What.ENABLE, {"MaxJobsRunning": "undefined"}),
    "edit": (_What.EDIT, {}),
    "remove": (_What.REMOVE, {}),
}
#: First words that stand for them.
_WORDS = {"add": "add", "enable": "enable", "disable": "disable", "edit": "edit"} | dict.fromkeys(
    ("remove", "rm", "delete"), "remove"
)
#: The exit status when the access point refuses: in HTCondor, the number of its error.
_REFUSALS: dict[type[SlotwiseError], int] = {NotFoundError: 2, DeniedError: 1, InUseError: 16}
OPTIONS = [
    *output_format.options(json=4, jsonl=5),
    Option("help", 1),
    Option("version", 1),
    Option("debug", 3),
    Option("user", 1, 1),
    Option("add", 3),
    Option("enable", 2),
    Option("disable", 2),
    Option("suspend", 3),
    Option("unsuspend", 3),
    Option("remove", 3),
    Option("rm", stands_for="remove"),
    Option("delete", 2, stands_for="remove"),
    Option("edit", 2),
    Option("reason", 2, 1),
    Option("projects", 4),
    Option("usage", 2),
    Option("daily", 2),
    Option("wide", 1),
    Option("pool", 1, 1),
    Option("name", 1, 1),
    Option("constraint", 1, 1),
]
USAGE = f"""usage: slotwise qusers [options] [USER ...]
       slotwise qusers -add | -enable | -disable [-reason TEXT] | -remove  [-projects] NAME ...
       slotwise qusers -edit [-projects] NAME ... ATTRIBUTE=EXPRESSION ...
  -user USER                       as USER
  -constraint EXPR                 those for whom it is true; not with -add
  -suspend, -unsuspend             as -disable and -enable, with MaxJobsRunning 0 and without it
  -remove                          users whose jobs are in the queue are disabled instead
  -edit                            MaxJobsRunning=N: how many jobs may run; ATTRIBUTE=delete: it goes
  -projects                        projects instead of users, where PERSISTENT_PROJECT_RECORDS is on
  -usage                           what jobs used that have left the queue
  -daily                           starts, holds and time on slots in the last hours and days
  -pool HOST, -name SCHEDD
{output_format.USAGE}"""

_USERS = """SELECT
  User AS USER WIDTH AUTO
  OsUser AS OS_USER WIDTH AUTO
  {"no","yes"}[int(Enabled?:false)] AS ENABLED WIDTH AUTO OR _
  MaxJobsRunning?:"default" AS MAX_RUN WIDTH AUTO
  NumIdle AS 'JOBS:Idle' WIDTH AUTO PRINTF %9d
  NumRunning AS Running WIDTH AUTO PRINTF %7d
  NumHeld AS '   Held' WIDTH AUTO PRINTF %7d
  (TotalRemovedJobs?:0) + NumRemoved AS Removed WIDTH AUTO PRINTF %7d
  (TotalCompletedJobs?:0) + NumCompleted AS Completed WIDTH AUTO PRINTF %9d
"""
_USAGE = """SELECT
  User AS USER WIDTH AUTO
  TotalCompletedJobs?:0 AS Completed WIDTH AUTO PRINTF %9d
  CompletedJobsSlotTime AS '  SlotTime' PRINTF %T OR ' '
  CompletedJobsCpuTime AS '  CpuTime' PRINTF %T OR ' '
  TotalRemovedJobs?:0 AS Removed WIDTH AUTO PRINTF %7d
  RemovedJobsCpuTime AS RmvdCpuTime PRINTF %T OR ' '
  RemovedJobsSlotTime AS RmvdSlotTime PRINTF %T OR ' '
  NumCompleted+NumRemoved AS Pending WIDTH AUTO PRINTF %7d
  NumIdle AS Idle WIDTH AUTO PRINTF %4d
  NumRunning AS Running WIDTH AUTO PRINTF %7d
  NumHeld AS Held WIDTH AUTO PRINTF %4d
"""
_PROJECTS = """SELECT
  Name?:User AS NAME WIDTH AUTO
  NumIdle AS 'JOBS:Idle' WIDTH AUTO PRINTF %9d
  NumRunning AS Running WIDTH AUTO PRINTF %7d
  NumHeld AS '   Held' WIDTH AUTO PRINTF %7d
  TotalCompletedJobs?:0 AS Completed WIDTH AUTO PRINTF %9d
  CompletedJobsSlotTime AS '  SlotTime' PRINTF %T OR ' '
  CompletedJobsCpuTime AS '  CpuTime' PRINTF %T OR ' '
  TotalRemovedJobs?:0 AS Removed WIDTH AUTO PRINTF %7d
  RemovedJobsCpuTime AS RmvdCpuTime PRINTF %T OR ' '
  RemovedJobsSlotTime AS RmvdSlotTime PRINTF %T OR ' '
  NumCompleted+NumRemoved AS Pending WIDTH AUTO PRINTF %7d
"""
_PROJECTS_USAGE = """SELECT
  Name?:User AS NAME WIDTH AUTO
  TotalCompletedJobs?:0 AS Completed WIDTH AUTO PRINTF %9d
  CompletedJobsSlotTime AS '  SlotTime' PRINTF %T OR ' '
  CompletedJobsCpuTime AS '  CpuTime' PRINTF %T OR ' '
  TotalRemovedJobs?:0 AS Removed WIDTH AUTO PRINTF %7d
  RemovedJobsCpuTime AS RmvdCpuTime PRINTF %T OR ' '
  RemovedJobsSlotTime AS RmvdSlotTime PRINTF %T OR ' '
  NumCompleted+NumRemoved AS Pending WIDTH AUTO PRINTF %7d
  NumIdle AS Idle WIDTH AUTO PRINTF %4d
  NumRunning AS Running WIDTH AUTO PRINTF %7d
  NumHeld AS Held WIDTH AUTO PRINTF %4d
"""


def main(args: list[str], inv: Invocation) -> int:
    """Show the users or the projects of an access point, or change their records."""
    parsed = parse(args, OPTIONS)
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    given = [option.name for option in parsed.options if option.name in _COMMANDS]
    words = list(parsed.words)
    if not given and words and words[0] in _WORDS:
        given.append(_WORDS[words.pop(0)])
    if len(set(given)) > 1:
        raise UsageError(f"-{given[0]} and -{given[1]} exclude each other")
    try:
        stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
        if given:
            return _change(given[0], words, parsed, inv, stub)
        return _show(words, parsed, inv, stub)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None


def _change(command: str, words: list[str], parsed: Parsed, inv: Invocation, stub: schedd_pb2_grpc.ScheddStub) -> int:
    what, edits = _COMMANDS[command]
    request = schedd_pb2.UsersEdit(what=what, set=edits, reason=parsed.value("reason") or "")
    whose = "users"
    if parsed.has("projects"):
        request.kind, whose = "Project", "projects"
        if _with_users(parsed):
            raise UsageError(f"-projects:also goes with queries, not with -{command}")
    if request.reason and what not in (_What.DISABLE, _What.REMOVE):
        raise UsageError("-reason goes with -disable and -remove only")
    request.names.extend(one.values[0] for one in parsed.all("user"))
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            request.names.append(word)
        elif what in (_What.ADD, _What.REMOVE):
            raise UsageError(f"{word}: attributes go with -edit, -disable and -enable only")
        else:
            request.set[name.strip()] = new_syntax(text.strip())
    request.constraint = " && ".join(f"({text})" for text in parsed.expressions("constraint"))
    if what == _What.EDIT and not request.set:
        raise UsageError("no attributes were given", hint="write ATTRIBUTE=EXPRESSION after the users")
    try:
        reply = stub.EditUsers(request, timeout=60)
    except grpc.RpcError as failure:
        error: SlotwiseError = to_error(failure, peer="the schedd")
        for kind, status in _REFUSALS.items():
            if isinstance(error, kind):
                # HTCondor's tool says it on standard output.
                (inv.out if inv.called else inv.err)(f"{command} failed: {error}")
                return status
        raise error from None
    for warning in reply.warnings:
        inv.err(f"WARNING: {warning}")
    counted = "" if inv.called else f"{reply.changed} {whose}"
    inv.out(f"{command} {'succeeded' if reply.changed else 'did nothing'}: {counted}")
    return 0


def _show(words: list[str], parsed: Parsed, inv: Invocation, stub: schedd_pb2_grpc.ScheddStub) -> int:
    if strange := [word for word in words if "=" in word]:
        raise UsageError(f"{strange[0]}: attributes go with -edit, -disable and -enable only")
    form = Form.of(parsed, inv)
    constraints = [f"({text})" for text in parsed.expressions("constraint")]
    names = [*(one.values[0] for one in parsed.all("user")), *words]
    kind = "Owner"
    if parsed.has("projects"):
        kind = "Owner,Project" if _with_users(parsed) else "Project"
    if names:
        listed = quote(",".join(names))
        which = [] if kind == "Project" else ["Owner", "User"]
        which += ["Name"] if kind != "Owner" else []
        members = (f"(stringListIMember({attribute}, {listed}) ?: false)" for attribute in which)
        constraints.append(f"({' || '.join(members)})")
    query = common_pb2.AdQuery(kind=kind, constraint=" && ".join(constraints))
    ads = [ad for chunk in stub.Users(query) if chunk.data for ad in unpack_ads(chunk.data)]
    if form.limit:
        ads = ads[: form.limit]
    scene = Scene(time.time())
    if form.kind != "table":
        form.write(ads, inv, _name, scene)
        return 0
    if parsed.has("daily"):
        inv.stdout.write(daily_usage.table(ads, scene.now, rescale=_word(parsed, "daily", "rescale")))
        return 0
    tables = (_USERS, _USAGE) if kind == "Owner" else (_PROJECTS, _PROJECTS_USAGE)
    layout = print_format(tables[parsed.has("usage")])
    inv.stdout.write(layout.with_items(form.more).text(ads, scene))
    return 0


def _name(ad: ClassAd) -> str:
    return str(ad.get("User") or ad.get("Name"))


def _with_users(parsed: Parsed) -> bool:
    """Whether -projects asks for users as well."""
    return _word(parsed, "projects", "also")


def _word(parsed: Parsed, option: str, known: str) -> bool:
    """Whether an option has the one word that it knows behind its colon.

    :raises UsageError: for another one.
    """
    word = parsed.all(option)[-1].letters.lower()
    if word not in ("", known):
        raise UsageError(f"-{option}:{word}: the word after the colon can only be {known}")
    return word == known
