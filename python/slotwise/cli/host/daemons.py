"""``slotwise off`` and ``slotwise on``: stop daemons of a machine as softly as is wanted, and start them again."""

from __future__ import annotations

import json

from msgspec import Struct

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.host.masters import Target, send, targets
from slotwise.errors import UsageError
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

_MODES = ("graceful", "fast", "peaceful")
_KINDS = ("startd", "schedd", "negotiator", "collector", "starter", "master")
_OPTIONS = [
    Option("help", 1),
    *(Option(mode, 1) for mode in _MODES),
    Option("daemon", 1, 1),
    Option("subsystem", 3, 1, stands_for="daemon"),
    *(Option(kind, 6) for kind in _KINDS),
    Option("wait", 1),
    Option("json", 1),
    Option("pool", 2, 1),
    Option("name", 1, 1),
    Option("all", 1),
    Option("constraint", 1, 1),
    Option("exec", 1, 1),
    Option("clear", 2),
]
_OFF_USAGE = """usage: slotwise off [options] [HOST ...]
  Stops daemons; the master stays and does not start them again until `slotwise on`. Without a host: this one's.
  -graceful      jobs may use their retirement and vacate times (default); after SHUTDOWN_GRACEFUL_TIMEOUT as -fast
  -fast          jobs are killed
  -peaceful      jobs may run as long as they like, unless MaxJobRetirementTime is -1 for them
  -daemon NAME, or -startd, -schedd, -negotiator, -collector, -starter, -master: only these; default all but the master
  -wait          return when they have ended
  -all, -constraint EXPR         on every host of the pool, or those for whose masters' ads it is true
  -json          print what was sent for programs"""
_ON_USAGE = """usage: slotwise on [-daemon NAME | -startd ...] [-all | -constraint EXPR] [-json] [HOST ...]
  Starts daemons that `slotwise off` stopped; those that are still stopping start again when they have ended."""
_SHUTDOWN_USAGE = """usage: slotwise set-shutdown -exec NAME | -clear [-all | -constraint EXPR] [HOST ...]
  Chooses the program that a host's master runs when it ends: the one that MASTER_SHUTDOWN_<NAME> names there.
  -clear         none, but for DEFAULT_MASTER_SHUTDOWN_SCRIPT"""


class Sent(Struct, frozen=True):
    """What a host's master was told; ``mode``: how daemons stop, empty where they start."""

    host: str
    command: str
    mode: str
    daemons: list[str]

    def row(self) -> dict[str, str | list[str]]:
        """The same for programs."""
        return {"Host": self.host, "Command": self.command, "Mode": self.mode, "Daemons": self.daemons}


def off(args: list[str], inv: Invocation) -> int:
    """Stop daemons."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(_OFF_USAGE)
        return 0
    modes = [mode for mode in _MODES if parsed.has(mode)]
    if len(modes) > 1:
        raise UsageError("the options exclude each other: " + ", ".join(f"-{mode}" for mode in modes))
    mode = modes[0] if modes else "graceful"
    names = _daemons(parsed)
    number = mode.upper()
    others = [name for name in names if name != "master"]
    sent: list[Sent] = []
    for target in _targets(parsed, inv):
        if "master" in names:
            request = daemon_pb2.ShutdownRequest(mode=number)
            send(target, target.inv.stub(daemon_pb2_grpc.DaemonStub, "master").Shutdown, request)
        if others or not names:
            stop = daemon_pb2.StopRequest(names=others, mode=number, at_once=not parsed.has("wait"))
            send(target, target.inv.stub(daemon_pb2_grpc.MasterStub, "master").StopDaemons, stop)
        sent.append(Sent(target.name or "this machine", "off", mode, names))
    return _report(parsed, inv, sent)


def on(args: list[str], inv: Invocation) -> int:
    """Start daemons that were stopped."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(_ON_USAGE)
        return 0
    if any(parsed.has(mode) for mode in _MODES):
        raise UsageError("on has no kinds", hint="slotwise on [-daemon NAME] [HOST]")
    names = _daemons(parsed)
    sent = []
    for target in _targets(parsed, inv):
        request = daemon_pb2.DaemonNames(names=names)
        send(target, target.inv.stub(daemon_pb2_grpc.MasterStub, "master").StartDaemons, request)
        sent.append(Sent(target.name or "this machine", "on", "", names))
    return _report(parsed, inv, sent)


def set_shutdown(args: list[str], inv: Invocation) -> int:
    """Choose the program that runs when a master ends."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(_SHUTDOWN_USAGE)
        return 0
    program = parsed.value("exec")
    if (program is None) is not parsed.has("clear"):
        raise UsageError("which program?", hint="-exec NAME, or -clear for none")
    sent = []
    for target in _targets(parsed, inv):
        stub = target.inv.stub(daemon_pb2_grpc.MasterStub, "master")
        send(target, stub.SetShutdownProgram, daemon_pb2.ShutdownProgram(name=program or ""))
        sent.append(target.name or "this machine")
    if parsed.has("json"):
        inv.out(json.dumps([{"Host": host, "Program": program} for host in sent]))
        return 0
    for host in sent:
        inv.out(f"The master of {host} runs {program or 'no program'} when it ends")
    return 0


def _daemons(parsed: Parsed) -> list[str]:
    named = [given.values[0].lower() for given in parsed.all("daemon")]
    return list(dict.fromkeys([*named, *(kind for kind in _KINDS if parsed.has(kind))]))


def _targets(parsed: Parsed, inv: Invocation) -> list[Target]:
    """The hosts that are meant, each with a call that goes to its master."""
    names = [*parsed.words, *(given.values[0] for given in parsed.all("name"))]
    constraint = " && ".join(f"({text})" for text in parsed.expressions("constraint"))
    if names and (parsed.has("all") or constraint):
        raise UsageError("-all and -constraint choose the hosts themselves", hint="leave the names away")
    return list(targets("master", names, parsed.has("all"), constraint, inv.aimed(parsed.value("pool"))))


def _report(parsed: Parsed, inv: Invocation, sent: list[Sent]) -> int:
    if parsed.has("json"):
        inv.out(json.dumps([each.row() for each in sent]))
        return 0
    for each in sent:
        what = " and ".join(each.daemons) or "all daemons but the master"
        how = f" ({each.mode})" if each.mode else ""
        inv.out(f"Told the master of {each.host} to turn {each.command} {what}{how}")
    return 0
