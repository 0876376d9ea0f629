"""`slotwise ping`: which daemons answer, who the caller is to them, and what the caller may do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.errors import SlotwiseError
from slotwise.release import CONDOR_VERSION

if TYPE_CHECKING:
    from argparse import Namespace

    from slotwise.cli.common.invocation import Invocation

_TIMEOUT_S = 5.0
#: What the master says of a daemon that does not answer, in words.
_STATES = {"starting": "starting, and does not answer yet", "backoff": "to be started again in a moment"}
#: HTCondor's command that does nothing, and that everybody may send.
_NOTHING = "DC_NOP"


def main(args: list[str], inv: Invocation) -> int:
    """Ping daemons of the pool; exit status 0 when all of them answer, and grant every level that is named."""
    parser = Parser(inv, "ping", "Which daemons answer, who you are to them, and what you may do there.")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="DAEMON|LEVEL",
        help="which daemons (default: all that have been started); a level as READ or WRITE, or ALL: whether "
        "you may do that there (default: at the schedd)",
    )
    parser.add_argument("--type", "-type", metavar="DAEMON", help="which daemon, as HTCondor has it")
    parser.add_argument("--table", "-table", action="store_true", help="levels as a table")
    parser.add_argument(
        "--verbose",
        "-verbose",
        action="store_true",
        help="each level with who you are, how you proved it, and the line of the configuration that decides",
    )
    parser.add_argument("--json", "-json", action="store_true", help="one JSON array")
    parser.add_argument("--quiet", "-quiet", "-q", action="store_true", help="only the exit status")
    parser.add_argument("--name", "-name", metavar="NAME", help="the daemon of this name")
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="of the pool with this collector")
    parser.add_argument("--address", "-address", "-addr", metavar="ADDRESS", help="the daemon that answers there")
    options = parser.take(args)
    if options is None:
        return 0
    inv = inv.aimed(options.pool)
    if options.address and inv.called and ":" not in options.address:
        inv.err(f"ERROR: unable to parse sinful string: {options.address}")
        return 1
    if options.address:
        inv = inv.at(options.address)
    if options.name:
        inv = inv.aimed(None, options.name)
        kind = (options.type or "schedd").lower()
        if inv.called and "Error" in _ping(inv, kind):
            inv.err(f"ERROR: couldn't locate {options.name}!")
            return 1
    from slotwise.wire import address
    from slotwise.wire.token import LEVELS

    if inv.called:
        odd = next((word for word in options.words if word not in (*LEVELS, "ALL", _NOTHING)), None)
        if odd is not None:
            if not options.quiet:
                inv.err(f'ERROR: Could not understand TOKEN "{odd}".')
            return 1
        if options.table and not options.words:
            inv.err(
                "WARNING: Missing <authz-level | command-name | command-int> argument, defaulting to WRITE."
                + ("" if options.type else "\nWARNING: Missing daemon argument, defaulting to SCHEDD.")
            )
        options.words = options.words or ["WRITE"]
    levels = [word for word in options.words if word in (*LEVELS, "ALL") or (inv.called and word == _NOTHING)]
    names = [word for word in options.words if word not in levels]
    names += [options.type.lower()] if options.type else []
    if options.verbose and not levels:
        _levels(inv, names or address.published(inv.home), ["ALL"], options)
        return 0
    if levels:
        return _levels(inv, names or ["schedd"], levels, options)
    chosen, names = bool(names), names or address.published(inv.home)
    if not names:
        inv.err(f"ERROR: no daemon runs in the pool at {inv.home.root} (start the pool with `slotwise up`)")
        return 1
    rows = [_ping(inv, name) for name in names]
    if not chosen and any(row["Daemon"] == "master" and row["Answers"] for row in rows):
        rows += _missing(inv, names)
    if options.json:
        inv.out(json.dumps(rows, indent=2))
    elif not options.quiet:
        _print_table(inv, rows)
    return 0 if all(row["Answers"] for row in rows) else 1


def _levels(inv: Invocation, names: list[str], levels: list[str], options: Namespace) -> int:
    """Whether each daemon grants the caller the named levels; exit status 0 when all do."""
    from slotwise.wire.token import LEVELS

    rows: list[dict[str, object]] = []
    for name in names:
        found = _ping(inv, name)
        scopes = found.get("Scopes")
        for level in LEVELS if "ALL" in levels else levels:
            allowed = level in ("ALLOW", _NOTHING) or (isinstance(scopes, list) and level in scopes)
            who = found.get("Identity") or ""
            row: dict[str, object] = {"Daemon": name, "Level": level, "Allowed": allowed, "Identity": who}
            if "Error" in found:
                row["Error"] = found["Error"]
            row["Method"] = found.get("Method") or ""
            row["Account"] = found.get("Account") or ""
            row["Name"] = found.get("Name") or ""
            reasons = found.get("Access")
            rows.append(row | (reasons.get(level, {}) if isinstance(reasons, dict) else {}))
    if options.json:
        inv.out(json.dumps(rows, indent=2))
    elif options.table and inv.called:
        inv.out(
            f"{'Instruction':>20} {'Authentication':>14} {'Encryption':>10} {'Integrity':>9} {'Decision':>8} Identity"
        )
        for row in rows:
            decision = "ALLOW" if row["Allowed"] else "DENY"
            who = row["Identity"] or "unauthenticated@unmapped"
            inv.out(f"{row['Level']:>20} {row['Method'] or 'none':>14} {'none':>10} {'none':>9} {decision:>8} {who}")
    elif options.table:
        inv.out(f"{'LEVEL':<17} {'DECISION':<9} {'DAEMON':<11} {'METHOD':<9} IDENTITY")
        for row in rows:
            decision = "ALLOW" if row["Allowed"] else "DENY"
            who = f"{row['Method'] or 'none':<9} {row['Identity'] or 'unauthenticated'}"
            inv.out(f"{row['Level']:<17} {decision:<9} {row['Daemon']:<11} {who}")
    elif options.verbose and inv.called:
        inv.out("\n".join(_as_htcondor(row) for row in rows))
    elif options.verbose:
        _explain(inv, rows)
    elif not options.quiet:
        for row in rows:
            if inv.called:
                inv.out(_sentence(row))
                continue
            who = row.get("Error") or f"{row['Identity'] or 'unauthenticated'} to {row['Daemon']}"
            inv.out(f"{row['Level']} {'succeeded' if row['Allowed'] else 'failed'} ({who})")
    return 0 if all(row["Allowed"] for row in rows) else 1


def _sentence(row: dict[str, object]) -> str:
    """What HTCondor's tool says of one level."""
    if "Error" in row:
        return f"{row['Level']} failed! ({row['Error']})"
    method = f"{row['Method']} authentication" if row["Method"] else "no authentication"
    what = f"{row['Level']} command using (no encryption, no integrity, and {method})"
    who = row["Identity"] or "unauthenticated@unmapped"
    # HTCondor's tool finds the negotiator by the collector, whatever runs here.
    to = f"negotiator {row['Name']}" if row["Daemon"] == "negotiator" else f"local {row['Daemon']}"
    return f"{what} {'succeeded' if row['Allowed'] else 'failed'} as {who} to {to}."


#: HTCondor's numbers of the commands that ask for a level.
_COMMANDS = {
    "ALLOW": 60011, "READ": 60020, "WRITE": 60021, "NEGOTIATOR": 60022, "ADMINISTRATOR": 60023, "OWNER": 60024,
    "CONFIG": 60025, "DAEMON": 60026, "ADVERTISE_STARTD": 60027, "ADVERTISE_SCHEDD": 60028, "ADVERTISE_MASTER": 60029,
}  # fmt: skip


def _as_htcondor(row: dict[str, object]) -> str:
    """All about one level, in the lines of HTCondor's tool. There are no sessions: each call proves who it is."""
    lines = {
        "Destination:": f"local {row['Daemon']}",
        "Remote Version:": CONDOR_VERSION,
        "Local  Version:": CONDOR_VERSION,
        "Session ID:": "none",
        "Instruction:": row["Level"],
        "Command:": _COMMANDS.get(str(row["Level"]), 60011),
        "Encryption:": "none",
        "Integrity:": "none",
        "Authentication:": row["Method"] or "none",
        "Remote Mapping:": row["Identity"] or "unauthenticated@unmapped",
        "Authorized:": "TRUE" if row["Allowed"] else "FALSE",
    }
    return "".join(f"{name:<28} {value}\n" for name, value in lines.items())


def _explain(inv: Invocation, rows: list[dict[str, object]]) -> None:
    """Each daemon with the caller's name there, and below it the levels with what decided."""
    daemon = None
    for row in rows:
        if row["Daemon"] != daemon:
            daemon = row["Daemon"]
            if "Error" in row:
                inv.out(f"{daemon}: {row['Error']}")
            else:
                method = f", authenticated by {row['Method']}" if row["Method"] else ""
                inv.out(f"{daemon}: you are {row['Identity'] or 'unauthenticated'}{method}")
                if row["Account"]:
                    inv.out(f"  works as          {row['Account']}")
        if "Error" not in row:
            reason = row.get("Reason") or ("everybody has it" if row["Allowed"] else "nobody knows who you are")
            inv.out(f"  {row['Level']:<17} {'allowed' if row['Allowed'] else 'denied':<8} {reason}")


def _ping(inv: Invocation, name: str) -> dict[str, object]:
    import grpc

    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    row: dict[str, object] = {"Daemon": name, "Answers": False}
    try:
        stub = inv.stub(daemon_pb2_grpc.DaemonStub, name)
        reply = stub.Ping(daemon_pb2.PingRequest(), timeout=_TIMEOUT_S)
    except grpc.RpcError as failure:
        return row | {"Error": str(to_error(failure, peer=name))}
    except SlotwiseError as error:
        return row | {"Error": str(error)}
    return row | {
        "Answers": True,
        "Name": reply.name,
        "Version": reply.version,
        "DaemonStartTime": reply.started_at,
        "Identity": reply.identity,
        "Scopes": list(reply.scopes),
        "Method": reply.method,
        "Account": reply.account,
        "Access": {
            each.level: {"Reason": each.reason, "Knob": each.knob, "Entry": each.entry, "Origin": each.origin}
            for each in reply.access
        },
    }


def _missing(inv: Invocation, known: list[str]) -> list[dict[str, object]]:
    """The daemons that the master keeps and that have not said where they answer."""
    import grpc

    from slotwise.wire.gen import common_pb2, daemon_pb2_grpc

    try:
        status = inv.stub(daemon_pb2_grpc.MasterStub, "master").Status(common_pb2.Empty(), timeout=_TIMEOUT_S)
    except (grpc.RpcError, SlotwiseError):
        return []
    rows: list[dict[str, object]] = []
    for daemon in status.daemons:
        if daemon.name in known or daemon.state == "stopped":
            continue
        why = (
            "it has just been started"
            if daemon.state == "running"
            else f"it is {_STATES.get(daemon.state, daemon.state)}"
        )
        why += f" (process {daemon.pid})" if daemon.pid else ""
        why += f"; the one before: {daemon.last_exit}" if daemon.last_exit else ""
        rows.append({"Daemon": daemon.name, "Answers": False, "Error": why})
    return rows


def _print_table(inv: Invocation, rows: list[dict[str, object]]) -> None:
    inv.out(f"{'DAEMON':<11} {'ANSWERS':<8} {'IDENTITY':<28} SCOPES")
    for row in rows:
        if row["Answers"]:
            scopes = row["Scopes"]
            assert isinstance(scopes, list)
            identity = row["Identity"] or "unauthenticated"
            inv.out(f"{row['Daemon']:<11} {'yes':<8} {identity:<28} {' '.join(scopes) or 'none'}")
        else:
            inv.out(f"{row['Daemon']:<11} {'no':<8} {row['Error']}")
