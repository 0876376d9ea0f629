"""``condor_off``, ``condor_on``, ``condor_restart``, ``condor_reconfig`` and ``condor_set_shutdown``: HTCondor's one
tool for daemons with five names, in its words. Words of the call are hosts.
"""

from __future__ import annotations

import grpc
from msgspec import Struct

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.host.masters import Target, send, targets
from slotwise.errors import AdSyntaxError, NotFoundError, SlotwiseError, UsageError
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc, startd_pb2, startd_pb2_grpc
from slotwise.wire.status import to_error

_KINDS = ("master", "startd", "schedd", "collector", "negotiator", "kbdd")
_MODES = ("graceful", "fast", "peaceful")
_LEAST = {"negotiator": 3, "collector": 3, "schedd": 2, "startd": 2, "master": 1, "kbdd": 1}
_OPTIONS = [
    Option("help", 1),
    Option("version", 1),
    Option("debug", 1),
    Option("graceful", 1),
    Option("fast", 2),
    Option("peaceful", 2),
    Option("force-graceful", 2),
    Option("pool", 1, 1),
    Option("daemon", 2, 1),
    Option("subsystem", 2, 1, stands_for="daemon"),
    *(Option(kind, _LEAST[kind]) for kind in _KINDS),
    Option("name", 2, 1),
    Option("addr", 2, 1),
    Option("all", 2),
    Option("constraint", 3, 1),
    Option("drain", 2),
    Option("quick", 1),
    Option("reason", 3, 1),
    Option("check", 2, 1),
    Option("start", 5, 1),
    Option("exec", 2, 1),
]
#: What happens once a machine is drained.
_AFTER_DRAIN = {"off": "exit", "restart": "restart", "reconfig": "reconfig"}


class _SaidError(UsageError):
    """Said in the words of HTCondor's tool."""

    bare = True


class _Order(Struct, frozen=True):
    """What is to be done."""

    verb: str
    #: The daemon that is named; empty: all of a host.
    daemon: str
    #: As it was typed.
    spelled: str
    mode: str
    parsed: Parsed


def off(args: list[str], inv: Invocation) -> int:
    """Stop daemons."""
    return _run("off", args, inv)


def on(args: list[str], inv: Invocation) -> int:
    """Start daemons."""
    return _run("on", args, inv)


def restart(args: list[str], inv: Invocation) -> int:
    """Restart daemons."""
    return _run("restart", args, inv)


def reconfig(args: list[str], inv: Invocation) -> int:
    """Have daemons read their configuration again."""
    return _run("reconfig", args, inv)


def set_shutdown(args: list[str], inv: Invocation) -> int:
    """Choose the program that runs when a master ends."""
    return _run("set_shutdown", args, inv)


def _run(verb: str, args: list[str], inv: Invocation) -> int:
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.err(_help(verb, inv.called))
        return 0
    if parsed.has("version"):
        return htcondor_words.version(inv)
    order = _order(verb, parsed, inv)
    names = [*parsed.words, *(given.values[0] for given in parsed.options if given.name in ("name", "addr"))]
    constraint = parsed.value("constraint") or ""
    if constraint and names:
        raise _SaidError(
            "ERROR: use of -constraint or -annex conflicts with other arguments containing names or addresses.\n"
            "You can change the constraint to select daemons by name by adding\n"
            '  (NAME == "daemon-name" || MACHINE == "daemon-name")\nto your constraint.\n'
            'Use "-help" to see usage information'
        )
    if parsed.has("pool") and not names and not parsed.has("all") and not constraint:
        raise _SaidError(
            "ERROR: You have asked to find a machine in another pool (with\nthe -pool option) but you have not "
            "specified which machine.\nPlease also use -addr, -name, or list the name(s).\n"
            "For more information, use -help."
        )
    kind = order.daemon if order.daemon and order.verb in ("restart", "reconfig") else "master"
    aimed = inv.aimed(parsed.value("pool"))
    try:
        found = list(targets(kind, names, parsed.has("all"), constraint, aimed))
    except AdSyntaxError:
        return _none(kind, constraint, "ERROR: can't connect to local collector", inv)
    except NotFoundError:
        return _none(kind, constraint, "Found no ClassAds when querying pool (local)", inv)
    status = 0
    missing: list[str] = []
    for target in found:
        try:
            inv.out(_send(order, target, inv), end="")
        except NotFoundError as error:
            if not target.name or not error.message.startswith("the pool has no"):
                raise
            inv.err(f"Can't find address for {kind} {target.name}")
            missing.append(target.name)
        except SlotwiseError as error:
            inv.err(f"ERROR\n{error}\nCan't send {_command(order)} command to {_shown(kind, target)}")
            status = 1
    for name in missing:
        inv.err(f"Can't find address for {name}")
    if missing:
        inv.err("Perhaps you need to query another pool.")
    return 1 if missing else status


#: What each name does, and the options that it alone has, or not all.
_DOES = {
    "off": "Stops all daemons but the master, or the one that is named; -daemon master: the master, too.",
    "on": "Starts all daemons that were stopped, or the one that is named.",
    "restart": "Restarts all daemons, or the one that is named.",
    "reconfig": "Has all daemons read the configuration again, or the one that is named.",
    "set_shutdown": "Has the master run the program of MASTER_SHUTDOWN_<NAME> when it ends.",
}
_HOW = {
    "off": """  -graceful             running jobs are vacated (as without an option)
  -fast                 running jobs are killed
  -peaceful             running jobs come to their end first
  -force-graceful       the same as -graceful, also where -peaceful was ordered before
""",
    "restart": """  -graceful, -fast, -peaceful
                        running jobs are vacated, killed, or come to their end first
""",
    "set_shutdown": "  -exec NAME            the program\n",
}
_DRAIN = """  -drain                drain the machine before; with -quick, -reason TEXT, -check EXPR, -start EXPR
"""
_WHICH = """Which hosts (without one: this host)
  NAME, -name NAME, -addr ADDRESS
  -all                  all of the pool
  -constraint EXPR      those whose daemon's ad satisfies it
  -pool HOST:PORT       of another pool
"""


def _help(verb: str, called: str) -> str:
    how = _HOW.get(verb, "") + (_DRAIN if verb in _AFTER_DRAIN else "")
    daemon = (
        "" if verb == "set_shutdown" else f"Which daemon\n  -daemon NAME, {', '.join(f'-{kind}' for kind in _KINDS)}\n"
    )
    text = f"Usage: {called} [options] [HOST ...]\n{_DOES[verb]}\n"
    return text + (f"How\n{how}" if how else "") + f"{_WHICH}{daemon}Others\n  -version, -debug"


def _order(verb: str, parsed: Parsed, inv: Invocation) -> _Order:
    named = [given.values[0] for given in parsed.all("daemon")] + [kind for kind in _KINDS if parsed.has(kind)]
    if verb == "set_shutdown" and named:
        raise _SaidError(f"ERROR: Can't specify a daemon flag with {inv.called}.")
    if len(named) > 1:
        raise _SaidError("ERROR: can only specify one daemon flag.")
    modes = [given.name for given in parsed.options if given.name in (*_MODES, "force-graceful")]
    valid = {"off": (*_MODES, "force-graceful"), "restart": _MODES}.get(verb, ("graceful",))
    for mode in modes:
        if mode not in valid:
            raise _SaidError(f'ERROR: "-{mode}" is not valid with {inv.called}\nUse "-help" to see usage information')
    for option in ("drain", "quick", "reason", "check", "start"):
        if parsed.has(option) and (verb not in _AFTER_DRAIN or (option != "drain" and not parsed.has("drain"))):
            raise _SaidError(f'ERROR: invalid argument "-{option}"')
    if parsed.has("exec") and verb != "set_shutdown":
        raise _SaidError(
            f'ERROR: "-exec" is not valid with {inv.called}: choose the program with condor_set_shutdown -exec first'
        )
    if verb == "set_shutdown":
        if not parsed.has("exec"):
            raise _SaidError(f'ERROR: "-exec" required for {inv.called}\nUse "-help" to see usage information')
        inv.out(f"Set exec to {parsed.value('exec')}")
    spelled = named[0] if named else ""
    mode = modes[-1] if modes else "graceful"
    return _Order(verb, spelled.lower(), spelled, mode, parsed)


def _none(kind: str, constraint: str, why: str, inv: Invocation) -> int:
    """What is said when no daemon of the pool is meant."""
    how = f"for constraint '{constraint}'" if constraint else "for -all"
    inv.err(f"{why}\nCan't find addresses for {kind}'s {how}\nPerhaps you need to query another pool.")
    return 1


def _shown(kind: str, target: Target) -> str:
    if kind == "negotiator" and not target.name:  # HTCondor's tool finds it by the collector, whatever runs here
        ping = send(target, target.inv.stub(daemon_pb2_grpc.DaemonStub, kind).Ping, daemon_pb2.PingRequest())
        assert isinstance(ping, daemon_pb2.PingReply)
        return f"{kind} {ping.name}"
    return f"{kind} {target.name}" if target.name else f"local {kind}"


def _command(order: _Order) -> str:
    """HTCondor's name of what is sent."""
    how = {"fast": "-Fast", "peaceful": "-Peacefully"}.get(order.mode, "")
    if order.verb == "off":
        return f"Kill-Daemon{how}" if order.daemon else f"Kill-All-Daemons{how}"
    if order.verb == "on":
        return "Spawn-Daemon" if order.daemon and order.daemon != "master" else "Spawn-All-Daemons"
    if order.verb == "restart":
        return "Restart" + {"fast": "-Fast", "peaceful": "-Peaceful"}.get(order.mode, "")
    return {"reconfig": "Reconfig", "set_shutdown": "Set-Shutdown-Program"}[order.verb]


def _send(order: _Order, target: Target, inv: Invocation) -> str:
    """Send an order to one host; what HTCondor's tool prints then."""
    if order.parsed.has("drain"):
        return _drain(order, target, inv)
    daemon = order.daemon
    kind = daemon if daemon and order.verb in ("restart", "reconfig") else "master"
    stub = target.inv.stub(daemon_pb2_grpc.MasterStub, "master")
    names = [daemon] if daemon and daemon != "master" else []
    mode = "GRACEFUL" if order.mode == "force-graceful" else order.mode.upper()
    text = ""
    if order.verb == "off":
        if order.mode in ("peaceful", "force-graceful") and daemon in ("", "startd", "schedd", "master"):
            what = "Set-Peaceful-Shutdown" if order.mode == "peaceful" else "Set-Force-Shutdown"
            warned = [daemon] if names else ["startd", "schedd"]
            text = "".join(f'Sent "{what}" command to {_shown(name, target)}\n' for name in warned)
        if daemon == "master":
            every = target.inv.stub(daemon_pb2_grpc.DaemonStub, "master")
            send(target, every.Shutdown, daemon_pb2.ShutdownRequest(mode=mode))
        else:
            send(target, stub.StopDaemons, daemon_pb2.StopRequest(names=names, mode=mode, at_once=True))
    elif order.verb == "on":
        send(target, stub.StartDaemons, daemon_pb2.DaemonNames(names=names))
    elif order.verb == "restart":
        send(target, stub.Restart, daemon_pb2.DaemonNames(names=names, mode=mode))
    elif order.verb == "reconfig":
        reply = send(target, stub.ReconfigDaemons, daemon_pb2.DaemonNames(names=names))
        assert isinstance(reply, daemon_pb2.ReconfigReply)
        for warning in reply.warnings:
            inv.err(f"WARNING: {warning}")
    else:
        send(target, stub.SetShutdownProgram, daemon_pb2.ShutdownProgram(name=order.parsed.value("exec") or ""))
    about = f' for "{order.spelled}"' if daemon and _names_its_daemon(order) else ""
    return f'{text}Sent "{_command(order)}" command{about} to {_shown(kind, target)}\n'


def _names_its_daemon(order: _Order) -> bool:
    if order.verb == "on":
        return order.daemon != "master"
    return order.verb == "off" and (order.daemon != "master" or order.mode != "peaceful")


def _drain(order: _Order, target: Target, inv: Invocation) -> str:
    """Drain the machine first; its startd does the rest by itself."""
    parsed = order.parsed
    schedule = 20 if order.mode == "fast" else 10 if parsed.has("quick") else 0
    if parsed.value("start") and schedule:
        raise _SaidError("ERROR: -start goes with a graceful drain only")
    request = startd_pb2.DrainRequest(
        schedule=schedule,
        reason=parsed.value("reason") or f"by {inv.account or 'command'}",
        on_completion=_AFTER_DRAIN[order.verb],
        check=parsed.value("check") or "",
        start=parsed.value("start") or "",
    )
    stub = target.inv.stub(startd_pb2_grpc.StartdStub, "startd")
    try:
        stub.Drain(request)
    except grpc.RpcError as failure:
        raise to_error(failure, peer=f"the startd of {target.name or 'this machine'}") from None
    return f"Sent request to drain the startd on {target.name or 'this machine'}, and then to {order.verb}\n"
