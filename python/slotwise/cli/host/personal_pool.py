"""`slotwise up`, `down`, `restart`, `reconfig`, `daemon`: a personal pool from the outside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.host import condor_names
from slotwise.cli.host.starts import shown_starts
from slotwise.errors import SlotwiseError, UsageError
from slotwise.release import RELEASE_DIR

if TYPE_CHECKING:
    import argparse

    from google.protobuf.message import Message

    from slotwise.cli.common.invocation import Invocation
    from slotwise.cli.host.masters import Target


#: Warnings about the configuration that `up` prints; `config check` prints all.
_DOUBTS_SHOWN = 5


def up(args: list[str], inv: Invocation) -> int:
    """Start the pool in the background; returns when every daemon answers."""
    parser = Parser(inv, "up", "Start the pool in the background and wait until it answers.")
    parser.add_argument("--config", "-config", metavar="FILE", help="configuration file (default CONDOR_CONFIG)")
    parser.add_argument("--json", "-json", action="store_true", help="print the daemons as one JSON array")
    parser.add_argument(
        "--new-queue", "-new-queue", action="store_true", help="set the job queue aside, and begin with no jobs"
    )
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.master import startup

    config_file = str(inv.path(options.config)) if options.config else None
    if not RELEASE_DIR.exists():
        with contextlib.suppress(SlotwiseError, OSError):  # of another account: BIN names HTCondor's place then
            condor_names.install()
    with shown_starts(inv):
        result = startup.bring_up(inv.home, inv.env, config_file, new_queue=options.new_queue)
    for text in result.doubts[:_DOUBTS_SHOWN]:
        inv.err(text)
    if (more := len(result.doubts) - _DOUBTS_SHOWN) > 0:
        inv.err(f"... and {more} more: `slotwise config check` lists them")
    if result.failed:
        inv.err(f"ERROR: {result.error}")
        for name, tail in result.log_tails:
            inv.err(f"--- {name}: last lines of its log")
            for line in tail:
                inv.err(f"    {line}")
        return 1
    if options.json:
        import json

        inv.out(json.dumps([{"Daemon": name, "Pid": pid, "Address": at} for name, pid, at in result.daemons]))
        return 0
    word = "runs already" if result.was_running else "is up"
    inv.out(f"The pool at {inv.home.root} {word}: {', '.join(name for name, _, _ in result.daemons)}")
    if not result.was_running and any(name == "startd" for name, _, _ in result.daemons):
        from slotwise.cli.host.unenforced import unenforced

        for text in unenforced(inv):
            inv.err(f"NOTE: {text}")
    if result.recorded is not None:
        inv.out(f"Its configuration file is {result.recorded}, named by an earlier `up`")
    return 0


def down(args: list[str], inv: Invocation) -> int:
    """Stop every daemon of the pool, whether or not the master lives."""
    parser = Parser(inv, "down", "Stop the pool. Running jobs are vacated and go back to the queue.")
    _add_modes(parser)
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.config import load
    from slotwise.master import shutdown
    from slotwise.master.limits import Limits

    try:
        config = load(None, subsystem="MASTER", env=inv.env, home=inv.home)
        limits = Limits.of_config(config)
    except SlotwiseError:  # a broken configuration must not keep a pool from being stopped
        limits = Limits()
    stopped = shutdown.take_down(inv.home, options.mode, limits)
    inv.out(f"The pool at {inv.home.root} is down" if stopped else f"No pool runs at {inv.home.root}")
    return 0


def restart(args: list[str], inv: Invocation) -> int:
    """Restart daemons by name, or all."""
    parser = Parser(inv, "restart", "Restart daemons; without a name, all but the master.")
    parser.add_argument("names", nargs="*", metavar="DAEMON")
    _add_hosts(parser)
    parser.add_argument(
        "--keep",
        "-keep",
        action="store_true",
        help="jobs go on that a startd runs; a master is of the installed program",
    )
    options = parser.take(args)
    if options is None:
        return 0
    if (found := _elsewhere(options, inv)) is not None:
        return _at_hosts("Renew" if options.keep else "Restart", "restarted", options.names, found, inv)
    names = [name for name in options.names if name != "master"]
    with shown_starts(inv):
        _restart_here(options, names, inv)
    inv.out(f"Restarted {', '.join(options.names) or 'all daemons'}")
    return 0


def _restart_here(options: argparse.Namespace, names: list[str], inv: Invocation) -> None:
    """Restart daemons of this home, ``names`` of them or all; the master first where it is named."""
    from slotwise.master import startup
    from slotwise.wire.gen import daemon_pb2

    if "master" in options.names:
        (startup.replace_master if options.keep else startup.restart_master)(inv.home, inv.env)
    if names or not options.names:
        asked = daemon_pb2.DaemonNames(names=names)
        _call_master(inv, lambda stub, **call: (stub.Renew if options.keep else stub.Restart)(asked, **call))


def reconfig(args: list[str], inv: Invocation) -> int:
    """Make daemons read their configuration again."""
    parser = Parser(inv, "reconfig", "Make the daemons read the configuration again.")
    parser.add_argument("names", nargs="*", metavar="DAEMON", help="which (default: all that run)")
    parser.add_argument("--json", "-json", action="store_true", help="print what became of each as one JSON array")
    _add_hosts(parser)
    options = parser.take(args)
    if options is None:
        return 0
    if (found := _elsewhere(options, inv)) is not None:
        return _at_hosts("ReconfigDaemons", "configured anew", options.names, found, inv)
    import grpc

    from slotwise.daemon import lock
    from slotwise.daemon.registry import DAEMONS
    from slotwise.wire.gen import common_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    names = options.names or [name for name in DAEMONS if lock.holder(inv.home, name) is not None]
    if not names:
        inv.err(f"ERROR: no daemon runs in the pool at {inv.home.root}")
        return 1
    status = 0
    rows: list[dict[str, object]] = []
    problems: dict[tuple[str, str], list[str]] = {}
    for name in names:
        try:
            stub = inv.stub(daemon_pb2_grpc.DaemonStub, name)
            reply = stub.Reconfig(common_pb2.Empty(), timeout=60)
        except grpc.RpcError as failure:
            said = str(to_error(failure, peer=name))
            problems.setdefault(("ERROR", said), []).append(name)
            rows.append({"Daemon": name, "Error": said, "Warnings": []})
            status = 1
            continue
        rows.append({"Daemon": name, "Error": None, "Warnings": list(reply.warnings)})
        if not options.json:
            inv.out(f"{name} has read its configuration")
        for warning in reply.warnings:
            problems.setdefault(("WARNING", warning), []).append(name)
    if options.json:
        import json

        inv.out(json.dumps(rows))
        return status
    for (kind, what), who in problems.items():
        inv.err(f"{kind}: {', '.join(who)}: {what}")
    return status


def daemon(args: list[str], inv: Invocation) -> int:
    """Run one daemon in the foreground."""
    parser = Parser(inv, "daemon", "Run one daemon in the foreground until it is stopped.")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--config", "-config", metavar="FILE", help="configuration file (default CONDOR_CONFIG)")
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.daemon import runtime

    return runtime.main(options.name, inv.env, str(inv.path(options.config)) if options.config else None)


def _add_hosts(parser: Parser) -> None:
    parser.add_argument("--name", "-name", metavar="HOST", action="append", help="on this host, in place of this one")
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="of the pool with this collector")
    parser.add_argument("--all", "-all", action="store_true", help="on every host of the pool")
    parser.add_argument("--constraint", "-constraint", metavar="EXPR", help="on hosts whose master's ad fits")


def _elsewhere(options: argparse.Namespace, inv: Invocation) -> list[Target] | None:
    """The masters that options name; None when this home's is meant."""
    if not (options.name or options.pool or options.all or options.constraint):
        return None
    if options.name and (options.all or options.constraint):
        raise UsageError("-all and -constraint choose the hosts themselves", hint="leave -name away")
    if options.pool and not (options.name or options.all or options.constraint):
        raise UsageError("which hosts of that pool?", hint="-name HOST, -all or -constraint EXPR")
    from slotwise.cli.host.masters import targets

    return list(targets("master", options.name or [], options.all, options.constraint or "", inv.aimed(options.pool)))


def _at_hosts(method: str, done: str, names: list[str], found: list[Target], inv: Invocation) -> int:
    """Ask masters for the same of their daemons."""
    from slotwise.cli.host.masters import send
    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

    for target in found:
        stub = target.inv.stub(daemon_pb2_grpc.MasterStub, "master")
        reply = send(target, getattr(stub, method), daemon_pb2.DaemonNames(names=names))
        for warning in getattr(reply, "warnings", ()):
            inv.err(f"WARNING: {target.name}: {warning}")
        inv.out(f"{', '.join(names) or 'All daemons'} of {target.name or 'this machine'}: {done}")
    return 0


def _add_modes(parser: Parser) -> None:
    group = parser.add_mutually_exclusive_group()
    for mode, text in (
        ("graceful", "jobs may use their retirement and vacate time (default)"),
        ("fast", "jobs are killed"),
        ("peaceful", "wait until running jobs are done"),
    ):
        group.add_argument(
            f"--{mode}",
            f"-{mode}",
            dest="mode",
            action="store_const",
            const=mode,
            help=text,
            default="graceful",
        )


def _call_master(inv: Invocation, call: Callable[..., Message]) -> None:
    import grpc

    from slotwise.wire.gen import daemon_pb2_grpc
    from slotwise.wire.status import to_error

    try:
        call(inv.stub(daemon_pb2_grpc.MasterStub, "master"), timeout=3600)
    except grpc.RpcError as failure:
        raise to_error(failure, peer="the master") from None
